//! The file of a session's connections: one JSON line per connection (`spec/log.md#connections`).

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use aifo_egress::{ConnectionEvent, NameVerdict, Phase};
use aifo_host::log_file::{LineReader, LogFile, append, connections_path};
use aifo_proxy::RunningTool;
use serde::{Deserialize, Serialize};

/// A stack connection, or a refused DNS query, as the file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoggedConnection {
    /// When it was connected outside, else when it ended; in milliseconds since 1970.
    pub time: u64,
    /// Its number in the session.
    pub connection: u64,
    /// Its state.
    pub state: ConnectionState,
    /// The label of the stack.
    pub stack: String,
    /// The tool of the call that connected.
    pub tool: Option<String>,
    /// The id of that call.
    pub exec_id: Option<String>,
    /// The dialled name, or the address if it has no name.
    pub name: String,
    /// The dialled port; `None` for a DNS query.
    pub port: Option<u16>,
    /// The decision.
    pub verdict: ConnectionOutcome,
    /// The use of the port, if it is one of the session's and not of a name.
    pub relay: Option<PortUse>,
    /// The stack that listens on such a port, or `host`; `None` before it is connected.
    pub to: Option<String>,
    /// The rule that allowed it.
    pub rule: Option<String>,
    /// The rule that would allow it.
    pub suggestion: Option<String>,
    /// The address outside with its port.
    pub address: Option<String>,
    /// True if a parent proxy dials.
    pub via_parent: bool,
    /// Bytes to the host outside.
    pub sent: u64,
    /// Bytes to the client.
    pub received: u64,
    /// From the connection outside to the end.
    pub wall_ms: u64,
    /// Why it was refused or failed.
    pub error: Option<String>,
}

/// A connection state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionState {
    /// It is connected.
    Open,
    /// It has ended.
    #[default]
    Closed,
}

/// The decision about a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionOutcome {
    /// A rule allows it.
    Allowed,
    /// It was allowed without a rule.
    Learnt,
    /// It was refused.
    #[default]
    Refused,
}

/// The use of the session port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortUse {
    /// A tool listens on it in another stack.
    Mirror,
    /// It is one of this machine's localhost.
    HostPort,
    /// It is one of the agent's.
    AgentPort,
    /// This machine serves it.
    Published,
}

impl LoggedConnection {
    /// Returns `NAME:PORT`, or `NAME` for a DNS query.
    pub fn subject(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.name),
            None => self.name.clone(),
        }
    }

    /// Returns whether it was refused or failed.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }
}

/// Returns when the connections beside a session log were last written; `None` without a file.
pub fn connections_written(log: &Path) -> Option<SystemTime> {
    connections_path(log).metadata().and_then(|metadata| metadata.modified()).ok()
}

/// Reads the connections of a session that may run.
#[derive(Debug)]
pub struct ConnectionReader(LineReader);

impl ConnectionReader {
    /// Opens the connections beside a log, with their older part. Errors: they cannot be read, or the
    /// session had no network by name.
    pub fn open(log: &Path) -> io::Result<Self> {
        LineReader::open(&connections_path(log)).map(ConnectionReader)
    }

    /// Returns the lines since the last read, with their text. A damaged line is skipped.
    pub fn read(&mut self) -> io::Result<Vec<(String, LoggedConnection)>> {
        self.0.read(u64::MAX, |line| {
            let json = String::from_utf8_lossy(line).into_owned();
            Some((json, serde_json::from_slice(line).ok()?))
        })
    }
}

/// Writes a session's connections. Before [`ConnectionFile::open`] it writes none.
#[derive(Debug, Default)]
pub(crate) struct ConnectionFile {
    file: Option<Mutex<LogFile>>,
    /// The connections that have not ended, by number.
    open: HashMap<u64, LoggedConnection>,
}

impl ConnectionFile {
    /// Writes to a file from now on.
    pub(crate) fn open(&mut self, file: LogFile) {
        self.file = Some(Mutex::new(file));
    }

    /// Appends an event. `tool` is the caller's, if it is known, and `suggestion` the rule that would allow
    /// the connection. A full disk is ignored.
    pub(crate) fn append(
        &mut self,
        event: &ConnectionEvent,
        verdict: ConnectionOutcome,
        suggestion: Option<String>,
        tool: Option<RunningTool>,
    ) {
        let now = now_ms();
        let mut record = self.open.remove(&event.id).unwrap_or_else(|| {
            let (tool, exec_id) = tool.map(|tool| (tool.tool, tool.exec_id)).unzip();
            LoggedConnection { time: now, tool, exec_id, ..LoggedConnection::default() }
        });
        record.connection = event.id;
        record.stack.clone_from(&event.stack);
        record.name.clone_from(&event.name);
        record.port = event.port;
        // An end does not withdraw what was learnt at the start.
        if record.verdict != ConnectionOutcome::Learnt || verdict == ConnectionOutcome::Refused {
            record.verdict = verdict;
        }
        record.rule = match &event.verdict {
            NameVerdict::Allowed { rule } if record.verdict == ConnectionOutcome::Allowed => {
                Some(rule.to_string())
            }
            _ => None,
        };
        record.suggestion = suggestion.or(record.suggestion);
        record.address = event.address.map(|address| address.to_string());
        record.via_parent = event.via_parent;
        (record.sent, record.received) = (event.sent, event.received);
        record.wall_ms = now.saturating_sub(record.time);
        record.error = event.error.as_ref().map(ToString::to_string);
        record.state = match event.phase {
            Phase::Opened => ConnectionState::Open,
            Phase::Closed => ConnectionState::Closed,
        };
        self.append_record(&record);
        if event.phase == Phase::Opened {
            self.open.insert(event.id, record);
        }
    }

    /// Appends a line. A full disk is ignored.
    pub(crate) fn append_record(&self, record: &LoggedConnection) {
        if let Some(file) = &self.file {
            append(file, record);
        }
    }
}

pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use aifo_egress::{ConnectionError, Name, NetRules};

    use super::*;

    fn event(id: u64, phase: Phase, error: Option<ConnectionError>) -> ConnectionEvent {
        let rules = NetRules::parse(&["*.a.example:443".to_owned()]).unwrap();
        ConnectionEvent {
            id,
            stack: "tools".to_owned(),
            peer: None,
            name: "b.a.example".to_owned(),
            port: Some(443),
            verdict: rules.judge(&Name::parse(b"b.a.example").unwrap(), 443),
            phase,
            address: None,
            via_parent: false,
            sent: id * 100,
            received: 7,
            error,
        }
    }

    #[test]
    fn both_lines_of_a_connection_have_its_caller() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("5d.jsonl");
        let mut file = ConnectionFile::default();
        file.append(&event(1, Phase::Closed, None), ConnectionOutcome::Allowed, None, None);
        file.open(LogFile::create(&connections_path(&log), 1 << 20).unwrap());
        let tool = RunningTool {
            since: UNIX_EPOCH,
            kind: "rust".to_owned(),
            exec_id: "e1".to_owned(),
            tool: "cargo".to_owned(),
        };
        let allowed = ConnectionOutcome::Allowed;
        file.append(&event(2, Phase::Opened, None), allowed, None, Some(tool.clone()));
        let refused = ConnectionError::NoRule;
        let rule = Some("b.a.example:443".to_owned());
        let refused = (event(3, Phase::Closed, Some(refused)), ConnectionOutcome::Refused);
        file.append(&refused.0, refused.1, rule.clone(), Some(tool));
        file.append(&event(2, Phase::Closed, None), allowed, None, None);
        assert!(file.open.is_empty());
        let read = ConnectionReader::open(&log).unwrap().read().unwrap();
        let fields: Vec<_> = read
            .iter()
            .map(|(_, it)| (it.connection, it.state, it.verdict, it.tool.as_deref(), it.sent))
            .collect();
        let cargo = Some("cargo");
        let expected = [
            (2, ConnectionState::Open, allowed, cargo, 200),
            (3, ConnectionState::Closed, ConnectionOutcome::Refused, cargo, 300),
            (2, ConnectionState::Closed, allowed, cargo, 200),
        ];
        assert_eq!(fields, expected);
        let [opened, refused, _] = [0, 1, 2].map(|at: usize| &read[at].1);
        assert_eq!(opened.rule.as_deref(), Some("*.a.example:443"));
        assert_eq!((refused.rule.as_ref(), &refused.suggestion), (None, &rule));
        assert_eq!(refused.error.as_deref(), Some("no rule permits it"));
        assert!(!opened.has_failed() && refused.has_failed());
    }
}
