//! File names in a mailbox.
//!
//! Proves `spec/mailbox.md#files`.

use std::fmt;

use aifo_types::ToolName;

/// The name of a served command: a tool name without a suffix that the mailbox uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandName(ToolName);

/// The name is not valid for a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' cannot be a command: expected a file name of at most {MAX_COMMAND} bytes without '/' and without a suffix of mailbox files, such as '.req'"
)]
pub struct InvalidCommandName(String);

/// The common stem of a request's files: `COMMAND.UNIQUE`, or only `UNIQUE`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RequestId {
    command: Option<CommandName>,
    unique: String,
}

/// The kinds of files of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FileKind {
    /// A request being written.
    RequestDraft,
    /// The arguments.
    Request,
    /// The caller directory and variables.
    Call,
    /// Standard input.
    Stdin,
    /// Marks the end of standard input.
    Eof,
    /// Bytes of standard input that the command has been given.
    Taken,
    /// Shows that the client is alive.
    Alive,
    /// Private to the client.
    Notes,
    /// A signal being written.
    SignalDraft,
    /// A signal for the command.
    Signal,
    /// The claimed request.
    Run,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// An exit code being written.
    ExitDraft,
    /// The exit code.
    Exit,
    /// The reason for the exit code.
    Reason,
}

/// Leaves room for the unique part and a suffix in the 255 bytes of a file name.
const MAX_COMMAND: usize = 128;
const MAX_UNIQUE: usize = 64;

/// The suffix of each kind. A suffix that ends with another one precedes it.
const SUFFIXES: [(FileKind, &str); 16] = [
    (FileKind::RequestDraft, ".req.tmp"),
    (FileKind::Request, ".req"),
    (FileKind::Call, ".call"),
    (FileKind::Stdin, ".stdin"),
    (FileKind::Eof, ".eof"),
    (FileKind::Taken, ".taken"),
    (FileKind::Alive, ".alive"),
    (FileKind::Notes, ".notes"),
    (FileKind::SignalDraft, ".sig.tmp"),
    (FileKind::Signal, ".sig"),
    (FileKind::Run, ".run"),
    (FileKind::Stdout, ".stdout"),
    (FileKind::Stderr, ".stderr"),
    (FileKind::ExitDraft, ".exit.tmp"),
    (FileKind::Exit, ".exit"),
    (FileKind::Reason, ".reason"),
];
const PID: &str = ".pid";
const CLIENT_INFO: &str = ".mailbox";

impl CommandName {
    /// Checks a name.
    pub fn parse(name: &[u8]) -> Result<Self, InvalidCommandName> {
        let reserved = [PID, CLIENT_INFO, ".tmp"];
        let mut reserved = reserved.into_iter().chain(SUFFIXES.iter().map(|(_, suffix)| *suffix));
        let tool = ToolName::parse(name).ok().filter(|tool| {
            let name = tool.as_str();
            name.len() <= MAX_COMMAND
                && !name.starts_with('.')
                && !reserved.any(|it| name.ends_with(it))
        });
        tool.map(CommandName)
            .ok_or_else(|| InvalidCommandName(String::from_utf8_lossy(name).into_owned()))
    }

    /// Returns the tool name.
    pub fn tool(&self) -> &ToolName {
        &self.0
    }

    /// Returns the name as text, which is also the client's file name.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for CommandName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the name of a command's PID file.
pub(crate) fn pid_file(command: &CommandName) -> String {
    format!("{command}{PID}")
}

/// Returns the command of a PID file.
pub(crate) fn command_of_pid_file(name: &[u8]) -> Option<CommandName> {
    CommandName::parse(name.strip_suffix(PID.as_bytes())?).ok()
}

/// Returns the name of a command's client information file.
pub(crate) fn client_info_file(command: &str) -> String {
    format!("{command}{CLIENT_INFO}")
}

impl RequestId {
    /// Parses a file name. `None` if it is not a request file.
    pub(crate) fn of_file(name: &[u8]) -> Option<(Self, FileKind)> {
        let name = std::str::from_utf8(name).ok()?;
        let known =
            SUFFIXES.iter().find_map(|(kind, suffix)| Some((name.strip_suffix(suffix)?, *kind)));
        let (id, kind) = known?;
        let (command, unique) = match id.rsplit_once('.') {
            Some((command, unique)) => (Some(CommandName::parse(command.as_bytes()).ok()?), unique),
            None => (None, id),
        };
        is_unique_part(unique).then(|| (RequestId { command, unique: unique.to_owned() }, kind))
    }

    /// Returns the command, unless the request is a plain one.
    pub(crate) fn command(&self) -> Option<&CommandName> {
        self.command.as_ref()
    }

    /// Returns the name of one of its files.
    pub(crate) fn file(&self, kind: FileKind) -> String {
        // The table holds every kind, which a test proves.
        let suffix = SUFFIXES.iter().find(|(known, _)| *known == kind).map_or("", |row| row.1);
        format!("{self}{suffix}")
    }

    /// Returns the names of all its files.
    pub(crate) fn files(&self) -> impl Iterator<Item = String> + '_ {
        SUFFIXES.iter().map(move |(_, suffix)| format!("{self}{suffix}"))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.command {
            Some(command) => write!(f, "{command}.{}", self.unique),
            None => f.write_str(&self.unique),
        }
    }
}

fn is_unique_part(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=MAX_UNIQUE).contains(&text.len()) && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str) -> Option<(String, Option<String>, FileKind)> {
        let (id, kind) = RequestId::of_file(name.as_bytes())?;
        Some((id.to_string(), id.command().map(CommandName::to_string), kind))
    }

    #[test]
    fn file_names_of_requests() {
        let long = "x".repeat(64);
        let rows = [
            ("make.1.req", "make.1", Some("make"), FileKind::Request),
            ("make.1.req.tmp", "make.1", Some("make"), FileKind::RequestDraft),
            ("python3.12.a-B_9.exit", "python3.12.a-B_9", Some("python3.12"), FileKind::Exit),
            ("make.1.exit.tmp", "make.1", Some("make"), FileKind::ExitDraft),
            ("5c1d-9.req", "5c1d-9", None, FileKind::Request),
            (&format!("{long}.sig"), &long, None, FileKind::Signal),
            ("g++.1.stdin", "g++.1", Some("g++"), FileKind::Stdin),
        ];
        for (name, id, command, kind) in rows {
            let expected = (id.to_owned(), command.map(str::to_owned), kind);
            assert_eq!(parsed(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn other_file_names() {
        let long = format!("{}.req", "x".repeat(65));
        let rows = [
            "",
            ".req",
            "..req",
            "make",
            "make.pid",
            "make.mailbox",
            "make..req",
            ".1.req",
            "make.1.",
            "make.1.req2",
            "make.a b.req",
            "../x.req",
            "a/b.1.req",
            "make.1\n.req",
            "make.é.req",
            &long,
            "make.pid.1.req",
            "make.1.tmp",
            "...1.req",
        ];
        for name in rows {
            assert_eq!(parsed(name), None, "{name:?}");
        }
        assert_eq!(RequestId::of_file(b"make.\xff.req"), None);
    }

    #[test]
    fn every_kind_has_its_own_suffix() {
        let (id, _) = RequestId::of_file(b"make.1.req").unwrap();
        for (kind, _) in SUFFIXES {
            let file = id.file(kind);
            assert_eq!(RequestId::of_file(file.as_bytes()), Some((id.clone(), kind)), "{file}");
        }
        assert_eq!(id.files().count(), SUFFIXES.len());
    }

    #[test]
    fn command_names() {
        for name in ["make", "g++", "python3.12", "a.b.c"] {
            assert_eq!(CommandName::parse(name.as_bytes()).unwrap().as_str(), name);
        }
        for name in
            ["", ".", "a/b", "make.pid", "x.req", "x.tmp", ".hidden", "x.mailbox", &"m".repeat(129)]
        {
            assert!(CommandName::parse(name.as_bytes()).is_err(), "{name}");
        }
        let make = CommandName::parse(b"make").unwrap();
        assert_eq!(command_of_pid_file(pid_file(&make).as_bytes()), Some(make));
        assert_eq!(command_of_pid_file(b".pid"), None);
    }
}
