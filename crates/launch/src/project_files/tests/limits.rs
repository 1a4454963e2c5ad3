//! Large projects and files.

use super::*;

/// Files that the search at the start does not reach are compared by their times.
#[test]
fn a_large_project_is_searched_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for number in 0..DIRECTORIES_AT_START {
        fs::create_dir(dir.join(number.to_string())).unwrap();
    }
    write(dir, &[("1/build.rs", ""), ("9/a/build.rs", ""), ("9/b/build.rs", "")]);
    let before = ProjectFiles::read_earlier(dir);
    assert_eq!((before.levels, before.report()), (1, vec![]));
    write(dir, &[("1/build.rs", "x"), ("9/b/build.rs", "x"), ("9/c/build.rs", "x")]);
    write(dir, &[("target/x/.git/config", "x")]);
    assert_eq!(before.changed(), ["1/build.rs", "9/b/build.rs", "9/c/build.rs", "target/x/.git"]);
}

#[test]
fn many_files_hide_no_change() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for directory in [".claude", ".vscode"] {
        fs::create_dir(dir.join(directory)).unwrap();
    }
    for number in 0..=MAX_FILES {
        fs::write(dir.join(format!(".claude/{number:05}")), "").unwrap();
    }
    fs::write(dir.join(".claude/last"), "before").unwrap();
    fs::write(dir.join(".vscode/tasks.json"), "before").unwrap();
    let before = ProjectFiles::read(dir);
    assert_eq!(before.report(), [""; 0]);
    fs::write(dir.join(".claude/last"), "change").unwrap();
    fs::write(dir.join(".vscode/tasks.json"), "change").unwrap();
    assert_eq!(before.changed(), [".claude/..", ".vscode/tasks.json"]);
}

#[test]
fn a_large_file_with_an_old_time_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("AGENTS.md");
    fs::write(&file, vec![b'a'; 2 << 20]).unwrap();
    let before = ProjectFiles::read(dir.path());
    let time = file.metadata().unwrap().modified().unwrap();
    fs::write(&file, vec![b'b'; 2 << 20]).unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    assert_eq!(before.changed(), ["AGENTS.md"]);
}
