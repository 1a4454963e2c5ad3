//! Recognises interpreters that are called by a path of their own (`spec/decide.md#programs-by-path`).

use std::path::Path;

use crate::file_facts::FileFacts;
use crate::runtime::Runtime;

/// The directories in which programs of a workspace expect interpreters.
pub(crate) const INTERPRETER_DIRECTORIES: [&str; 2] = ["/usr/local/bin", "/usr/bin"];

/// Returns whether the absolute path `called` has an interpreter's name and leads by links to an
/// interpreter in another directory, as the `bin/python` of a virtual environment does.
///
/// Such a program must run by this very path: python derives its environment from it.
pub fn leads_to_interpreter(called: &Path, files: &dyn FileFacts) -> bool {
    if !has_interpreter_name(called) {
        return false;
    }
    let Some(real) = files.real_path(called) else { return false };
    let is_interpreter = has_interpreter_name(&real)
        && INTERPRETER_DIRECTORIES
            .iter()
            .any(|directory| real.parent() == Some(Path::new(directory)));
    // `/bin/python3` is `/usr/bin/python3`.
    is_interpreter
        && called.parent().and_then(|directory| files.real_path(directory)).as_deref()
            != real.parent()
}

/// Returns whether the last component of a path is the name of an interpreter.
pub fn has_interpreter_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| Runtime::from_name(name.as_encoded_bytes()).is_some())
}
