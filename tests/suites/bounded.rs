//! The launcher's memory and files are bounded (`spec/toolexec.md#memory`).

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use aifo_tests::{Connection, Invocation, Outcome, Session, SessionSetup, eventually, status_kib};
use nix::libc::O_NONBLOCK;

/// The most memory of its own that the launcher may ever have used: of its 64 MiB, 16 are for the pages of
/// the program.
const MAX_KIB: u64 = 48 * 1024;
const MIB: usize = 1 << 20;

#[track_caller]
fn check_peak(session: &Session) {
    let [peak, files] = ["VmHWM", "RssFile"].map(|field| status_kib(session.pid(), field));
    let peak = peak.saturating_sub(files);
    assert!(peak < MAX_KIB, "the launcher has used {peak} KiB, more than {MAX_KIB}");
}

#[track_caller]
fn check_serves(session: &Session) {
    let answer = session.answer(&session.exec("make", ["say", "through"]));
    assert_eq!(answer.text(), "through\n");
}

/// Sends bytes on connections of their own, at the same time, as far as the proxy takes them.
fn send_at_once(session: &Session, count: usize, bytes: &[u8]) -> Vec<Connection> {
    thread::scope(|scope| {
        let send = || {
            let mut connection = session.connect();
            // A refused connection is closed.
            let _ = connection.try_send(bytes);
            connection
        };
        let senders: Vec<_> = (0..count).map(|_| scope.spawn(send)).collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    })
}

#[test]
fn half_read_requests_do_not_fill_the_launcher() {
    let session = Session::start();
    let large = "x".repeat(4 * MIB - 1000);
    let request = Invocation::new(&session, "make", [large]).request(&session).encode();
    let open = send_at_once(&session, 256, &request[..request.len() - 1]);
    check_serves(&session);
    check_peak(&session);
    drop(open);
    check_serves(&session);
}

#[test]
fn requests_of_many_small_arguments_do_not_fill_the_launcher() {
    let session = Session::start();
    // As many as fit into a form.
    let form = format!("tool=make{}", "&arg=".repeat(MIB / 5 - 10));
    let request = session.post("/exec").proto("1").body(form).encode();
    for connection in send_at_once(&session, 40, &request) {
        let status = connection.answer().status();
        assert!([200, 408, 500, 503].contains(&status), "{status}");
    }
    // These would need several times the limit.
    let request = Invocation::new(&session, "make", vec![""; MIB - 1000]).request(&session);
    let answer = session.answer(&request);
    assert_eq!(answer.status_line, "HTTP/1.1 503 Service Unavailable");
    assert_eq!(answer.exit_code(), Some("86"));
    assert_eq!(answer.text(), "the waiting requests need more memory than the limit of 24 MiB\n");
    check_peak(&session);
    check_serves(&session);
}

/// A `make` that writes 1,000,000 bytes and a file, and then waits for a writer of the FIFO.
fn writes_and_waits(setup: SessionSetup) -> (Session, PathBuf) {
    let fifo = setup.scratch().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let body = format!(
        "/usr/bin/head -c 1000000 /dev/zero; : > written.$$; read -r line < '{}'; : > ended.$$",
        fifo.display()
    );
    (setup.script("make", &body).start(), fifo)
}

/// Ends the reads of a FIFO. A tool may open it later: the caller repeats it.
fn release(fifo: &Path) {
    // Fails without a reader.
    drop(OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(fifo));
}

fn count_of(directory: &Path, prefix: &str) -> usize {
    let names = fs::read_dir(directory).unwrap().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with(prefix)).count()
}

#[test]
fn buffered_answers_do_not_fill_the_launcher() {
    const COUNT: usize = 300;
    let (session, fifo) = writes_and_waits(SessionSetup::new());
    let call = session.exec("make", [""; 0]).proto("1");
    let calls: Vec<Connection> = (0..COUNT).map(|_| session.send(&call)).collect();
    eventually("every tool has written", || count_of(&session.workspace(), "written.") == COUNT);
    check_peak(&session);
    // Every reader gets the end of the file. The clients do not read yet.
    eventually("every tool has ended", || {
        release(&fifo);
        count_of(&session.workspace(), "ended.") == COUNT
    });
    for mut call in calls {
        call.set_deadline(Duration::from_secs(60));
        let answer = call.answer();
        assert_eq!((answer.status(), answer.body.len()), (200, 1_000_000));
    }
    check_peak(&session);
}

#[test]
fn unread_answers_do_not_fill_the_launcher() {
    let session = Session::start();
    let unread = session.unread_calls(300);
    check_serves(&session);
    check_peak(&session);
    drop(unread);
}

/// Some 1.8 MiB with the kernel's pointers, of the 2 MiB that it accepts.
#[test]
fn the_largest_argument_list_fits() {
    let session = Session::start();
    let args = vec!["123456789"; 100_000];
    let expected = args.join(" ") + "\n";
    let outcome = Outcome::of(session.shim("make").arg("say").args(&args));
    assert!(outcome.exited(0).text() == expected, "the arguments differ");
    check_peak(&session);
}

#[test]
fn refused_calls_do_not_fill_the_log() {
    let session = Session::start();
    let directory = format!("/{}", "\x01".repeat(4 * MIB - 1000));
    let call = Invocation::new(&session, "make", ["say"]).directory(Path::new(&directory));
    let request = call.request(&session);
    for _ in 0..20 {
        assert_eq!(session.answer(&request).status(), 400);
    }
    let directory = session.scratch().join("home/.local/state/aifo/log");
    let files = || fs::read_dir(&directory).unwrap().flatten();
    let lines = || -> usize {
        files().map(|file| fs::read_to_string(file.path()).unwrap().lines().count()).sum()
    };
    eventually("every call is logged", || lines() == 20);
    let len: u64 = files().map(|file| file.metadata().unwrap().len()).sum();
    assert!(len < 20 * 64 * 1024, "20 refusals wrote {len} bytes");
    check_peak(&session);
}
