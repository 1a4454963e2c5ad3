//! A terminal we were started on: its size, its modes, and whose it is.

use std::io;
use std::os::fd::BorrowedFd;

use aifo_types::{TerminalModes, WindowSize};
use nix::errno::Errno;
use nix::libc;
use nix::unistd::{Pid, getpgrp, tcgetpgrp};

use crate::sys;

/// The size of a terminal. Errors: ENOTTY if it is none.
pub fn window_size(terminal: BorrowedFd<'_>) -> io::Result<WindowSize> {
    let size = sys::window_size(terminal)?;
    Ok(WindowSize {
        rows: size.ws_row,
        columns: size.ws_col,
        x_pixels: size.ws_xpixel,
        y_pixels: size.ws_ypixel,
    })
}

/// The modes of a terminal. Errors: ENOTTY if it is none.
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

/// Sets the modes of a terminal when all that was written to it has been sent. What was typed
/// ahead stays. Control characters beyond those given stay as they are.
///
/// The kernel stops a caller in the background (SIGTTOU) unless it blocks or ignores that signal.
/// Errors: ENOTTY if it is none, EIO if it was hung up.
pub fn set_modes(terminal: BorrowedFd<'_>, modes: &TerminalModes) -> io::Result<()> {
    let mut attributes = sys::terminal_attributes(terminal)?;
    attributes.c_iflag = modes.input;
    attributes.c_oflag = modes.output;
    attributes.c_cflag = modes.control;
    attributes.c_lflag = modes.local;
    for (ours, theirs) in attributes.c_cc.iter_mut().take(CONTROL_CHARACTERS).zip(&modes.characters)
    {
        *ours = *theirs;
    }
    // A wait for slow output that a signal interrupts has changed nothing yet.
    loop {
        match sys::set_terminal_attributes(terminal, &attributes) {
            Err(Errno::EINTR) => {}
            other => return Ok(other?),
        }
    }
}

/// These modes without any treatment of what is typed and shown (`cfmakeraw(3)`): every byte comes
/// at once, as it is.
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

/// Whether we are in the foreground of a terminal: what is typed there is for us. Never so for one
/// that is not our controlling terminal.
pub fn is_foreground(terminal: BorrowedFd<'_>) -> bool {
    foreground_group(terminal).is_ok_and(|group| group == getpgrp())
}

/// The process group in the foreground of our controlling terminal. Errors: ENOTTY if it is not
/// that.
pub fn foreground_group(terminal: BorrowedFd<'_>) -> io::Result<Pid> {
    Ok(tcgetpgrp(terminal)?)
}

/// How many control characters the kernel has (`NCCS`); the C library has room for more.
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
        let mut theirs = tcgetattr(&pty.slave).unwrap();
        cfmakeraw(&mut theirs);
        tcsetattr(&pty.slave, SetArg::TCSANOW, &theirs).unwrap();
        assert_eq!(raw(&before), modes(pty.slave.as_fd()).unwrap());
        assert_eq!(raw(&TerminalModes::default()).characters, []);
    }

    #[test]
    fn set_modes_keeps_typed_ahead_input() {
        let pty = Pty::open(WindowSize::default(), &COOKED).unwrap();
        let before = modes(pty.slave.as_fd()).unwrap();
        let (mut master, mut slave) = (File::from(pty.master), File::from(pty.slave));
        master.write_all(b"ahead").unwrap();
        // Half a line: its echo shows that it has arrived, yet nobody could read it.
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
