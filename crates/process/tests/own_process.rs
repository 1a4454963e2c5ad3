//! Tests that need a process of their own: `entry!`, a controlling terminal, death by a signal, a
//! full descriptor table. The program starts itself with the role of a test in ROLE.
#![no_main]
#![forbid(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use std::thread::yield_now;

use aifo_process::{
    CaughtSignals, ChildEvent, Group, Pty, ResourceLimit, Restriction, SendMode, SignalSet, Spawn,
    closed_standard_fds, die_by_signal, drop_capabilities, forbid_tracing, ignore_broken_pipes,
    ignored_signals, reap, receive_with_fds, reset_dispositions, resize, restrict_system_calls,
    run_with_signals, send_with_fds, signal_group_number, terminal,
};
use aifo_types::{Ending, TerminalModes, WindowSize};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, open, openat2};
use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::Pid;

#[path = "own_process/namespace.rs"]
mod namespace;

aifo_process::entry!(run);

fn run() -> ! {
    match std::env::var("ROLE").as_deref() {
        Err(_) => tests(),
        Ok("inherit") => inherit(),
        Ok("panic") => panic!("test panic"),
        Ok("die") => die(),
        Ok("fill") => fill(),
        Ok("catch") => catch(),
        Ok("lead") => lead(),
        Ok("drop_caps") => drop_caps(),
        Ok("restrict") => restrict(),
        Ok("forward") => forward(),
        Ok("namespace") => namespace::enter(),
        Ok(other) => panic!("no role '{other}'"),
    }
    exit(0)
}

fn tests() {
    const TESTS: &[(&str, fn())] = &[
        (
            "a_program_sees_its_parents_descriptors_and_signals",
            a_program_sees_its_parents_descriptors_and_signals,
        ),
        ("a_panic_is_printed_and_exits_with_101", a_panic_is_printed_and_exits_with_101),
        ("a_process_dies_by_any_signal", a_process_dies_by_any_signal),
        ("fds_lost_to_a_full_table_are_not_leaked", fds_lost_to_a_full_table_are_not_leaked),
        ("kernel_signals_are_distinguished", kernel_signals_are_distinguished),
        ("a_child_stops_in_the_foreground", a_child_stops_in_the_foreground),
        ("capabilities_are_dropped_for_good", capabilities_are_dropped_for_good),
        ("restricted_calls_fail_in_descendants_too", restricted_calls_fail_in_descendants_too),
        ("a_command_gets_the_signals_of_its_parent", a_command_gets_the_signals_of_its_parent),
        ("a_namespace_cannot_be_left_or_changed", namespace::a_namespace_cannot_be_left_or_changed),
    ];
    // The test runner's parent may ignore signals.
    reset_dispositions().unwrap();
    for (name, test) in TESTS {
        test();
        println!("test {name} ... ok");
    }
}

fn a_program_sees_its_parents_descriptors_and_signals() {
    let ignored = 1 | 1 << 31 | 1 << 63;
    let (output, ending) = output_of("inherit", &[b"an argument", b"\xff"], 1, |spawn| {
        spawn.ignored = ignored;
    });
    let expected = format!(
        "[\"own_process\", \"an argument\", \"\\xFF\"]\n\
         {ignored:x}\n[true, false, true]\n3\nBrokenPipe\nfalse\n0 is closed\n2 is closed\n",
    );
    assert_eq!((output, ending), (expected, Ending::Exited(0)));
}

fn inherit() {
    println!("{:?}", std::env::args_os().collect::<Vec<_>>());
    println!("{:x}", ignored_signals());
    println!("{:?}", closed_standard_fds());
    let (reader, mut writer) = std::io::pipe().unwrap();
    println!("{}", reader.as_raw_fd());
    drop(reader);
    ignore_broken_pipes();
    println!("{:?}", writer.write(b"x").unwrap_err().kind());
    forbid_tracing().unwrap();
    println!("{}", nix::sys::prctl::get_dumpable().unwrap());
    let script = "for n in 0 2; do [ -e /proc/self/fd/$n ] || echo $n is closed; done";
    let error = Command::new("/bin/sh").args(["-c", script]).exec();
    panic!("{error}");
}

fn a_panic_is_printed_and_exits_with_101() {
    let (output, ending) = output_of("panic", &[], 2, |_| {});
    assert_eq!(ending, Ending::Exited(101));
    assert!(output.contains("panicked at") && output.contains("test panic"), "{output}");
}

fn a_process_dies_by_any_signal() {
    for number in [1u8, 2, 9, 11, 13, 32, 33, 34, 64] {
        let argument = number.to_string();
        // The signal was inherited ignored, and is blocked.
        let (_, ending) = output_of("die", &[argument.as_bytes()], 2, |spawn| {
            spawn.ignored = u64::MAX;
        });
        assert_eq!(ending, Ending::Signaled(number));
    }
    for harmless in [&b"0"[..], b"17", b"65"] {
        let (output, ending) = output_of("die", &[harmless], 2, |_| {});
        assert_eq!((ending, output.as_str()), (Ending::Exited(0), ""));
    }
}

fn die() {
    let number = std::env::args().nth(1).unwrap().parse().unwrap();
    SignalSet::all().block().unwrap();
    die_by_signal(number);
}

fn a_command_gets_the_signals_of_its_parent() {
    let (output, ending) = output_of("forward", &[], 1, |_| {});
    assert_eq!((output.as_str(), ending), ("Exited(7)\nSignaled(2)\n", Ending::Exited(0)));
}

fn forward() {
    let run = |script: &str| {
        let script = format!("{script}; while :; do sleep 0.01; done");
        run_with_signals(Command::new("/bin/sh").args(["-c", &script])).unwrap()
    };
    println!("{:?}", run("trap 'exit 7' TERM; kill -TERM $PPID"));
    println!("{:?}", run("kill -INT $PPID"));
}

fn fds_lost_to_a_full_table_are_not_leaked() {
    let (output, ending) = output_of("fill", &[], 2, |spawn| {
        let open_files = libc::RLIMIT_NOFILE as u8;
        spawn.limits = vec![ResourceLimit { resource: open_files, soft: 6, hard: 6 }];
    });
    assert_eq!((ending, output.as_str()), (Ending::Exited(0), ""));
}

/// With 0 to 2 and two sockets, the limit leaves room for one descriptor.
fn fill() {
    closed_standard_fds();
    let (sender, receiver) = UnixStream::pair().unwrap();
    let fds = [sender.as_fd(), receiver.as_fd()];
    assert_eq!(send_with_fds(sender.as_fd(), b"x", &fds, SendMode::Blocking), Ok(1));
    let lost = receive_with_fds(receiver.as_fd(), &mut [0; 8], 2).unwrap_err();
    assert_eq!(lost, Errno::EPROTO);
    File::open("/dev/null").unwrap();
    assert_eq!(send_with_fds(sender.as_fd(), b"x", &fds[..1], SendMode::Blocking), Ok(1));
    let received = receive_with_fds(receiver.as_fd(), &mut [0; 8], 2).unwrap();
    assert_eq!(received.fds.len(), 1);
}

fn kernel_signals_are_distinguished() {
    let (pid, mut screen) = start_on_terminal("catch");
    screen.wait_for("foreground: true\n");
    screen.master.write_all(b"\x03").unwrap();
    screen.wait_for("2 from the kernel: true\n");
    let size = WindowSize { rows: 50, columns: 132, ..WindowSize::default() };
    resize(screen.master.as_fd(), size).unwrap();
    screen.wait_for("28 from the kernel: true\n");
    assert!(signal_group_number(pid, 2) && signal_group_number(pid, 64));
    screen.wait_for("2 from the kernel: false\n64 from the kernel: false\n");
    assert_eq!(ending_of(pid), Ending::Exited(0));
    assert!(!signal_group_number(pid, 64), "the group is empty");
}

fn catch() {
    let mut set = SignalSet::default();
    for number in [2, 28, 64] {
        set.insert(number);
    }
    let signals = CaughtSignals::new(set).unwrap();
    println!("foreground: {}", terminal::is_foreground(std::io::stdin().as_fd()));
    loop {
        let Some(caught) = signals.next() else {
            yield_now();
            continue;
        };
        println!("{} from the kernel: {}", caught.number, caught.from_kernel);
        if caught.number == 64 {
            return;
        }
    }
}

fn a_child_stops_in_the_foreground() {
    let (pid, mut screen) = start_on_terminal("lead");
    screen
        .wait_for("leads: true\nstopped by 20, its group: true, the parent's: false\nExited(3)\n");
    assert_eq!(ending_of(pid), Ending::Exited(0));
}

fn lead() {
    let stdin = std::io::stdin();
    println!("leads: {}", terminal::is_foreground(stdin.as_fd()));
    let c = |text: &str| CString::new(text).unwrap();
    let argv = ["sh", "-c", "kill -TSTP $$; exit 3"].map(c).to_vec();
    let spawn = Spawn {
        stdio: [Some(stdin.as_fd()), None, None],
        group: Group::Foreground(stdin.as_fd()),
        ..Spawn::new(c("/bin/sh"), argv, vec![])
    };
    let child = spawn.spawn().unwrap();
    loop {
        match reap() {
            Some(ChildEvent::Stopped { pid, signal }) if pid == child => {
                let is_its = terminal::foreground_group(stdin.as_fd()).unwrap() == child;
                let is_parents = terminal::is_foreground(stdin.as_fd());
                println!("stopped by {signal}, its group: {is_its}, the parent's: {is_parents}");
                assert!(signal_group_number(child, 18));
            }
            Some(ChildEvent::Ended(reaped)) if reaped.pid == child => {
                return println!("{:?}", reaped.ending);
            }
            _ => yield_now(),
        }
    }
}

/// Only root has capabilities to drop.
fn capabilities_are_dropped_for_good() {
    let (output, ending) = output_of("drop_caps", &[], 1, |_| {});
    let none = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}:\t{:016x}\n", 0));
    let expected = match nix::unistd::geteuid().is_root() {
        true => format!("Ok(())\n{}", none.concat()),
        false => "Err(EPERM)\n".to_owned(),
    };
    assert_eq!((output, ending), (expected, Ending::Exited(0)));
}

/// Checks in an executed program, which would regain root's capabilities otherwise.
fn drop_caps() {
    let done = drop_capabilities();
    println!("{done:?}");
    if done.is_ok() {
        let error = Command::new("/bin/grep").args(["^Cap", "/proc/self/status"]).exec();
        panic!("{error}");
    }
}

fn restricted_calls_fail_in_descendants_too() {
    let (output, ending) = output_of("restrict", &[], 1, |_| {});
    let expected = "Err(EPERM)\nOk(())\nErr(EPERM)\nOk(())\nErr(EAFNOSUPPORT)\nErr(ENOSYS)\n\
                    NoNewPrivs:\t1\nSeccomp:\t2\n";
    assert_eq!((output.as_str(), ending), (expected, Ending::Exited(0)));
}

/// Tries restricted calls, then executes a program that prints its own restrictions.
fn restrict() {
    restrict_system_calls(&Restriction::ALL).unwrap();
    let scratch = std::env::temp_dir().join(format!("aifo-restrict-{}", std::process::id()));
    let file = File::create(&scratch).unwrap();
    for mode in [Mode::S_ISUID | Mode::S_IRWXU, Mode::S_IRWXU] {
        println!("{:?}", fchmod(&file, mode));
    }
    std::fs::remove_file(&scratch).unwrap();
    for mode in [Mode::S_ISGID | Mode::S_IRWXU, Mode::S_IRWXU] {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY;
        println!("{:?}", open(&scratch, flags, mode).map(drop));
    }
    std::fs::remove_file(&scratch).unwrap();
    let alg = socket(AddressFamily::Alg, SockType::SeqPacket, SockFlag::empty(), None);
    println!("{:?}", alg.map(drop));
    println!("{:?}", openat2(AT_FDCWD, "/", OpenHow::new().flags(OFlag::O_PATH)).map(drop));
    let status = ["-E", "^(NoNewPrivs|Seccomp):", "/proc/self/status"];
    panic!("{}", Command::new("/bin/grep").args(status).exec());
}

/// Starts this program with a role.
fn start<'a>(role: &str, args: &[&[u8]], adapt: impl FnOnce(&mut Spawn<'a>)) -> Pid {
    let c = |bytes: &[u8]| CString::new(bytes).unwrap();
    let program = c(&std::env::current_exe().unwrap().into_os_string().into_vec());
    let argv = [&b"own_process"[..]].iter().chain(args).map(|arg| c(arg)).collect();
    let mut spawn = Spawn::new(program, argv, vec![c(format!("ROLE={role}").as_bytes())]);
    adapt(&mut spawn);
    spawn.spawn().unwrap()
}

/// Starts it with a pipe as one of its descriptors; returns what it wrote there, and how it ended.
fn output_of(
    role: &str,
    args: &[&[u8]],
    number: usize,
    adapt: impl FnOnce(&mut Spawn<'_>),
) -> (String, Ending) {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let pid = start(role, args, |spawn| {
        spawn.stdio[number] = Some(writer.as_fd());
        adapt(spawn);
    });
    drop(writer);
    let mut output = String::new();
    reader.read_to_string(&mut output).unwrap();
    (output, ending_of(pid))
}

fn ending_of(pid: Pid) -> Ending {
    loop {
        match reap() {
            Some(ChildEvent::Ended(reaped)) if reaped.pid == pid => return reaped.ending,
            _ => yield_now(),
        }
    }
}

/// Starts it on a terminal with Ctrl-C, without echo and translation.
fn start_on_terminal(role: &str) -> (Pid, Screen) {
    let mut characters = vec![0; 19];
    characters[libc::VINTR] = 3;
    let modes = TerminalModes { local: libc::ISIG, characters, ..TerminalModes::default() };
    let pty = Pty::open(WindowSize::default(), &modes).unwrap();
    let pid = start(role, &[], |spawn| {
        spawn.stdio = [Some(pty.slave.as_fd()); 3];
        spawn.group = Group::Terminal(pty.slave.as_fd());
    });
    (pid, Screen { master: File::from(pty.master), shown: String::new() })
}

/// A terminal output.
struct Screen {
    master: File,
    shown: String,
}

impl Screen {
    /// Waits for this text and drops everything up to its end.
    fn wait_for(&mut self, text: &str) {
        let mut buffer = [0; 1024];
        while !self.shown.contains(text) {
            match self.master.read(&mut buffer) {
                Ok(length) => self.shown += std::str::from_utf8(&buffer[..length]).unwrap(),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => yield_now(),
                Err(error) => panic!("{error}, and only {:?} was shown", self.shown),
            }
        }
        let (_, rest) = self.shown.split_once(text).unwrap();
        self.shown = rest.to_owned();
    }
}
