//! The tool calls of a session as a timeline, read from its log (`spec/web.md#timeline`).

use std::fmt;
use std::path::{Path, PathBuf};

use aifo_types::{CallEnding, LoggedCall};

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
    /// `local`, or the engine name.
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
    source: CallSource,
    count: u64,
    live: usize,
}

/// Reads a session log of calls.
pub struct CallSource(Box<dyn FnMut() -> Vec<LoggedCall> + Send>);

impl CallSource {
    /// Returns a source that calls `read` for the calls since its last call.
    pub fn new(read: impl FnMut() -> Vec<LoggedCall> + Send + 'static) -> Self {
        CallSource(Box::new(read))
    }
}

impl fmt::Debug for CallSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallSource(..)")
    }
}

impl CallLog {
    pub(crate) fn new(path: PathBuf, source: CallSource, now: Seq) -> Self {
        CallLog { page: PageState::new(now), path, source, count: 0, live: 0 }
    }

    /// Returns the log's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what was appended to the log, and shows it with the running tools.
    /// Returns the new calls with their times.
    pub(crate) fn update(&mut self, seq: &mut Seq, running: &[RunningCall]) -> Vec<(u64, ToolRun)> {
        let mut new = Vec::new();
        let calls = (self.source.0)().into_iter().filter(|call| call.plumbing().is_none());
        for call in calls {
            new.push((call.time, tool_run(&call)));
            self.count = self.count.saturating_add(1);
            self.page.put(seq, &format!("calls.{}", self.count), call_html(&call));
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
}

fn tool_run(call: &LoggedCall) -> ToolRun {
    let (class, words) = ending(call);
    ToolRun {
        command: call.command(),
        kind: call.kind.clone().unwrap_or_default(),
        ending: words,
        has_failed: !["done", "in-place"].contains(&class),
        millis: call.wall_ms,
    }
}

/// Returns the class and the words of the ending.
fn ending(call: &LoggedCall) -> (&'static str, String) {
    let class = match call.ending {
        CallEnding::Exited if call.exit_code == 0 => "done",
        CallEnding::Exited => "failed",
        other => other.as_str(),
    };
    match call.ending {
        CallEnding::Refused => {
            (class, format!("refused: {}", call.reason.as_deref().unwrap_or_default()))
        }
        _ => (class, call.ending_text()),
    }
}

fn call_html(call: &LoggedCall) -> String {
    let (class, words) = ending(call);
    let end = call.ended();
    let lane = call.kind.as_deref().unwrap_or("none");
    html(class, lane, call.time, Some(end), &call.command(), &words)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_state::PageChanges;

    fn shown(log: &CallLog) -> String {
        let PageChanges::Snapshot(changes) = log.page.changes(None, Seq::MAX) else { panic!() };
        let html = |html: &str| serde_json::from_str::<String>(html).unwrap();
        changes.iter().map(|change| html(change.html.as_deref().unwrap())).collect()
    }

    fn call(tool: &str, argv: &str, ending: CallEnding) -> LoggedCall {
        LoggedCall {
            exec_id: String::new(),
            time: 5,
            tool: tool.to_owned(),
            argv: argv.to_owned(),
            kind: Some("rust".to_owned()),
            exit_code: 101,
            ending,
            limit: None,
            no_network: None,
            reason: Some("no".to_owned()),
            wall_ms: Some(1500),
            max_rss_kib: None,
        }
    }

    #[test]
    fn calls_are_shown_as_they_are_logged() {
        let mut logged = vec![
            vec![call("make", "", CallEnding::Refused)],
            vec![
                LoggedCall {
                    kind: Some("agent".to_owned()),
                    ..call("git", "rev-parse HEAD", CallEnding::InPlace)
                },
                call("cargo", "test '<b>'", CallEnding::Exited),
            ],
        ];
        let source = CallSource::new(move || logged.pop().unwrap());
        let (mut log, mut seq) = (CallLog::new(PathBuf::new(), source, 0), 0);
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
        log.update(&mut seq, &[]);
        let html = shown(&log);
        assert!(html.contains("make") && html.contains("refused: no") && !html.contains("running"));
        assert!(html.contains("class=\"call refused\""), "{html}");
    }
}
