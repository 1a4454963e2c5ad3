//! Scripts of tests that replace programs.

use std::path::Path;
use std::process::Command;

use crate::Program;

/// Writes a script of `/bin/sh`. A process of its own writes it: a fork by another test's thread
/// would inherit this one's descriptor for a moment, in which the file cannot be executed.
pub(crate) fn script(directory: &Path, name: &str, body: &str) -> Program {
    const WRITE: &str = r##"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 755 "$1""##;
    let file = directory.join(name);
    let mut writer = Command::new("/bin/sh");
    let status = writer.args(["-c", WRITE, "sh"]).arg(&file).arg(body).status().unwrap();
    assert!(status.success(), "cannot write {}", file.display());
    Program { file, path: "/usr/bin:/bin".into() }
}
