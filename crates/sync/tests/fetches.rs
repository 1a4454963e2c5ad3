//! Uploads and fetches between two directories, and streams of a hostile pod.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use aifo_sync::{
    CONFLICTS, Fetch, FetchReport, Snapshot, SyncError, Upload, UploadLimits, UploadScope,
    receive_upload, send_changes,
};

/// A workspace, and its copy in a pod.
struct Pair {
    here: tempfile::TempDir,
    pod: tempfile::TempDir,
    base: Snapshot,
}

impl Pair {
    fn upload(files: &[(&str, &str)]) -> Self {
        let (here, pod) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (path, content) in files {
            write(&here.path().join(path), content);
        }
        let mut pair = Pair { here, pod, base: Snapshot::default() };
        pair.send(UploadScope::Unignored);
        pair
    }

    fn send(&mut self, scope: UploadScope) {
        let upload = Upload::plan(self.here.path(), scope, UploadLimits::default()).unwrap();
        let mut stream = Vec::new();
        self.base = upload.send(&mut stream).unwrap();
        let count = receive_upload(self.pod.path(), &stream[..]).unwrap();
        assert_eq!(count as usize, upload.files());
    }

    fn fetch(&mut self) -> FetchReport {
        let (mut request, mut answer) = (Vec::new(), Vec::new());
        self.base.write(&mut request).unwrap();
        send_changes(self.pod.path(), &request[..], &mut answer).unwrap();
        self.apply(&answer).unwrap()
    }

    fn apply(&mut self, answer: &[u8]) -> Result<FetchReport, SyncError> {
        let report = Fetch::new(self.here.path(), "s1").unwrap().apply(&mut self.base, answer);
        let left = fs::read_dir(self.here.path()).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        assert!(!left.iter().any(|it| it.to_string_lossy().starts_with(".aifo-fetch")), "{left:?}");
        report
    }

    fn here(&self, path: &str) -> PathBuf {
        self.here.path().join(path)
    }

    fn pod(&self, path: &str) -> PathBuf {
        self.pod.path().join(path)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.here(path)).unwrap()
    }

    fn kept(&self, path: &str) -> String {
        self.read(&format!("{CONFLICTS}/s1/{path}"))
    }
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Builds a stream of a pod.
struct Stream(Vec<u8>, u64);

impl Stream {
    fn new() -> Self {
        Stream(b"aifo-sync 1\n".to_vec(), 0)
    }

    fn head(mut self, tag: u8, path: &[u8]) -> Self {
        self.0.push(tag);
        self.text(path);
        self.1 += 1;
        self
    }

    fn text(&mut self, text: &[u8]) {
        self.0.extend((text.len() as u16).to_be_bytes());
        self.0.extend(text);
    }

    fn file(self, path: impl AsRef<[u8]>, content: &[u8]) -> Self {
        let mut stream = self.head(b'F', path.as_ref());
        stream.0.push(0);
        for chunk in content.chunks(65_536).chain([&[][..]]) {
            stream.0.extend((chunk.len() as u32).to_be_bytes());
            stream.0.extend(chunk);
        }
        stream.0.push(1);
        stream
    }

    fn link(self, path: &str, target: &str) -> Self {
        let mut stream = self.head(b'L', path.as_bytes());
        stream.text(target.as_bytes());
        stream
    }

    fn deleted(self, path: &str) -> Self {
        self.head(b'D', path.as_bytes())
    }

    fn end(mut self) -> Vec<u8> {
        self.0.push(b'E');
        self.0.extend(self.1.to_be_bytes());
        self.0
    }
}

#[test]
fn changes_of_the_pod_are_applied() {
    let mut pair = Pair::upload(&[
        ("changed", "before"),
        ("deleted/x", "x"),
        ("same", "same"),
        ("tool.sh", "#!/bin/sh"),
        ("becomes/file", "1"),
        ("becomes-directory", "2"),
    ]);
    assert!(pair.fetch().is_empty(), "nothing has changed");
    fs::set_permissions(pair.here("changed"), Permissions::from_mode(0o640)).unwrap();
    write(&pair.pod("changed"), "after");
    write(&pair.pod("new/deep/file"), "new");
    fs::remove_dir_all(pair.pod("deleted")).unwrap();
    fs::set_permissions(pair.pod("tool.sh"), Permissions::from_mode(0o755)).unwrap();
    symlink("../same", pair.pod("new/link")).unwrap();
    fs::remove_dir_all(pair.pod("becomes")).unwrap();
    fs::write(pair.pod("becomes"), "a file").unwrap();
    fs::remove_file(pair.pod("becomes-directory")).unwrap();
    write(&pair.pod("becomes-directory/inner"), "inner");
    let report = pair.fetch();
    assert_eq!((report.written, report.removed), (6, 3), "{report:?}");
    assert!(report.conflicts.is_empty() && report.rejected.is_empty(), "{report:?}");
    assert_eq!(pair.read("changed"), "after");
    assert_eq!(pair.here("changed").metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(pair.read("new/deep/file"), "new");
    assert_eq!(pair.read("becomes"), "a file");
    assert_eq!(pair.read("becomes-directory/inner"), "inner");
    assert!(!pair.here("deleted").exists(), "an empty directory goes with its last file");
    assert_eq!(fs::read_link(pair.here("new/link")).unwrap(), Path::new("../same"));
    assert_eq!(pair.here("tool.sh").metadata().unwrap().permissions().mode() & 0o100, 0o100);
    assert!(pair.fetch().is_empty(), "all of it was applied");
}

#[test]
fn nothing_of_the_users_is_overwritten() {
    let files = ["both", "gone", "kept", "mine", "same"].map(|path| (path, "before"));
    let mut pair = Pair::upload(&files);
    for (path, content) in [("both", "mine"), ("mine", "mine"), ("same", "same"), ("kept", "mine")]
    {
        write(&pair.here(path), content);
    }
    write(&pair.here("new"), "mine");
    write(&pair.here("place/x"), "mine");
    fs::remove_file(pair.here("gone")).unwrap();
    for (path, content) in [
        ("both", "pod's"),
        ("same", "same"),
        ("new", "pod's"),
        ("gone", "pod's"),
        ("place", "pod's"),
    ] {
        write(&pair.pod(path), content);
    }
    fs::remove_file(pair.pod("kept")).unwrap();
    let report = pair.fetch();
    let found: Vec<_> = report.conflicts.iter().map(|it| it.path.to_string()).collect();
    assert_eq!(found, ["kept", "both", "gone", "new", "place"]);
    assert_eq!((report.written, report.removed), (0, 0));
    for path in ["both", "new", "kept", "mine", "place/x"] {
        assert_eq!(pair.read(path), "mine", "{path}");
    }
    assert!(!pair.here("gone").exists());
    for path in ["both", "new", "gone", "place"] {
        assert_eq!(pair.kept(path), "pod's", "{path}");
    }
    assert_eq!(pair.read(&format!("{CONFLICTS}/.gitignore")), "*\n");
    assert!(pair.fetch().is_empty(), "a conflict is reported once");

    write(&pair.pod("both"), "pod's again");
    let report = pair.fetch();
    assert_eq!(report.conflicts[0].copy.as_deref(), Some(Path::new(".aifo-conflicts/s1/both.2")));
    assert_eq!((pair.kept("both"), pair.kept("both.2")), ("pod's".into(), "pod's again".into()));
    pair.pod = tempfile::tempdir().unwrap();
    pair.send(UploadScope::All);
    assert!(!pair.pod(CONFLICTS).exists(), "copies are not uploaded");
}

#[test]
fn no_path_of_a_pod_leads_out() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let mut pair = Pair::upload(&[("a", "a")]);
    let here = pair.here.path().to_owned();
    symlink(outside.path(), pair.here("mine")).unwrap();
    fs::create_dir(pair.here(".git")).unwrap();
    let up = format!("../{}/secret", outside.path().file_name().unwrap().to_string_lossy());
    let absolute = secret.to_str().unwrap();
    let hostile: [&[u8]; 16] = [
        absolute.as_bytes(),
        up.as_bytes(),
        b"..",
        b"a/../../x",
        b"./x",
        b"x//y",
        b"x/",
        b"",
        b"x\0y",
        b".git/hooks/post-checkout",
        b"sub/.GIT/config",
        b".aifo-conflicts/s1/x",
        b".aifo-fetch-x/0",
        b".AIFO-conflicts/.gitignore",
        &[b'x'; 300],
        &[b'/'; 4000],
    ];
    let mut stream = Stream::new();
    for path in hostile {
        stream = stream.file(path, b"hostile");
    }
    stream = stream.deleted(&up).deleted(absolute).deleted(".git/HEAD");
    // Through a link of the user's, which leads out, and through links of the pod's.
    stream = stream.file("mine/secret", b"hostile").file("mine/new", b"hostile");
    for target in ["/etc", "..", "a/../..", absolute, "", ".git/hooks"] {
        stream = stream.link("link", target).file("link/secret", b"hostile");
    }
    stream = stream.link(".git/l", "a").link(".aifo-l", "a").file("good", b"good");
    let report = pair.apply(&stream.end()).unwrap();
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(pair.here(".git")).unwrap().count(), 0);
    assert_eq!(pair.read("good"), "good");
    assert_eq!(pair.read("a"), "a");
    assert!(report.rejected.len() + report.more_rejected >= 24, "{report:?}");
    // `link` was never created, so the path below it is the workspace directory.
    assert!(pair.here("link").symlink_metadata().unwrap().is_dir());
    assert_eq!(
        pair.kept("mine/secret"),
        "hostile",
        "a path behind a link of the user is a conflict"
    );
    let mut names: Vec<_> = fs::read_dir(here)
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [CONFLICTS, ".git", "a", "good", "link", "mine"]);
}

#[test]
fn a_link_that_stays_is_applied_and_never_followed() {
    let mut pair = Pair::upload(&[("d/a", "a")]);
    let stream = Stream::new().link("l", "d").file("l/x", b"x").file("d/y", b"y");
    let report = pair.apply(&stream.end()).unwrap();
    assert_eq!(report.written, 2);
    assert!(!pair.here("d/x").exists() && pair.here("d/y").exists());
    assert_eq!(pair.kept("l/x"), "x");
}

#[test]
fn a_cut_or_damaged_stream_changes_nothing() {
    let mut pair = Pair::upload(&[("a", "a"), ("b", "b")]);
    let stream = Stream::new().deleted("a").file("b", b"changed").file("c", b"new").end();
    for cut in 0..stream.len() {
        let error = pair.apply(&stream[..cut]).unwrap_err();
        assert!(matches!(error, SyncError::Truncated), "{cut}: {error}");
        assert_eq!((pair.read("a"), pair.read("b")), ("a".into(), "b".into()), "{cut}");
        assert!(!pair.here("c").exists(), "{cut}");
    }
    assert!(pair.apply(b"HTTP/1.1 200 OK\r\n").is_err());
    let too_much = Stream::new().file("c", &vec![0; 3 << 20]).end();
    let limits = UploadLimits { files: 10, bytes: 1 << 20 };
    let fetch = Fetch::new(pair.here.path(), "s1").unwrap().limits(limits);
    let error = fetch.apply(&mut pair.base, &too_much[..]).unwrap_err();
    assert!(matches!(error, SyncError::StreamLimit { of: "bytes", .. }), "{error}");
    let many = (0..21).fold(Stream::new(), |stream, n| stream.file(format!("f{n}"), b"")).end();
    let error = fetch.apply(&mut pair.base, &many[..]).unwrap_err();
    assert!(matches!(error, SyncError::StreamLimit { of: "files", .. }), "{error}");
    assert_eq!(fs::read_dir(pair.here.path()).unwrap().count(), 2);
    assert_eq!(pair.apply(&stream).unwrap().written, 2);
}

#[test]
fn special_files_and_odd_names_of_a_pod() {
    let mut pair = Pair::upload(&[("replaced", "1"), ("unread", "2")]);
    fs::remove_file(pair.pod("replaced")).unwrap();
    for fifo in ["replaced", "fifo", ".gitignore"] {
        let path = pair.pod(fifo);
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }
    let odd = OsStr::from_bytes(b"\xff\n\x1b[31m -x");
    fs::write(pair.pod.path().join(odd), "odd").unwrap();
    for case in ["Case", "case", "CASE"] {
        write(&pair.pod(case), case);
    }
    let report = pair.fetch();
    assert_eq!(pair.read("replaced"), "1", "a FIFO in its place is no deletion");
    assert_eq!(fs::read_to_string(pair.here.path().join(odd)).unwrap(), "odd");
    assert_eq!((pair.read("Case"), pair.read("CASE")), ("Case".into(), "CASE".into()));
    assert!(
        report.rejected.iter().any(|it| it.path == "fifo" && it.why.contains("FIFO")),
        "{report:?}"
    );
}

#[test]
fn an_upload_has_tracked_and_unignored_files_and_the_repository() {
    let (mut pair, git) = (Pair::upload(&[]), |pair: &Pair, words: &[&str]| {
        let mut git = Command::new("git");
        git.args(words).current_dir(pair.here.path());
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        assert!(git.output().unwrap().status.success(), "{words:?}");
    });
    git(&pair, &["init", "--quiet"]);
    for path in [
        "main.rs",
        "target/x",
        "sub/a.log",
        "sub/keep.log",
        "forced.log",
        "new",
        "local",
        "sub/build/x",
    ] {
        write(&pair.here(path), path);
    }
    write(&pair.here(".gitignore"), "/target\n*.log\n");
    write(&pair.here("sub/.gitignore"), "!keep.log\nbuild/\n");
    write(&pair.here(".git/info/exclude"), "local\n");
    symlink("main.rs", pair.here("link")).unwrap();
    git(&pair, &["add", "--force", "main.rs", "forced.log"]);
    pair.send(UploadScope::Unignored);
    for path in ["main.rs", "sub/keep.log", "forced.log", "new", ".gitignore", "link", ".git/HEAD"]
    {
        assert!(pair.pod(path).symlink_metadata().is_ok(), "{path}");
    }
    for path in ["target", "sub/a.log", "local", "sub/build"] {
        assert!(!pair.pod(path).exists(), "{path}");
    }
    // The agent's builds do not come back, nor the repository.
    for path in ["target/y", "sub/b.log", ".git/hooks/pre-commit", "vendor/.git/config", "vendor/x"]
    {
        write(&pair.pod(path), "pod's");
    }
    write(&pair.pod("forced.log"), "pod's");
    let report = pair.fetch();
    assert_eq!((report.written, report.rejected.len()), (2, 0), "{report:?}");
    assert_eq!((pair.read("forced.log"), pair.read("vendor/x")), ("pod's".into(), "pod's".into()));
    assert!(!pair.here("vendor/.git").exists() && !pair.here(".git/hooks/pre-commit").exists());
    pair.send(UploadScope::All);
    assert!(pair.pod("target/x").exists(), "all files, if requested");
}

#[test]
fn too_large_an_upload_names_its_largest_directories() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("big/file"), &"x".repeat(2 << 20));
    write(&dir.path().join("small/file"), "x");
    for limits in
        [UploadLimits { files: 1, bytes: 1 << 30 }, UploadLimits { files: 10, bytes: 1 << 20 }]
    {
        let error = Upload::plan(dir.path(), UploadScope::All, limits).unwrap_err().to_string();
        assert!(error.contains("'big' (2 MiB, 1 files)") && error.contains("\nhint: "), "{error}");
    }
}

#[test]
fn an_upload_that_was_cut_is_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let pod = tempfile::tempdir().unwrap();
    write(&dir.path().join("a/b"), &"x".repeat(200_000));
    symlink("a", dir.path().join("link")).unwrap();
    let upload = Upload::plan(dir.path(), UploadScope::Unignored, UploadLimits::default()).unwrap();
    let mut stream = Vec::new();
    upload.send(&mut stream).unwrap();
    for cut in [20, 100_000, stream.len() - 1] {
        assert!(receive_upload(pod.path(), &stream[..cut]).is_err());
    }
    receive_upload(pod.path(), &stream[..]).unwrap();
    receive_upload(pod.path(), &stream[..]).unwrap();
    assert_eq!(fs::read_to_string(pod.path().join("a/b")).unwrap().len(), 200_000);
    assert_eq!(fs::read_dir(pod.path()).unwrap().count(), 2);
}

#[test]
fn a_hundred_thousand_files_are_copied_both_ways() {
    const COUNT: usize = 100_000;
    // In memory, if possible: a disk needs minutes for so many.
    let directory = || tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut pair = Pair { here: directory(), pod: directory(), base: Snapshot::default() };
    for directory in 0..100 {
        let directory = pair.here(&format!("d{directory}"));
        fs::create_dir(&directory).unwrap();
        for file in 0..COUNT / 100 {
            fs::write(directory.join(file.to_string()), "x").unwrap();
        }
    }
    pair.send(UploadScope::Unignored);
    assert_eq!(pair.base.len(), COUNT);
    let mut stored = Vec::new();
    pair.base.write(&mut stored).unwrap();
    assert_eq!(Snapshot::read(&stored[..]).unwrap(), pair.base);
    for directory in 0..100 {
        write(&pair.pod(&format!("d{directory}/0")), "y");
    }
    assert_eq!(pair.fetch().written, 100);
}
