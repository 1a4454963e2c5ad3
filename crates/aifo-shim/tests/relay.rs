//! The shim as a version 3 client, against a scripted proxy.

mod proxy;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio as Standard};

use aifo_process::{Pty, terminal};
use aifo_types::{Ending, Stdio, TerminalModes, WindowSize};
use aifo_wire::{CallNote, CancelCause, Exit, Frame, ResourceUsage, Stream, WINDOW};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use proxy::{ClientSession, Proxy, eventually};

/// A shim with three pipes.
fn with_pipes(proxy: &Proxy) -> Command {
    let mut shim = proxy.shim(&["a", "b c", ""]);
    shim.stdin(Standard::piped()).stdout(Standard::piped()).stderr(Standard::piped());
    shim
}

const RELAYED: [Stdio; 3] = [Stdio::Relayed; 3];

#[test]
fn the_invocation_carries_what_the_tool_inherits() {
    let proxy = Proxy::new();
    let child = with_pipes(&proxy).env("CI", "1").env("SOME_TOKEN", "x").spawn().unwrap();
    let mut call = proxy.accept();
    assert_eq!(call.protocol, "3");
    let request = call.request();
    assert_eq!(request.argv().collect::<Vec<_>>(), [&b"make"[..], b"a", b"b c", b""]);
    let inherited = request.inherited;
    assert_eq!((inherited.stdio, call.fds.len()), ([Stdio::Passed; 3], 3));
    assert!(inherited.environment.contains(&b"CI=1".to_vec()));
    let secret =
        |variable: &Vec<u8>| variable.starts_with(b"SOME_") || variable.starts_with(b"AIFO_");
    assert!(!inherited.environment.iter().any(secret), "{:?}", inherited.environment);
    assert_eq!(inherited.limits.len(), 16);

    call.start([Stdio::Passed; 3]);
    let mut stdout = File::from(call.fds.remove(1));
    stdout.write_all(b"by the pipe itself").unwrap();
    drop(stdout);
    call.end(Ending::Exited(7));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (&b"by the pipe itself"[..], &b""[..])
    );
}

#[test]
fn closed_and_shared_descriptors_are_declared() {
    let proxy = Proxy::new();
    let shim = proxy.shim(&[]);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "exec \"$0\" <&- 2>&1"]).arg(shim.get_program());
    shell.envs(shim.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let child = shell.stdout(Standard::piped()).spawn().unwrap();
    let mut call = proxy.accept();
    let stdio = [Stdio::Closed, Stdio::Passed, Stdio::Same];
    assert_eq!((call.request().inherited.stdio, call.fds.len()), (stdio, 1));
    call.start(stdio);
    call.end(Ending::Exited(0));
    assert!(child.wait_with_output().unwrap().status.success());
}

#[test]
fn a_426_is_followed_by_a_version_2_call() {
    let proxy = Proxy::new();
    let child = with_pipes(&proxy).spawn().unwrap();
    let mut first = proxy.accept();
    first.fds.clear();
    first.send_text("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 4\r\n\r\nold\n");
    let mut second = proxy.accept();
    assert_eq!((second.protocol.as_str(), second.fds.len()), ("2", 0));
    second.send_text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    second.send_text("3\r\nout\r\n0\r\nX-Exit-Code: 5\r\n\r\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(5), &b"out"[..]));
    assert_eq!(output.stderr, b"", "the fallback prints nothing");
}

#[test]
fn a_refusal_is_printed_and_exits_86() {
    let proxy = Proxy::new();
    let child = with_pipes(&proxy).spawn().unwrap();
    let head = "HTTP/1.1 403 Forbidden\r\nX-Exit-Code: 86\r\nContent-Length: 9\r\n\r\n";
    proxy.accept().send_text(&format!("{head}not here\n"));
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(86), &b"aifo-shim: not here\n"[..])
    );
}

#[test]
fn relayed_stdout_and_stderr_are_separate_and_return_credit() {
    let proxy = Proxy::new();
    let mut shim = with_pipes(&proxy);
    let child = shim.env("AIFO_SHIM_RELAY", "1").stdin(Standard::null()).spawn().unwrap();
    let mut call = proxy.accept();
    let stdio = [Stdio::Null, Stdio::Relayed, Stdio::Relayed];
    assert_eq!((call.request().inherited.stdio, call.fds.len()), (stdio, 0));
    call.start(stdio);
    let reader = std::thread::spawn(move || child.wait_with_output().unwrap());
    let half = vec![b'o'; WINDOW / 2];
    call.send(&Frame::Data { stream: Stream::Stdout, data: &half });
    call.send(&Frame::Data { stream: Stream::Stderr, data: b"err" });
    call.expect(&Frame::Credit { stream: Stream::Stdout, bytes: (WINDOW / 2) as u32 });
    call.send(&Frame::Data { stream: Stream::Stdout, data: &half });
    call.end(Ending::Exited(0));
    let output = reader.join().unwrap();
    assert!(output.status.success());
    assert_eq!((output.stdout.len(), output.stderr.as_slice()), (WINDOW, &b"err"[..]));
}

#[test]
fn a_closed_reader_closes_the_tools_stdout() {
    let proxy = Proxy::new();
    let mut child = with_pipes(&proxy).env("AIFO_SHIM_RELAY", "1").spawn().unwrap();
    let mut call = proxy.accept();
    call.start(RELAYED);
    drop(child.stdout.take());
    call.expect(&Frame::Closed { stream: Stream::Stdout });
    // Further output is discarded, and its credit returned.
    let half = vec![b'o'; WINDOW / 2];
    call.send(&Frame::Data { stream: Stream::Stdout, data: &half });
    call.expect(&Frame::Credit { stream: Stream::Stdout, bytes: (WINDOW / 2) as u32 });
    call.end(Ending::Exited(0));
    assert_eq!(child.wait().unwrap().signal(), Some(libc_number(Signal::SIGPIPE)), "not 0");
}

#[test]
fn a_failed_write_of_output_exits_125() {
    let proxy = Proxy::new();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let child = with_pipes(&proxy).stdout(full).spawn().unwrap();
    let mut call = proxy.accept();
    let stdio = [Stdio::Passed, Stdio::Relayed, Stdio::Passed];
    assert_eq!(call.request().inherited.stdio, stdio);
    call.start(stdio);
    call.send(&Frame::Data { stream: Stream::Stdout, data: b"x" });
    call.expect(&Frame::Closed { stream: Stream::Stdout });
    call.end(Ending::Exited(0));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stderr.starts_with(b"aifo-shim: cannot write to stdout: "));
}

#[test]
fn relayed_stdin_is_limited_by_credit() {
    let proxy = Proxy::new();
    let mut child = with_pipes(&proxy).env("AIFO_SHIM_RELAY", "1").spawn().unwrap();
    let mut call = proxy.accept();
    call.start(RELAYED);
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&vec![b'i'; WINDOW + 10]));
    let mut taken = call.data(Stream::Stdin, WINDOW);
    assert_eq!(taken.len(), WINDOW, "one window");
    call.send(&Frame::Credit { stream: Stream::Stdin, bytes: 20 });
    taken.extend(call.data(Stream::Stdin, 10));
    writer.join().unwrap().unwrap();
    call.expect(&Frame::Closed { stream: Stream::Stdin });
    assert_eq!(taken, vec![b'i'; WINDOW + 10]);
    call.end(Ending::Exited(0));
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_shim_exits_with_the_tool_while_stdin_is_open() {
    let proxy = Proxy::new();
    let mut child = with_pipes(&proxy).env("AIFO_SHIM_RELAY", "1").spawn().unwrap();
    let stdin = child.stdin.take();
    let mut call = proxy.accept();
    call.start(RELAYED);
    call.end(Ending::Exited(0));
    assert!(child.wait().unwrap().success());
    drop(stdin);
}

#[test]
fn stdin_closed_by_the_tool_is_closed_for_its_writer() {
    for mode in [&[][..], &[("AIFO_SHIM_RELAY", "1")]] {
        let proxy = Proxy::new();
        let mut child = with_pipes(&proxy).envs(mode.iter().copied()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut call = proxy.accept();
        let stdio = call.request().inherited.stdio;
        call.start(stdio);
        call.fds.clear();
        if stdio == RELAYED {
            call.send(&Frame::Closed { stream: Stream::Stdin });
        }
        eventually("writing to stdin fails", || stdin.write_all(b"x").is_err());
        call.end(Ending::Exited(0));
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn the_position_of_a_file_is_restored() {
    let proxy = Proxy::new();
    let path = proxy.directory().join("input");
    std::fs::write(&path, "0123456789").unwrap();
    let mut file = File::open(&path).unwrap();
    let stdin = file.try_clone().unwrap();
    let mut child = with_pipes(&proxy).env("AIFO_SHIM_RELAY", "1").stdin(stdin).spawn().unwrap();
    let mut call = proxy.accept();
    call.start(RELAYED);
    assert_eq!(call.data(Stream::Stdin, 10), b"0123456789");
    let exit = Exit {
        ending: Ending::Exited(0),
        cancelled: None,
        note: None,
        taken: 4,
        usage: ResourceUsage::default(),
    };
    call.send(&Frame::Exit { serial: 1, exit });
    assert!(child.wait().unwrap().success());
    assert_eq!(file.stream_position().unwrap(), 4);
}

#[test]
fn every_signal_is_forwarded_unchanged() {
    let proxy = Proxy::new();
    let mut child = with_pipes(&proxy).spawn().unwrap();
    let mut call = proxy.accept();
    call.start([Stdio::Passed; 3]);
    for signal in ["INT", "INT", "TERM", "USR1", "WINCH", "ABRT", "37", "TSTP", "CONT"] {
        let status =
            Command::new("/bin/kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(status.unwrap().success(), "{signal}");
        let number = match signal {
            "37" => 37,
            name => libc_number(format!("SIG{name}").parse().unwrap()),
        };
        call.expect(&Frame::Signal { number: u8::try_from(number).unwrap() });
    }
    call.end(Ending::Signaled(15));
    assert_eq!(child.wait().unwrap().signal(), Some(15), "dies of the tool's signal");
}

#[test]
fn the_shim_stops_and_continues_with_the_tool() {
    let proxy = Proxy::new();
    let child = with_pipes(&proxy).spawn().unwrap();
    let pid = Pid::from_raw(child.id().cast_signed());
    let mut call = proxy.accept();
    call.start([Stdio::Passed; 3]);
    // A tool that has continued since does not stop the shim.
    kill(pid, Signal::SIGCONT).unwrap();
    call.expect(&Frame::Signal { number: 18 });
    call.send(&Frame::Stopped { signal: 19, resumed: 0 });
    kill(pid, Signal::SIGUSR1).unwrap();
    call.expect(&Frame::Signal { number: 10 });

    call.send(&Frame::Stopped { signal: 19, resumed: 1 });
    let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
    assert_eq!(stopped, WaitStatus::Stopped(pid, Signal::SIGSTOP));
    kill(pid, Signal::SIGCONT).unwrap();
    call.expect(&Frame::Signal { number: 18 });
    call.end(Ending::Exited(0));
    assert!(child.wait_with_output().unwrap().status.success());
}

#[test]
fn exit_codes_that_are_not_the_tools() {
    let timeout = Exit {
        ending: Ending::Signaled(15),
        cancelled: Some(CancelCause::Timeout),
        note: None,
        taken: 0,
        usage: ResourceUsage::default(),
    };
    let noted = |note, ending| {
        let exit = Exit { ending, cancelled: None, note: Some(note), ..timeout };
        vec![Frame::Exit { serial: 1, exit }]
    };
    let [memory, processes, config, hooks, certificates] = CallNote::ALL;
    let refused = |text: &str| Frame::Refused { text: text.to_owned() };
    let refusals = [
        &[refused("cargo was refused a"), refused("b\u{1b}")],
        &noted(memory, Ending::Exited(1))[..],
    ];
    let many: Vec<Frame> = (0..100).map(|number| refused(&format!("n{number}"))).collect();
    let rows: [(Vec<Frame>, i32, &str); 11] = [
        (refusals.concat(), 1, "aifo: cargo was refused a\naifo: b\\u{1b}\naifo-shim: the sidecar"),
        ([many, noted(memory, Ending::Exited(1))].concat(), 1, "aifo: n7\naifo-shim: the sidecar"),
        (vec![Frame::Exit { serial: 1, exit: timeout }], 124, ""),
        (noted(memory, Ending::Exited(1)), 1, "memory limit, and a process was killed; raise it"),
        (noted(processes, Ending::Exited(254)), 254, "limit on processes, and none could be made"),
        (noted(config, Ending::Exited(0)), 0, "hint: .git/config is read-only in sidecars"),
        (noted(hooks, Ending::Exited(3)), 3, "hint: .git/hooks is read-only in sidecars"),
        (
            noted(certificates, Ending::Exited(60)),
            60,
            "add admit = [\"ca-bundle\"] to [containers]",
        ),
        (vec![], 125, "lost the connection to the proxy while the tool ran"),
        (vec![Frame::Hello { version: 1 }], 125, "(an unexpected Hello frame)"),
        (vec![Frame::Data { stream: Stream::Stdout, data: b"x" }], 125, "not relayed"),
    ];
    for (frames, code, message) in rows {
        let proxy = Proxy::new();
        let child = with_pipes(&proxy).spawn().unwrap();
        let mut call = proxy.accept();
        call.start([Stdio::Passed; 3]);
        frames.iter().for_each(|frame| call.send(frame));
        call.fds.clear();
        drop(call);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(message), "{stderr}");
    }
}

/// Starts a shim on a new terminal and waits until the terminal is raw.
fn on_terminal(proxy: &Proxy) -> (std::process::Child, ClientSession, Pty, TerminalModes) {
    let size = WindowSize { rows: 30, columns: 100, ..WindowSize::default() };
    let mut modes = TerminalModes {
        input: nix::libc::ICRNL,
        output: nix::libc::OPOST | nix::libc::ONLCR,
        control: nix::libc::CS8 | nix::libc::CREAD | nix::libc::B38400,
        local: nix::libc::ICANON | nix::libc::ISIG | nix::libc::ECHO,
        characters: vec![0; 19],
    };
    modes.characters[nix::libc::VINTR] = 3;
    let pty = Pty::open(size, &modes).unwrap();
    let before = terminal::modes(pty.slave.as_fd()).unwrap();
    let shim = proxy.shim(&[]);
    // setsid executes the shim in its own process, so the pid is the shim's.
    let mut command = Command::new("/usr/bin/setsid");
    command.arg("--ctty").arg(shim.get_program());
    command.envs(shim.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let stdio = || Standard::from(pty.slave.try_clone().unwrap());
    let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
    let mut call = proxy.accept();
    let inherited = call.request().inherited;
    assert_eq!(inherited.stdio, [Stdio::Terminal, Stdio::Terminal, Stdio::Same]);
    let declared = inherited.terminal.unwrap();
    assert_eq!((declared.size, declared.modes.local), (size, before.local));
    call.start([Stdio::Terminal, Stdio::Terminal, Stdio::Same]);
    call.expect(&Frame::Resize(size));
    let now = terminal::modes(pty.slave.as_fd()).unwrap();
    assert_eq!(now, terminal::raw(&before), "raw while the tool has it");
    (child, call, pty, before)
}

#[test]
fn a_terminal_is_raw_while_the_tool_runs() {
    let proxy = Proxy::new();
    let (mut child, mut call, pty, before) = on_terminal(&proxy);
    let mut screen = File::from(pty.master.try_clone().unwrap());
    screen.write_all(b"keys\x03").unwrap();
    assert_eq!(call.data(Stream::Terminal, 5), b"keys\x03", "Ctrl-C is a key like others");
    call.send(&Frame::Data { stream: Stream::Terminal, data: b"shown\r\n" });
    let mut shown: Vec<u8> = Vec::new();
    eventually("what the tool shows is on the screen", || {
        let mut bytes = [0; 64];
        shown.extend(screen.read(&mut bytes).map_or(&[][..], |count| &bytes[..count]));
        shown == b"shown\r\n"
    });
    call.end(Ending::Exited(3));
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(terminal::modes(pty.slave.as_fd()).unwrap(), before);
}

#[test]
fn a_terminal_is_restored_on_every_exit() {
    type Finish = fn(ClientSession);
    let finishes: [Finish; 3] = [
        drop,
        |mut call| call.end(Ending::Signaled(9)),
        |mut call| call.send(&Frame::Hello { version: 1 }),
    ];
    for finish in finishes {
        let proxy = Proxy::new();
        let (mut child, call, pty, before) = on_terminal(&proxy);
        finish(call);
        assert!(!child.wait().unwrap().success());
        assert_eq!(terminal::modes(pty.slave.as_fd()).unwrap(), before);
    }
}

fn libc_number(signal: Signal) -> i32 {
    signal as i32
}
