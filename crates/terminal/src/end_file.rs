//! The file with the end of a command that no client saw.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use aifo_types::Ending;

use crate::frame::Frame;

/// Name of the file in the holder directory.
pub const END_FILE: &str = "ended";

/// Writes the file, as the frames that a client would have received. Returns once it is complete.
pub(crate) fn write(directory: &Path, screen: Vec<u8>, ending: Ending) -> io::Result<()> {
    let mut bytes = Vec::new();
    Frame::Output(screen).encode(&mut bytes);
    Frame::Ended(ending).encode(&mut bytes);
    let new = directory.join("ended.new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&bytes)?;
    fs::rename(new, directory.join(END_FILE))
}
