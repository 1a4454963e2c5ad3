//! Pseudo terminals.
//!
//! Proves `spec/terminal.md#in-the-sidecar`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aifo_types::{TerminalModes, WindowSize};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::stat::Mode;
use nix::unistd::read;

use crate::{sys, terminal};

/// A pseudo terminal. Both ends are close-on-exec, and it is not yet a controlling terminal.
#[derive(Debug)]
pub struct Pty {
    /// The controlling side, non-blocking. Reading fails with EIO once no process has the slave
    /// open.
    pub master: OwnedFd,
    /// The terminal side, for programs.
    pub slave: OwnedFd,
}

impl Pty {
    /// Opens a pseudo terminal with this size and these modes.
    ///
    /// Control characters beyond those given keep the kernel's defaults. A speed of zero, which
    /// would hang up, and one that is not a fixed rate become the default speed.
    pub fn open(size: WindowSize, modes: &TerminalModes) -> io::Result<Self> {
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let master = open("/dev/ptmx", flags, Mode::empty())?;
        let slave = sys::pty_slave(master.as_fd())?;
        resize(master.as_fd(), size)?;
        let own = sys::terminal_attributes(slave.as_fd())?.c_cflag;
        let control = with_speed(modes.control, own);
        terminal::set_modes(slave.as_fd(), &TerminalModes { control, ..modes.clone() })?;
        Ok(Pty { master, slave })
    }
}

/// Takes the input of a pseudo terminal that no process has read, incomplete lines included, and
/// leaves the terminal raw. For a terminal whose program has ended.
pub fn take_unread_input(master: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let slave = sys::pty_slave(master)?;
    let mut attributes = sys::terminal_attributes(slave.as_fd())?;
    // Without line editing all input can be read.
    attributes.c_lflag &= !(libc::ICANON | libc::ECHO);
    attributes.c_cc[libc::VMIN] = 0;
    attributes.c_cc[libc::VTIME] = 0;
    sys::set_terminal_attributes_now(slave.as_fd(), &attributes)?;
    let mut unread = vec![0; MAX_INPUT];
    let mut count = 0;
    while let Some(space) = unread.get_mut(count..).filter(|space| !space.is_empty()) {
        match read(&slave, space) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    unread.truncate(count);
    Ok(unread)
}

/// The bytes of input that a terminal buffers (`N_TTY_BUF_SIZE`).
pub const MAX_INPUT: usize = 4096;

/// Sets the size of a pseudo terminal. If the size changes, the kernel sends SIGWINCH to the
/// terminal's foreground group.
pub fn resize(master: BorrowedFd<'_>, size: WindowSize) -> io::Result<()> {
    let size = libc::winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: size.x_pixels,
        ws_ypixel: size.y_pixels,
    };
    Ok(sys::set_window_size(master, &size)?)
}

/// Returns `flags` with their output speed if it is a fixed rate, else with that of `default`. The
/// input speed is the same.
fn with_speed(flags: u32, default: u32) -> u32 {
    let source = match flags & libc::CBAUD {
        libc::B0 | libc::BOTHER => default,
        _ => flags,
    };
    flags & !(libc::CBAUD | libc::CIBAUD) | source & libc::CBAUD
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{ErrorKind, Read, Write};

    fn sizes(rows: u16, columns: u16) -> WindowSize {
        WindowSize { rows, columns, x_pixels: 640, y_pixels: 480 }
    }

    #[test]
    fn a_new_pty_has_the_given_size_and_modes() {
        let first = Pty::open(sizes(24, 80), &TerminalModes::default()).unwrap();
        let defaults = terminal::modes(first.slave.as_fd()).unwrap();
        assert_eq!((defaults.input, defaults.local, defaults.characters.len()), (0, 0, 19));
        assert_eq!(defaults.control & libc::CBAUD, libc::B38400);

        let mut modes = TerminalModes {
            input: libc::ICRNL | libc::IUTF8,
            output: libc::OPOST | libc::ONLCR,
            control: libc::B9600 | libc::CS8 | libc::CREAD,
            local: libc::ICANON | libc::ISIG | libc::ECHO,
            characters: defaults.characters,
        };
        modes.characters[libc::VINTR] = 7;
        let pty = Pty::open(sizes(50, 132), &modes).unwrap();
        assert_eq!(terminal::modes(pty.slave.as_fd()).unwrap(), modes);
        assert_eq!(terminal::window_size(pty.slave.as_fd()).unwrap(), sizes(50, 132));
        resize(pty.master.as_fd(), sizes(10, 20)).unwrap();
        assert_eq!(terminal::window_size(pty.slave.as_fd()).unwrap(), sizes(10, 20));
    }

    #[test]
    fn unsupported_speeds_become_the_default() {
        let own = libc::B38400;
        for unsupported in [libc::B0, libc::BOTHER, libc::BOTHER | libc::BOTHER << 16] {
            assert_eq!(with_speed(libc::CS8 | unsupported, own), libc::CS8 | libc::B38400);
        }
        assert_eq!(with_speed(libc::CS8 | libc::B115200, own), libc::CS8 | libc::B115200);
    }

    #[test]
    fn unread_input_includes_an_incomplete_line() {
        let modes = TerminalModes {
            input: libc::ICRNL,
            local: libc::ICANON | libc::ECHO,
            ..TerminalModes::default()
        };
        let pty = Pty::open(sizes(24, 80), &modes).unwrap();
        assert_eq!(take_unread_input(pty.master.as_fd()).unwrap(), b"");
        let pty = Pty::open(sizes(24, 80), &modes).unwrap();
        let mut master = File::from(pty.master.try_clone().unwrap());
        master.write_all(b"one\rtwo\rthree").unwrap();
        let mut echo = Vec::new();
        let mut buffer = [0; 16];
        // The echo shows that the input has arrived.
        while !echo.ends_with(b"three") {
            match master.read(&mut buffer) {
                Ok(length) => echo.extend_from_slice(&buffer[..length]),
                Err(_) => std::thread::yield_now(),
            }
        }
        let mut slave = File::from(pty.slave);
        assert_eq!(slave.read(&mut buffer).unwrap(), 4, "a program reads one line");
        assert_eq!(take_unread_input(pty.master.as_fd()).unwrap(), b"two\nthree");
        assert_eq!(take_unread_input(pty.master.as_fd()).unwrap(), b"");
    }

    #[test]
    fn bytes_cross_both_ways() {
        let pty = Pty::open(sizes(24, 80), &TerminalModes::default()).unwrap();
        let (mut master, mut slave) = (File::from(pty.master), File::from(pty.slave));
        let mut buffer = [0; 16];
        let nothing = master.read(&mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        slave.write_all(b"shown").unwrap();
        let shown = std::iter::repeat_with(|| master.read(&mut buffer)).find_map(Result::ok);
        assert_eq!(shown, Some(5));
        master.write_all(b"typed").unwrap();
        assert_eq!(slave.read(&mut buffer).unwrap(), 5);
        drop(slave);
        // A process that another test starts may hold a copy of the slave until it calls execve.
        let end = std::iter::repeat_with(|| master.read(&mut buffer).unwrap_err())
            .find(|error| error.kind() != ErrorKind::WouldBlock);
        assert_eq!(end.and_then(|error| error.raw_os_error()), Some(libc::EIO));
    }
}
