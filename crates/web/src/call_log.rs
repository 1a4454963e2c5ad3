//! The tool calls of a session as a timeline, read from its log (`spec/web.md#timeline`).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::block::ToolRun;
use crate::clock::unix_ms;
use crate::markdown::escape;
use crate::page_state::{PageState, Seq};
use crate::view::{duration, moment};

/// A running session of this user, of any command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningSession {
    /// Its id.
    pub id: String,
    /// The process id of its launcher.
    pub pid: u32,
    /// The agent, `""` if it runs on this machine.
    pub agent: String,
    /// The workspace.
    pub workspace: String,
    /// `local`, or the engine's name.
    pub backend: String,
    /// When it was ready, in milliseconds since 1970.
    pub started: u64,
    /// Its log of calls.
    pub log: PathBuf,
    /// The tools that run now.
    pub tools: Vec<RunningCall>,
}

/// A tool that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningCall {
    /// The tool.
    pub tool: String,
    /// The kind of its sidecar.
    pub kind: String,
    /// When it started, in milliseconds since 1970.
    pub started: u64,
}

/// The calls of one session on a page.
#[derive(Debug)]
pub(crate) struct CallLog {
    pub(crate) page: PageState,
    path: PathBuf,
    offset: u64,
    unread: Vec<u8>,
    count: u64,
    live: usize,
}

/// The fields of a logged call that are shown (`spec/log.md`).
#[derive(Debug, Deserialize)]
struct Call {
    #[serde(default)]
    time: u64,
    tool: String,
    #[serde(default)]
    argv: String,
    kind: Option<String>,
    #[serde(default)]
    exit_code: u8,
    #[serde(default)]
    ending: String,
    reason: Option<String>,
    #[serde(default)]
    wall_ms: u64,
}

impl CallLog {
    pub(crate) fn new(path: &Path, now: Seq) -> Self {
        CallLog {
            page: PageState::new(now),
            path: path.to_owned(),
            offset: 0,
            unread: Vec::new(),
            count: 0,
            live: 0,
        }
    }

    /// Returns the log's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what was appended to the log, and shows it with the running tools.
    /// Returns the new calls with their times.
    pub(crate) fn update(&mut self, seq: &mut Seq, running: &[RunningCall]) -> Vec<(u64, ToolRun)> {
        let mut new = Vec::new();
        self.read();
        let end = self.unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.unread.drain(..end).collect();
        for line in whole.split(|byte| *byte == b'\n') {
            // A damaged line, as after a crash, is skipped.
            let Ok(call) = serde_json::from_slice::<Call>(line) else { continue };
            new.push((call.time, call.run()));
            self.count = self.count.saturating_add(1);
            self.page.put(seq, &format!("calls.{}", self.count), call.html());
            if let Some(oldest) = self.count.checked_sub(MOST_CALLS) {
                self.page.remove(seq, &format!("calls.{oldest}"));
            }
        }
        for (index, call) in running.iter().enumerate() {
            let html = html("running", &call.kind, call.started, None, &call.tool, "running");
            self.page.put(seq, &format!("live.{index}"), html);
        }
        for index in running.len()..self.live {
            self.page.remove(seq, &format!("live.{index}"));
        }
        self.live = running.len();
        new
    }

    fn read(&mut self) {
        let Ok(mut file) = File::open(&self.path) else { return };
        if file.seek(SeekFrom::Start(self.offset)).is_err() {
            return;
        }
        // The rest follows with the next update.
        if let Ok(read) = file.take(MOST_READ).read_to_end(&mut self.unread) {
            self.offset = self.offset.saturating_add(u64::try_from(read).unwrap_or_default());
        }
    }
}

impl Call {
    fn run(&self) -> ToolRun {
        ToolRun {
            command: format!("{} {}", self.tool, self.argv).trim_end().to_owned(),
            kind: self.kind.clone().unwrap_or_default(),
            ending: self.ending().1,
            millis: self.wall_ms,
        }
    }

    /// Returns the class and the words of the ending.
    fn ending(&self) -> (&'static str, String) {
        match self.ending.as_str() {
            "exited" if self.exit_code == 0 => ("done", "exit 0".to_owned()),
            "exited" => ("failed", format!("exit {}", self.exit_code)),
            "signaled" => ("signaled", format!("signal {}", self.exit_code.saturating_sub(128))),
            "timeout" => ("timeout", "timeout".to_owned()),
            "refused" => {
                let reason = self.reason.as_deref().unwrap_or_default();
                ("refused", format!("refused: {reason}"))
            }
            _ => ("unknown", "unknown".to_owned()),
        }
    }

    fn html(&self) -> String {
        let (class, words) = self.ending();
        let end = self.time.saturating_add(self.wall_ms);
        let command = format!("{} {}", self.tool, self.argv);
        let lane = self.kind.as_deref().unwrap_or("none");
        html(class, lane, self.time, Some(end), command.trim_end(), &words)
    }
}

fn html(
    class: &str,
    lane: &str,
    start: u64,
    end: Option<u64>,
    command: &str,
    words: &str,
) -> String {
    let last = end.map(|end| format!(" data-end=\"{end}\"")).unwrap_or_default();
    let time = end.unwrap_or_else(unix_ms).saturating_sub(start);
    let time = if end.is_some() { duration(time) } else { String::new() };
    format!(
        "<div class=\"call {class}\" data-lane=\"{}\" data-start=\"{start}\"{last}>{} \
         <span class=\"tag\">{}</span> <code>{}</code> <span class=\"ending\">{}</span> \
         <span class=\"faint\">{time}</span></div>",
        escape(lane),
        moment(start),
        escape(lane),
        escape(command),
        escape(words),
    )
}

/// Calls that are shown.
const MOST_CALLS: u64 = 2000;
/// Bytes of a log that are read at once.
const MOST_READ: u64 = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::page_state::PageChanges;

    fn shown(log: &CallLog) -> String {
        let PageChanges::Snapshot(changes) = log.page.changes(None, Seq::MAX) else { panic!() };
        let html = |html: &str| serde_json::from_str::<String>(html).unwrap();
        changes.iter().map(|change| html(change.html.as_deref().unwrap())).collect()
    }

    #[test]
    fn calls_are_shown_as_they_are_logged() {
        let path = std::env::temp_dir().join(format!("aifo-web-calls-{}", std::process::id()));
        let first = r#"{"time":5,"tool":"cargo","argv":"test '<b>'","kind":"rust","ending":"exited","exit_code":101,"wall_ms":1500}"#;
        fs::write(&path, format!("{first}\nnot json\n{{\"tool\":\"ma")).unwrap();
        let (mut log, mut seq) = (CallLog::new(&path, 0), 0);
        let running =
            [RunningCall { tool: "node".to_owned(), kind: "node".to_owned(), started: 7 }];
        let new = log.update(&mut seq, &running);
        assert_eq!((new.len(), new[0].0, new[0].1.ending.as_str()), (1, 5, "exit 101"));
        let html = shown(&log);
        assert!(html.contains(
            "class=\"call failed\" data-lane=\"rust\" data-start=\"5\" data-end=\"1505\""
        ));
        assert!(
            html.contains("cargo test &#39;&lt;b&gt;&#39;") && html.contains("exit 101"),
            "{html}"
        );
        assert!(html.contains("class=\"call running\" data-lane=\"node\""), "{html}");
        assert!(!html.contains("<code>ma"), "an incomplete line waits");
        fs::write(&path, format!("{first}\nnot json\n{{\"tool\":\"make\",\"ending\":\"refused\",\"reason\":\"no\"}}\n")).unwrap();
        log.update(&mut seq, &[]);
        let html = shown(&log);
        assert!(html.contains("make") && html.contains("refused: no") && !html.contains("running"));
        fs::remove_file(path).unwrap();
    }
}
