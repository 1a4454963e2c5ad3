use std::fs;
use std::os::unix::fs::symlink;

use super::super::git_config::without_branches;
use super::{ProjectFiles, git, workspace, write};

/// `git status` on this machine would execute the program of the other configuration.
#[test]
fn git_is_not_led_to_another_repository() {
    let workspace = workspace();
    let dir = workspace.path();
    let before = ProjectFiles::read(dir);
    fs::create_dir(dir.join("evil")).unwrap();
    for name in ["objects", "refs"] {
        symlink(dir.join(".git").join(name), dir.join("evil").join(name)).unwrap();
    }
    write(dir, &[("evil/config", "[core]\n\tfsmonitor = touch ran; false\n")]);
    write(
        dir,
        &[(".git/commondir", "../evil\n"), (".git/worktrees/tree/commondir", "../../../evil")],
    );
    git(dir, &["status"]);
    assert!(dir.join("ran").exists(), "the attack works");
    let lines = before.report();
    let leads = "was changed in this session and leads git to another repository:";
    let expected = [
        format!("'.git/commondir' {leads} it was removed"),
        format!("'.git/worktrees/tree/commondir' {leads} check it before you run git here"),
    ];
    assert_eq!(lines[..2], expected);
    let names = "obey them: .git/commondir, .git/worktrees/tree/commondir, evil/";
    assert!(lines[2].contains(names), "{lines:?}");
    assert!(!dir.join(".git/commondir").exists());

    // Of a user's own, and through a link.
    write(dir, &[(".git/commondir", "../evil\n")]);
    let before = ProjectFiles::read(dir);
    write(dir, &[(".git/commondir", "../evil2\n")]);
    assert!(before.report()[0].ends_with("check it before you run git here"));
    fs::remove_file(dir.join(".git/commondir")).unwrap();
    let before = ProjectFiles::read(dir);
    fs::rename(dir.join(".git"), dir.join("kept")).unwrap();
    symlink("kept", dir.join(".git")).unwrap();
    write(dir, &[("kept/commondir", "../evil\n")]);
    let lines = before.report().join("\n");
    assert!(lines.starts_with(&format!("'.git' {leads} check it")), "{lines}");
    assert!(lines.contains("'kept/commondir'") && !dir.join("kept/commondir").exists(), "{lines}");

    // In place of the repository a file.
    fs::remove_file(dir.join(".git")).unwrap();
    fs::rename(dir.join("kept"), dir.join(".git")).unwrap();
    let before = ProjectFiles::read(dir);
    fs::rename(dir.join(".git"), dir.join(".kept")).unwrap();
    write(dir, &[(".git", "gitdir: .kept")]);
    let lines = before.report();
    assert!(lines[0].starts_with(&format!("'.git' {leads} check it")), "{lines:?}");
}

/// In a directory that has these names, git finds a repository.
#[test]
fn a_directory_that_git_takes_for_a_repository_is_named() {
    for other in ["objects/x", "commondir"] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        write(dir, &[("src/docs/build.rs", "")]);
        let before = ProjectFiles::read(dir);
        write(
            dir,
            &[("src/docs/HEAD", "ref: refs/heads/main"), (&format!("src/docs/{other}"), "")],
        );
        write(dir, &[("src/docs/build.rs", "x")]);
        assert_eq!(before.changed(), ["src/docs/build.rs", "src/docs"]);
        let before = ProjectFiles::read(dir);
        write(dir, &[("src/docs/config", "x"), ("src/docs/HEAD", "x")]);
        assert_eq!(before.changed(), ["src/docs/config"]);

        let before = ProjectFiles::read(dir);
        write(dir, &[("HEAD", ""), (other, ""), ("config", "x"), ("other", "x")]);
        let changed = before.changed();
        assert!(changed[0] == "HEAD" && changed.contains(&"config".to_owned()), "{changed:?}");
        let before = ProjectFiles::read(dir);
        write(dir, &[("worktrees/x/HEAD", ""), ("worktrees/x/commondir", "../..\n")]);
        assert_eq!(before.changed(), ["worktrees/x"]);
        assert_eq!(before.report().len(), 1, "no other repository");
    }
}

#[test]
fn only_harmless_settings_of_branches_are_left_out() {
    let text =
        |of_branch: &str| format!("[core]\n\tbare = false\n{of_branch}[remote \"o\"]\n\turl = u\n");
    for of_branch in [
        "[branch \"a\"]\n\tremote = o\n\tpushRemote = o\n\tvscode-merge-base = o/main\n",
        "  [branch \"a/b]\"]\r\n\tmerge = refs/heads/x\n\tremote = .\n\trebase = true\n",
    ] {
        let rest = without_branches(text(of_branch).as_bytes());
        assert_eq!(String::from_utf8(rest).unwrap(), text(""), "{of_branch}");
    }
    for line in [
        "remote = sub",
        "pushRemote = ext::sh -c x",
        "remote = \"o\" ",
        "merge = x",
        "mergeOptions = --strategy=x",
        "description = x",
    ] {
        let of_branch = format!("[branch \"a\"]\n\t{line}\n");
        let rest = without_branches(text(&of_branch).as_bytes());
        assert!(String::from_utf8(rest).unwrap().contains(line), "{line}");
    }
    // git reads another section in each of these.
    for text in [
        "[branch \"a\"][core]fsmonitor = evil #]\n",
        "[branch \"a\"][core]fsmonitor = evil #\"]\n",
        "[branch \"a\\\"\"][core]fsmonitor = evil #\"]\n",
        "[core]\n\teditor = a \\\n[branch \"a\"]\n\tfsmonitor = evil\n",
        "[branch \"a\"]\n# \\\n[core]\n\tfsmonitor = evil\n",
    ] {
        let rest = without_branches(text.as_bytes());
        assert!(String::from_utf8(rest).unwrap().contains("evil"), "{text}");
    }
}

/// The index of a repository may name a repository anywhere below it, and `git status` then reads the
/// configuration of that one.
#[test]
fn repositories_in_data_and_below_the_depth_of_a_search_are_named() {
    let deep = ".vscode/a/b/c/d/e/f/g/h/i/j";
    for place in
        [".git/lfs/n", ".git/objects/n", ".git/refs/a/b", ".git/logs/n", ".git/X_HEAD/n", deep]
    {
        let workspace = workspace();
        let dir = workspace.path();
        let before = ProjectFiles::read(dir);
        fs::create_dir_all(dir.join(place)).unwrap();
        git(&dir.join(place), &["init", "--quiet"]);
        let named =
            |changed: &[String]| changed.iter().any(|it| it.starts_with(&format!("{place}/.git")));
        assert!(named(&before.changed()), "{place}: {:?}", before.changed());
        let before = ProjectFiles::read(dir);
        write(&dir.join(place), &[(".git/config", "[core]\n\tfsmonitor = x\n")]);
        assert!(named(&before.changed()), "{place}: {:?}", before.changed());

        fs::remove_dir_all(dir.join(place)).unwrap();
        let before = ProjectFiles::read(dir);
        fs::create_dir_all(dir.join(place)).unwrap();
        git(dir, &["init", "--quiet", "--bare", &format!("{place}/bare")]);
        let changed = before.changed();
        assert!(changed.iter().any(|it| it.contains("/bare")), "{place}: {changed:?}");
    }
}

/// What links lead to, and what configuration names.
#[test]
fn what_links_and_commands_lead_to_counts() {
    let workspace = workspace();
    let dir = workspace.path();
    let files = ["s/pre-commit", "cfg", "docs/x", "tools/claude/settings.json", "clean.py"];
    for file in files.iter().chain(&["inc", "deep/inc", "deep/hook", "src/lib.rs", "lib/a"]) {
        write(dir, &[(file, "before")]);
    }
    for config in ["inc", "deep/inc"] {
        write(dir, &[(config, "[core]\n\tpager = sh deep/hook\n[include]\n\tpath = deep/inc\n")]);
    }
    git(dir, &["config", "filter.x.clean", "python3 clean.py"]);
    git(dir, &["config", "include.path", "../inc"]);
    fs::remove_dir_all(dir.join(".git/hooks")).unwrap();
    fs::rename(dir.join(".git/config"), dir.join("cfg")).unwrap();
    for (link, to) in [
        (".git/hooks", "../s"),
        (".git/config", "../cfg"),
        ("CLAUDE.md", "docs/x"),
        (".claude", "tools/claude"),
        ("library-link", "lib"),
        (".loop", ".loop/x"),
        (".out", "/etc"),
    ] {
        symlink(to, dir.join(link)).unwrap();
    }
    let before = ProjectFiles::read(dir);
    assert_eq!(before.report(), [""; 0]);
    for file in files.iter().chain(&["inc", "deep/inc", "deep/hook", "src/lib.rs", "lib/a"]) {
        write(dir, &[(file, "after")]);
    }
    let expected =
        ["cfg", "clean.py", "deep/hook", "deep/inc", "docs/x", "inc", "s/pre-commit", files[3]];
    assert_eq!(before.changed(), expected);
}

#[test]
fn data_that_a_repository_links_to_does_not_count() {
    let workspace = workspace();
    let dir = workspace.path();
    fs::remove_dir_all(dir.join(".git/hooks")).unwrap();
    fs::rename(dir.join(".git/refs"), dir.join("refs")).unwrap();
    write(dir, &[(".git/lfs/hooks/x", ""), ("a/src/x", ""), ("a/b/x", "")]);
    let links = [
        (".git/refs", "../refs"),
        (".git/hooks", "lfs/hooks"),
        ("a/.up", "."),
        ("a/.x", "b"),
        ("a/b/x-link", "../.x"),
        (".git-link", ".git"),
        ("run", "a/b/x"),
    ];
    for (link, to) in links {
        symlink(to, dir.join(link)).unwrap();
    }
    let before = ProjectFiles::read(dir);
    git(dir, &["commit", "--quiet", "--allow-empty", "--message=three"]);
    write(dir, &[("a/src/x", "x")]);
    assert_eq!(before.report(), [""; 0]);
    write(dir, &[(".git/lfs/hooks/x", "x"), ("a/b/x", "x")]);
    assert_eq!(before.changed(), [".git/lfs/hooks/x", "a/b/x"]);
}
