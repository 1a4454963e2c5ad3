//! The invocation of a version 3 call (`spec/exec3.md#invocation`).

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::frames::{string, strings};
use crate::{Request, Session};

/// The declared kind of one of 0, 1 and 2.
#[derive(Debug)]
pub enum Stdio {
    /// `/dev/null`.
    Null,
    /// A passed descriptor.
    Passed(OwnedFd),
    /// Relayed as frames.
    Relayed,
    /// The caller terminal.
    Terminal,
    /// The descriptor is closed.
    Closed,
    /// For 2 only: the same as 1.
    Same,
}

impl Stdio {
    /// Passes a descriptor.
    pub fn pass(fd: impl Into<OwnedFd>) -> Self {
        Stdio::Passed(fd.into())
    }

    /// Its code on the wire.
    pub fn code(&self) -> u8 {
        match self {
            Stdio::Null => 0,
            Stdio::Passed(_) => 1,
            Stdio::Relayed => 2,
            Stdio::Terminal => 3,
            Stdio::Closed => 4,
            Stdio::Same => 5,
        }
    }
}

/// A version 3 call: by default a tool in the workspace root, without stdin, with stdout and
/// stderr relayed.
#[derive(Debug)]
pub struct Invocation {
    argv: Vec<Vec<u8>>,
    directory: Vec<u8>,
    environment: Vec<String>,
    ignored: u64,
    id: Option<String>,
    pub(crate) stdio: [Stdio; 3],
}

impl Invocation {
    /// A tool and its arguments.
    pub fn new<A: AsRef<OsStr>>(
        session: &Session,
        tool: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let args = args.into_iter().map(|arg| arg.as_ref().as_bytes().to_vec());
        Invocation {
            argv: [tool.as_bytes().to_vec()].into_iter().chain(args).collect(),
            directory: session.workspace().as_os_str().as_bytes().to_vec(),
            environment: Vec::new(),
            ignored: 0,
            id: None,
            stdio: [Stdio::Null, Stdio::Relayed, Stdio::Relayed],
        }
    }

    /// Sets the exec id.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        Invocation { id: Some(id.to_owned()), ..self }
    }

    /// Sets the directory.
    #[must_use]
    pub fn directory(self, directory: &Path) -> Self {
        Invocation { directory: directory.as_os_str().as_bytes().to_vec(), ..self }
    }

    /// Sends a variable, `NAME=value`.
    #[must_use]
    pub fn variable(mut self, variable: impl Into<String>) -> Self {
        self.environment.push(variable.into());
        self
    }

    /// Sets stdin.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdio) -> Self {
        self.stdio[0] = stdin;
        self
    }

    /// Sets stdout.
    #[must_use]
    pub fn stdout(mut self, stdout: Stdio) -> Self {
        self.stdio[1] = stdout;
        self
    }

    /// Sets stderr.
    #[must_use]
    pub fn stderr(mut self, stderr: Stdio) -> Self {
        self.stdio[2] = stderr;
        self
    }

    /// Sets all three to a terminal.
    #[must_use]
    pub fn on_terminal(self) -> Self {
        Invocation { stdio: [Stdio::Terminal, Stdio::Terminal, Stdio::Same], ..self }
    }

    /// Head and body, with credentials.
    pub fn request(&self, session: &Session) -> Request {
        let request = session.post("/exec").proto("3").without("Content-Type");
        let request = request.header("Connection", "Upgrade").header("Upgrade", "aifo-exec");
        let request = request.body(self.encode());
        match &self.id {
            Some(id) => request.id(id),
            None => request,
        }
    }

    /// The body.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = [strings(&self.argv), vec![1], string(&self.directory)].concat();
        body.extend(strings(&self.environment));
        // No umask, no nice value, no limit.
        body.extend([0, 0, 0]);
        body.extend(self.ignored.to_be_bytes());
        body.extend(self.stdio.each_ref().map(Stdio::code));
        if self.stdio.iter().any(|stdio| matches!(stdio, Stdio::Terminal)) {
            body.push(1);
            body.extend(terminal());
        } else {
            body.push(0);
        }
        body
    }
}

/// 24 lines of 80 characters, in the usual modes.
fn terminal() -> Vec<u8> {
    let size = [24u16, 80, 0, 0].map(u16::to_be_bytes).concat();
    // ICRNL IXON; OPOST ONLCR; 38400 CS8 CREAD; ISIG ICANON ECHO ECHOE ECHOK IEXTEN.
    let modes = [0x500u32, 0x5, 0xbf, 0x803b].map(u32::to_be_bytes).concat();
    let characters = b"\x03\x1c\x7f\x15\x04\0\x01\0\x11\x13\x1a\0\x12\x0f\x17\x16\0\0\0";
    [size, modes, string(characters)].concat()
}
