//! Repositories and streams of an agent that attacks `aifo` or the client.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use aifo_sync::{ObjectId, SyncError};

use super::{BRANCH, Case, git, run};

#[test]
fn no_program_of_the_agents_repository_runs() {
    let case = Case::new();
    case.commit("agent");
    let ran = case.path("ran");
    let command = format!("touch {}; cat", ran.display());
    let hook = case.path("hook");
    fs::write(&hook, format!("#!/bin/sh\n{command}\n")).unwrap();
    let pod = case.pod();
    run(&case.path("origin"), &["clone", "--quiet", ".", pod.join("inner").to_str().unwrap()]);
    for at in [pod.clone(), pod.join("inner")] {
        for key in [
            "core.fsmonitor",
            "core.sshCommand",
            "core.pager",
            "core.editor",
            "core.alternateRefsCommand",
            "core.gitProxy",
            "uploadpack.packObjectsHook",
            "credential.helper",
            "filter.f.clean",
            "filter.f.process",
            "diff.external",
            "gpg.program",
            "alias.rev-list",
        ] {
            run(&at, &["config", key, &format!("!{command}")]);
        }
        run(&at, &["config", "core.hooksPath", case.dir.path().to_str().unwrap()]);
        run(&at, &["config", "filter.f.required", "true"]);
        run(&at, &["config", "extensions.worktreeConfig", "true"]);
        fs::write(at.join(".git/info/attributes"), "* filter=f diff=f\n").unwrap();
    }
    case.write(".gitattributes", "* filter=f text eol=crlf\n");
    case.write("file", "un\r\ncommitted\n");
    // A promisor's command would be run for a missing object, and no git opens a repository of this version.
    for (key, value) in [
        ("protocol.ext.allow", "always"),
        ("remote.evil.promisor", "true"),
        ("remote.evil.url", &format!("ext::sh -c {}", hook.display())),
        ("extensions.partialClone", "evil"),
        ("core.repositoryFormatVersion", "99"),
    ] {
        run(&pod, &["config", "--file", ".git/config", key, value]);
    }
    // An attack on the client: its branch names and configuration are its own.
    fs::write(pod.join(".git/refs/heads/x\u{7f}"), "0".repeat(40)).unwrap();
    let result = case.fetch();
    assert!(!ran.exists(), "a program of the repository ran");
    assert_eq!(result.branches[0].commits, Some(2));
    assert_eq!(case.of_result(&["show", &format!("{BRANCH}:file")]), "un\r\ncommitted");
    // The user's fetch starts nothing either: the received repository has the client configuration.
    case.in_the_users_clone();
    assert!(!ran.exists());
    let config = fs::read_to_string(case.repository().join("config")).unwrap();
    assert!(
        config.contains("hooksPath = /dev/null") && !config.contains("fsmonitor = !"),
        "{config}"
    );
}

#[test]
fn no_file_outside_of_the_workspace_is_read() {
    let case = Case::new();
    case.commit("agent");
    let secret = case.path("secret");
    fs::write(&secret, "key").unwrap();
    let pod = case.pod();
    symlink(&secret, pod.join("link")).unwrap();
    fs::remove_file(pod.join("file")).unwrap();
    symlink(case.dir.path(), pod.join("directory")).unwrap();
    let secret_id = ObjectId::parse(&[b'a'; 40]).unwrap();
    fs::write(case.path("reference"), secret_id.as_str()).unwrap();
    symlink(case.path("reference"), pod.join(".git/refs/heads/linked")).unwrap();
    symlink(&secret, pod.join(".git/shallow")).unwrap();
    let sent = case.sent();
    let result = case.receive(&sent).unwrap();
    let all = case.of_result(&["ls-tree", "-r", BRANCH]);
    // Links are committed as links.
    assert!(all.contains("120000") && !all.contains("directory/"), "{all}");
    assert_eq!(case.of_result(&["show", &format!("{BRANCH}:link")]), secret.to_str().unwrap());
    assert!(!String::from_utf8_lossy(&sent).contains(secret_id.as_str()));
    assert_eq!(result.branches.len(), 1);
    // HEAD through a link is none.
    fs::remove_file(pod.join(".git/HEAD")).unwrap();
    symlink(case.path("reference"), pod.join(".git/HEAD")).unwrap();
    assert_eq!(case.fetch().branches[0].commits, Some(2));
    // A repository elsewhere is none.
    fs::rename(pod.join(".git"), case.path("elsewhere")).unwrap();
    symlink(case.path("elsewhere"), pod.join(".git")).unwrap();
    assert!(case.fetch().notes[0].contains("no directory '.git'"));
}

#[test]
fn objects_that_block_end_with_the_time() {
    let case = Case::new();
    let tip = case.commit("agent");
    let object = case.pod().join(format!(".git/objects/{}/{}", &tip[..2], &tip[2..]));
    fs::remove_file(&object).unwrap();
    nix::unistd::mkfifo(&object, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = case.send_with(&git().within(Duration::from_millis(500))).unwrap_err();
    assert!(matches!(error, SyncError::GitTimeout { .. }), "{error}");
}

#[test]
fn many_references_are_cut() {
    let case = Case::new();
    let tip = case.commit("agent");
    let mut packed = String::from("# pack-refs with: peeled fully-peeled sorted\n");
    for index in 0..1_000_000 {
        packed += &format!("{tip} refs/heads/{index:07}\n");
    }
    fs::write(case.pod().join(".git/packed-refs"), &packed).unwrap();
    // More than is read, so the branches of the file are none.
    let result = case.fetch();
    assert!(result.notes.iter().any(|note| note.contains("too many references")), "{result:?}");
    assert_eq!(result.branches.len(), 1);
    // Branches with commits of their own are limited.
    fs::remove_file(case.pod().join(".git/packed-refs")).unwrap();
    for index in 0..25 {
        run(&case.pod(), &["switch", "--quiet", "--create", &format!("b{index}"), "main"]);
        case.commit(&format!("c{index}"));
    }
    run(&case.pod(), &["switch", "--quiet", BRANCH]);
    let result = case.fetch();
    assert_eq!(result.branches.len(), 21);
    assert!(result.notes.iter().any(|note| note == "5 more branches are not in the result"));
}

#[test]
fn a_cut_stream_replaces_nothing() {
    let case = Case::new();
    let tip = case.commit("agent");
    case.fetch();
    case.commit("more");
    let bytes = case.sent();
    let step = bytes.len() / 40 + 1;
    for cut in (0..bytes.len()).step_by(step).chain([bytes.len() - 1, bytes.len() - 5]) {
        let error = case.receive(&bytes[..cut]).unwrap_err();
        assert!(matches!(error, SyncError::Truncated), "{cut}: {error}");
        assert_eq!(case.of_result(&["rev-parse", BRANCH]), tip);
    }
    let left = fs::read_dir(case.path("results")).unwrap().flatten().count();
    assert_eq!(left, 1, "temporary files are removed");
    case.receive(&bytes).unwrap();
}

/// A stream with these lines, and this pack.
fn stream(lines: &str, pack: &[u8]) -> Vec<u8> {
    let mut bytes = format!("aifo-result 1\nformat sha1\n{lines}\n").into_bytes();
    for chunk in pack.chunks(60_000) {
        bytes.extend(u32::try_from(chunk.len()).unwrap().to_be_bytes());
        bytes.extend(chunk);
    }
    bytes.extend([0, 0, 0, 0, 1]);
    bytes
}

/// Returns the pack of objects of a repository.
fn pack(at: &Path, objects: &[&str]) -> Vec<u8> {
    let mut git = Command::new("git");
    git.args(["pack-objects", "--stdout", "-q"]).current_dir(at);
    let mut git = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    git.stdin.take().unwrap().write_all((objects.join("\n") + "\n").as_bytes()).unwrap();
    git.wait_with_output().unwrap().stdout
}

/// Writes an object of any content.
fn object(at: &Path, kind: &str, content: &[u8]) -> String {
    let mut git = Command::new("git");
    git.args(["hash-object", "-w", "--literally", "-t", kind, "--stdin"]).current_dir(at);
    let mut git = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    git.stdin.take().unwrap().write_all(content).unwrap();
    String::from_utf8(git.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
}

/// Writes a commit with one entry, and returns all of its objects.
fn commit_of(at: &Path, mode: &str, name: &str, content: &[u8]) -> Vec<String> {
    let blob = object(at, "blob", content);
    let id: Vec<u8> = (0..20)
        .map(|index| u8::from_str_radix(&blob[2 * index..2 * index + 2], 16).unwrap())
        .collect();
    let tree = object(at, "tree", &[mode.as_bytes(), b" ", name.as_bytes(), b"\0", &id].concat());
    let who = "a <a@b> 1 +0000";
    let commit = format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nx\n");
    vec![object(at, "commit", commit.as_bytes()), tree, blob]
}

#[test]
fn hostile_streams_are_rejected() {
    let case = Case::new();
    let at = case.path("origin");
    let tip = run(&at, &["rev-parse", "HEAD"]);
    let branch = |tip: &str| format!("branch {tip} committed x\n");
    for (bytes, part) in [
        (b"".to_vec(), "ended before its end"),
        (b"aifo-result 2\n\n".to_vec(), "not one of this version"),
        (stream("reference refs/heads/main\n", b""), "invalid line"),
        (stream(&branch(&tip).repeat(22), b""), "more than 21 branches"),
        (stream(&format!("shallow {tip}\n").repeat(10_001), b""), "more than 10000 ends"),
        (stream(&"note x\n".repeat(101), b""), "more than 100 notes"),
        (stream(&branch("../../config"), b""), "invalid line"),
        (stream(&branch(&"a".repeat(64)), b""), "different formats"),
        (stream(&format!("note {}\n", "x".repeat(5000)), b""), "long line"),
        (stream("", &[0; 100]), "more than 0 bytes"),
        (stream(&branch(&tip), b"no pack"), "git index-pack failed"),
        // The commit without its tree, and one that is not there.
        (stream(&branch(&tip), &pack(&at, &[&tip])), "git index-pack failed"),
        (
            stream(&branch(&"a".repeat(40)), &pack(&at, &[&object(&at, "blob", b"x")])),
            "git rev-list failed",
        ),
    ] {
        let error = case.receive(&bytes).unwrap_err();
        assert!(error.to_string().contains(part), "{part}: {error}");
        assert!(!case.repository().exists());
    }
    // A tip that is no commit.
    let blob = object(&at, "blob", b"y");
    case.receive(&stream(&branch(&blob), &pack(&at, &[&blob]))).unwrap_err();
    for (mode, name) in [
        ("100644", ".git"),
        ("40000", ".GIT"),
        ("100644", ".."),
        ("100644", "a/b"),
        ("120000", ".gitmodules"),
        ("100644", "git~1"),
    ] {
        let objects = commit_of(&at, mode, name, b"content");
        let names: Vec<&str> = objects.iter().map(String::as_str).collect();
        let error = case.receive(&stream(&branch(&objects[0]), &pack(&at, &names))).unwrap_err();
        assert!(matches!(error, SyncError::Git { .. }), "{name}: {error}");
    }
    let modules = b"[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n";
    let objects = commit_of(&at, "100644", ".gitmodules", modules);
    let names: Vec<&str> = objects.iter().map(String::as_str).collect();
    let error = case.receive(&stream(&branch(&objects[0]), &pack(&at, &names))).unwrap_err();
    assert!(matches!(error, SyncError::Git { .. }), "{error}");
    assert!(!case.repository().exists());
    assert_eq!(fs::read_dir(case.path("results")).unwrap().count(), 0);
    let objects = commit_of(&at, "100644", "fine", b"content");
    let names: Vec<&str> = objects.iter().map(String::as_str).collect();
    case.receive(&stream(&branch(&objects[0]), &pack(&at, &names))).unwrap();
}

/// A tree object of 600 MB in a pack of some hundred KB.
#[test]
fn an_object_that_grows_is_rejected() {
    let case = Case::new();
    let at = case.path("origin");
    let mut hash = Command::new("git");
    hash.args([
        "-c",
        "core.bigFileThreshold=1g",
        "hash-object",
        "-w",
        "--literally",
        "-t",
        "tree",
        "--stdin",
    ]);
    let mut hash =
        hash.current_dir(&at).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = hash.stdin.take().unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..600 {
        stdin.write_all(&zeros).unwrap();
    }
    drop(stdin);
    let tree = String::from_utf8(hash.wait_with_output().unwrap().stdout).unwrap();
    let pack = pack(&at, &[tree.trim()]);
    assert!(pack.len() < 1 << 20, "{}", pack.len());
    let bytes = stream(&format!("branch {} committed x\n", tree.trim()), &pack);
    let error = case.receive(&bytes).unwrap_err();
    assert!(error.to_string().contains("over limit"), "{error}");
}
