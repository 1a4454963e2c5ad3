//! Executable files that tests write.
//!
//! A process of its own writes each: in this one, a fork by another test's thread would inherit the
//! descriptor for a moment, in which the file cannot be executed ("text file busy").

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a file with this mode, and its directory.
#[track_caller]
pub fn write_executable(path: impl AsRef<Path>, content: impl AsRef<[u8]>, mode: u32) {
    const SCRIPT: &str = r#"mkdir -p "${1%/*}" && rm -f "$1" && cat > "$1" && chmod "$2" "$1""#;
    let path = path.as_ref();
    let mut writer = Command::new("/bin/sh")
        .args(["-c", SCRIPT, "sh"])
        .arg(path)
        .arg(format!("{mode:o}"))
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell starts");
    let mut stdin = writer.stdin.take().expect("stdin is a pipe");
    stdin.write_all(content.as_ref()).expect("the shell reads");
    drop(stdin);
    assert!(writer.wait().expect("the shell ends").success(), "cannot write {}", path.display());
}

/// Writes a script of `/bin/sh`.
#[track_caller]
pub fn write_script(path: impl AsRef<Path>, body: &str) {
    write_executable(path, format!("#!/bin/sh\n{body}\n"), 0o755);
}

/// Copies a program.
#[track_caller]
pub fn copy_executable(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let (from, to) = (from.as_ref(), to.as_ref());
    let status = Command::new("cp").arg(from).arg(to).status().expect("cp starts");
    assert!(status.success(), "cannot copy {} to {}", from.display(), to.display());
}
