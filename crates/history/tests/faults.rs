//! Turns, odd objects, and faults.
//!
//! Proves `spec/history.md#checkpoints`, `spec/history.md#what-is-covered` and `spec/history.md#store`.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use aifo_history::{
    Call, History, HistoryConfig, HistoryError, Selection, Store, UndoAction, UndoReport,
    UndoRequest,
};
use tempfile::TempDir;

struct Session {
    history: History,
    warnings: Receiver<String>,
    scratch: Rc<TempDir>,
}

impl Session {
    fn start(prepare: impl Fn(&Path)) -> Self {
        let scratch = Rc::new(tempfile::tempdir().unwrap());
        let root = scratch.path().join("work");
        fs::create_dir(&root).unwrap();
        prepare(&root);
        Session::in_workspace(scratch, "0123456789abcdef")
    }

    fn in_workspace(scratch: Rc<TempDir>, id: &str) -> Self {
        let root = scratch.path().join("work");
        let path = std::env::var_os("PATH").unwrap();
        let mut programs = std::env::split_paths(&path).map(|it| it.join("git"));
        let git = programs.find(|it| it.exists()).unwrap();
        let config = HistoryConfig {
            store: Store::new(git, path, scratch.path().join("store")),
            session: id.to_owned(),
            workspace: root,
            with_secrets: false,
        };
        let (sender, warnings) = channel();
        let history = History::start(config, move |line| {
            // The test may be over.
            let _ = sender.send(line.to_owned());
        });
        let session = Session { history: history.unwrap(), warnings, scratch };
        session.settle().unwrap();
        session
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join("work").join(name)
    }

    fn settle(&self) -> Result<(), HistoryError> {
        let (sender, receiver) = channel();
        self.history.query(move |answer| sender.send(answer).unwrap());
        receiver.recv().unwrap()
    }

    fn call(&self, id: &str, change: impl FnOnce()) {
        let call = Call { id: id.to_owned(), tool: "t".into(), argv: String::new(), exit: None };
        let (sender, receiver) = channel();
        if self.history.call_starts(call, move || sender.send(()).unwrap()) {
            receiver.recv().unwrap();
        }
        change();
        self.history.call_ended(id, 0);
        self.settle().unwrap();
    }

    fn undo(&self, selection: Selection) -> UndoReport {
        let (sender, receiver) = channel();
        let request = UndoRequest { selection, paths: Vec::new(), apply: true };
        self.history.undo(request, move |answer| sender.send(answer).unwrap());
        receiver.recv().unwrap().unwrap()
    }
}

fn kept(report: &UndoReport) -> Vec<&str> {
    let kept = report.lines.iter().filter(|line| line.action == UndoAction::Keep);
    kept.map(|line| line.path.as_str()).collect()
}

#[test]
fn a_turn_goes_back_with_the_agents_own_edits() {
    let session = Session::start(|root| fs::write(root.join("a"), "one").unwrap());
    session.history.turn_started();
    session.settle().unwrap();
    fs::write(session.path("a"), "two").unwrap();
    fs::write(session.path("by-nobody"), "x").unwrap();
    session.settle().unwrap();
    session.call("c", || fs::write(session.path("by-call"), "x").unwrap());
    session.history.turn_ended();
    session.settle().unwrap();
    fs::write(session.path("after"), "mine").unwrap();
    let report = session.undo(Selection::Turn);
    assert_eq!(fs::read_to_string(session.path("a")).unwrap(), "one");
    assert!(!session.path("by-call").exists());
    assert_eq!(kept(&report), ["by-nobody"], "no call created it");
    assert!(session.path("after").exists());
}

#[test]
fn a_write_through_another_hard_link_is_found_at_the_end_of_a_turn() {
    let session = Session::start(|root| fs::write(root.join("a"), "one").unwrap());
    let other = session.scratch.path().join("other");
    fs::hard_link(session.path("a"), &other).unwrap();
    session.settle().unwrap();
    session.history.turn_started();
    session.settle().unwrap();
    File::options().write(true).open(&other).unwrap().write_all_at(b"two", 0).unwrap();
    session.history.turn_ended();
    session.settle().unwrap();
    session.undo(Selection::Turn);
    assert_eq!(fs::read_to_string(session.path("a")).unwrap(), "one");
    assert_eq!(fs::read_to_string(&other).unwrap(), "two", "it is outside");
}

#[test]
fn two_sessions_of_a_workspace_undo_their_own_calls() {
    let first = Session::start(|root| {
        ["a", "b"].iter().for_each(|name| fs::write(root.join(name), "one").unwrap());
    });
    let second = Session::in_workspace(Rc::clone(&first.scratch), "fedcba9876543210");
    let read = |name: &str| fs::read_to_string(first.path(name)).unwrap();
    first.call("c", || fs::write(first.path("a"), "two").unwrap());
    second.call("c", || fs::write(first.path("b"), "two").unwrap());
    first.undo(Selection::Call("c".to_owned()));
    assert_eq!((read("a"), read("b")), ("one".to_owned(), "two".to_owned()));
    second.undo(Selection::Call("c".to_owned()));
    assert_eq!(read("b"), "one");
    first.history.close();
    second.history.close();
}

#[test]
fn a_large_file_goes_back_byte_for_byte() {
    let large = |seed: u8| (0..20 << 20).map(|at: u32| seed ^ (at >> 7) as u8).collect::<Vec<_>>();
    let session = Session::start(|root| fs::write(root.join("data"), large(1)).unwrap());
    session.call("changed", || fs::write(session.path("data"), large(2)).unwrap());
    session.call("gone", || fs::remove_file(session.path("data")).unwrap());
    session.undo(Selection::Call("gone".to_owned()));
    assert!(fs::read(session.path("data")).unwrap() == large(2));
    session.undo(Selection::Call("changed".to_owned()));
    assert!(fs::read(session.path("data")).unwrap() == large(1));
}

#[test]
fn odd_objects_are_named_and_never_taken_for_created() {
    let session = Session::start(|root| {
        nix::unistd::mkfifo(&root.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        UnixListener::bind(root.join("socket")).unwrap();
        File::create(root.join("sparse")).unwrap().set_len(10 << 30).unwrap();
        fs::create_dir_all(root.join("node_modules/x")).unwrap();
        fs::write(root.join("id_rsa"), "secret").unwrap();
    });
    let all = ["fifo", "id_rsa", "node_modules", "socket", "sparse"];
    session.call("c", || {
        fs::remove_dir_all(session.path("node_modules")).unwrap();
        for name in ["fifo", "id_rsa", "socket"] {
            fs::remove_file(session.path(name)).unwrap();
        }
        // Now small enough to be covered.
        fs::write(session.path("sparse"), "small").unwrap();
    });
    let report = session.undo(Selection::Call("c".to_owned()));
    assert_eq!(kept(&report), all);
    assert_eq!(fs::read_to_string(session.path("sparse")).unwrap(), "small");
}

#[test]
fn a_cache_is_left_out_by_its_mark_whenever_that_comes() {
    let session = Session::start(|_| {});
    session.call("c", || {
        fs::create_dir(session.path("cache")).unwrap();
        fs::write(session.path("cache/object"), "x").unwrap();
    });
    session.call("d", || {
        let tag = "Signature: 8a477f597d28d172789f06886806bc55\n";
        fs::write(session.path("cache/CACHEDIR.TAG"), tag).unwrap();
        fs::write(session.path("cache/more"), "x").unwrap();
    });
    let report = session.undo(Selection::Call("d".to_owned()));
    assert!(session.path("cache/more").exists(), "{report}");
    assert!(session.path("cache/object").exists(), "{report}");
}

#[test]
fn an_ignored_directory_that_grows_is_left_out() {
    let session = Session::start(|root| fs::write(root.join(".gitignore"), "/logs\n").unwrap());
    session.call("c", || {
        fs::create_dir(session.path("logs")).unwrap();
        for number in 0..2_100 {
            fs::write(session.path(&format!("logs/{number}")), "x").unwrap();
        }
    });
    let report = session.undo(Selection::Call("c".to_owned()));
    assert!(session.path("logs/7").exists(), "{report}");
}

#[test]
fn a_removed_store_ends_the_history_and_no_call() {
    let session = Session::start(|root| fs::write(root.join("a"), "one").unwrap());
    fs::remove_dir_all(session.scratch.path().join("store")).unwrap();
    fs::write(session.path("a"), "two").unwrap();
    let failed = session.settle();
    assert!(failed.is_err());
    let warning = session.warnings.recv().unwrap();
    assert!(warning.contains("cannot be undone"), "{warning}");
    let call = Call { id: "c".into(), tool: "t".into(), argv: String::new(), exit: None };
    let deadline = Instant::now() + Duration::from_secs(30);
    while session.history.call_starts(call.clone(), || {}) {
        assert!(Instant::now() < deadline, "no call waits for a history that has failed");
    }
    session.history.close();
}

#[test]
fn a_store_that_fails_at_the_end_does_not_keep_the_session() {
    let session = Session::start(|root| fs::write(root.join("a"), "one").unwrap());
    fs::remove_dir_all(session.scratch.path().join("store")).unwrap();
    fs::write(session.path("a"), "two").unwrap();
    session.history.close();
    assert!(session.warnings.recv().unwrap().contains("cannot be undone"));
}

#[test]
fn an_unreadable_file_is_named() {
    if nix::unistd::geteuid().is_root() {
        eprintln!("skipped: root reads every file");
        return;
    }
    let session = Session::start(|root| {
        let path = root.join("closed");
        File::create(&path).unwrap().write_all(b"x").unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o0)).unwrap();
    });
    session.call("c", || fs::remove_file(session.path("closed")).unwrap());
    assert_eq!(kept(&session.undo(Selection::Call("c".to_owned()))), ["closed"]);
}
