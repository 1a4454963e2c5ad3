//! Size, modes and foreground group of a terminal.
//!
//! Proves `spec/terminal.md#at-the-caller`.

use std::io;
use std::os::fd::BorrowedFd;

use aifo_types::{TerminalModes, WindowSize};
use nix::errno::Errno;
use nix::libc;
use nix::unistd::{Pid, getpgrp, tcgetpgrp};

use crate::sys;

/// Returns a terminal size. Errors: ENOTTY if it is not a terminal.
pub fn window_size(terminal: BorrowedFd<'_>) -> io::Result<WindowSize> {
    let size = sys::window_size(terminal)?;
    Ok(WindowSize {
        rows: size.ws_row,
        columns: size.ws_col,
        x_pixels: size.ws_xpixel,
        y_pixels: size.ws_ypixel,
    })
}

/// Returns the modes of a terminal. Errors: ENOTTY if it is not a terminal.
pub fn modes(terminal: BorrowedFd<'_>) -> io::Result<TerminalModes> {
    let attributes = sys::terminal_attributes(terminal)?;
    Ok(TerminalModes {
        input: attributes.c_iflag,
        output: attributes.c_oflag,
        control: attributes.c_cflag,
        local: attributes.c_lflag,
        characters: attributes.c_cc.into_iter().take(CONTROL_CHARACTERS).collect(),
    })
}

/// Sets the modes of a terminal once all output was sent. Pending input is kept, and so are control
/// characters beyond those given.
///
/// The kernel stops a caller in the background (SIGTTOU) unless it blocks or ignores that signal.
/// Errors: ENOTTY if it is not a terminal, EIO if it was hung up.
pub fn set_modes(terminal: BorrowedFd<'_>, modes: &TerminalModes) -> io::Result<()> {
    let mut attributes = sys::terminal_attributes(terminal)?;
    attributes.c_iflag = modes.input;
    attributes.c_oflag = modes.output;
    attributes.c_cflag = modes.control;
    attributes.c_lflag = modes.local;
    for (target, character) in
        attributes.c_cc.iter_mut().take(CONTROL_CHARACTERS).zip(&modes.characters)
    {
        *target = *character;
    }
    // When a signal interrupts the wait for slow output, nothing has changed yet.
    loop {
        match sys::set_terminal_attributes(terminal, &attributes) {
            Err(Errno::EINTR) => {}
            other => return Ok(other?),
        }
    }
}

/// Appends bytes to the input of the controlling terminal, as if they were typed now. Errors: the
/// kernel does not allow it (`dev.tty.legacy_tiocsti`), or it is another terminal.
pub fn insert_input(terminal: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    Ok(bytes.iter().try_for_each(|byte| sys::insert_input(terminal, *byte))?)
}

/// Returns whether the kernel lets processes use [`insert_input`].
pub fn can_insert_input() -> bool {
    // Older kernels have no such setting, and allow it.
    let setting = std::fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti");
    setting.map_or(true, |value| value.trim() != "0")
}

/// Returns raw modes (`cfmakeraw(3)`): no line editing, echo, signals or translation.
pub fn raw(modes: &TerminalModes) -> TerminalModes {
    let mut raw = modes.clone();
    raw.input &= !(libc::IGNBRK
        | libc::BRKINT
        | libc::PARMRK
        | libc::ISTRIP
        | libc::INLCR
        | libc::IGNCR
        | libc::ICRNL
        | libc::IXON);
    raw.output &= !libc::OPOST;
    raw.local &= !(libc::ECHO | libc::ECHONL | libc::ICANON | libc::ISIG | libc::IEXTEN);
    raw.control = raw.control & !(libc::CSIZE | libc::PARENB) | libc::CS8;
    for (index, value) in [(libc::VMIN, 1), (libc::VTIME, 0)] {
        if let Some(character) = raw.characters.get_mut(index) {
            *character = value;
        }
    }
    raw
}

/// Returns whether this process is in the foreground of its controlling terminal. `false` for any
/// other terminal.
pub fn is_foreground(terminal: BorrowedFd<'_>) -> bool {
    foreground_group(terminal).is_ok_and(|group| group == getpgrp())
}

/// Returns whether another process group is in the foreground of this process's controlling
/// terminal. `false` for any other terminal.
pub fn is_background(terminal: BorrowedFd<'_>) -> bool {
    foreground_group(terminal).is_ok_and(|group| group != getpgrp())
}

/// Returns the modes with line editing, echo, signal keys and translation of line ends.
pub fn line_edited(mut modes: TerminalModes) -> TerminalModes {
    modes.input |= libc::ICRNL;
    modes.output |= libc::OPOST | libc::ONLCR;
    modes.local |= libc::ICANON | libc::ECHO | libc::ECHOE | libc::ISIG | libc::IEXTEN;
    modes
}

/// Returns the foreground process group of the controlling terminal. Errors: ENOTTY for any other
/// terminal.
pub fn foreground_group(terminal: BorrowedFd<'_>) -> io::Result<Pid> {
    Ok(tcgetpgrp(terminal)?)
}

/// Number of control characters in the kernel (`NCCS`); the C library's array is longer.
const CONTROL_CHARACTERS: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pty;
    use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    const COOKED: TerminalModes = TerminalModes {
        input: libc::ICRNL | libc::IXON,
        output: libc::OPOST | libc::ONLCR,
        control: libc::CS8 | libc::CREAD | libc::B38400,
        local: libc::ICANON | libc::ISIG | libc::ECHO | libc::IEXTEN,
        characters: Vec::new(),
    };

    #[test]
    fn raw_equals_cfmakeraw() {
        let pty = Pty::open(WindowSize::default(), &COOKED).unwrap();
        let before = modes(pty.slave.as_fd()).unwrap();
        let mut expected = tcgetattr(&pty.slave).unwrap();
        cfmakeraw(&mut expected);
        tcsetattr(&pty.slave, SetArg::TCSANOW, &expected).unwrap();
        assert_eq!(raw(&before), modes(pty.slave.as_fd()).unwrap());
        assert_eq!(raw(&TerminalModes::default()).characters, []);
    }

    #[test]
    fn set_modes_keeps_typed_ahead_input() {
        let pty = Pty::open(WindowSize::default(), &COOKED).unwrap();
        let before = modes(pty.slave.as_fd()).unwrap();
        let (mut master, mut slave) = (File::from(pty.master), File::from(pty.slave));
        master.write_all(b"ahead").unwrap();
        // A line without an end: its echo shows that it has arrived, but it cannot be read yet.
        let mut echo = Vec::new();
        while echo != b"ahead" {
            let mut buffer = [0; 5];
            match master.read(&mut buffer) {
                Ok(length) => echo.extend_from_slice(&buffer[..length]),
                Err(_) => std::thread::yield_now(),
            }
        }
        set_modes(slave.as_fd(), &raw(&before)).unwrap();
        let mut typed = [0; 5];
        slave.read_exact(&mut typed).unwrap();
        assert_eq!(&typed, b"ahead");
        set_modes(slave.as_fd(), &before).unwrap();
        assert_eq!(modes(slave.as_fd()).unwrap(), before);
    }

    #[test]
    fn other_files_and_other_terminals_are_rejected() {
        let null = File::open("/dev/null").unwrap();
        assert_eq!(modes(null.as_fd()).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert!(window_size(null.as_fd()).is_err() && set_modes(null.as_fd(), &COOKED).is_err());
        let pty = Pty::open(WindowSize::default(), &COOKED).unwrap();
        assert!(!is_foreground(pty.slave.as_fd()));
        assert!(foreground_group(pty.slave.as_fd()).is_err());
    }
}
