//! Objects of real repositories, and of forged ones (`spec/forges.md#force`).

use std::fs;
use std::path::Path;
use std::process::Command;

use aifo_workspace::{GitObjects, GitType};

#[track_caller]
fn git(directory: &Path, words: &[&str]) -> Vec<u8> {
    let mut git = Command::new("git");
    git.current_dir(directory).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
    let output = git.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(output.status.success(), "{words:?} {output:?}");
    output.stdout
}

/// A repository with a history of directories that are alike, so that packs have deltas.
fn repository(format: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    git(path, &["init", "-q", "-b", "main", &format!("--object-format={format}")]);
    fs::create_dir(path.join("sub")).unwrap();
    for number in 0..200 {
        fs::write(path.join(format!("sub/file-{number}")), format!("{number}\n")).unwrap();
    }
    for number in 0..20 {
        fs::write(path.join(format!("sub/file-{number}")), format!("changed {number}\n")).unwrap();
        git(path, &["add", "."]);
        git(path, &["commit", "-qm", &format!("commit {number}")]);
    }
    directory
}

/// Compares all commits and directories with what git reads.
#[track_caller]
fn compare(path: &Path) {
    let objects = GitObjects::open(path, ".git").unwrap();
    let list = git(path, &["cat-file", "--batch-all-objects", "--batch-check"]);
    let (mut commits, mut trees) = (0, 0);
    for line in String::from_utf8(list).unwrap().lines() {
        let [id, kind, _] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let expected = match kind {
            "commit" => GitType::Commit,
            "tree" => GitType::Tree,
            _ => {
                assert_eq!(objects.read(id), None, "{line}");
                continue;
            }
        };
        let content = git(path, &["cat-file", kind, id]);
        assert_eq!(objects.read(id), Some((expected, content)), "{line}");
        match expected {
            GitType::Commit => commits += 1,
            _ => trees += 1,
        }
    }
    assert!(commits == 20 && trees == 40, "{commits} {trees}");
}

#[test]
fn commits_and_directories_are_those_that_git_reads() {
    for format in ["sha1", "sha256"] {
        let directory = repository(format);
        let path = directory.path();
        compare(path);
        git(path, &["-c", "pack.depth=50", "repack", "-qadf"]);
        let verified = git(path, &["verify-pack", "-v", &index(path)]);
        assert!(String::from_utf8(verified).unwrap().contains("chain length = "), "it has deltas");
        compare(path);
        git(path, &["-c", "repack.useDeltaBaseOffset=false", "repack", "-qadf"]);
        compare(path);
    }
}

fn index(path: &Path) -> String {
    let names = fs::read_dir(path.join(".git/objects/pack")).unwrap().flatten();
    let mut paths = names.map(|entry| entry.path());
    paths.find(|path| path.extension().is_some_and(|it| it == "idx")).unwrap().display().to_string()
}

#[test]
fn a_content_with_another_hash_is_none() {
    let directory = repository("sha1");
    let path = directory.path();
    let id =
        |name: &str| String::from_utf8(git(path, &["rev-parse", name])).unwrap().trim().to_owned();
    let (first, last) = (id("HEAD~5"), id("HEAD"));
    let file = |id: &str| path.join(".git/objects").join(&id[..2]).join(&id[2..]);
    fs::remove_file(file(&first)).unwrap();
    fs::copy(file(&last), file(&first)).unwrap();
    // git takes the file's content for the commit.
    git(path, &["cat-file", "commit", &last]);
    let objects = GitObjects::open(path, ".git").unwrap();
    assert_eq!(objects.read(&first), None);
    assert!(objects.read(&last).is_some());
    for none in ["", "../../config", "0000", &"0".repeat(40), &"g".repeat(40)] {
        assert_eq!(objects.read(none), None, "{none}");
    }
}

/// Damaged packs end in nothing, not in a panic.
#[test]
fn damaged_packs_are_none_or_right() {
    let directory = repository("sha1");
    let path = directory.path();
    git(path, &["repack", "-qadf"]);
    let index = index(path);
    let pack = Path::new(&index).with_extension("pack");
    let list = git(path, &["rev-list", "--all"]);
    let ids: Vec<String> = String::from_utf8(list).unwrap().lines().map(str::to_owned).collect();
    let whole = fs::read(&pack).unwrap();
    let mut permissions = fs::metadata(&pack).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    fs::set_permissions(&pack, permissions).unwrap();
    let mut seed = 1_u64;
    for _ in 0..300 {
        let mut damaged = whole.clone();
        for _ in 0..4 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 33) as usize % damaged.len();
            damaged[at] = (seed >> 20) as u8;
        }
        damaged.truncate(damaged.len() - (seed >> 60) as usize * 100);
        fs::write(&pack, &damaged).unwrap();
        let objects = GitObjects::open(path, ".git").unwrap();
        for id in &ids {
            if let Some((kind, content)) = objects.read(id) {
                assert!(kind == GitType::Commit && content.starts_with(b"tree "), "{id}");
            }
        }
    }
}
