//! The table of running tools, in a file that other processes can read.
//!
//! Each running tool has one line of fixed length. Its start is one write and its end another, a few
//! microseconds for both; no tool waits for them. Lines are not moved, so a reader needs no lock: it
//! skips an incomplete line.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::record::CallRecord;

/// The table of running tools. The default keeps none.
#[derive(Clone, Debug, Default)]
pub struct RunningTable(Option<Arc<TableFile>>);

#[derive(Debug)]
struct TableFile {
    file: File,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    free: Vec<u64>,
    count: u64,
    /// The running tools, by line.
    tools: HashMap<u64, RunningTool>,
}

/// A tool that runs, or has just ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningTool {
    /// When its request was complete; in milliseconds.
    pub since: SystemTime,
    /// The sidecar's kind.
    pub kind: String,
    /// The call id.
    pub exec_id: String,
    /// Its name, truncated to the length of a line.
    pub tool: String,
}

/// A tool in the table. Its line is freed on drop.
#[derive(Debug)]
pub(crate) struct TableEntry(Option<(Arc<TableFile>, u64)>);

/// Bytes of a line with its line end: any kind and id, and 140 bytes of a tool name.
const LINE_LEN: usize = 256;

impl RunningTable {
    /// Creates the file with mode 0600. Errors: it exists, or cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(RunningTable(Some(Arc::new(TableFile { file, slots: Mutex::default() }))))
    }

    /// Reads the tools in such a file, the longest running first. Errors: it cannot be read.
    pub fn read(path: &Path) -> io::Result<Vec<RunningTool>> {
        let text = fs::read(path)?;
        let lines = text.chunks_exact(LINE_LEN).filter_map(|line| std::str::from_utf8(line).ok());
        let mut tools: Vec<RunningTool> = lines.filter_map(RunningTool::parse).collect();
        tools.sort_by_key(|tool| tool.since);
        Ok(tools)
    }

    /// Returns the running tool of which `is_one` holds, if it is the only one.
    pub fn only(&self, is_one: impl Fn(&RunningTool) -> bool) -> Option<RunningTool> {
        let slots = self.0.as_ref()?.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tools = slots.tools.values().filter(|tool| is_one(tool));
        let first = tools.next()?;
        tools.next().is_none().then(|| first.clone())
    }

    /// Returns the running tool of this call.
    pub fn find(&self, exec_id: &str) -> Option<RunningTool> {
        let slots = self.0.as_ref()?.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.tools.values().find(|tool| tool.exec_id == exec_id).cloned()
    }

    pub(crate) fn insert(&self, record: &CallRecord) -> TableEntry {
        let Some(file) = &self.0 else { return TableEntry(None) };
        let kind = record.kind.as_deref().unwrap_or("-");
        let CallRecord { time, exec_id, tool, .. } = record;
        let running = RunningTool {
            since: UNIX_EPOCH + Duration::from_millis(*time),
            kind: kind.to_owned(),
            exec_id: exec_id.clone(),
            tool: tool.clone(),
        };
        let at = {
            let mut slots = file.slots.lock().unwrap_or_else(PoisonError::into_inner);
            let Slots { free, count, tools } = &mut *slots;
            let at = free.pop().unwrap_or_else(|| {
                *count += 1;
                *count - 1
            });
            tools.insert(at, running);
            at
        };
        file.write(at, &format!("{time} {kind} {exec_id} {tool}"));
        TableEntry(Some((Arc::clone(file), at)))
    }
}

impl Drop for TableEntry {
    fn drop(&mut self) {
        let Some((file, at)) = self.0.take() else { return };
        file.write(at, "");
        let mut slots = file.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.tools.remove(&at);
        slots.free.push(at);
    }
}

impl TableFile {
    fn write(&self, at: u64, text: &str) {
        let mut line = [b' '; LINE_LEN];
        let cut = text.floor_char_boundary(LINE_LEN - 1);
        for (byte, of) in line.iter_mut().zip(text.as_bytes().iter().take(cut)) {
            *byte = *of;
        }
        line[LINE_LEN - 1] = b'\n';
        // A full disk must not fail a call.
        let _ = self.file.write_all_at(&line, at.saturating_mul(LINE_LEN as u64));
    }
}

impl RunningTool {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.trim_end().splitn(4, ' ');
        let since = Duration::from_millis(words.next()?.parse().ok()?);
        let mut word = || words.next().map(str::to_owned);
        Some(RunningTool {
            since: UNIX_EPOCH.checked_add(since)?,
            kind: word()?,
            exec_id: word()?,
            tool: word()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_types::{ExecId, ExecRequest, Kind, ToolName};

    fn record(id: &str, tool: &str, time: u64) -> CallRecord {
        let (id, tool) = (ExecId::parse(id.as_bytes()), ToolName::parse(tool.as_bytes()));
        let request = ExecRequest::new(id.unwrap(), tool.unwrap());
        let mut record = CallRecord::new(&request, 3, &aifo_wire::Limits::default());
        record.time = time;
        record.routed(&Kind::parse("rust").unwrap(), aifo_policy::RouteReason::OwnKind);
        record
    }

    #[test]
    fn a_tool_is_listed_while_it_runs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table");
        let table = RunningTable::create(&path).unwrap();
        let tools = || -> Vec<String> {
            RunningTable::read(&path).unwrap().into_iter().map(|tool| tool.tool).collect()
        };
        let first = table.insert(&record("a", "cargo", 1_000));
        let second = table.insert(&record("b", "rustc", 2_000));
        assert_eq!(tools(), ["cargo", "rustc"]);
        assert_eq!(table.only(|_| true), None);
        let only = table.only(|tool| tool.tool == "cargo").map(|tool| tool.exec_id);
        assert_eq!(only.as_deref(), Some("a"));
        drop(first);
        assert_eq!(tools(), ["rustc"]);
        assert_eq!(table.only(|_| true).map(|tool| tool.exec_id).as_deref(), Some("b"));
        let third = table.insert(&record("c", "gcc", 500));
        assert_eq!(tools(), ["gcc", "rustc"], "the longest running first");
        assert_eq!(path.metadata().unwrap().len(), 2 * LINE_LEN as u64, "lines are used again");
        drop((second, third));
        assert_eq!(tools(), [""; 0]);
    }

    #[test]
    fn incomplete_lines_are_skipped() {
        let line = |text: &str| RunningTool::parse(text);
        let whole = line("1500 rust e1 cargo   \n").unwrap();
        assert_eq!(whole.since, UNIX_EPOCH + Duration::from_millis(1500));
        assert_eq!((whole.kind.as_str(), whole.exec_id.as_str()), ("rust", "e1"));
        for odd in ["", "   \n", "1500", "1500 rust", "x rust e1 cargo", "1500 rust e1"] {
            assert_eq!(line(odd), None, "{odd}");
        }
    }
}
