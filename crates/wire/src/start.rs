//! The frame that asks for a tool, and the one that says it could not be started.

use aifo_types::ExecId;

use crate::frame::MAX_PAYLOAD;
use crate::invocation::Invocation;
use crate::payload::{Payload, code_table, push_bytes, push_strings};

/// A tool to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The exec's number on this control connection, never used twice.
    pub serial: u32,
    /// The exec's id, which its processes carry as their mark.
    pub id: ExecId,
    /// What to do with a directory outside the session's places.
    pub outside_directory: OutsideDirectory,
    /// The file to execute, or `None` to look for `argv[0]` in the runner's PATH.
    pub program: Option<Vec<u8>>,
    /// What of the runner's environment the tool gets.
    pub environment: Environment,
    /// What there is to know of the client, if its own connection comes along, as the first
    /// descriptor.
    pub client: Option<ClientHandover>,
    /// What the proxy wants to hear of it, beside its end.
    pub reports: Reports,
    /// The program and all that it inherits.
    pub invocation: Invocation,
}

/// A client's connection, as far as it has come when a runner gets it. One that is not greeted is the
/// proxy itself, which wants a tool's bytes where no descriptor can carry them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHandover {
    /// What the client is to hear first, once the tool has started; nothing and no `Started` if this
    /// is empty.
    pub response_head: Vec<u8>,
    /// Frames that the client has sent already, behind its request.
    pub received: Vec<u8>,
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
    /// Whether a proxy waits for a tool's start.
    pub enum Reports {
        /// Only the end is of interest, or that there was no start: no `Started` comes.
        ExitOnly = 0,
        /// `Started` comes as soon as the tool runs.
        StartAndExit = 1,
    }
}

code_table! {
    /// What to do with a directory that lies neither in the workspace nor in the shared `/tmp`.
    pub enum OutsideDirectory {
        /// Do not start.
        Refuse = 0,
        /// Run at the workspace root: the call only asks for a version or for help.
        UseRoot = 1,
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
    /// How many descriptors come with it.
    pub fn descriptors(&self) -> usize {
        usize::from(self.client.is_some()) + self.invocation.passed()
    }

    /// Whether somebody beyond the proxy hears of the tool from the runner: a client of version 3.
    pub fn has_client_session(&self) -> bool {
        self.client.as_ref().is_some_and(|client| !client.response_head.is_empty())
    }

    /// `serial u32, elsewhere u8, id, program?, names?, (response_head, received)?,
    /// tell u8`, then the invocation.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.serial.to_be_bytes());
        out.push(self.outside_directory.code());
        push_bytes(out, self.id.as_str().as_bytes());
        out.push(u8::from(self.program.is_some()));
        if let Some(program) = &self.program {
            push_bytes(out, program);
        }
        match &self.environment {
            Environment::All => out.push(0),
            Environment::Only(names) => {
                out.push(1);
                push_strings(out, names);
            }
        }
        out.push(u8::from(self.client.is_some()));
        if let Some(client) = &self.client {
            push_bytes(out, &client.response_head);
            push_bytes(out, &client.received);
        }
        out.push(self.reports.code());
        self.invocation.encode(out);
    }

    pub(crate) fn decode(fields: &mut Payload<'_>) -> Option<Self> {
        let serial = fields.u32()?;
        let outside_directory = OutsideDirectory::from_code(fields.u8()?)?;
        let id = ExecId::parse(fields.bytes()?).ok()?;
        let program = fields.optional(Payload::absolute)?;
        let names = fields.optional(|fields| fields.strings(Payload::c_string))?;
        let environment = names.map_or(Environment::All, Environment::Only);
        let client = fields.optional(|fields| {
            let response_head = fields.bytes()?.to_vec();
            Some(ClientHandover { response_head, received: fields.bytes()?.to_vec() })
        })?;
        let reports = Reports::from_code(fields.u8()?)?;
        let invocation = Invocation::decode(fields)?;
        Some(Start {
            serial,
            id,
            outside_directory,
            program,
            environment,
            client,
            reports,
            invocation,
        })
    }
}

/// More than the fields before a message take.
const MAX_HEAD: usize = 16;

impl StartError {
    /// `cause u8`, then the message in UTF-8.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.cause.code());
        let end = self.message.floor_char_boundary(MAX_PAYLOAD - MAX_HEAD);
        out.extend_from_slice(self.message.get(..end).unwrap_or_default().as_bytes());
    }

    pub(crate) fn decode(fields: &mut Payload<'_>) -> Option<Self> {
        let cause = StartErrorCause::from_code(fields.u8()?)?;
        let message = std::str::from_utf8(fields.rest()).ok()?.to_owned();
        Some(StartError { cause, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stdio;

    #[test]
    fn descriptors_that_come_with_it() {
        let rows = [
            (None, [Stdio::Null, Stdio::Passed, Stdio::Same], 1),
            (None, [Stdio::Null, Stdio::Closed, Stdio::Null], 0),
            (Some(ClientHandover::default()), [Stdio::Relayed; 3], 1),
            (Some(ClientHandover::default()), [Stdio::Passed; 3], 4),
        ];
        for (client, stdio, expected) in rows {
            let start = Start {
                serial: 1,
                id: ExecId::parse(b"e1").unwrap(),
                outside_directory: OutsideDirectory::Refuse,
                program: None,
                environment: Environment::All,
                client,
                reports: Reports::ExitOnly,
                invocation: Invocation { stdio, ..Invocation::plain(vec![b"cc".to_vec()], None) },
            };
            assert_eq!(start.descriptors(), expected, "{start:?}");
        }
    }
}
