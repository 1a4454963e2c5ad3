//! Executes the specification: replays its transcripts against a live session.
//!
//! A transcript is a fenced `wire` block of `spec/*.md` or a file `tests/transcripts/*.wire`. A
//! line `> bytes` is sent, a line `< bytes` is expected; consecutive lines of one side form one run
//! of bytes. Bytes are escaped as in a Rust byte string, `#` starts a comment line, and `{token}`,
//! `{workspace}`, `{id}` and `{port}` stand for the session's values. In expected bytes `{any N}`
//! stands for N arbitrary bytes.
//!
//! The session has the kinds rust and c-cpp, and `make` prints its arguments and a newline. The
//! comment `# needs: exec ID running` starts an exec of that id first.

use std::fs;
use std::path::{Path, PathBuf};

use aifo_tests::{Address, Connection, Listen, Session, SessionSetup, fresh_id};

#[derive(Debug)]
struct Transcript {
    /// File and line, for messages.
    place: String,
    /// The exec that must be running.
    running: Option<String>,
    turns: Vec<(Side, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Sent,
    Received,
}

#[test]
fn transcripts_over_unix() {
    replay_all(Listen::Default);
}

#[test]
fn transcripts_over_tcp() {
    replay_all(Listen::Tcp);
}

#[track_caller]
fn replay_all(listen: Listen) {
    let setup = SessionSetup::new().script("make", "printf '%s\\n' \"$*\"").without("cargo");
    // Tools in place are those of the machine.
    let setup = setup.script("git", "");
    let session = setup.listen(listen).start();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = files(&root.join("../spec"), "md");
    let mut transcripts: Vec<_> = pages.iter().flat_map(|page| blocks(page)).collect();
    assert!(!transcripts.is_empty(), "the specification has no wire block");
    let golden = files(&root.join("transcripts"), "wire");
    assert!(!golden.is_empty(), "there is no golden transcript");
    transcripts.extend(golden.iter().map(|file| whole(file)));
    for transcript in &transcripts {
        transcript.replay(&session);
    }
}

impl Transcript {
    fn parse<'a>(place: String, lines: impl Iterator<Item = &'a str>) -> Self {
        let mut transcript = Transcript { place, running: None, turns: Vec::new() };
        for line in lines {
            transcript.add(line);
        }
        let has = |side| transcript.turns.iter().any(|turn| turn.0 == side);
        let complete = has(Side::Sent) && has(Side::Received);
        assert!(complete, "{}: something is sent and something received", transcript.place);
        transcript
    }

    fn add(&mut self, line: &str) {
        let (side, bytes) = match line.split_at_checked(1) {
            None => return,
            Some(("#", comment)) => {
                let id =
                    comment.strip_prefix(" needs: exec ").and_then(|c| c.strip_suffix(" running"));
                self.running = id.map(str::to_owned).or(self.running.take());
                return;
            }
            Some((">", bytes)) => (Side::Sent, bytes),
            Some(("<", bytes)) => (Side::Received, bytes),
            Some(_) => panic!("{}: neither sent nor received: {line:?}", self.place),
        };
        // One blank follows the sign; further ones are bytes.
        let bytes = bytes.strip_prefix(' ').unwrap_or(bytes);
        match self.turns.last_mut() {
            Some((last, run)) if *last == side => run.push_str(bytes),
            _ => self.turns.push((side, bytes.to_owned())),
        }
    }

    #[track_caller]
    fn replay(&self, session: &Session) {
        let id = fresh_id();
        let running = self.running.as_ref().map(|exec| {
            let exec = fill(exec, session, &id);
            (running_exec(session, &exec), exec)
        });
        let mut connection = session.connect();
        let mut expected = Pattern::default();
        for (number, (side, text)) in self.turns.iter().enumerate() {
            let text = fill(text, session, &id);
            match side {
                Side::Sent => _ = connection.send(unescape(&text, &self.place)),
                Side::Received => {
                    expected.add(&text, &self.place);
                    // The last turn is compared below, as a whole and with its position.
                    if number + 1 < self.turns.len() {
                        expected.await_on(&mut connection);
                    }
                }
            }
        }
        expected.check(&connection.rest(), &self.place);
        if let Some((call, exec)) = running {
            // The transcript may have ended it.
            session.signal(&exec, "KILL");
            call.answer();
        }
    }
}

/// Expected bytes, some of which are arbitrary.
#[derive(Debug, Default)]
struct Pattern {
    /// `None` for an arbitrary byte.
    bytes: Vec<Option<u8>>,
}

impl Pattern {
    fn add(&mut self, text: &str, place: &str) {
        let mut parts = text.split("{any ");
        let plain = |text: &str| unescape(text, place).into_iter().map(Some);
        self.bytes.extend(plain(parts.next().unwrap_or_default()));
        for part in parts {
            let wildcard = part
                .split_once('}')
                .and_then(|(count, rest)| Some((count.parse::<usize>().ok()?, rest)));
            let (count, rest) = wildcard.unwrap_or_else(|| panic!("{place}: {{any {part}"));
            self.bytes.extend(std::iter::repeat_n(None, count));
            self.bytes.extend(plain(rest));
        }
    }

    /// Reads until its literal end has arrived. The bytes are compared at the end of the
    /// connection.
    #[track_caller]
    fn await_on(&self, connection: &mut Connection) {
        let end = self.bytes.rsplit(Option::is_none).next().unwrap_or_default();
        let end: Vec<u8> = end.iter().copied().flatten().collect();
        assert!(!end.is_empty(), "what is answered ends with known bytes");
        connection.read_until(&end);
    }

    #[track_caller]
    fn check(&self, received: &[u8], place: &str) {
        // Arbitrary bytes are copied from the received ones, so that a difference shows its
        // position.
        let filled = self.bytes.iter().enumerate();
        let filled: Vec<u8> = filled
            .map(|(at, byte)| byte.or(received.get(at).copied()).unwrap_or_default())
            .collect();
        assert_eq!(
            received.escape_ascii().to_string(),
            filled.escape_ascii().to_string(),
            "{place}"
        );
    }
}

/// An exec that runs until it is signalled.
#[track_caller]
fn running_exec(session: &Session, id: &str) -> Connection {
    session.send_ready(&session.exec("gcc", ["wait"]).id(id))
}

fn fill(text: &str, session: &Session, id: &str) -> String {
    let port = match session.address() {
        Address::Tcp(address) => address.port(),
        Address::Unix(_) => 0,
    };
    let workspace = session.workspace();
    text.replace("{token}", session.token())
        .replace("{workspace}", workspace.to_str().expect("the scratch path is text"))
        .replace("{id}", id)
        .replace("{port}", &port.to_string())
}

/// Decodes the escapes of a Rust byte string.
fn unescape(text: &str, place: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (plain, used) = match rest {
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b't', ..] => (b'\t', 1),
            [b'0', ..] => (0, 1),
            [b'\\', ..] => (b'\\', 1),
            [b'"', ..] => (b'"', 1),
            [b'\'', ..] => (b'\'', 1),
            [b'x', high, low, ..] => {
                let digit = |c: &u8| char::from(*c).to_digit(16).expect("\\x takes two hex digits");
                ((digit(high) * 16 + digit(low)) as u8, 3)
            }
            _ => panic!("{place}: unknown escape in {text:?}"),
        };
        bytes.push(plain);
        rest = &rest[used..];
    }
    bytes
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|known| known == extension));
    files.sort();
    files
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|e| panic!("cannot read {}: {e}", file.display()))
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn whole(file: &Path) -> Transcript {
    Transcript::parse(name(file), read(file).lines())
}

/// The fenced `wire` blocks of a page.
fn blocks(page: &Path) -> Vec<Transcript> {
    let text = read(page);
    let lines: Vec<&str> = text.lines().collect();
    let starts = lines.iter().enumerate().filter(|(_, line)| **line == "```wire");
    starts
        .map(|(number, _)| {
            let block = lines[number + 1..].iter().take_while(|line| **line != "```").copied();
            Transcript::parse(format!("{}:{}", name(page), number + 1), block)
        })
        .collect()
}
