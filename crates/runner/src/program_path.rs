//! Checks a program that a call names by its path (`spec/exec3.md#programs-by-path`).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aifo_wire::{StartError, StartErrorCause};

use crate::start_failure::start_error;

/// Checks that a program exists in this sidecar and is not the shim. Errors name the link that leads
/// nowhere, and the remedy.
pub(crate) fn check_program(program: &Path, kind: &str) -> Result<(), StartError> {
    let shown = program.display();
    let Ok(metadata) = program.metadata() else {
        let (target, remedy) = (last_target(program), remedy(program));
        let why = match target {
            Some(target) => {
                format!(
                    "it leads to '{}', which the {kind} sidecar does not have",
                    target.display()
                )
            }
            None => format!("the {kind} sidecar has no such file"),
        };
        let message = format!("cannot execute '{shown}': {why}{remedy}");
        return Err(start_error(StartErrorCause::NotFound, message));
    };
    let own = fs::metadata("/proc/self/exe");
    if own.is_ok_and(|own| (own.dev(), own.ino()) == (metadata.dev(), metadata.ino())) {
        let message = format!("cannot execute '{shown}': it runs aifo-shim again");
        return Err(start_error(StartErrorCause::NotExecutable, message));
    }
    Ok(())
}

/// Returns the missing file to which a link leads; `None` if `program` is no link.
fn last_target(program: &Path) -> Option<PathBuf> {
    let mut target = None;
    let mut path = program.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("/")).join(next);
        target = Some(path.clone());
    }
    target
}

/// The kernel's limit on links in a path.
const MAX_LINKS: usize = 40;

/// Returns the hint for the interpreter of a virtual environment that another system made.
fn remedy(program: &Path) -> String {
    let environment = program.parent().and_then(Path::parent);
    match environment.filter(|environment| environment.join("pyvenv.cfg").is_file()) {
        Some(environment) => {
            let environment = environment.display();
            format!("\nhint: create the environment again: python3 -m venv --clear '{environment}'")
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn missing_programs_are_explained() {
        let scratch = tempfile::tempdir().unwrap();
        let venv = scratch.path().join("a venv");
        let bin = venv.join("bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(venv.join("pyvenv.cfg"), "").unwrap();
        symlink("python3", bin.join("python")).unwrap();
        symlink("/nonexistent/python3.12", bin.join("python3")).unwrap();
        symlink("/proc/self/exe", bin.join("node")).unwrap();
        fs::write(bin.join("real"), "").unwrap();
        let check = |name: &str| {
            let checked = check_program(&bin.join(name), "python");
            checked.map_err(|error| error.message.replace(bin.to_str().unwrap(), "BIN"))
        };
        let hint = format!(
            "\nhint: create the environment again: python3 -m venv --clear '{}'",
            venv.display()
        );
        let rows = [
            ("real", Ok(())),
            (
                "python",
                Err(format!(
                    "cannot execute 'BIN/python': it leads to '/nonexistent/python3.12', \
                     which the python sidecar does not have{hint}"
                )),
            ),
            (
                "gone",
                Err(format!(
                    "cannot execute 'BIN/gone': the python sidecar has no such file{hint}"
                )),
            ),
            ("node", Err("cannot execute 'BIN/node': it runs aifo-shim again".to_owned())),
        ];
        for (name, expected) in rows {
            assert_eq!(check(name), expected, "{name}");
        }
        // A loop of links ends.
        symlink("loop", bin.join("loop")).unwrap();
        assert!(check("loop").is_err());
    }
}
