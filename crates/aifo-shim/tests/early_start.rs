//! The early start (`spec/shim.md#early-start`): the same call with and without it, and without the C
//! library.
//!
//! A variable of 40 KiB, which is not forwarded, makes the shim start as usual. A shim without an entry of its own, as
//! with musl, always does.
#![cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]

mod proxy;
mod static_shim;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio as Standard};

use aifo_types::{Ending, Stdio};
use aifo_wire::{CallNote, CancelCause, Exit, Frame, ResourceUsage, Stream};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use proxy::{ClientSession, Proxy, eventually, shim_under_test, shipped_binaries};
use static_shim::static_shim;

const PASSED: [Stdio; 3] = [Stdio::Null, Stdio::Passed, Stdio::Passed];

/// The shim as `cargo xtask dist` builds it.
fn proxy() -> Proxy {
    Proxy::of(&shim_under_test(static_shim))
}

/// Returns whether the shim has an entry of its own: `xor ebp, ebp`, `lea rax, [rip + HEADER]` and
/// `cmp word ptr [rax + 16], 2`.
fn has_own_entry() -> bool {
    let shim = std::fs::read(shim_under_test(static_shim)).unwrap();
    let is_entry = |code: &[u8]| {
        code.starts_with(b"\x31\xed\x48\x8d\x05") && code.ends_with(b"\x66\x83\x78\x10\x02")
    };
    let found = shim.windows(14).any(is_entry);
    assert!(found || shipped_binaries().is_some(), "this build has none");
    found
}

/// A shim with `/dev/null` and two pipes.
fn shim(proxy: &Proxy) -> Command {
    let mut shim = proxy.shim(&["a", "b c", ""]);
    shim.stdin(Standard::null()).stdout(Standard::piped()).stderr(Standard::piped());
    shim.env("AIFO_EXEC_ID", "chosen");
    shim
}

/// True if the C library of a static program has started: it allocates memory for itself.
fn has_c_library(shim: &Child) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", shim.id())).unwrap();
    maps.contains("[heap]")
}

/// The visible effects of a call, for the proxy and the caller.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// Version, exec id, body and number of descriptors of each request.
    requests: Vec<(String, String, Vec<u8>, usize)>,
    status: i32,
    stdout: String,
    stderr: String,
}

type Prepare = fn(&mut Command);
type Answer = fn(&Proxy, &mut Child, ClientSession) -> Option<ClientSession>;

/// Makes a call, and returns whether it began early.
fn call(proxy: &Proxy, mut shim: Command, answer: Answer) -> (Seen, bool) {
    let mut child = shim.spawn().unwrap();
    drop(shim);
    let mut requests = Vec::new();
    let mut session = proxy.accept_from(&mut child);
    let mut is_early = false;
    while let Some(current) = session {
        if requests.is_empty() {
            is_early = !has_c_library(&child);
        }
        let ClientSession { protocol, id, body, fds, .. } = &current;
        requests.push((protocol.clone(), id.clone(), body.clone(), fds.len()));
        session = answer(proxy, &mut child, current);
    }
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let seen =
        Seen { requests, status: status.into_raw(), stdout: text(stdout), stderr: text(stderr) };
    (seen, is_early)
}

/// Makes the call twice: as it is, and with a usual start.
#[track_caller]
fn check(what: &str, prepare: Prepare, answer: Answer, expects_early: bool) -> Seen {
    let proxy = proxy();
    let prepared = |padding: usize| {
        let mut shim = shim(&proxy);
        prepare(&mut shim);
        shim.env("PADDING", "x".repeat(padding));
        shim
    };
    let (early, is_early) = call(&proxy, prepared(1), answer);
    let (usual, is_usual_early) = call(&proxy, prepared(40 * 1024), answer);
    assert_eq!(early, usual, "{what}");
    assert!(!is_usual_early, "{what}");
    assert_eq!(is_early, expects_early && has_own_entry(), "{what}");
    early
}

/// Starts the tool, which exits with 7.
fn end(_: &Proxy, _: &mut Child, mut call: ClientSession) -> Option<ClientSession> {
    let stdio = call.request().inherited.stdio;
    call.start(stdio);
    call.end(Ending::Exited(7));
    None
}

/// Executes the shim by a shell that changes what it inherits.
fn by_shell(shim: &mut Command, script: &str) {
    let program = shim.get_program().to_owned();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{script}\nexec \"$0\" \"$@\"")).arg(program).args(shim.get_args());
    shell.envs(shim.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.stdin(Standard::null()).stdout(Standard::piped()).stderr(Standard::piped());
    *shim = shell;
}

#[test]
fn a_plain_call_is_the_same() {
    let rows: [(&str, Prepare); 9] = [
        ("plain", |_| {}),
        ("arguments", |shim| {
            shim.args(["--", "\u{fc}", "a\nb"]);
        }),
        ("environment", |shim| {
            shim.env("CI", "1").env("LANG", "C").env("SOME_TOKEN", "x").env("AIFO_SHIM_ENV", "X*");
            shim.env("XA", "1").env("CARGO_HOME", "/elsewhere").env("https_proxy", "http://u@h");
        }),
        ("directory", |shim| {
            let directory = Path::new(shim.get_program()).parent().unwrap().to_owned();
            let link = directory.join("link");
            let _ = std::os::unix::fs::symlink("/usr/lib", &link);
            shim.current_dir("/usr/lib").env("PWD", link);
        }),
        ("a wrong PWD", |shim| {
            shim.current_dir("/usr/lib").env("PWD", "/usr/../usr/lib");
        }),
        ("umask, limits and ignored signals", |shim| {
            by_shell(shim, "umask 027; ulimit -n 100; trap '' HUP USR1");
        }),
        ("stderr is stdout", |shim| by_shell(shim, "exec 2>&1")),
        ("regular files", |shim| by_shell(shim, "exec </etc/passwd 2>>/etc/passwd")),
        ("settings", |shim| {
            shim.env("AIFO_SHIM_SMART", "1").env("AIFO_SHIM_NOTIFY_TOOLS", "ring,say");
            shim.env("AIFO_WORKSPACE", "/usr").env("AIFO_WORKSPACE_ALIAS", "/lib");
            shim.env("CARGO_HOME", "/usr/x").env("AIFO_SHIM_PROTO", "4");
        }),
    ];
    for (what, prepare) in rows {
        let seen = check(what, prepare, end, true);
        assert_eq!((seen.status, seen.stderr.as_str()), (7 << 8, ""), "{what}");
        assert_eq!(seen.requests.len(), 1, "{what}");
    }
}

#[test]
fn each_reason_for_a_usual_start_gives_the_same_call() {
    let rows: [(&str, Prepare); 16] = [
        ("version 2", |shim| {
            shim.env("AIFO_SHIM_PROTO", "2");
        }),
        ("verbose", |shim| {
            shim.env("AIFO_TOOLCHAIN_VERBOSE", "1");
        }),
        ("relay", |shim| {
            shim.env("AIFO_SHIM_RELAY", "1");
        }),
        ("an interpreter", |shim| {
            shim.arg0("python3");
        }),
        ("no URL", |shim| {
            shim.env_remove("AIFO_TOOLEEXEC_URL");
        }),
        ("no token", |shim| {
            shim.env("AIFO_TOOLEEXEC_TOKEN", "");
        }),
        ("a token in a file", |shim| {
            shim.env_remove("AIFO_TOOLEEXEC_TOKEN").env("AIFO_TOOLEEXEC_TOKEN_FILE", "/none");
        }),
        ("an invalid URL", |shim| {
            shim.env("AIFO_TOOLEEXEC_URL", "unix://relative");
        }),
        ("an invalid token", |shim| {
            shim.env("AIFO_TOOLEEXEC_TOKEN", "a b");
        }),
        ("an invalid exec id", |shim| {
            shim.env("AIFO_EXEC_ID", "a b");
        }),
        ("an invalid name", |shim| {
            shim.arg0("a\nb");
        }),
        ("no proxy", |shim| {
            shim.env("AIFO_TOOLEEXEC_URL", "unix:///nonexistent");
        }),
        ("no proxy by TCP", |shim| {
            shim.env("AIFO_TOOLEEXEC_URL", "http://127.0.0.1:1/exec");
        }),
        ("a long path of the socket", |shim| {
            let directory = Path::new(shim.get_program()).parent().unwrap();
            let long = directory.join("./".repeat(60)).join("sock");
            shim.env("AIFO_TOOLEEXEC_URL", format!("unix://{}", long.display()));
        }),
        ("closed descriptors", |shim| by_shell(shim, "exec <&- 2>&-")),
        ("a thousand variables", |shim| {
            shim.envs((0..1100).map(|number| (format!("N{number}"), "")));
        }),
    ];
    for (what, prepare) in rows {
        let end: Answer = match what {
            "version 2" => |_, _, mut call| {
                call.send_text("HTTP/1.1 200 OK\r\nX-Exit-Code: 7\r\nContent-Length: 3\r\n\r\nout");
                None
            },
            _ => end,
        };
        let seen = check(what, prepare, end, false);
        assert!(seen.status >= 7 << 8, "{what}: {seen:?}");
    }
}

#[test]
fn a_call_that_needs_more_is_carried_on() {
    fn exit(exit: Exit, mut call: ClientSession) -> Option<ClientSession> {
        call.start(PASSED);
        call.fds.clear();
        call.send(&Frame::Exit { serial: 1, exit });
        None
    }
    const ENDED: Exit = Exit {
        ending: Ending::Exited(0),
        cancelled: None,
        note: None,
        taken: 0,
        usage: ResourceUsage {
            wall: std::time::Duration::ZERO,
            user: std::time::Duration::ZERO,
            system: std::time::Duration::ZERO,
            max_rss_kib: 0,
        },
    };
    let code = |code: i32| code << 8;
    let rows: [(&str, Answer, i32); 12] = [
        ("a signal", |_, _, call| exit(Exit { ending: Ending::Signaled(9), ..ENDED }, call), 9),
        (
            "a timeout",
            |_, _, call| exit(Exit { cancelled: Some(CancelCause::Timeout), ..ENDED }, call),
            code(124),
        ),
        (
            "a note",
            |_, _, call| exit(Exit { note: Some(CallNote::GitConfig), ..ENDED }, call),
            code(0),
        ),
        (
            "a refusal",
            |_, _, mut call| {
                call.send_text("HTTP/1.1 403 Forbidden\r\nX-Exit-Code: 86\r\n\r\nforbidden\n");
                None
            },
            code(86),
        ),
        (
            "progress",
            |proxy, child, mut call| {
                call.send_text("HTTP/1.1 102 Processing\r\nX-Aifo-Progress: starting\r\n\r\n");
                end(proxy, child, call)
            },
            code(7),
        ),
        (
            "the version is refused",
            |proxy, child, mut call| {
                if call.protocol == "2" {
                    call.send_text(
                        "HTTP/1.1 200 OK\r\nX-Exit-Code: 3\r\nContent-Length: 3\r\n\r\nout",
                    );
                    return None;
                }
                call.send_text("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n");
                drop(call);
                proxy.accept_from(child)
            },
            code(3),
        ),
        (
            "no HTTP",
            |_, _, mut call| {
                call.send_text("SSH-2.0-OpenSSH\r\n\r\n");
                None
            },
            code(125),
        ),
        ("no answer", |_, _, _| None, code(125)),
        (
            "no end",
            |_, _, mut call| {
                call.start(PASSED);
                None
            },
            code(125),
        ),
        (
            "an invalid frame",
            |_, _, mut call| {
                call.start(PASSED);
                call.send(&Frame::Hello { version: 1 });
                None
            },
            code(125),
        ),
        (
            "streams that the proxy relays",
            |_, child, mut call| {
                call.start([Stdio::Null, Stdio::Relayed, Stdio::Relayed]);
                call.fds.clear();
                eventually("the C library has started", || has_c_library(child));
                call.send(&Frame::Data { stream: Stream::Stdout, data: b"out" });
                call.send(&Frame::Data { stream: Stream::Stderr, data: b"err" });
                call.end(Ending::Exited(4));
                None
            },
            code(4),
        ),
        (
            "a signal of the caller",
            |_, child, mut call| {
                call.start(PASSED);
                kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGUSR1).unwrap();
                call.expect(&Frame::Signal { number: Signal::SIGUSR1 as u8 });
                assert!(has_c_library(child));
                call.end(Ending::Exited(5));
                None
            },
            code(5),
        ),
    ];
    for (what, answer, status) in rows {
        let seen = check(what, |_| {}, answer, true);
        assert_eq!(seen.status, status, "{what}: {seen:?}");
        if what == "streams that the proxy relays" {
            assert_eq!((seen.stdout.as_str(), seen.stderr.as_str()), ("out", "err"));
        }
    }
}

/// The pipes of a tool close with the tool, though the shim waits.
#[test]
fn passed_descriptors_are_closed_in_the_shim() {
    let proxy = proxy();
    let mut child = shim(&proxy).spawn().unwrap();
    let mut call = proxy.accept_from(&mut child).unwrap();
    call.start(PASSED);
    call.fds.clear();
    let mut stdout = child.stdout.take().unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut text).unwrap();
    assert!(text.is_empty());
    assert_eq!(has_c_library(&child), !has_own_entry());
    call.end(Ending::Exited(0));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A caller such as node passes sockets, which are relayed.
#[test]
fn a_call_with_sockets_is_carried_on() {
    let proxy = proxy();
    let (here, there) = UnixStream::pair().unwrap();
    let mut child = shim(&proxy).stdout(OwnedFd::from(there)).spawn().unwrap();
    let mut call = proxy.accept_from(&mut child).unwrap();
    let stdio = [Stdio::Null, Stdio::Relayed, Stdio::Passed];
    assert_eq!((call.request().inherited.stdio, call.fds.len()), (stdio, 1));
    call.start(stdio);
    call.send(&Frame::Data { stream: Stream::Stdout, data: b"out" });
    call.end(Ending::Exited(0));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut &here, &mut text).unwrap();
    assert_eq!(text, "out");
}

/// Every system call of the C library's start would do; `arch_prctl` sets its thread pointer.
#[test]
fn only_a_shim_with_its_own_entry_skips_the_c_library() {
    const ROLE: &str = "EARLY_START_ROLE";
    if let Some(shim) = std::env::var_os(ROLE) {
        let number = u32::try_from(libc::SYS_arch_prctl).unwrap();
        aifo_process::kill_at_system_call(number).unwrap();
        let null = File::open("/dev/null").unwrap();
        panic!("{}", Command::new(shim).env_remove(ROLE).stdin(null).exec());
    }
    let proxy = proxy();
    let filtered = |padding: usize| {
        let shim = shim(&proxy);
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "only_a_shim_with_its_own_entry_skips_the_c_library"]);
        test.envs(shim.get_envs().filter_map(|(name, value)| Some((name, value?))));
        test.env(ROLE, shim.get_program()).env("PADDING", "x".repeat(padding));
        test.stdout(Standard::null()).spawn().unwrap()
    };
    for (padding, starts_it) in [(1, !has_own_entry()), (40 * 1024, true)] {
        let mut child = filtered(padding);
        let mut call = proxy.accept_from(&mut child);
        assert_eq!(call.is_none(), starts_it);
        if let Some(call) = &mut call {
            call.start(PASSED);
            call.end(Ending::Exited(7));
        }
        let status = child.wait().unwrap();
        let expected = if starts_it { (None, Some(libc::SIGSYS)) } else { (Some(7), None) };
        assert_eq!((status.code(), status.signal()), expected);
    }
}
