//! Sessions that outlive their terminal: `run --keep`, `attach`, `detach` (`spec/attach.md`).

mod ends;
mod screens;

use std::fs;
use std::io::{Read, Write};
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use aifo_tests::{
    Outcome, SessionSetup, Signal, Terminal, Tmux, can_run, eventually, is_alive, send_signal,
};

/// The detach keys.
const LEAVE: &str = "\x1c\x04";

/// Draws a screen with many modes, again whenever the size changes, and ends when `go` exists.
const DRAWS: &str = r"/bin/stty raw -echo
draw() { printf '\033[2J\033[Hdrawn for %s' $(/bin/stty size | /usr/bin/tr ' ' x); }
trap 'draw; echo >>drawn' WINCH
printf '\033[?1049h\033[?2004h\033[?1000h\033[>1u\033[?25l'
draw; : >began
while [ ! -e go ]; do /bin/sleep 0.02; done
printf '\033[?25h\033[<u\033[?1000l\033[?2004l\033[?1049l'; exit 7";

/// The modes of [`DRAWS`], undone.
const UNDONE: [&str; 5] = ["\x1b[?1000l", "\x1b[?2004l", "\x1b[<1u", "\x1b[?25h", "\x1b[?1049l"];

/// A setup whose held sessions end with it.
pub(crate) struct HeldSetup(SessionSetup);

pub(crate) fn held_setup() -> HeldSetup {
    HeldSetup(SessionSetup::new())
}

impl Deref for HeldSetup {
    type Target = SessionSetup;

    fn deref(&self) -> &SessionSetup {
        &self.0
    }
}

impl Drop for HeldSetup {
    fn drop(&mut self) {
        for pid in holder_pids(self).into_iter().filter(|pid| is_alive(*pid)) {
            send_signal(pid, Signal::SIGTERM);
            let started = std::time::Instant::now();
            while is_alive(pid) && started.elapsed() < aifo_tests::DEADLINE {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

/// `aifo-coder` of this setup.
pub(crate) fn coder(setup: &SessionSetup, args: &[&str]) -> Command {
    let mut coder = setup.coder();
    coder.env("TERM", "xterm-256color").args(args);
    coder
}

/// A held command on this machine.
pub(crate) fn kept(setup: &SessionSetup, how: &str, script: &str) -> Command {
    coder(setup, &["run", how, "--toolchain", "auto", "--", "/bin/bash", "-c", script])
}

pub(crate) fn sessions(setup: &SessionSetup) -> String {
    Outcome::of(&mut coder(setup, &["ps", "-v"])).exited(0).text()
}

/// The holders' directories.
pub(crate) fn holders(setup: &SessionSetup) -> Vec<PathBuf> {
    let entries = fs::read_dir(setup.runtime()).unwrap().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with("-held"))
        .collect()
}

/// Waits for a file in the workspace.
#[track_caller]
pub(crate) fn appears(setup: &SessionSetup, name: &str) {
    let path = setup.workspace().join(name);
    eventually(&format!("'{name}' exists"), || path.exists());
}

pub(crate) fn put(setup: &SessionSetup, name: &str) {
    fs::write(setup.workspace().join(name), "").unwrap();
}

#[track_caller]
fn undone(shown: &str) {
    for sequence in UNDONE {
        assert!(shown.contains(sequence), "{sequence:?} in {shown:?}");
    }
}

#[test]
fn a_detached_session_continues_and_is_drawn_again() {
    let setup = held_setup();
    let first = Terminal::sized(80, 24);
    let before = first.modes();
    let run = first.start(&kept(&setup, "--keep", DRAWS));
    first.expect("drawn for 24x80");
    appears(&setup, "began");
    assert!(sessions(&setup).contains("\n  1 client\n"));
    first.press(LEAVE);
    assert_eq!(run.finish(), Ok(0));
    undone(&first.shown());
    assert_eq!(first.modes(), before);
    assert!(first.shown().contains("return with: aifo-coder attach "), "{}", first.shown());
    eventually("the session is detached", || sessions(&setup).contains(" detached "));

    // The same size: the program draws again all the same.
    let same = Terminal::sized(80, 24);
    let attach = same.start(&coder(&setup, &["attach"]));
    same.expect("\x1b[?1049h").expect("drawn for 24x80");
    for mode in ["\x1b[?2004h", "\x1b[?1000h", "\x1b[>1u", "\x1b[?25l"] {
        same.expect(mode);
    }
    appears(&setup, "drawn");
    same.press(LEAVE);
    assert_eq!(attach.finish(), Ok(0));

    let other = Terminal::sized(100, 40);
    let attach = other.start(&coder(&setup, &["attach"]));
    other.expect("drawn for 40x100");
    put(&setup, "go");
    assert_eq!(attach.finish(), Ok(7), "{}", other.shown());
    eventually("nothing is left", || fs::read_dir(setup.runtime()).unwrap().count() == 0);
}

#[test]
fn chosen_keys_leave_the_session() {
    let setup = held_setup();
    let directory = setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("config.toml");
    fs::write(&file, "[attach]\ndetach_keys = \"ctrl-p,q\"\n").unwrap();
    let terminal = Terminal::sized(80, 24);
    let run = terminal.start(&kept(&setup, "--keep", DRAWS));
    terminal.expect("drawn for 24x80");
    appears(&setup, "began");
    terminal.press("\u{10}q");
    assert_eq!(run.finish(), Ok(0));
    terminal.expect("return with: aifo-coder attach ");
    fs::write(&file, "[attach]\ndetach_keys = \"q\"\n").unwrap();
    let outcome = Outcome::of(&mut coder(&setup, &["config", "show"]));
    let expected = "config.toml:2: invalid keys 'q': expected two keys such as 'ctrl-p,q'";
    assert!(!outcome.status.success() && outcome.stderr.contains(expected), "{}", outcome.stderr);
}

/// A shell in place of an agent; `attach` shows what scrolled away, and the lines of the end.
#[test]
fn the_lines_above_the_screen_are_shown_again() {
    let setup = held_setup();
    let first = Terminal::sized(80, 10);
    let script = "for i in {1..60}; do echo line $i.; done; read -r word; echo got $word";
    let run = first.start(&kept(&setup, "--keep", script));
    first.expect("line 60.");
    first.press(LEAVE);
    assert_eq!(run.finish(), Ok(0));
    let second = Terminal::sized(80, 10);
    let attach = second.start(&coder(&setup, &["attach"]));
    second.expect("line 1.").expect("line 30.").expect("line 60.");
    second.press("word\r");
    assert_eq!(attach.finish(), Ok(0));
    second.expect("got word");
}

#[test]
fn a_closed_terminal_detaches() {
    if !can_run("held::a_closed_terminal_detaches", &["/usr/bin/tmux", "-V"]) {
        return;
    }
    let setup = held_setup();
    let tmux = Tmux::start(&kept(&setup, "--keep", DRAWS));
    tmux.expect("drawn for 24x80");
    tmux.close();
    eventually("the session is detached", || sessions(&setup).contains(" detached "));
    let terminal = Terminal::sized(90, 30);
    let attach = terminal.start(&coder(&setup, &["attach"]));
    terminal.expect("drawn for 30x90");
    put(&setup, "go");
    assert_eq!(attach.finish(), Ok(7));
}

/// With `on_hangup` no flag is necessary.
#[test]
fn the_user_can_keep_every_session() {
    let setup = held_setup();
    let directory = setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("config.toml"), "[agent]\non_hangup = \"detach\"\n").unwrap();
    let terminal = Terminal::sized(80, 24);
    let run = terminal.start(&coder(&setup, &["run", "--toolchain", "auto", "--", "/bin/cat"]));
    eventually("the session is held", || sessions(&setup).contains("\n  1 client\n"));
    send_signal(run.pid(), Signal::SIGHUP);
    assert_eq!(run.finish(), Ok(0));
    eventually("the session is detached", || sessions(&setup).contains(" detached "));
    let other = Terminal::sized(80, 24);
    let attach = other.start(&coder(&setup, &["attach"]));
    eventually("it is attached", || sessions(&setup).contains("\n  1 client\n"));
    other.press("\x04");
    assert_eq!(attach.finish(), Ok(0));
}

#[test]
fn a_killed_client_leaves_the_terminal_as_it_was() {
    let setup = held_setup();
    let terminal = Terminal::sized(80, 24);
    let before = terminal.modes();
    let run = terminal.start(&kept(&setup, "--keep", DRAWS));
    terminal.expect("drawn for 24x80");
    eventually("the terminal is raw", || terminal.modes() != before);
    send_signal(run.pid(), Signal::SIGKILL);
    assert_eq!(run.finish(), Err(9));
    eventually("the modes are restored", || terminal.modes() == before);
    terminal.expect("\x1b[?1049l");
    undone(&terminal.shown());
    eventually("the session is detached", || sessions(&setup).contains(" detached "));
    let attach = terminal.start(&coder(&setup, &["attach"]));
    eventually("it is attached", || sessions(&setup).contains("\n  1 client\n"));
    put(&setup, "go");
    assert_eq!(attach.finish(), Ok(7));
}

#[test]
fn detach_disconnects_every_terminal() {
    let setup = held_setup();
    let (one, two) = (Terminal::sized(80, 24), Terminal::sized(100, 40));
    let first = one.start(&kept(&setup, "--keep", DRAWS));
    one.expect("drawn for 24x80");
    let second = two.start(&coder(&setup, &["attach"]));
    two.expect("drawn for 40x100");
    assert!(sessions(&setup).contains("\n  2 clients\n"));
    // Both get all output; the size is that of the terminal that was used last.
    one.expect("drawn for 40x100");
    // A report of the other terminal is no use of it, and passes for none of its keys.
    one.press("\x1b[?62;22c\x1b[24;80R\x1b[I");
    one.press("x");
    eventually("the size follows the keys", || {
        two.shown().rsplit("drawn for ").next().is_some_and(|last| last.starts_with("24x80"))
    });
    let outcome = Outcome::of(&mut coder(&setup, &["detach"]));
    assert!(
        outcome.exited(0).stderr.clone().contains("continues; return with: aifo-coder attach ")
    );
    assert_eq!((first.finish(), second.finish()), (Ok(0), Ok(0)));
    assert!(one.shown().contains("was detached"));
    undone(&two.shown());
    put(&setup, "go");
}

#[test]
fn a_client_that_reads_nothing_does_not_block_the_command() {
    let setup = held_setup();
    let script = "while [ ! -e go ]; do /bin/sleep 0.02; done
        /usr/bin/head -c 3000000 /dev/zero | /usr/bin/tr '\\0' x; : >done; read -r";
    let outcome = Outcome::of(&mut kept(&setup, "--detach", script));
    assert_eq!(outcome.exited(0).text().trim_end().len(), 16);
    let directory = &holders(&setup)[0];
    let mut stalled = UnixStream::connect(directory.join("socket")).unwrap();
    stalled.write_all(&[1, 0, 0, 0, 10, 1, 0, 0, 24, 0, 80, 0, 0, 0, 0]).unwrap();
    eventually("it is attached", || sessions(&setup).contains("\n  1 client\n"));
    put(&setup, "go");
    appears(&setup, "done");
    // Later it gets less than the output, and the screen.
    stalled.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    let mut received = Vec::new();
    let _ = stalled.read_to_end(&mut received);
    assert!(received.len() < 2_500_000, "{}", received.len());
    assert!(received.windows(8).any(|window| window == b"\x1b[?6l\x1b[r"), "the screen");
}

#[test]
fn other_bytes_end_a_connection_only() {
    let setup = held_setup();
    Outcome::of(&mut kept(&setup, "--detach", DRAWS)).exited(0);
    let socket = holders(&setup)[0].join("socket");
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[2, 0, 0, 0, 1, 4], &[9, 255, 255, 255, 255]] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // A reset, if bytes were left.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"");
    }
    assert!(sessions(&setup).contains(" detached "));
    put(&setup, "go");
}

/// The holder answers for a terminal while there is none.
#[test]
fn a_command_without_a_client_gets_answers() {
    let setup = held_setup();
    let script = r"/bin/stty raw -echo; printf 'ab\033[6n\033[c'
        IFS= read -r -d c answer; printf %sc ${answer//$'\033'/E} >answer; /bin/sleep 1000";
    Outcome::of(&mut kept(&setup, "--detach", script)).exited(0);
    let answer = setup.workspace().join("answer");
    eventually("the command has an answer", || {
        fs::read_to_string(&answer).is_ok_and(|text| text == "E[1;3RE[?62;22c")
    });
    let pid = holder(&setup);
    send_signal(pid, Signal::SIGTERM);
    eventually("the holder has ended", || !is_alive(pid));
}

/// The pid of the only holder.
pub(crate) fn holder(setup: &SessionSetup) -> i32 {
    holder_pids(setup)[0]
}

fn holder_pids(setup: &SessionSetup) -> Vec<i32> {
    let records = holders(setup).into_iter().filter_map(|held| {
        let text = fs::read_to_string(held.join("held.json")).ok()?;
        let record: serde_json::Value = serde_json::from_str(&text).ok()?;
        i32::try_from(record["pid"].as_i64()?).ok()
    });
    records.collect()
}

#[test]
fn ctrl_z_stops_the_client_as_a_job_of_its_shell() {
    if !can_run("held::ctrl_z_stops_the_client_as_a_job_of_its_shell", &["/usr/bin/tmux", "-V"]) {
        return;
    }
    let setup = held_setup();
    let run = kept(&setup, "--keep", "echo started; read -r word; echo got $word");
    let line = format!(
        "'{}' run --keep --toolchain auto -- /bin/bash -c \"$SCRIPT\"",
        run.get_program().display()
    );
    let mut shell = coder(&setup, &[]);
    let variables: Vec<_> = shell
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    shell = Command::new("/bin/bash");
    shell.args(["--norc", "--noprofile"]).env_clear().envs(variables).env("PS1", "$ ");
    shell.env("SCRIPT", "echo started; read -r word; echo got $word");
    let tmux = Tmux::start(shell.current_dir(setup.workspace()));
    tmux.prompt("$").line(&line).expect("started");
    tmux.press(&["C-z"]).expect("Stopped").prompt("$");
    tmux.line("echo $((6 * 7)) lines").expect("42 lines");
    tmux.line("fg").until("the screen again", |screen| !screen.contains("42 lines"));
    tmux.expect("started").line("word").expect("got word").prompt("$");
}

#[test]
fn a_session_without_a_holder_is_not_attached_to() {
    let setup = held_setup();
    let terminal = Terminal::sized(80, 24);
    let run = terminal.start(&coder(&setup, &["run", "--toolchain", "auto", "--", "/bin/cat"]));
    eventually("it runs", || sessions(&setup).contains(", local\n"));
    assert!(holders(&setup).is_empty() && !sessions(&setup).contains("attached"));
    let outcome = Outcome::of(&mut coder(&setup, &["detach"]));
    let text = outcome.exited(1).stderr.clone();
    assert!(text.contains("has no holder") && text.contains("run --keep"), "{text}");
    let mut keep = coder(&setup, &["run", "--keep", "--", "/bin/cat"]);
    let text = Outcome::of(&mut keep).exited(2).stderr.clone();
    assert!(text.contains("stdin and stdout are no terminal"), "{text}");
    // The default: it ends with its terminal.
    send_signal(run.pid(), Signal::SIGHUP);
    assert_eq!(run.finish(), Ok(129));
}
