//! A launcher of its own: starts a runner as a process, and a tool in it, over frames alone.

use std::error::Error;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use aifo_process::{SendMode, send_with_fds};
use aifo_runner::{ControlTransport, ServeOptions, serve};
use aifo_types::{ExecId, ExecRequest, Inherited, ToolName};
use aifo_wire::{Frame, FrameReader, Setup, Start};

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("runner") {
        return Ok(serve(
            ControlTransport::Socket(aifo_process::take_fd(0)?),
            ServeOptions::default(),
        )?);
    }
    let (mut control, runners) = UnixStream::pair()?;
    let mut runner = Command::new(std::env::current_exe()?)
        .arg("runner")
        .stdin(Stdio::from(OwnedFd::from(runners)))
        .spawn()?;

    let workspace = std::env::current_dir()?.into_os_string().into_encoded_bytes();
    let mut bytes = Vec::new();
    let setup = Setup { workspace: vec![workspace], tmp: Vec::new(), kind: "example".to_owned() };
    Frame::Setup(setup).encode(&mut bytes);
    control.write_all(&bytes)?;

    // The tool has our stdout as its own: output does not pass through this process.
    bytes.clear();
    let request = ExecRequest {
        id: ExecId::parse(b"1")?,
        tool: ToolName::parse(b"uname")?,
        program: None,
        args: vec![b"-sm".to_vec()],
        cwd: None,
        inherited: Inherited::default(),
        no_network: None,
        cwd_id: None,
    };
    Frame::Start(Box::new(Start::new(request))).encode(&mut bytes);
    send_with_fds(control.as_fd(), &bytes, &[std::io::stdout().as_fd()], SendMode::Blocking)?;

    let mut reader = FrameReader::new();
    let mut received = [0; 4096];
    loop {
        let count = control.read(&mut received)?;
        reader.receive(received.get(..count).unwrap_or_default());
        while let Some(frame) = reader.next_frame()? {
            println!("{frame:?}");
            if let Frame::Exit { .. } | Frame::StartError { .. } = frame {
                drop(control);
                runner.wait()?;
                return Ok(());
            }
        }
    }
}
