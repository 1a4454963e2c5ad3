//! `aifo-shim --install DIR` creates a link for every name.
//!
//! Proves `spec/shim.md#installing`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use aifo_tests::{Outcome, Scratch, binaries};

/// Every tool, and the notification command.
const NAMES: &[&str] = &[
    // rust
    "cargo",
    "rustc",
    "rust-analyzer",
    "rustup",
    "rustfmt",
    "cargo-fmt",
    "cargo-clippy",
    "clippy-driver",
    "cargo-nextest",
    // node
    "node",
    "npm",
    "npx",
    "yarn",
    "pnpm",
    "corepack",
    "deno",
    "bun",
    "tsc",
    "ts-node",
    // python
    "python",
    "python3",
    "pip",
    "pip3",
    "uv",
    "uvx",
    // go
    "go",
    "gofmt",
    // of every kind
    "make",
    "cmake",
    "ninja",
    "pkg-config",
    "gcc",
    "g++",
    "clang",
    "clang++",
    "cc",
    "c++",
    "hadolint",
    // notifications
    "say",
];

fn install(dir: &Path) -> Outcome {
    Outcome::of(Command::new(&binaries().shim).arg("--install").arg(dir).env_clear())
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The versioned pythons of this machine, in the directories that images use.
fn pythons() -> BTreeSet<String> {
    let dirs = ["/usr/bin", "/usr/local/bin", "/opt/venv/bin"];
    let dirs = dirs.into_iter().filter(|dir| Path::new(dir).is_dir());
    let names = dirs.flat_map(|dir| names(Path::new(dir)));
    let is_versioned = |name: &String| {
        let minor = name.strip_prefix("python3.").unwrap_or_default();
        !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit())
    };
    names.filter(is_versioned).collect()
}

#[test]
fn every_name_leads_to_the_shim() {
    let scratch = Scratch::new();
    let dir = scratch.path().join("opt/aifo/bin");
    let outcome = install(&dir);
    let links: BTreeSet<String> =
        NAMES.iter().map(|&name| name.to_owned()).chain(pythons()).collect();
    let expected = format!("{} links to aifo-shim in {}\n", links.len(), dir.display());
    assert_eq!((&*outcome.exited(0).text(), &*outcome.stderr), (&*expected, ""));
    for link in &links {
        assert_eq!(fs::read_link(dir.join(link)).unwrap(), Path::new("aifo-shim"), "{link}");
    }
    let mut there = names(&dir);
    assert!(there.remove("aifo-shim"));
    assert_eq!(there, links);
    let shim = fs::symlink_metadata(dir.join("aifo-shim")).unwrap();
    assert!(shim.is_file(), "a copy, so that the directory is self-contained");
    assert_eq!(shim.permissions().mode() & 0o777, 0o755);
    let version = |shim: &Path| Outcome::of(Command::new(shim).arg("--version")).text();
    assert_eq!(version(&dir.join("aifo-shim")), version(&binaries().shim));
    let outcome = Outcome::of(Command::new(dir.join("cargo")).arg("--version").env_clear());
    assert!(outcome.exited(86).stderr.contains("proxy not configured"), "{}", outcome.stderr);
}

#[test]
fn once_more_changes_nothing_that_matters() {
    let scratch = Scratch::new();
    install(scratch.path()).exited(0);
    let before = names(scratch.path());
    // An older link, with an absolute path.
    fs::remove_file(scratch.path().join("cargo")).unwrap();
    symlink("/opt/aifo/bin/aifo-shim", scratch.path().join("cargo")).unwrap();
    fs::write(scratch.path().join("unrelated"), "mine").unwrap();
    install(scratch.path()).exited(0);
    assert_eq!(fs::read_link(scratch.path().join("cargo")).unwrap(), Path::new("aifo-shim"));
    assert_eq!(fs::read_to_string(scratch.path().join("unrelated")).unwrap(), "mine");
    fs::remove_file(scratch.path().join("unrelated")).unwrap();
    assert_eq!(names(scratch.path()), before);
}

#[test]
fn it_can_install_itself_where_it_is() {
    let scratch = Scratch::new();
    install(scratch.path()).exited(0);
    let shim = scratch.path().join("aifo-shim");
    let inode = fs::metadata(&shim).unwrap().ino();
    let mut again = Command::new(&shim);
    Outcome::of(again.arg("--install").arg(scratch.path()).env_clear()).exited(0);
    assert_eq!(fs::metadata(&shim).unwrap().ino(), inode, "it is there already");
}

#[test]
fn foreign_files_are_left_alone_and_nothing_is_changed() {
    for make in [
        |path: &Path| fs::write(path, "foreign").unwrap(),
        |path: &Path| fs::create_dir(path).unwrap(),
        |path: &Path| symlink("/usr/bin/python3", path).unwrap(),
    ] {
        let scratch = Scratch::new();
        make(&scratch.path().join("python3"));
        let outcome = install(scratch.path());
        let path = scratch.path().join("python3");
        let expected = format!(
            "aifo-shim: cannot install into '{}': '{}' exists and is not a link to \
             aifo-shim; nothing was changed",
            scratch.path().display(),
            path.display()
        );
        assert_eq!(outcome.exited(1).only_line(), expected);
        assert_eq!(names(scratch.path()), BTreeSet::from(["python3".to_owned()]));
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_reported() {
    let scratch = Scratch::new();
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    let outcome = install(&file.join("bin"));
    let first = format!("aifo-shim: cannot install into '{}': ", file.join("bin").display());
    assert!(outcome.exited(1).only_line().starts_with(&first), "{}", outcome.stderr);
}

#[test]
fn tools_in_place_have_links_of_their_own() {
    let scratch = Scratch::new();
    let install = || {
        let mut install = Command::new(&binaries().shim);
        let words = ["javac", "--in-place", "git", "cargo"];
        Outcome::of(install.arg("--install").arg(scratch.path()).args(words).env_clear())
    };
    // Once more, too.
    install().exited(0);
    install().exited(0);
    let target = |name: &str| fs::read_link(scratch.path().join(name)).unwrap();
    assert_eq!(target("git"), Path::new("aifo-in-place"));
    // A tool that a kind offers runs in its sidecar.
    for name in ["aifo-in-place", "javac", "cargo"] {
        assert_eq!(target(name), Path::new("aifo-shim"), "{name}");
    }
}
