//! The names of files in a mailbox.

use std::fmt;

use aifo_types::ToolName;

/// The name of a command that is served: a tool's name that cannot be taken for another file of the
/// mailbox.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandName(ToolName);

/// The word cannot name a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' cannot be a command: a plain name is needed, at most {MAX_COMMAND} bytes long, and not one that ends as a file of the mailbox does"
)]
pub struct InvalidCommandName(String);

/// What the files of one request have in common: `COMMAND.ID`, or `ID` alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stem {
    command: Option<CommandName>,
    id: String,
}

/// A file of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// A request in the making.
    Draft,
    /// The arguments.
    Request,
    /// Where and how the caller is.
    Call,
    /// Its standard input.
    Stdin,
    /// The end of that.
    Eof,
    /// What has been taken of it.
    Taken,
    /// Somebody waits.
    Alive,
    /// What a client writes for itself.
    Notes,
    /// A signal in the making.
    SignalDraft,
    /// A signal for the command.
    Signal,
    /// What was the request, once it is claimed.
    Run,
    /// What the command printed.
    Stdout,
    /// The same, for errors.
    Stderr,
    /// An exit code in the making.
    ExitDraft,
    /// The exit code.
    Exit,
    /// Why that is so.
    Reason,
}

/// Longer ones would leave no room for an id and an ending in the 255 bytes of a name.
const MAX_COMMAND: usize = 128;
const MAX_ID: usize = 64;

/// Every part with the ending of its file. One that ends as another does comes before it.
const ENDINGS: [(Part, &str); 16] = [
    (Part::Draft, ".req.tmp"),
    (Part::Request, ".req"),
    (Part::Call, ".call"),
    (Part::Stdin, ".stdin"),
    (Part::Eof, ".eof"),
    (Part::Taken, ".taken"),
    (Part::Alive, ".alive"),
    (Part::Notes, ".notes"),
    (Part::SignalDraft, ".sig.tmp"),
    (Part::Signal, ".sig"),
    (Part::Run, ".run"),
    (Part::Stdout, ".stdout"),
    (Part::Stderr, ".stderr"),
    (Part::ExitDraft, ".exit.tmp"),
    (Part::Exit, ".exit"),
    (Part::Reason, ".reason"),
];
const PID: &str = ".pid";
const CARD: &str = ".mailbox";

impl CommandName {
    /// Checks a name.
    pub fn parse(name: &[u8]) -> Result<Self, InvalidCommandName> {
        let taken = [PID, CARD, ".tmp"];
        let mut taken = taken.into_iter().chain(ENDINGS.iter().map(|(_, ending)| *ending));
        let tool = ToolName::parse(name).ok().filter(|tool| {
            let name = tool.as_str();
            name.len() <= MAX_COMMAND
                && !name.starts_with('.')
                && !taken.any(|it| name.ends_with(it))
        });
        tool.map(CommandName)
            .ok_or_else(|| InvalidCommandName(String::from_utf8_lossy(name).into_owned()))
    }

    /// The name as a tool's.
    pub fn tool(&self) -> &ToolName {
        &self.0
    }

    /// The name as text, which is the client's file name as well.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for CommandName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of a command's PID file.
pub fn pid_file(command: &CommandName) -> String {
    format!("{command}{PID}")
}

/// The command whose PID file this is.
pub(crate) fn command_of_pid_file(name: &[u8]) -> Option<CommandName> {
    CommandName::parse(name.strip_suffix(PID.as_bytes())?).ok()
}

/// The name of the file that tells a command's clients what they are to know.
pub fn card_file(command: &str) -> String {
    format!("{command}{CARD}")
}

impl Stem {
    /// The stem of a request for a command. `None` unless the id is 1 to 64 of `A-Z a-z 0-9 _ -`.
    pub fn new(command: CommandName, id: &str) -> Option<Self> {
        is_id(id).then(|| Stem { command: Some(command), id: id.to_owned() })
    }

    /// The request that a file belongs to, and which of its files it is. `None` for any other name,
    /// whatever bytes it has.
    pub fn of_file(name: &[u8]) -> Option<(Self, Part)> {
        let name = std::str::from_utf8(name).ok()?;
        let known =
            ENDINGS.iter().find_map(|(part, ending)| Some((name.strip_suffix(ending)?, *part)));
        let (stem, part) = known?;
        let (command, id) = match stem.rsplit_once('.') {
            Some((command, id)) => (Some(CommandName::parse(command.as_bytes()).ok()?), id),
            None => (None, stem),
        };
        is_id(id).then(|| (Stem { command, id: id.to_owned() }, part))
    }

    /// The command, if the request says which.
    pub fn command(&self) -> Option<&CommandName> {
        self.command.as_ref()
    }

    /// The name of one of its files.
    pub fn file(&self, part: Part) -> String {
        // The table holds every part, which a test proves.
        let ending = ENDINGS.iter().find(|(known, _)| *known == part).map_or("", |row| row.1);
        format!("{self}{ending}")
    }

    /// Every file that it can have.
    pub fn files(&self) -> impl Iterator<Item = String> + '_ {
        ENDINGS.iter().map(move |(_, ending)| format!("{self}{ending}"))
    }
}

impl fmt::Display for Stem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.command {
            Some(command) => write!(f, "{command}.{}", self.id),
            None => f.write_str(&self.id),
        }
    }
}

fn is_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=MAX_ID).contains(&id.len()) && id.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str) -> Option<(String, Option<String>, Part)> {
        let (stem, part) = Stem::of_file(name.as_bytes())?;
        Some((stem.to_string(), stem.command().map(CommandName::to_string), part))
    }

    #[test]
    fn names_that_are_a_requests() {
        let long = "x".repeat(64);
        let rows = [
            ("make.1.req", "make.1", Some("make"), Part::Request),
            ("make.1.req.tmp", "make.1", Some("make"), Part::Draft),
            ("python3.12.a-B_9.exit", "python3.12.a-B_9", Some("python3.12"), Part::Exit),
            ("make.1.exit.tmp", "make.1", Some("make"), Part::ExitDraft),
            ("5c1d-9.req", "5c1d-9", None, Part::Request),
            (&format!("{long}.sig"), &long, None, Part::Signal),
            ("g++.1.stdin", "g++.1", Some("g++"), Part::Stdin),
        ];
        for (name, stem, command, part) in rows {
            let expected = (stem.to_owned(), command.map(str::to_owned), part);
            assert_eq!(told(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn names_that_are_nobodys() {
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
            assert_eq!(told(name), None, "{name:?}");
        }
        assert_eq!(Stem::of_file(b"make.\xff.req"), None);
    }

    #[test]
    fn every_part_has_a_file_of_its_own() {
        let (stem, _) = Stem::of_file(b"make.1.req").unwrap();
        for (part, _) in ENDINGS {
            let file = stem.file(part);
            assert_eq!(Stem::of_file(file.as_bytes()), Some((stem.clone(), part)), "{file}");
        }
        assert_eq!(stem.files().count(), ENDINGS.len());
    }

    #[test]
    fn commands() {
        for name in ["make", "g++", "python3.12", "a.b.c"] {
            assert_eq!(CommandName::parse(name.as_bytes()).unwrap().as_str(), name);
        }
        for name in
            ["", ".", "a/b", "make.pid", "x.req", "x.tmp", ".hidden", "x.mailbox", &"m".repeat(129)]
        {
            assert!(CommandName::parse(name.as_bytes()).is_err(), "{name}");
        }
        let make = CommandName::parse(b"make").unwrap();
        assert_eq!(command_of_pid_file(pid_file(&make).as_bytes()), Some(make.clone()));
        assert_eq!(command_of_pid_file(b".pid"), None);
        assert!(Stem::new(make.clone(), "a.b").is_none());
        assert_eq!(Stem::new(make, "ab").unwrap().to_string(), "make.ab");
    }
}
