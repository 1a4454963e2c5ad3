//! Classification of the standard descriptors (`spec/exec3.md#invocation`).

use std::os::fd::BorrowedFd;

use aifo_process::{is_same_object, kernel};
use aifo_types::Stdio;
use nix::sys::stat::{SFlag, makedev};

/// How descriptors reach the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FdTransport {
    Pass,
    Relay,
}

/// Classifies 0, 1 and 2. `closed` marks those that the parent left closed.
pub(crate) fn classify(
    fds: [BorrowedFd<'_>; 3],
    closed: [bool; 3],
    transport: FdTransport,
) -> [Stdio; 3] {
    let mut stdio = [Stdio::Closed; 3];
    for ((kind, fd), is_closed) in stdio.iter_mut().zip(fds).zip(closed) {
        if !is_closed {
            *kind = classify_one(fd, transport);
        }
    }
    let [_, output, error] = fds;
    let shares = matches!(stdio[1], Stdio::Passed | Stdio::Relayed | Stdio::Terminal);
    // Descriptors of different kinds cannot be the same file.
    if shares && stdio[1] == stdio[2] && is_same_object(output, error) {
        stdio[2] = Stdio::Same;
    }
    stdio
}

fn classify_one(fd: BorrowedFd<'_>, transport: FdTransport) -> Stdio {
    let Ok(stat) = kernel::fstat(fd) else { return Stdio::Closed };
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFCHR if stat.st_rdev == makedev(1, 3) => Stdio::Null,
        SFlag::S_IFCHR if kernel::is_terminal(fd) => Stdio::Terminal,
        SFlag::S_IFIFO | SFlag::S_IFREG if transport == FdTransport::Pass => Stdio::Passed,
        _ => Stdio::Relayed,
    }
}

/// Returns the descriptors to pass with the request, in order.
pub(crate) fn passed(fds: [BorrowedFd<'_>; 3], stdio: [Stdio; 3]) -> Vec<BorrowedFd<'_>> {
    let passed = fds.into_iter().zip(stdio).filter(|(_, kind)| *kind == Stdio::Passed);
    passed.map(|(fd, _)| fd).collect()
}

/// Returns the caller terminal: stdout, else stderr, else stdin.
pub(crate) fn terminal<T>(fds: [T; 3], stdio: [Stdio; 3]) -> Option<T> {
    let [input, output, error] = fds;
    let mut candidates = [(output, stdio[1]), (error, stdio[2]), (input, stdio[0])].into_iter();
    candidates.find(|(_, kind)| *kind == Stdio::Terminal).map(|(fd, _)| fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use aifo_process::Pty;
    use aifo_types::{TerminalModes, WindowSize};
    use nix::fcntl::{OFlag, open};
    use nix::sys::stat::Mode;

    #[test]
    fn kinds_of_descriptors() {
        let pty = Pty::open(WindowSize::default(), &TerminalModes::default()).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let file = |path: &str| OwnedFd::from(File::open(path).unwrap());
        let by_path = open("/etc/passwd", OFlag::O_PATH, Mode::empty()).unwrap();
        use Stdio::{Null, Passed, Relayed, Terminal};
        let rows: [(&str, OwnedFd, Stdio, Stdio); 11] = [
            ("/dev/null", file("/dev/null"), Null, Null),
            ("a pipe to read", reader.into(), Passed, Relayed),
            ("a pipe to write", writer.into(), Passed, Relayed),
            ("a file", file("/etc/passwd"), Passed, Relayed),
            ("a file opened with O_PATH", by_path, Passed, Relayed),
            ("a directory", file("/"), Relayed, Relayed),
            ("a device", file("/dev/zero"), Relayed, Relayed),
            ("a full device", file("/dev/full"), Relayed, Relayed),
            ("a socket", UnixStream::pair().unwrap().0.into(), Relayed, Relayed),
            ("another socket", UnixDatagram::unbound().unwrap().into(), Relayed, Relayed),
            ("a terminal", pty.slave, Terminal, Terminal),
        ];
        for (what, fd, passing, relaying) in rows {
            assert_eq!(classify_one(fd.as_fd(), FdTransport::Pass), passing, "{what}");
            assert_eq!(classify_one(fd.as_fd(), FdTransport::Relay), relaying, "{what}");
        }
    }

    #[test]
    fn stderr_may_be_the_same_as_stdout() {
        let null = File::open("/dev/null").unwrap();
        let (_reader, writer) = std::io::pipe().unwrap();
        let twin = writer.try_clone().unwrap();
        let (_other_reader, other) = std::io::pipe().unwrap();
        let (null, writer) = (null.as_fd(), writer.as_fd());
        let (twin, other) = (twin.as_fd(), other.as_fd());
        let open = [false; 3];
        use Stdio::{Closed, Null, Passed, Relayed, Same};
        let rows = [
            ([null, writer, twin], open, FdTransport::Pass, [Null, Passed, Same]),
            ([null, writer, twin], open, FdTransport::Relay, [Null, Relayed, Same]),
            ([null, writer, other], open, FdTransport::Pass, [Null, Passed, Passed]),
            ([writer, null, null], open, FdTransport::Pass, [Passed, Null, Null]),
            ([writer, twin, null], open, FdTransport::Pass, [Passed, Passed, Null]),
            ([null, null, twin], [true, true, false], FdTransport::Pass, [Closed, Closed, Passed]),
        ];
        for (fds, closed, transport, expected) in rows {
            let stdio = classify(fds, closed, transport);
            assert_eq!(stdio, expected);
            let count = stdio.iter().filter(|kind| **kind == Passed).count();
            assert_eq!(passed(fds, stdio).len(), count, "{expected:?}");
        }
    }

    #[test]
    fn the_terminal_is_an_output_first() {
        use Stdio::{Null, Same, Terminal};
        let rows = [
            ([Null, Null, Null], None),
            ([Terminal, Null, Null], Some(0)),
            ([Terminal, Null, Terminal], Some(2)),
            ([Terminal, Terminal, Same], Some(1)),
        ];
        for (stdio, expected) in rows {
            assert_eq!(terminal([0, 1, 2], stdio), expected, "{stdio:?}");
        }
    }
}
