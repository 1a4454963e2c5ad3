//! The payloads of the `Start` and `StartError` frames.

use aifo_types::{ExecId, ExecRequest, FileId};

use crate::frame_limits::MAX_PAYLOAD;
use crate::invocation;
use crate::payload::{Payload, code_table, push_bytes, push_strings};

/// A tool to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The exec's number, unique on a control connection.
    serial: u32,
    /// The handling of a directory outside the session directories.
    pub outside_directory: OutsideDirectory,
    /// Where the file to execute is found.
    pub program: Program,
    /// The part of the runner's environment that the tool inherits.
    pub environment: Environment,
    /// The client connection, if the runner serves it.
    pub client: Option<ClientHandover>,
    /// The frames that the proxy receives about the tool.
    pub reports: Reports,
    /// The user to run as, `NAME|UID[:GROUP|GID]`; `None` is the runner's own.
    pub user: Option<Vec<u8>>,
    /// The call.
    pub request: ExecRequest,
}

/// Where the file to execute is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// In the runner's PATH, by the name of the tool.
    Tool,
    /// At this absolute path.
    File(Vec<u8>),
    /// As a shell finds it: in the call PATH, or from its directory if `argv[0]` has a slash.
    AsCalled,
}

/// The state of a client connection when the runner takes it over. With an empty response head
/// the client is the proxy itself, which relays the tool's streams where descriptors cannot be
/// passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHandover {
    /// The way of its bytes.
    pub transport: ClientTransport,
    /// The bytes to send before `Started`, once the tool runs. If empty, `Started` is not sent
    /// either.
    pub response_head: Vec<u8>,
    /// Bytes of frames that the client has sent after its request.
    pub received: Vec<u8>,
}

/// The part of the runner's environment that a tool inherits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Environment {
    /// All variables.
    All,
    /// Only these variables; a trailing `*` matches any suffix.
    Only(Vec<Vec<u8>>),
}

code_table! {
    /// The frames that the proxy receives about a tool.
    pub enum Reports {
        /// `Exit` or `StartError`.
        ExitOnly = 0,
        /// `Started` as soon as the tool runs, and the above.
        StartAndExit = 1,
    }
}

code_table! {
    /// The way of a client's bytes to the runner.
    #[derive(Default)]
    pub enum ClientTransport {
        /// Its connection is the first descriptor.
        #[default]
        Passed = 1,
        /// They travel in `Tunnel`.
        Tunnelled = 2,
    }
}

code_table! {
    /// The handling of a directory that is neither in the workspace nor in the shared `/tmp`.
    pub enum OutsideDirectory {
        /// Do not start the tool.
        Refuse = 0,
        /// Run in the workspace root: the call only requests the version or help.
        UseRoot = 1,
    }
}

/// Why a tool could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    /// The cause, which determines status and exit code of the response.
    pub cause: StartErrorCause,
    /// The error message, truncated to fit into a frame.
    pub message: String,
}

code_table! {
    /// The cause of a failed start.
    pub enum StartErrorCause {
        /// The sidecar PATH has no such tool.
        Absent = 1,
        /// The directory does not exist or is outside the session directories.
        Cwd = 2,
        /// The tool interpreter does not exist.
        NotFound = 3,
        /// The kernel refused to execute it, or its argument list is too long.
        NotExecutable = 4,
        /// Anything else, such as a limit on processes.
        Failed = 5,
        /// The container has no such user, or the runner may not become it.
        User = 6,
    }
}

impl Start {
    /// Creates the start of a tool that the runner finds in its PATH. The tool inherits the runner's
    /// whole environment, must run inside the session directories, and has no client; all reports
    /// are sent. The sender of the frame assigns the serial.
    pub fn new(request: ExecRequest) -> Self {
        Start {
            serial: 0,
            outside_directory: OutsideDirectory::Refuse,
            program: Program::Tool,
            environment: Environment::All,
            client: None,
            reports: Reports::StartAndExit,
            user: None,
            request,
        }
    }

    /// Returns the exec's number on the control connection that sent the frame.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// Sets the exec's number, unique on the control connection that will send the frame.
    pub fn set_serial(&mut self, serial: u32) {
        self.serial = serial;
    }

    /// Returns the number of descriptors sent with the frame.
    pub fn descriptors(&self) -> usize {
        let is_passed = |client: &ClientHandover| client.transport == ClientTransport::Passed;
        usize::from(self.client.as_ref().is_some_and(is_passed)) + self.request.passed()
    }

    /// Returns whether the runner serves a version 3 client.
    pub fn has_client_session(&self) -> bool {
        self.client.as_ref().is_some_and(|client| !client.response_head.is_empty())
    }

    /// `serial u32, outside_directory u8, id, program, names?, (response_head, received)?,
    /// reports u8, no_network?, (device u64, inode u64)?, user?`, then the invocation.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.serial.to_be_bytes());
        out.push(self.outside_directory.code());
        push_bytes(out, self.request.id.as_str().as_bytes());
        match &self.program {
            Program::Tool => out.push(0),
            Program::File(path) => {
                out.push(1);
                push_bytes(out, path);
            }
            Program::AsCalled => out.push(2),
        }
        match &self.environment {
            Environment::All => out.push(0),
            Environment::Only(names) => {
                out.push(1);
                push_strings(out, names);
            }
        }
        out.push(self.client.as_ref().map_or(0, |client| client.transport.code()));
        if let Some(client) = &self.client {
            push_bytes(out, &client.response_head);
            push_bytes(out, &client.received);
        }
        out.push(self.reports.code());
        out.push(u8::from(self.request.no_network.is_some()));
        if let Some(rule) = &self.request.no_network {
            push_bytes(out, rule.as_bytes());
        }
        out.push(u8::from(self.request.cwd_id.is_some()));
        if let Some(FileId { device, inode }) = self.request.cwd_id {
            out.extend([device, inode].map(u64::to_be_bytes).concat());
        }
        out.push(u8::from(self.user.is_some()));
        if let Some(user) = &self.user {
            push_bytes(out, user);
        }
        invocation::encode_invocation(&self.request, out);
    }

    pub(crate) fn decode(fields: &mut Payload<'_>) -> Option<Self> {
        let serial = fields.u32()?;
        let outside_directory = OutsideDirectory::from_code(fields.u8()?)?;
        let id = ExecId::parse(fields.bytes()?).ok()?;
        let program = match fields.u8()? {
            0 => Program::Tool,
            1 => Program::File(fields.absolute()?),
            2 => Program::AsCalled,
            _ => return None,
        };
        let names = fields.optional(|fields| fields.strings(Payload::c_string))?;
        let environment = names.map_or(Environment::All, Environment::Only);
        let client = match fields.u8()? {
            0 => None,
            code => Some(ClientHandover {
                transport: ClientTransport::from_code(code)?,
                response_head: fields.bytes()?.to_vec(),
                received: fields.bytes()?.to_vec(),
            }),
        };
        let reports = Reports::from_code(fields.u8()?)?;
        let no_network =
            fields.optional(|fields| String::from_utf8(fields.bytes()?.to_vec()).ok())?;
        let cwd_id = fields
            .optional(|fields| Some(FileId { device: fields.u64()?, inode: fields.u64()? }))?;
        let user = fields.optional(|fields| fields.bytes().map(<[u8]>::to_vec))?;
        let request = match program {
            Program::AsCalled => invocation::decode_as_called(fields, id)?,
            Program::Tool | Program::File(_) => invocation::decode(fields, id)?,
        };
        let request = ExecRequest { no_network, cwd_id, ..request };
        Some(Start {
            serial,
            outside_directory,
            program,
            environment,
            client,
            reports,
            user,
            request,
        })
    }
}

/// An upper bound of the fields before the message.
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
    use aifo_types::{Stdio, ToolName};

    #[test]
    fn number_of_descriptors() {
        let transport = ClientTransport::Tunnelled;
        let tunnelled = ClientHandover { transport, ..ClientHandover::default() };
        let rows = [
            (None, [Stdio::Null, Stdio::Passed, Stdio::Same], 1),
            (None, [Stdio::Null, Stdio::Closed, Stdio::Null], 0),
            (Some(ClientHandover::default()), [Stdio::Relayed; 3], 1),
            (Some(ClientHandover::default()), [Stdio::Passed; 3], 4),
            (Some(tunnelled), [Stdio::Relayed; 3], 0),
        ];
        for (client, stdio, expected) in rows {
            let id = ExecId::parse(b"e1").unwrap();
            let mut request = ExecRequest::new(id, ToolName::parse(b"cc").unwrap());
            request.inherited.stdio = stdio;
            let start = Start { client, ..Start::new(request) };
            assert_eq!(start.descriptors(), expected, "{start:?}");
        }
    }
}
