use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::search::MAX_FILES;
use super::*;

mod git_config;
mod limits;
mod names;
mod repository;

impl ProjectFiles {
    fn changed(&self) -> Vec<String> {
        self.names(&self.changes())
    }

    /// Reads the files as a session does that started a while ago.
    fn read_earlier(dir: &Path) -> Self {
        let mut files = ProjectFiles::read(dir);
        files.started = SystemTime::now();
        let clock = tempfile::NamedTempFile::new().unwrap();
        // The clock of file systems is late.
        while changed_at(&clock.as_file().metadata().unwrap()) < files.started {
            fs::write(clock.path(), "x").unwrap();
        }
        files
    }
}

#[track_caller]
fn git(dir: &Path, args: &[&str]) {
    let settings = ["user.name=it", "user.email=it@example.org", "protocol.file.allow=always"];
    let mut git = Command::new("git");
    git.args(settings.iter().flat_map(|setting| ["-c", setting])).args(args).current_dir(dir);
    for name in ["GIT_CONFIG_COUNT", "GIT_DIR", "GIT_WORK_TREE"] {
        git.env_remove(name);
    }
    let output = git.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[track_caller]
fn write(dir: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
        fs::write(dir.join(path), text).unwrap();
    }
}

/// A repository with two commits, a submodule and a worktree.
fn workspace() -> tempfile::TempDir {
    let workspace = tempfile::tempdir().unwrap();
    let dir = workspace.path();
    write(dir, &[("library/file", "")]);
    for place in ["library", "."] {
        git(&dir.join(place), &["init", "--quiet", "--initial-branch=main"]);
        git(&dir.join(place), &["commit", "--quiet", "--allow-empty", "--message=one"]);
    }
    git(dir, &["submodule", "--quiet", "add", "./library", "module"]);
    git(dir, &["commit", "--quiet", "--message=two"]);
    git(dir, &["worktree", "add", "--quiet", "--detach", "tree"]);
    workspace
}

#[test]
fn changed_files_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for name in ["AGENTS.md", ".husky/pre-commit", ".git/config", ".envrc", "src/other"] {
        write(dir, &[(name, "before\n[remote \"origin\"]\n")]);
    }
    fs::write(dir.join("CLAUDE.md"), vec![0; 2 << 20]).unwrap();
    let before = ProjectFiles::read(dir);
    assert_eq!(before.report(), [""; 0]);

    let branch = "before\n[remote \"origin\"]\n[branch \"main\"]\n\tremote = origin\n";
    write(dir, &[(".git/config", branch), ("src/other", "after"), (".git/config.worktree", "")]);
    assert_eq!(before.report(), [""; 0], "config.worktree is of another session");
    write(dir, &[(".git/config.worktree", "[alias]\n")]);
    assert_eq!(before.changed(), [".git/config.worktree"]);
    fs::remove_file(dir.join(".git/config.worktree")).unwrap();

    write(dir, &[("AGENTS.md", "after"), (".git/config", &format!("{branch}[core]\n"))]);
    fs::set_permissions(dir.join(".husky/pre-commit"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::remove_file(dir.join(".envrc")).unwrap();
    fs::write(dir.join("CLAUDE.md"), vec![0; 3 << 20]).unwrap();
    write(dir, &[(".claude/commands/a\nb.md", "")]);
    symlink("/etc", dir.join(".codex")).unwrap();
    let changed = [
        ".envrc",
        ".git/config",
        ".husky/pre-commit",
        "AGENTS.md",
        "CLAUDE.md",
        ".claude/commands/a\\nb.md",
        ".codex",
    ];
    assert_eq!(before.changed(), changed);
    let line = before.report().concat();
    assert!(line.ends_with(&format!("obey them: {}", changed.join(", "))), "{line}");

    for number in 0..MAX_FILES {
        fs::write(dir.join(format!(".claude/{number}")), "").unwrap();
    }
    assert!(before.changed().len() <= MAX_FILES + 7);
    assert!(before.report().concat().ends_with("more"));
}

#[test]
fn what_programs_execute_or_obey_is_named() {
    const EVIL: &str = "[core]\n\tfsmonitor = touch ran\n";
    let scripts = r#"{"name": "it", "scripts": {"test": "touch ran"}, "husky": {}}"#;
    let before = [
        ("package.json", r#"{"name": "it", "version": "1"}"#),
        ("packages/a/package.json", r#"{"name": "a"}"#),
        ("Cargo.toml", "[package]\nname = \"it\"\nversion = \"0.1.0\"\n"),
        ("pyproject.toml", "[project]\nname = \"it\"\n"),
        (".github/workflows/ci.yml", "on: push"),
        ("scripts/filter.sh", ""),
        ("shared/git.inc", ""),
        ("my hooks/pre-commit", ""),
        ("worktrees/.git/HEAD", ""),
    ];
    let names = [
        ".agents/skills/x/SKILL.md",
        ".cargo/config.toml",
        ".claude-plugin/plugin.json",
        ".clinerules",
        ".eslintrc.js",
        ".env",
        ".envrc",
        ".exrc",
        ".github/hooks/x.json",
        ".github/workflows/ci.yml",
        ".idea/workspace.xml",
        ".letta/settings.json",
        ".mise.toml",
        ".npmrc",
        ".nvim.lua",
        ".tool-versions",
        ".vscode/tasks.json",
        ".yarn/releases/yarn.cjs",
        ".zed/tasks.json",
        "AGENTS.md",
        "Agents.md",
        "BUILD.pants",
        "CLAUDE.local.md",
        "CMakeLists.txt",
        "Dockerfile",
        "Dockerfile.dev",
        "GNUmakefile",
        "Makefile",
        "Makefile.inc",
        "QWEN.local.md",
        "SConstruct",
        "Taskfile.yml",
        "a/b/.cargo/config.toml",
        "a/b/CLAUDE.md",
        "build.rs",
        "bunfig.toml",
        "crates/x/build.rs",
        "crush.json",
        "eslint.config.js",
        "flake.nix",
        "gulpfile.js",
        "justfile",
        "lefthook.yml",
        "mise.local.toml",
        "mise.toml",
        "noxfile.py",
        "opencode.json",
        "opencode.jsonc",
        "gradle/wrapper/gradle-wrapper.properties",
        "gradlew",
        "infra/main.tf",
        "karma.conf.js",
        "mypy.ini",
        "packages/a/.npmrc",
        "packages/a/project.json",
        "packages/a/vite.config.ts",
        "rust-toolchain.toml",
        "setup.py",
        "src/it.csproj",
        "tests/conftest.py",
        "tools/bazel",
        "tsconfig.json",
        "uv.toml",
        // Pointers and programs of git.
        ".git/hooks/pre-commit",
        ".git/hooks/build/x",
        ".git/info/attributes",
        ".git/objects/info/alternates",
        ".git/modules/module/config",
        ".git/modules/module/hooks/post-checkout",
        ".git/rebase-merge/git-rebase-todo",
        ".git/sequencer/todo",
        ".git/worktrees/tree/config.worktree",
        ".git/worktrees/tree/gitdir",
        "module/.git",
        "library/.git/config",
        "tree/.git",
        // Of the configuration.
        "my hooks/pre-commit",
        "scripts/filter.sh",
        "shared/git.inc",
    ];
    let parts = [
        ("package.json", scripts, "package.json (husky, scripts)"),
        ("package.json", "{", "package.json (husky, scripts)"),
        ("package.json", "{ ", "package.json"),
        ("packages/a/package.json", scripts, "packages/a/package.json (husky, scripts)"),
        ("Cargo.toml", "[package]\nbuild = \"src/main.rs\"\n", "Cargo.toml (package.build)"),
        (
            "pyproject.toml",
            "[build-system]\nbuild-backend = \"x\"\n[tool.poe.tasks]\nx = \"touch ran\"\n",
            "pyproject.toml (build-system, tool.poe)",
        ),
        (".git/worktrees/new/HEAD", "", ".git/worktrees/new"),
        // Repositories that appear.
        ("docs/x/.git/config", EVIL, "docs/x/.git"),
        ("docs/y/.git", "gitdir: ../../evil", "docs/y/.git"),
        ("node_modules/a/b/.git/config", EVIL, "node_modules/a/b/.git"),
        ("target/x/.git", "gitdir: y", "target/x/.git"),
        (".venv/x/.git/config", EVIL, ".venv/x/.git"),
        ("worktrees/.git/commondir", "../..\n", "worktrees/.git/commondir"),
        // A repository hides no file beside it.
        (".vscode/.git/config", "", ".vscode/.git"),
        (".vscode/tasks.json", "", ".vscode/tasks.json"),
        ("docs/x/build.rs", "", "docs/x/build.rs"),
    ];
    let rows = names.iter().map(|name| (*name, EVIL, *name)).chain(parts);
    let workspace = workspace();
    let dir = workspace.path();
    write(dir, &before);
    git(dir, &["config", "filter.x.clean", "sh -c \"$PWD/x\"; scripts/filter.sh %f"]);
    git(dir, &["config", "include.path", "../shared/git.inc"]);
    git(dir, &["config", "core.hooksPath", "my hooks"]);
    for (path, text, expected) in rows {
        let before = ProjectFiles::read_earlier(dir);
        assert_eq!(before.report(), [""; 0], "{path}");
        write(dir, &[(path, text)]);
        assert_eq!(before.changed(), [expected], "{path}");
    }
}

#[test]
fn a_day_of_work_is_not_named() {
    let workspace = workspace();
    let dir = workspace.path();
    let before = [
        ("package.json", r#"{"version": "1", "scripts": {"test": "x"}}"#),
        ("Cargo.toml", "[package]\nname = \"it\"\nversion = \"0.1.0\"\n"),
        ("pyproject.toml", "[project]\nname = \"it\"\n"),
        ("src/main.rs", ""),
        (".gitignore", "/target\n"),
    ];
    write(dir, &before);
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "--message=three"]);
    let before = ProjectFiles::read(dir);

    write(
        dir,
        &[
            (
                "package.json",
                r#"{"version": "2", "dependencies": {"x": "1"}, "scripts": {"test": "x"}}"#,
            ),
            (
                "Cargo.toml",
                "[package]\nname = \"it\"\nversion = \"0.2.0\"\n[dependencies]\nx = \"1\"\n",
            ),
            ("pyproject.toml", "[project]\nname = \"it\"\ndependencies = [\"x\"]\n"),
            ("Cargo.lock", ""),
            ("package-lock.json", "{}"),
            ("pnpm-lock.yaml", ""),
            ("src/Profile.tsx", ""),
            ("src/settings.toml", ""),
            ("tests/data/x.json", ""),
            ("src/main.rs", "fn main() {}"),
            ("src/profile.rs", ""),
            (".gitignore", "/target\nnode_modules\n.venv\n"),
            ("target/debug/build/x/build.rs", ""),
            ("node_modules/x/package.json", r#"{"scripts": {"install": "x"}}"#),
            ("node_modules/.bin/x", ""),
            ("node_modules/.package-lock.json", "{}"),
            (".venv/bin/activate", ""),
            (".pytest_cache/README.md", ""),
            (".ruff_cache/x", ""),
            (".mypy_cache/x", ""),
            ("src/__pycache__/setup.py", ""),
            ("build/Makefile", ""),
            (".DS_Store", ""),
            (".coverage", ""),
            (".aider.chat.history.md", ""),
            (".crush/crush.db-wal", ""),
            (".next/server/x.js", ""),
            (".swe-swe/proxy/x", ""),
            (".git/opencode", "id"),
        ],
    );
    git(dir, &["switch", "--quiet", "--create=topic"]);
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "--message=four"]);
    git(dir, &["branch", "--set-upstream-to=main"]);
    git(dir, &["switch", "--quiet", "main"]);
    git(dir, &["commit", "--quiet", "--allow-empty", "--message=five"]);
    git(dir, &["rebase", "--quiet", "main", "topic"]);
    write(dir, &[("src/main.rs", "fn main() { }")]);
    git(dir, &["stash", "--quiet"]);
    git(dir, &["stash", "pop", "--quiet"]);
    git(dir, &["commit", "--quiet", "--all", "--message=six"]);
    git(dir, &["switch", "--quiet", "main"]);
    git(dir, &["merge", "--quiet", "--no-edit", "topic"]);
    git(dir, &["tag", "one"]);
    git(dir, &["fetch", "--quiet", ".", "main"]);
    git(dir, &["gc", "--quiet"]);
    git(dir, &["bisect", "start"]);
    git(dir, &["worktree", "add", "--quiet", "--detach", "other"]);
    git(dir, &["-C", "other", "status", "--short"]);
    git(dir, &["worktree", "remove", "other"]);
    git(&dir.join("module"), &["commit", "--quiet", "--allow-empty", "--message=seven"]);
    assert_eq!(before.report(), [""; 0]);
}

#[test]
fn a_checkout_is_named_once_and_then_searched_as_the_workspace() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let files = [".claude/settings.json", ".git", "Makefile", "src/main.rs"];
    let write_all = |text: &str| {
        for file in files {
            write(dir, &[(&format!(".claude/worktrees/x/{file}"), text)]);
        }
    };
    let before = ProjectFiles::read(dir);
    write_all("");
    assert_eq!(before.changed(), [".claude/worktrees/x/.git"]);
    let before = ProjectFiles::read(dir);
    write_all("x");
    let expected = files[..3].iter().map(|file| format!(".claude/worktrees/x/{file}"));
    assert_eq!(before.changed(), expected.collect::<Vec<_>>());
}

#[test]
fn a_link_in_place_of_a_directory_and_many_new_files_hide_no_change() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, &[("crates/x/build.rs", ""), ("Makefile", "")]);
    let before = ProjectFiles::read(dir);
    fs::create_dir(dir.join(".mycache")).unwrap();
    fs::rename(dir.join("crates"), dir.join(".mycache/crates")).unwrap();
    symlink(".mycache/crates", dir.join("crates")).unwrap();
    write(dir, &[(".mycache/crates/y/build.rs", ""), ("Makefile", "x")]);
    for number in 0..100 {
        write(dir, &[(&format!(".a{number}"), "")]);
    }
    let changed = before.changed();
    assert_eq!((&*changed[0], changed.last().unwrap().as_str()), ("Makefile", "crates"));
    assert!(before.report()[0].ends_with("and 82 more"), "{:?}", before.report());
}
