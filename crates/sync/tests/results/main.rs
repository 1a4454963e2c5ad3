//! The result branch of a pod repository (`spec/kubernetes.md#the-result-branch`), with real repositories.

mod hostile;
mod push;

use std::fs;
use std::io::BufReader;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aifo_sync::{
    Git, ObjectId, PushState, ReceivedResult, ResultRequest, SyncError, receive_bundle,
    receive_result, references_digest, send_result, session_start,
};
use tempfile::TempDir;

const SESSION: &str = "00000000000000aa";
const BRANCH: &str = "aifo/00000000000000aa";

fn git() -> Git {
    Git::new("git", std::env::var_os("PATH").unwrap())
}

/// Runs git as a user or an agent does, and returns its output.
#[track_caller]
fn run(at: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_"))
    {
        git.env_remove(name);
    }
    git.args(["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"]);
    git.args(words).current_dir(at).stdin(Stdio::null());
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "agent"),
        ("GIT_AUTHOR_EMAIL", "agent@example"),
        ("GIT_COMMITTER_NAME", "agent"),
        ("GIT_COMMITTER_EMAIL", "agent@example"),
    ] {
        git.env(name, value);
    }
    let output = git.output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A remote repository with three commits, a user's clone of it, and the pod's.
struct Case {
    dir: TempDir,
    start: Vec<ObjectId>,
    commits_files: bool,
}

impl Case {
    fn new() -> Self {
        Case::cloned(&[])
    }

    fn cloned(flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        run(at, &["init", "--quiet", "origin"]);
        for text in ["one", "two", "three"] {
            fs::write(at.join("origin/file"), text).unwrap();
            run(&at.join("origin"), &["add", "."]);
            run(&at.join("origin"), &["commit", "--quiet", "-m", text]);
        }
        run(at, &["clone", "--quiet", "origin", "user"]);
        let url = format!("file://{}", at.join("origin").display());
        run(at, &[&["clone", "--quiet"], flags, &[&url, "pod"]].concat());
        run(&at.join("pod"), &["switch", "--quiet", "--create", BRANCH]);
        let start = session_start(&at.join("pod"));
        assert!(!start.is_empty());
        Case { dir, start, commits_files: true }
    }

    /// A workspace without a remote.
    fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("pod")).unwrap();
        Case { dir, start: Vec::new(), commits_files: true }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn pod(&self) -> PathBuf {
        self.path("pod")
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let file = self.pod().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Commits the pod file.
    fn commit(&self, name: &str) -> String {
        self.write(name, name);
        run(&self.pod(), &["add", "--all"]);
        run(&self.pod(), &["commit", "--quiet", "-m", name]);
        run(&self.pod(), &["rev-parse", "HEAD"])
    }

    fn send_with(&self, git: &Git) -> Result<Vec<u8>, SyncError> {
        let mut bytes = Vec::new();
        let request = ResultRequest {
            git,
            workspace: &self.pod(),
            scratch: self.dir.path(),
            session: SESSION,
            start: &self.start,
            commits_files: self.commits_files,
            push: PushState::None,
        };
        send_result(&request, &mut bytes).map(|()| bytes)
    }

    #[track_caller]
    fn sent(&self) -> Vec<u8> {
        self.send_with(&git().in_pod()).unwrap()
    }

    fn repository(&self) -> PathBuf {
        self.path("results/session.git")
    }

    fn receive(&self, bytes: &[u8]) -> Result<ReceivedResult, SyncError> {
        receive_result(&git(), &self.repository(), SESSION, BufReader::new(bytes))
    }

    #[track_caller]
    fn fetch(&self) -> ReceivedResult {
        self.receive(&self.sent()).unwrap()
    }

    /// Fetches the branch as the user does, and returns its commits' subjects.
    #[track_caller]
    fn in_the_users_clone(&self) -> Vec<String> {
        let from = self.repository();
        let name = format!("{BRANCH}:{BRANCH}");
        run(&self.path("user"), &["fetch", "--quiet", from.to_str().unwrap(), &name]);
        run(&self.path("user"), &["fsck", "--strict"]);
        let log = run(&self.path("user"), &["log", "--format=%s", BRANCH]);
        log.lines().map(str::to_owned).collect()
    }

    fn of_result(&self, words: &[&str]) -> String {
        let repository = self.repository();
        run(self.dir.path(), &[&["--git-dir", repository.to_str().unwrap()], words].concat())
    }
}

#[test]
fn commits_and_uncommitted_files_are_a_branch() {
    let case = Case::new();
    case.write(".gitignore", "target\n");
    let tip = case.commit("agent");
    case.write("file", "four");
    case.write("new dir/\"odd\"\n\u{e4}", "new");
    case.write("target/x", "ignored");
    symlink("file", case.pod().join("link")).unwrap();
    let result = case.fetch();
    let [branch] = result.branches.as_slice() else { panic!("{result:?}") };
    assert_eq!((branch.name.as_str(), branch.commits), (BRANCH, Some(2)));
    assert!(branch.has_uncommitted && result.notes.is_empty(), "{result:?}");
    let log = case.in_the_users_clone();
    let uncommitted = format!("Uncommitted files of session {SESSION}");
    assert_eq!(log, [&uncommitted, "agent", "three", "two", "one"]);
    let user = case.path("user");
    assert_eq!(run(&user, &["show", &format!("{BRANCH}:file")]), "four");
    assert_eq!(run(&user, &["rev-parse", &format!("{BRANCH}~1")]), tip);
    let listed = run(&user, &["ls-tree", "-r", "-z", "--name-only", BRANCH]);
    let names: Vec<_> = listed.split_terminator('\0').collect();
    assert_eq!(names, [".gitignore", "agent", "file", "link", "new dir/\"odd\"\n\u{e4}"]);
    let link = run(&user, &["ls-tree", BRANCH, "link"]);
    assert!(link.starts_with("120000 "), "{link}");
    // The same files give the same commit.
    assert_eq!(case.fetch().branches, result.branches);
    // A commit of all files leaves nothing uncommitted.
    run(&case.pod(), &["add", "--all"]);
    run(&case.pod(), &["commit", "--quiet", "-m", "all"]);
    let result = case.fetch();
    assert!(!result.branches[0].has_uncommitted && result.branches[0].commits == Some(2));
}

#[test]
fn without_commits_there_is_no_branch() {
    let case = Case::new();
    let result = case.fetch();
    assert_eq!(result, ReceivedResult::default());
    assert!(!case.repository().exists());
    // Files of an upload come back by another way.
    let case = Case { commits_files: false, ..Case::new() };
    case.write("file", "four");
    assert_eq!(case.fetch(), ReceivedResult::default());
    assert_eq!(Case::empty().fetch().branches, []);
}

#[test]
fn an_upload_has_its_commits_and_its_own_branch_name() {
    let case = Case { commits_files: false, ..Case::new() };
    run(&case.pod(), &["switch", "--quiet", "main"]);
    run(&case.pod(), &["branch", "--quiet", "-D", BRANCH]);
    case.commit("agent");
    case.write("file", "uncommitted");
    let result = case.fetch();
    assert_eq!((result.branches.len(), result.branches[0].commits), (1, Some(1)));
    assert_eq!(case.in_the_users_clone(), ["agent", "three", "two", "one"]);
}

#[test]
fn other_branches_and_the_stash_are_not_lost() {
    let case = Case::new();
    case.commit("on the session's branch");
    run(&case.pod(), &["switch", "--quiet", "--create", "feature/x", "main"]);
    case.commit("feature");
    run(&case.pod(), &["switch", "--quiet", "--detach", "main"]);
    case.commit("detached");
    case.write("file", "stashed");
    run(&case.pod(), &["stash", "--quiet"]);
    // No new commit.
    run(&case.pod(), &["branch", "same", "main"]);
    let result = case.fetch();
    let names: Vec<_> = result.branches.iter().map(|it| it.name_in_pod.as_str()).collect();
    assert_eq!(names, [BRANCH, BRANCH, "feature/x", "stash"]);
    let names: Vec<_> = result.branches.iter().map(|it| it.name.clone()).collect();
    let numbered = |index: usize| format!("{BRANCH}.{index}");
    assert_eq!(names, [BRANCH.to_owned(), numbered(1), numbered(2), numbered(3)]);
    let subject = |name: &str| case.of_result(&["log", "-1", "--format=%s", name]);
    assert_eq!(subject(BRANCH), "detached");
    assert_eq!(subject(&numbered(1)), "on the session's branch");
    assert_eq!(subject(&numbered(2)), "feature");
    assert_eq!(case.of_result(&["show", &format!("{}:file", numbered(3))]), "stashed");
    assert_eq!(case.of_result(&["for-each-ref", "--format=x"]).lines().count(), 4);
}

#[test]
fn the_digest_of_references_changes_with_a_commit_or_a_branch() {
    let case = Case::new();
    let digest = || references_digest(&case.pod()).unwrap().unwrap();
    let mut seen = vec![digest()];
    case.write("file", "not committed");
    assert_eq!(digest(), seen[0]);
    case.commit("one");
    seen.push(digest());
    run(&case.pod(), &["branch", "other"]);
    seen.push(digest());
    run(&case.pod(), &["switch", "--quiet", "--detach", "HEAD~1"]);
    seen.push(digest());
    let before = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), before);
    let all = digest();
    run(&case.pod(), &["pack-refs", "--all"]);
    assert_eq!(digest(), all, "the same references in another form");
    assert_eq!(references_digest(Case::empty().dir.path()).unwrap(), None);
}

#[test]
fn a_rebased_branch_replaces_the_last_result() {
    let case = Case::new();
    case.commit("first");
    case.fetch();
    run(&case.pod(), &["reset", "--quiet", "--hard", "main"]);
    let tip = case.commit("rewritten");
    run(&case.pod(), &["pack-refs", "--all"]);
    run(&case.pod(), &["gc", "--quiet"]);
    assert_eq!(case.fetch().branches[0].tip.as_str(), tip);
    assert_eq!(case.in_the_users_clone(), ["rewritten", "three", "two", "one"]);
    // Also one that drops commits of the start.
    run(&case.pod(), &["reset", "--quiet", "--hard", "main~1"]);
    case.commit("from an older one");
    case.fetch();
    assert_eq!(case.of_result(&["log", "--format=%s", BRANCH]), "from an older one\ntwo");
}

#[test]
fn a_shallow_clone_has_a_result() {
    let case = Case::cloned(&["--depth", "1"]);
    case.commit("agent");
    let result = case.fetch();
    assert_eq!(result.branches[0].commits, Some(1));
    assert_eq!(case.in_the_users_clone(), ["agent", "three", "two", "one"]);
}

#[test]
fn a_repository_without_history_gives_its_files() {
    // The agent deleted the repository.
    let case = Case::new();
    case.write("file", "four");
    fs::remove_dir_all(case.pod().join(".git")).unwrap();
    let result = case.fetch();
    assert!(result.notes[0].contains("no directory '.git'"), "{result:?}");
    assert_eq!(case.of_result(&["show", &format!("{BRANCH}:file")]), "four");
    assert_eq!(case.of_result(&["rev-list", "--count", BRANCH]), "1");
    // A new repository without a commit.
    let case = Case::empty();
    run(&case.pod(), &["init", "--quiet"]);
    assert_eq!(case.fetch().branches, [], "it has no files");
    case.write("first", "text");
    let result = case.fetch();
    assert!(result.notes[0].contains("has no commit"), "{result:?}");
    assert_eq!(case.of_result(&["show", &format!("{BRANCH}:first")]), "text");
    // One with commits, whose start had none.
    case.commit("second");
    let result = case.fetch();
    assert_eq!((result.branches[0].commits, result.notes.len()), (Some(1), 0));
}

#[test]
fn damaged_history_leaves_the_files() {
    let case = Case::new();
    case.commit("one of two");
    let lost = run(&case.pod(), &["rev-parse", "HEAD"]);
    case.commit("two of two");
    fs::remove_file(case.pod().join(format!(".git/objects/{}/{}", &lost[..2], &lost[2..])))
        .unwrap();
    let result = case.fetch();
    assert!(result.notes.iter().any(|note| note.contains("HEAD cannot be read")), "{result:?}");
    assert_eq!(case.of_result(&["show", &format!("{BRANCH}:two of two")]), "two of two");
    let case = Case::new();
    fs::write(case.pod().join(".git/HEAD"), "ref: refs/heads/.invalid").unwrap();
    fs::create_dir(case.pod().join(".git/reftable")).unwrap();
    let error = case.send_with(&git()).unwrap_err();
    assert!(matches!(error, SyncError::Reftable), "{error}");
}

#[test]
fn repositories_with_sha256_have_a_result() {
    let case = Case::empty();
    run(&case.pod(), &["init", "--quiet", "--object-format=sha256"]);
    case.commit("first");
    let case = Case { start: session_start(&case.pod()), ..case };
    let tip = case.commit("second");
    assert_eq!(tip.len(), 64);
    assert_eq!(case.fetch().branches[0].tip.as_str(), tip);
}

#[test]
fn submodules_large_files_and_pointers_are_reported() {
    let case = Case::new();
    let origin = case.path("origin");
    run(&case.pod(), &["submodule", "--quiet", "add", origin.to_str().unwrap(), "sub"]);
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    case.write("movie", pointer);
    case.commit("with a submodule");
    case.write("file", "four");
    case.write("sub/file", "changed in the submodule");
    fs::File::create(case.pod().join("large")).unwrap().set_len((100 << 20) + 1).unwrap();
    nix::unistd::mkfifo(&case.pod().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let result = case.fetch();
    let notes = result.notes.join("\n");
    for part in [
        "not committed: 'fifo (is a device, FIFO or socket)', 'large (has more than 100 MiB)'",
        "only the reference is in the result: 'sub'",
        "pointers of Git LFS, whose contents are not in the result: 'movie'",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    let entry = case.of_result(&["ls-tree", BRANCH, "sub"]);
    assert!(entry.starts_with("160000 commit "), "{entry}");
    assert_eq!(case.of_result(&["show", &format!("{BRANCH}:movie")]), pointer.trim_end());
    assert_eq!(case.of_result(&["diff", "--name-only", &format!("{BRANCH}~1"), BRANCH]), "file");
}

#[test]
fn without_git_the_result_is_a_bundle() {
    let case = Case::new();
    case.commit("agent");
    let missing = Git::new("/nonexistent/git", "/usr/bin");
    assert!(matches!(case.send_with(&missing), Err(SyncError::NoGit)));
    let bytes = case.sent();
    let received =
        receive_result(&missing, &case.repository(), SESSION, BufReader::new(&bytes[..]));
    assert!(matches!(received, Err(SyncError::NoGit)));
    let file = case.path("results/session.bundle");
    let result = receive_bundle(&file, SESSION, BufReader::new(&bytes[..])).unwrap();
    assert_eq!(result.branches[0].name, BRANCH);
    let name = format!("{BRANCH}:{BRANCH}");
    run(&case.path("user"), &["fetch", "--quiet", file.to_str().unwrap(), &name]);
    assert_eq!(run(&case.path("user"), &["log", "-1", "--format=%s", BRANCH]), "agent");
    receive_bundle(&file, SESSION, BufReader::new(&bytes[..bytes.len() - 1])).unwrap_err();
    assert_eq!(
        run(&case.path("user"), &["bundle", "list-heads", file.to_str().unwrap()]).lines().count(),
        1
    );
}
