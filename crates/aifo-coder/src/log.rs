//! `aifo-coder log`: prints the calls and messages of a session from its log (`spec/cli.md#log`).

mod call;
mod folding;
mod message;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

use aifo_host::{CallLogReader, LoggedLine, LoggedRecord};
use aifo_kube::client::{self, Cluster};
use aifo_network::{ConnectionReader, ConnectionState};
use aifo_terminal::console;
use aifo_terminal::paint::{self, Paint};
use anyhow::Context;

pub(crate) use self::call::on_one_line;
use crate::cli::Log;
use crate::history;
use crate::log::folding::{LeftOut, merge_repeats};
use crate::net::{connection_line, ended};
use crate::session_log::{self, POLL_INTERVAL};

pub(crate) async fn log(flags: &Log) -> anyhow::Result<ExitCode> {
    if let Some(cluster) =
        Cluster::selected(&flags.of.cluster.flags(), flags.of.session.as_deref()).await?
    {
        return client::relay(&cluster, flags).await;
    }
    let log = session_log::select(flags.of.session.as_deref(), flags.follow)?;
    let mut reader = CallLogReader::open(&log.path)
        .with_context(|| format!("cannot read the log '{}'", log.path.display()))?;
    // Without a network by name there are no connections.
    let mut connections = if flags.net { ConnectionReader::open(&log.path).ok() } else { None };
    // Later changes of a log that is followed would be missing.
    let changes = if flags.follow || flags.json { BTreeMap::new() } else { history::sums(&log) };
    let printer = Printer { flags, paint: Paint::of_stdout(), changes };
    let mut is_empty = true;
    let mut left_out = LeftOut::default();
    loop {
        // Checked before reading, so calls logged until the session's end are still read.
        let follows = flags.follow && log.session_runs();
        let mut lines = printer.lines(reader.read(u64::MAX)?, &mut left_out);
        if let Some(connections) = &mut connections {
            lines.extend(printer.connections(connections)?);
            lines.sort_by_key(|line| line.ended);
        }
        is_empty &= lines.is_empty();
        match printer.print(&lines) {
            // The reader has closed the pipe.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            printed => printed.context("cannot write to stdout")?,
        }
        if !follows {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    left_out.text().iter().for_each(console::say);
    if is_empty && !flags.json && !flags.follow {
        let failed = if flags.failed { "failed " } else { "" };
        console::say(format_args!("session '{}' has no {failed}calls", log.id));
    }
    Ok(ExitCode::SUCCESS)
}

struct Printer<'a> {
    flags: &'a Log,
    paint: Paint,
    /// The changes of each call, by its id.
    changes: BTreeMap<String, String>,
}

/// A line to print.
struct PrintedLine {
    /// When its call or connection ended, in milliseconds since 1970.
    ended: u64,
    text: String,
}

impl Printer<'_> {
    fn lines(&self, lines: Vec<LoggedLine>, left_out: &mut LeftOut) -> Vec<PrintedLine> {
        let is_complete = self.flags.all || self.flags.json;
        let mut lines = lines;
        lines.retain(|line| is_complete || !left_out.takes(&line.record));
        let repeats = if is_complete { vec![1; lines.len()] } else { merge_repeats(&mut lines) };
        let lines =
            lines.into_iter().zip(repeats).filter_map(|(LoggedLine { json, record }, times)| {
                let has_failed = match &record {
                    LoggedRecord::Call(call) => call.has_failed(),
                    LoggedRecord::Message(message) => message.has_failed(),
                };
                let ended = match &record {
                    LoggedRecord::Call(call) => call.ended(),
                    LoggedRecord::Message(message) => message.time,
                };
                let text = match &record {
                    _ if self.flags.json => json + "\n",
                    LoggedRecord::Call(call) => {
                        let changed = self.changes.get(&call.exec_id).map(String::as_str);
                        call::line(call, times, changed, is_complete, self.paint)
                    }
                    LoggedRecord::Message(message) => message::line(message, self.paint),
                };
                self.selects(has_failed).then_some(PrintedLine { ended, text })
            });
        lines.collect()
    }

    /// Returns the connections that have ended since the last read.
    fn connections(&self, reader: &mut ConnectionReader) -> io::Result<Vec<PrintedLine>> {
        let lines = reader.read()?.into_iter().filter_map(|(json, logged)| {
            let is_selected =
                logged.state == ConnectionState::Closed && self.selects(logged.has_failed());
            let text = match self.flags.json {
                true => json + "\n",
                false => connection_line(&logged, self.paint),
            };
            is_selected.then(|| PrintedLine { ended: ended(&logged), text })
        });
        Ok(lines.collect())
    }

    fn selects(&self, has_failed: bool) -> bool {
        has_failed || !self.flags.failed
    }

    fn print(&self, lines: &[PrintedLine]) -> io::Result<()> {
        let text: String = lines.iter().map(|line| line.text.as_str()).collect();
        if self.flags.json { paint::write_json(&text) } else { paint::write(&text) }
    }
}
