//! The guard of a client terminal (`spec/attach.md#the-clients-terminal`).
//!
//! A client that is killed cannot set its terminal's modes back. So it starts a guard, which holds a
//! pipe from the client and does so when the pipe ends without a final message.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use aifo_process::{SignalSet, terminal};
use aifo_types::TerminalModes;
use nix::libc;

use crate::frame::{Frame, FrameReader};

/// This program, whatever has become of its file.
pub const PROGRAM: &str = "/proc/self/exe";
/// The first argument of a guard.
const GUARD: &str = "_guard";

/// Runs a guard, if the first argument of the command line is one's. A program with a [`Client`](crate::Client)
/// calls this before it does anything else.
pub fn guard_process(first: &OsStr) -> Option<io::Result<()>> {
    (first == GUARD).then(guard)
}

/// The client's end of the pipe.
#[derive(Debug)]
pub(crate) struct Guard {
    pipe: File,
    process: Child,
}

impl Guard {
    /// Starts this program as the guard of a terminal with these modes.
    pub(crate) fn start(terminal: OwnedFd, modes: &TerminalModes) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let process = Command::new(PROGRAM)
            .arg0("aifo-guard")
            .arg(GUARD)
            .stdin(OwnedFd::from(reader))
            .stdout(terminal)
            .stderr(Stdio::null())
            .spawn()?;
        let mut guard = Guard { pipe: File::from(OwnedFd::from(writer)), process };
        guard.send(&Frame::Input(encode_modes(modes)))?;
        Ok(guard)
    }

    /// Sets the bytes that undo the terminal's modes.
    pub(crate) fn set_restore(&mut self, restore: &[u8]) -> io::Result<()> {
        self.send(&Frame::Restore(restore.to_vec()))
    }

    /// Ends the guard: the client has restored the terminal.
    pub(crate) fn end(mut self) {
        // A guard that was killed has no end to wait for.
        let _ = self.send(&Frame::Detached);
        let _ = self.process.wait();
    }

    fn send(&mut self, frame: &Frame) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.pipe.write_all(&bytes)
    }
}

/// Runs as the guard of the terminal on stdout, with the client's pipe as stdin. Returns when the client
/// has left.
fn guard() -> io::Result<()> {
    // The terminal's signals are the client's, and modes are set in the background too.
    let mut signals = SignalSet::from_bits(!0);
    for number in [libc::SIGKILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGCHLD] {
        signals.remove(u8::try_from(number).unwrap_or_default());
    }
    signals.block()?;
    let mut pipe = aifo_process::take_fd(0)?;
    let screen = aifo_process::take_fd(1)?;
    let mut reader = FrameReader::default();
    let (mut modes, mut restore) = (None, Vec::new());
    let mut bytes = [0; 4096];
    loop {
        while let Ok(Some(frame)) = reader.next_frame() {
            match frame {
                Frame::Input(encoded) => modes = decode_modes(&encoded),
                Frame::Restore(bytes) => restore = bytes,
                _ => return Ok(()),
            }
        }
        match read(&mut pipe, &mut bytes)? {
            0 => break,
            count => reader.receive(bytes.get(..count).unwrap_or_default()),
        }
    }
    if let Some(modes) = modes {
        let found = terminal::modes(screen.as_fd())?;
        // Not if a program has set its own modes since.
        if found == terminal::raw(&modes) {
            terminal::set_modes(screen.as_fd(), &modes)?;
        }
    }
    File::from(screen).write_all(&restore)
}

fn read(pipe: &mut OwnedFd, bytes: &mut [u8]) -> io::Result<usize> {
    let mut file = File::from(pipe.try_clone()?);
    file.read(bytes)
}

/// Four numbers, then the control characters.
fn encode_modes(modes: &TerminalModes) -> Vec<u8> {
    let numbers = [modes.input, modes.output, modes.control, modes.local];
    let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u32::to_be_bytes).collect();
    bytes.extend(&modes.characters);
    bytes
}

fn decode_modes(bytes: &[u8]) -> Option<TerminalModes> {
    let (numbers, characters) = bytes.split_at_checked(16)?;
    let (numbers, _) = numbers.as_chunks();
    let mut numbers = numbers.iter().map(|bytes| u32::from_be_bytes(*bytes));
    let [input, output, control, local] = std::array::from_fn(|_| numbers.next().unwrap_or(0));
    Some(TerminalModes { input, output, control, local, characters: characters.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_travel_unchanged() {
        let modes = TerminalModes {
            input: 1,
            output: 0x0203_0405,
            control: u32::MAX,
            local: 7,
            characters: vec![3, 28, 127],
        };
        assert_eq!(decode_modes(&encode_modes(&modes)), Some(modes));
        assert_eq!(decode_modes(b"short"), None);
    }
}
