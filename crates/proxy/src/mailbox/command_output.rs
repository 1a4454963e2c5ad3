//! One output stream of a command: copies a pipe to a file.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use crate::mailbox::files::limits;
use crate::tool_output::ToolOutput;

/// The reading end of a command's stdout or stderr. The command does not write to the file directly: a
/// program that reopens `/dev/stderr` would truncate it.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pipe: ToolOutput,
    copied: u64,
}

/// The result of copying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// Bytes in the file.
    Some(usize),
    /// All writers have closed the pipe.
    End,
    /// The file is full, or writing failed.
    Full,
}

/// Maximum bytes of one copy.
const MAX_COPY: usize = 256 * 1024;

impl CommandOutput {
    /// Creates the pipe. Returns the reader and the command's end.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (pipe, writer) = ToolOutput::new()?;
        Ok((CommandOutput { pipe, copied: 0 }, writer))
    }

    /// Copies the next bytes. Cancel-safe.
    pub(crate) async fn copy(&mut self, file: &File) -> Copied {
        loop {
            match copy(&self.pipe, file, MAX_COPY, &mut self.copied) {
                Ok(None) => {}
                Ok(Some(0)) => return Copied::End,
                Ok(Some(count)) => return Copied::Some(count),
                Err(Full) => return Copied::Full,
            }
            if self.pipe.readable().await.is_err() {
                return Copied::End;
            }
        }
    }

    /// Copies the output that is in the pipe after the command has ended, and discards later output of
    /// its background processes.
    pub(crate) fn copy_rest(self, file: &File) {
        let CommandOutput { pipe, mut copied } = self;
        let mut rest = pipe.rest();
        while rest
            .next(|pipe, max| Ok(copy(pipe, file, max, &mut copied).unwrap_or_default()))
            .is_some()
        {}
        rest.discard();
    }

    /// Discards output until all writers have closed: a background process must neither block on a full
    /// pipe nor get SIGPIPE.
    pub(crate) fn discard(self) {
        self.pipe.discard_rest();
    }
}

/// The file accepts no more bytes.
struct Full;

fn copy(
    pipe: &ToolOutput,
    file: &File,
    max: usize,
    copied: &mut u64,
) -> Result<Option<usize>, Full> {
    if *copied >= limits::OUTPUT {
        return Err(Full);
    }
    let count = pipe.try_move(file, max).map_err(|error| {
        tracing::warn!(%error, "cannot write a command's output");
        Full
    })?;
    *copied = copied.saturating_add(count.unwrap_or_default() as u64);
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[tokio::test]
    async fn output_is_copied_up_to_the_end_of_the_command() {
        let file = &mut tempfile::tempfile().unwrap();
        let (mut output, writer) = CommandOutput::new().unwrap();
        // The writing end of a background child.
        let kept = writer.try_clone().unwrap();
        let mut writer = File::from(writer);
        writer.write_all(b"first").unwrap();
        assert_eq!(output.copy(file).await, Copied::Some(5));
        writer.write_all(b", rest").unwrap();
        drop(writer);
        output.copy_rest(file);
        File::from(kept).write_all(b"later").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "first, rest");

        let (mut output, writer) = CommandOutput::new().unwrap();
        drop(writer);
        assert_eq!(output.copy(file).await, Copied::End);
    }

    #[tokio::test]
    async fn a_failed_write_is_reported() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (mut output, writer) = CommandOutput::new().unwrap();
        File::from(writer).write_all(b"too much").unwrap();
        assert_eq!(output.copy(&full).await, Copied::Full);
    }
}
