use super::super::git_config::UserConfig;
use super::{ProjectFiles, git, write};

#[test]
fn files_that_the_configuration_of_git_names_are_named() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("project");
    let dir = dir.as_path();
    let config = home.path().join("config/git/config");
    write(
        home.path(),
        &[
            ("config/git/config", "[include] path = ../more\n[core]\n\tfsmonitor = \"sh m\"\n"),
            (
                "config/more",
                "[core]\n\thooksPath = hooks\n[include]\n\tpath = more\n\tpath = ~/last\n",
            ),
            ("last", "[core]\n\teditor = ~/project/docs/editor\n[include]\n\tpath = /dev/zero\n"),
        ],
    );
    write(
        dir,
        &[
            ("src/clean.py", ""),
            ("src/out/x", ""),
            ("etc/a.inc", "[includeIf \"onbranch:x\"]\n\tpath = b.inc\n"),
            ("etc/b.inc", "[diff]\n\texternal = sh -c \\\"src/c\\\"; \\\nsh d.py\n"),
        ],
    );
    git(dir, &["init", "--quiet"]);
    git(dir, &["config", "filter.x.clean", "python3 clean.py"]);
    git(dir, &["config", "filter.x.smudge", "sh 'src/smudge x'; tool src"]);
    git(dir, &["config", "include.path", "../etc/a.inc"]);
    let user = UserConfig::new(|name| match name {
        "HOME" => Some(home.path().into()),
        "XDG_CONFIG_HOME" => Some(home.path().join("config").into()),
        _ => None,
    });
    assert_eq!(user.files, [config, home.path().join(".gitconfig")]);
    let names = [
        "clean.py",
        "d.py",
        "docs/editor",
        "etc/a.inc",
        "etc/b.inc",
        "hooks/pre-push",
        "m",
        "src/c",
    ];
    for text in ["1", "2"] {
        for name in names {
            let before = ProjectFiles::read_with(dir, &user);
            write(dir, &[(name, text)]);
            // Not the directory that is a word.
            write(dir, &[("src/out/x", name)]);
            assert_eq!(before.changed(), [name]);
            let config =
                [("etc/a.inc", "[include]\npath = b.inc"), ("etc/b.inc", "x = sh d.py src/c")];
            write(dir, &config);
        }
    }
}
