//! A tool with known behaviour. The suites link it under the names of real tools; its first
//! argument is a verb.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::Duration;

use aifo_tests::RandomBytes;
use nix::errno::Errno;
use nix::sys::inotify::{InitFlags, Inotify};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nix::unistd::{Pid, getpgid, getsid, pause, setsid};

fn main() -> ExitCode {
    let mut argv = std::env::args_os();
    let name = argv.next().unwrap_or_default();
    let verb = argv.next().unwrap_or_default();
    let args: Vec<OsString> = argv.collect();
    match act(&name, verb.to_str().unwrap_or_default(), &args) {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("{}: {}: {e}", name.display(), verb.display());
            ExitCode::from(99)
        }
    }
}

fn act(name: &OsStr, verb: &str, args: &[OsString]) -> io::Result<u8> {
    let file = |index: usize| args.get(index).map(Path::new).ok_or(io::ErrorKind::InvalidInput);
    match verb {
        // Its inputs.
        "say" => print(&[&args.join(OsStr::new(" ")).into_vec(), b"\n"])?,
        "args" => args.iter().try_for_each(|arg| print(&[arg.as_bytes(), b"\0"]))?,
        "argv0" => print(&[name.as_bytes(), b"\n"])?,
        "cwd" => print(&[std::env::current_dir()?.as_os_str().as_bytes(), b"\n"])?,
        "env" => print_environment()?,
        "fds" => print_fds()?,
        "limits" => print_limits()?,
        "ids" => print_ids()?,
        "connect" => connect(file(0)?)?,
        "use-up" => use_up()?,
        "stdin" => print_line(io::copy(&mut io::stdin(), &mut io::sink())?)?,
        "--version" | "-V" | "-v" | "version" | "--help" => {
            print_line(format!("{verb} in {}", std::env::current_dir()?.display()))?;
        }
        // Endings.
        "exit" => return Ok(number(args, 0)? as u8),
        "die" => die(number(args, 0)?)?,
        "count" => count(file(0)?)?,
        // Output.
        "emit" => emit(number(args, 0)?, number(args, 1)?)?,
        "count-emit" => {
            count(file(0)?)?;
            emit(number(args, 1)?, 1)?;
        }
        "both" => both(number(args, 0)?)?,
        "hold" => {
            print_line("first")?;
            wait_for(file(0)?);
            print_line("second")?;
        }
        // Waiting and signals. A blocked signal stays pending, which is equivalent to ignoring it
        // and needs no handler.
        "wait" => {
            print_line("ready")?;
            pause();
        }
        "quiet" => {
            announce(file(0)?)?;
            pause();
        }
        "catch" => return catch(),
        "record" => record(file(0).ok())?,
        // Process trees.
        "tree" => {
            start_leaf(file(0)?)?;
            pause();
        }
        "stubborn-tree" => {
            block_all()?;
            start_leaf(file(0)?)?;
            pause_for_ever();
        }
        "daemon" => start_leaf(file(0)?)?,
        // Its child has lost the exec tag as well: nothing ties it to the exec.
        "bare-daemon" => {
            Command::new("/proc/self/exe").arg("middle").arg(file(0)?).env_clear().status()?;
            wait_for(file(0)?);
        }
        "hydra" => {
            for _ in 0..number(args, 0)? {
                spawn_self(["head".as_ref(), file(1)?.as_os_str()])?;
            }
            block_all()?;
            pause_for_ever();
        }
        "head" => grow_heads(file(0)?)?,
        "background" => {
            spawn_self(["chatter".as_ref(), file(0)?.as_os_str()])?;
            print_line("parent")?;
        }
        "middle" => {
            setsid()?;
            spawn_self(["leaf".as_ref(), file(0)?.as_os_str()])?;
        }
        "leaf" => {
            block_all()?;
            let parent = parent_id();
            // Only an orphan was really forked twice.
            while parent_id() == parent && is_middle(parent) {
                sleep(Duration::from_millis(1));
            }
            announce(file(0)?)?;
            pause_for_ever();
        }
        "chatter" => chatter(file(0)?)?,
        _ => return Err(io::Error::other("unknown verb")),
    }
    Ok(0)
}

fn number(args: &[OsString], index: usize) -> io::Result<u64> {
    let text = args.get(index).and_then(|arg| arg.to_str());
    text.and_then(|text| text.parse().ok()).ok_or_else(|| io::Error::other("a number is missing"))
}

/// Writes all parts in one write: the suites check the order of whole lines.
fn print(parts: &[&[u8]]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(&parts.concat())?;
    out.flush()
}

fn print_line(value: impl ToString) -> io::Result<()> {
    print(&[value.to_string().as_bytes(), b"\n"])
}

fn print_environment() -> io::Result<()> {
    for (name, value) in std::env::vars_os() {
        print(&[name.as_bytes(), b"=", value.as_bytes(), b"\n"])?;
    }
    Ok(())
}

/// One line per open descriptor: its number and type.
fn print_fds() -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        let target = fs::read_link(&path)?;
        let number = path.file_name().unwrap_or_default();
        // Skips the descriptor of the directory that is being read.
        if !target.starts_with(format!("/proc/{}/fd", std::process::id())) {
            print(&[number.as_bytes(), b" ", target.as_os_str().as_bytes(), b"\n"])?;
        }
    }
    Ok(())
}

fn print_limits() -> io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    print_line(format!("{soft} {hard}"))
}

/// Sends its input to a unix socket and prints the response. A lost connection is not an error:
/// only the response counts.
fn connect(socket: &Path) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    io::stdin().read_to_end(&mut request)?;
    let _ = stream.write_all(&request);
    let _ = stream.read_to_end(&mut answer);
    print(&[&answer])
}

/// Uses up this user's inotify instances and descriptors in flight, prints how many there were left, and
/// holds them until it is killed.
fn use_up() -> io::Result<()> {
    let instances: Vec<_> = std::iter::from_fn(|| Inotify::init(InitFlags::empty()).ok()).collect();
    let null = File::open("/dev/null")?;
    // The kernel's limit on those of a message.
    let fds = [null.as_raw_fd(); 253];
    let (mut pairs, mut in_flight) = (vec![UnixStream::pair()?], 0);
    while let Some((sender, _)) = pairs.last() {
        let message = [ControlMessage::ScmRights(&fds)];
        let bytes = [IoSlice::new(b"x")];
        let flags = MsgFlags::MSG_DONTWAIT;
        match sendmsg::<()>(sender.as_raw_fd(), &bytes, &message, flags, None) {
            Ok(_) => in_flight += fds.len(),
            Err(Errno::EAGAIN) => pairs.push(UnixStream::pair()?),
            Err(Errno::ETOOMANYREFS) => break,
            Err(errno) => return Err(errno.into()),
        }
    }
    print_line(format!("inotify={} in_flight={in_flight}.", instances.len()))?;
    loop {
        pause();
    }
}

/// Prints process, process group and session.
fn print_ids() -> io::Result<()> {
    let (group, session) = (getpgid(None)?, getsid(None)?);
    print_line(format!("{} {group} {session}", Pid::this()))
}

fn die(signal: u64) -> io::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    let signal = Signal::try_from(i32::try_from(signal).map_err(io::Error::other)?)?;
    // Rust programs start with SIGPIPE ignored and handlers for SIGSEGV and SIGBUS, which no safe
    // call restores; a shell does.
    if matches!(signal, Signal::SIGPIPE | Signal::SIGSEGV | Signal::SIGBUS) {
        let kill = format!("kill -{} $$", signal as i32);
        return Err(std::os::unix::process::CommandExt::exec(
            Command::new("/bin/sh").args(["-c", &kill]),
        ));
    }
    raise(signal)?;
    Ok(())
}

fn count(file: &Path) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(file)?.write_all(b"ran\n")
}

fn emit(mut bytes: u64, seed: u64) -> io::Result<()> {
    let mut noise = RandomBytes::new(seed);
    // Not `io::stdout`, whose line buffer would split the stream at newlines.
    let mut out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    while bytes > 0 {
        let block = noise.next(usize::try_from(bytes).unwrap_or(usize::MAX));
        out.write_all(block)?;
        bytes -= block.len() as u64;
    }
    Ok(())
}

/// Writes lines to stdout and stderr in turns.
fn both(rounds: u64) -> io::Result<()> {
    for round in 0..rounds {
        print_line(format!("out {round}"))?;
        io::stderr().write_all(format!("err {round}\n").as_bytes())?;
    }
    Ok(())
}

/// Atomically creates a file with this process pid.
fn announce(file: &Path) -> io::Result<()> {
    appear(file, &std::process::id().to_string())
}

fn appear(file: &Path, content: &str) -> io::Result<()> {
    let unfinished = file.with_extension("unfinished");
    fs::write(&unfinished, content)?;
    fs::rename(unfinished, file)
}

fn wait_for(file: &Path) {
    while !file.exists() {
        sleep(Duration::from_millis(2));
    }
}

/// Every signal that is forwarded and can be blocked.
fn crossing() -> SigSet {
    use Signal::*;
    let signals = [SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGCONT, SIGTSTP, SIGWINCH];
    signals.into_iter().collect()
}

fn block_all() -> io::Result<()> {
    Ok(crossing().thread_block()?)
}

fn pause_for_ever() -> ! {
    loop {
        pause();
    }
}

/// Prints the first signal that arrives.
fn catch() -> io::Result<u8> {
    block_all()?;
    print_line("ready")?;
    print_line(crossing().wait()?)?;
    Ok(0)
}

/// Records every signal in `file` or on stdout, until it is killed.
fn record(file: Option<&Path>) -> io::Result<()> {
    block_all()?;
    let record_line = |line: &str| match file {
        Some(file) => {
            let mut file = OpenOptions::new().create(true).append(true).open(file)?;
            file.write_all(format!("{line}\n").as_bytes())
        }
        None => print_line(line),
    };
    record_line("ready")?;
    loop {
        record_line(crossing().wait()?.as_str())?;
    }
}

/// Starts a process that is forked twice, has its own session and ignores all signals but KILL;
/// returns after it has announced itself.
fn start_leaf(file: &Path) -> io::Result<()> {
    spawn_self(["middle".as_ref(), file.as_os_str()])?.wait()?;
    wait_for(file);
    Ok(())
}

/// Announces itself, then starts another such process on each TERM.
fn grow_heads(file: &Path) -> io::Result<()> {
    block_all()?;
    count(file)?;
    loop {
        if crossing().wait()? == Signal::SIGTERM {
            spawn_self(["head".as_ref(), file.as_os_str()])?;
        }
    }
}

fn spawn_self<const N: usize>(args: [&OsStr; N]) -> io::Result<std::process::Child> {
    Command::new("/proc/self/exe").args(args).spawn()
}

fn is_middle(pid: u32) -> bool {
    let cmdline = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    cmdline.split(|&byte| byte == 0).any(|word| word == b"middle")
}

/// On request, writes more than any pipe and buffer holds, and reports the result.
fn chatter(file: &Path) -> io::Result<()> {
    wait_for(&file.with_extension("go"));
    match emit(8 << 20, 1) {
        Ok(()) => appear(file, "survived"),
        Err(e) => appear(file, &e.to_string()),
    }
}
