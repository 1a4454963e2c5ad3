//! The frame that asks for a tool, and the one that says it could not be started.

use aifo_types::ExecId;

use crate::frame::MAX_PAYLOAD;
use crate::payload::{Payload, code_table, push_bytes};

/// A tool to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The exec's id, which its processes carry as their mark.
    pub id: ExecId,
    /// The tool's name as typed, then its arguments: never empty, bytes without NUL.
    pub argv: Vec<Vec<u8>>,
    /// Where to run it, in the runner's view; `None` is the workspace root.
    pub cwd: Option<Vec<u8>>,
    /// What to do with a `cwd` outside the session's places.
    pub elsewhere: Elsewhere,
    /// The file to execute, or `None` to look for `argv[0]` in the runner's PATH.
    pub program: Option<Vec<u8>>,
    /// What of the runner's environment the tool gets.
    pub environment: Environment,
}

/// What of the runner's environment a tool gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Environment {
    /// All of it.
    All,
    /// Only these variables; a name that ends in `*` stands for all that begin so.
    Only(Vec<Vec<u8>>),
}

code_table! {
    /// What to do with a directory that lies neither in the workspace nor in the shared `/tmp`.
    pub enum Elsewhere {
        /// Do not start.
        Refuse = 0,
        /// Run at the workspace root: the call only asks for a version or for help.
        AtRoot = 1,
    }
}

/// Why a tool could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    /// The cause, for the answer's status and exit code.
    pub cause: StartErrorCause,
    /// The cause in words, for people; more than a frame holds is cut off.
    pub message: String,
}

code_table! {
    /// The cause of a failed start.
    pub enum StartErrorCause {
        /// The sidecar's PATH has no such tool.
        Absent = 1,
        /// The directory is outside the session's places, or is not there.
        Cwd = 2,
        /// The tool's file names an interpreter that is not there.
        NotFound = 3,
        /// The kernel refuses to execute it, or its argument list is too long.
        NotExecutable = 4,
        /// Anything else, such as a limit on processes.
        Failed = 5,
    }
}

impl Start {
    /// `elsewhere u8, id, cwd?, program?, names?, argv..` up to the payload's end. Each string stands
    /// behind its length; what may be absent stands behind a byte that says whether it is there, and
    /// names behind their number.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.elsewhere.code());
        push_bytes(out, self.id.as_str().as_bytes());
        for path in [&self.cwd, &self.program] {
            out.push(u8::from(path.is_some()));
            if let Some(path) = path {
                push_bytes(out, path);
            }
        }
        match &self.environment {
            Environment::All => out.push(0),
            Environment::Only(names) => {
                out.push(1);
                out.extend(u32::try_from(names.len()).unwrap_or(u32::MAX).to_be_bytes());
                names.iter().for_each(|name| push_bytes(out, name));
            }
        }
        for argument in &self.argv {
            push_bytes(out, argument);
        }
    }

    pub(crate) fn decode(fields: &mut Payload<'_>) -> Option<Self> {
        let elsewhere = Elsewhere::from_code(fields.u8()?)?;
        let id = ExecId::parse(fields.bytes()?).ok()?;
        let cwd = fields.optional(Payload::c_string)?;
        let program = fields.optional(Payload::absolute)?;
        let names = fields.optional(|fields| {
            // The number is the peer's word: nothing is reserved by it.
            (0..fields.u32()?).map(|_| fields.c_string()).collect::<Option<Vec<_>>>()
        })?;
        let environment = names.map_or(Environment::All, Environment::Only);
        let mut argv = vec![fields.c_string()?];
        while !fields.is_empty() {
            argv.push(fields.c_string()?);
        }
        Some(Start { id, argv, cwd, elsewhere, program, environment })
    }
}

impl StartError {
    /// `cause u8`, then the message in UTF-8.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.cause.code());
        let end = self.message.floor_char_boundary(MAX_PAYLOAD - 1);
        out.extend_from_slice(self.message.get(..end).unwrap_or_default().as_bytes());
    }

    pub(crate) fn decode(fields: &mut Payload<'_>) -> Option<Self> {
        let cause = StartErrorCause::from_code(fields.u8()?)?;
        let message = std::str::from_utf8(fields.rest()).ok()?.to_owned();
        Some(StartError { cause, message })
    }
}
