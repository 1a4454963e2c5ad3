//! The way from a client to a holder.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use aifo_process::connect_unix;
use aifo_types::WindowSize;

use crate::end_file::END_FILE;
use crate::frame::{ClientRole, Frame};
use crate::holder::SOCKET;

/// The way to a holder: its socket, or the pipes of a program that relays.
#[derive(Debug)]
pub struct Connection {
    /// Frames from the holder.
    pub reader: OwnedFd,
    /// Frames to the holder.
    pub writer: OwnedFd,
}

impl Connection {
    /// Connects to the holder with this directory.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Connection::of_stream(connect(directory)?)
    }

    /// A connected socket.
    pub fn of_stream(stream: UnixStream) -> io::Result<Self> {
        Ok(Connection { reader: stream.try_clone()?.into(), writer: stream.into() })
    }

    /// Reads the end of a command whose holder has written it and ended.
    pub fn to_end(directory: &Path) -> io::Result<Self> {
        let reader = File::open(directory.join(END_FILE))?.into();
        let writer = File::options().write(true).open("/dev/null")?.into();
        Ok(Connection { reader, writer })
    }
}

/// Disconnects all clients of a holder, and returns when it has.
pub fn disconnect_clients(directory: &Path) -> io::Result<()> {
    let mut stream = connect(directory)?;
    let mut hello = Vec::new();
    Frame::Hello(ClientRole::DisconnectOthers, WindowSize::default()).encode(&mut hello);
    stream.write_all(&hello)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    // The holder closes the connection when it is done.
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map(drop)
}

/// Connects to the holder with this directory.
pub fn connect(directory: &Path) -> io::Result<UnixStream> {
    Ok(connect_unix(&directory.join(SOCKET))?.into())
}
