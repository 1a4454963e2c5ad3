//! The record of a call for the session log.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aifo_policy::RouteReason;
use aifo_types::{CallEnding, Ending, ExecId, ExecRequest, Kind, Refusal};
use aifo_wire::{CancelCause, Exit, Limits, ResourceUsage, SidecarLimit};
use serde::{Serialize, Serializer};

/// One call, as one line of the session log (`spec/log.md`). Secrets are left out of `argv`.
#[derive(Clone, Debug, Serialize)]
pub struct CallRecord {
    /// When the request was complete, in milliseconds since 1970.
    pub time: u64,
    /// The call id.
    pub exec_id: String,
    /// The tool as typed.
    pub tool: String,
    /// The arguments, quoted, with secrets removed.
    pub argv: String,
    /// The caller directory; empty for the workspace root.
    pub cwd: String,
    /// The sidecar that ran it.
    pub kind: Option<String>,
    /// The rule that chose it.
    pub rule: Option<&'static str>,
    /// The protocol version: 1, 2 or 3.
    pub proto: u8,
    /// The status of the response.
    pub status: u16,
    /// The reported exit code.
    pub exit_code: u8,
    /// How the tool ended.
    #[serde(serialize_with = "name")]
    pub ending: CallEnding,
    /// The limit of its sidecar that was reached while it ran, if it failed: `memory` or `processes`.
    pub limit: Option<&'static str>,
    /// The rule by which it ran without network.
    pub no_network: Option<String>,
    /// Why it was refused, or another remark.
    pub reason: Option<String>,
    /// From start to end. `None`, as the next three, if it is not known.
    pub wall_ms: Option<u64>,
    /// CPU time in user mode, children included.
    pub user_ms: Option<u64>,
    /// CPU time in the kernel, children included.
    pub system_ms: Option<u64>,
    /// The largest resident set among tool and children.
    pub max_rss_kib: Option<u64>,
    /// Bytes of output that passed through the proxy.
    pub bytes: u64,
    /// The limit of each text, in bytes.
    #[serde(skip)]
    max_text: usize,
}

/// Callbacks for each call. They run on the reactor and must not block.
#[derive(Clone, Default)]
pub struct CallLog {
    log: Option<Arc<Recorder>>,
    checkpoints: Option<Arc<dyn Checkpoints>>,
}

type Recorder = dyn Fn(&CallRecord) + Send + Sync;

/// Takes checkpoints of the workspace around calls (`spec/history.md#checkpoints`).
pub trait Checkpoints: Send + Sync {
    /// Notes that a call is about to start. Returns what it waits for; `None` if it can start at once.
    fn call_starts(&self, call: &CallRecord) -> Option<Ready>;
    /// Notes that a call has ended or was refused.
    fn call_ended(&self, call: &CallRecord);
}

/// Completes when a call can start.
pub type Ready = Pin<Box<dyn Future<Output = ()> + Send>>;

impl CallLog {
    /// Returns a log that calls `log` once per call, at its end.
    pub fn new(log: impl Fn(&CallRecord) + Send + Sync + 'static) -> Self {
        CallLog { log: Some(Arc::new(log)), checkpoints: None }
    }

    /// Adds checkpoints around each call.
    #[must_use]
    pub fn with_checkpoints(self, checkpoints: Arc<dyn Checkpoints>) -> Self {
        CallLog { checkpoints: Some(checkpoints), ..self }
    }

    /// Waits for the checkpoint before a call, if there are checkpoints.
    pub(crate) async fn starts(&self, record: &CallRecord) {
        let ready = self.checkpoints.as_ref().and_then(|it| it.call_starts(record));
        if let Some(ready) = ready {
            ready.await;
        }
    }

    pub(crate) fn record(&self, record: &CallRecord) {
        if let Some(log) = &self.log {
            log(record);
        }
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.call_ended(record);
        }
    }
}

impl fmt::Debug for CallLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.log.is_some() { "CallLog(..)" } else { "CallLog(none)" })
    }
}

impl CallRecord {
    /// Returns the record of a call that has not started.
    pub(crate) fn new(request: &ExecRequest, proto: u8, limits: &Limits) -> Self {
        let max_text = limits.max_log_text;
        let cwd = request.cwd.as_deref().unwrap_or_default();
        // Cut before the conversion, which may treble it.
        let shown = cwd.get(..max_text.saturating_add(1)).unwrap_or(cwd);
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        CallRecord {
            time: millis(time),
            exec_id: request.id.to_string(),
            tool: request.tool.to_string(),
            argv: cut(&aifo_policy::redact(&request.args), max_text),
            cwd: cut(&String::from_utf8_lossy(shown), max_text),
            kind: None,
            rule: None,
            proto,
            status: 200,
            exit_code: 0,
            ending: CallEnding::Unknown,
            limit: None,
            no_network: None,
            reason: None,
            wall_ms: Some(0),
            user_ms: Some(0),
            system_ms: Some(0),
            max_rss_kib: Some(0),
            bytes: 0,
            max_text,
        }
    }

    pub(crate) fn routed(&mut self, kind: &Kind, reason: RouteReason) {
        self.kind = Some(kind.to_string());
        self.rule = Some(reason.as_str());
    }

    /// Notes the rule by which the call runs without network, if there is one.
    pub(crate) fn judged(&mut self, request: &ExecRequest) {
        self.no_network = request.no_network.as_deref().map(|rule| cut(rule, self.max_text));
    }

    pub(crate) fn refused(&mut self, refusal: &Refusal) {
        self.status = refusal.status().0;
        self.exit_code = refusal.exit_code();
        self.ending = match refusal {
            Refusal::EndingUnknown(_) => CallEnding::Unknown,
            _ => CallEnding::Refused,
        };
        self.reason = Some(cut(refusal.body().trim_end(), self.max_text));
    }

    /// Notes that the client runs the tool itself: nothing is known until [`CallRecord::ended_in_place`].
    pub(crate) fn runs_in_place(&mut self) {
        self.status = 204;
        self.routed(&Kind::agent(), RouteReason::InPlace);
        self.ending = CallEnding::InPlace;
        (self.wall_ms, self.user_ms, self.system_ms, self.max_rss_kib) = (None, None, None, None);
    }

    /// Notes how long a tool ran in place, and how it ended, if that is known.
    pub(crate) fn ended_in_place(&mut self, wall: Duration, ending: Option<Ending>) {
        self.wall_ms = Some(millis(wall));
        if let Some(ending) = ending {
            self.exit_code = ending.exit_code();
            self.ending = match ending {
                Ending::Exited(_) => CallEnding::Exited,
                Ending::Signaled(_) => CallEnding::Signaled,
            };
        }
    }

    pub(crate) fn ended(&mut self, ended: &CallResult) {
        self.exit_code = ended.exit_code;
        self.bytes = ended.bytes;
        self.limit = ended.limit.map(SidecarLimit::as_str);
        self.ending = match ended.ending {
            None => CallEnding::Unknown,
            Some(_) if ended.timed_out => CallEnding::Timeout,
            Some(Ending::Exited(_)) => CallEnding::Exited,
            Some(Ending::Signaled(_)) => CallEnding::Signaled,
        };
        if let Some(usage) = &ended.usage {
            self.wall_ms = Some(millis(usage.wall));
            self.user_ms = Some(millis(usage.user));
            self.system_ms = Some(millis(usage.system));
            self.max_rss_kib = Some(usage.max_rss_kib);
        }
    }
}

/// The result of a tool that ran.
#[derive(Debug)]
pub(crate) struct CallResult {
    pub(crate) id: ExecId,
    /// `None` if it is unknown.
    pub(crate) ending: Option<Ending>,
    /// The limit of the sidecar that was reached while the tool ran, if the tool failed.
    pub(crate) limit: Option<SidecarLimit>,
    pub(crate) timed_out: bool,
    pub(crate) exit_code: u8,
    pub(crate) usage: Option<ResourceUsage>,
    pub(crate) bytes: u64,
}

impl CallResult {
    /// Returns the result of the exec `id`; without `exit` the runner was lost.
    pub(crate) fn new(id: ExecId, exit: Option<Exit>, exit_code: u8) -> Self {
        if exit.is_none() {
            tracing::warn!(exec_id = %id, "runner lost, ending unknown");
        }
        let limit = exit.and_then(|exit| exit.note?.limit());
        let timed_out = exit.is_some_and(|exit| exit.cancelled == Some(CancelCause::Timeout));
        let (ending, usage) = exit.map(|exit| (exit.ending, exit.usage)).unzip();
        CallResult { id, ending, limit, timed_out, exit_code, usage, bytes: 0 }
    }
}

/// Returns the first `max` bytes of a text, and `..` if there are more.
pub(crate) fn cut(text: &str, max: usize) -> String {
    match text.len() > max {
        true => text[..text.floor_char_boundary(max)].to_owned() + "..",
        false => text.to_owned(),
    }
}

fn name<S: Serializer>(ending: &CallEnding, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(ending.as_str())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_types::ToolName;

    #[test]
    fn every_text_is_cut() {
        let id = ExecId::parse(&[b'i'; 64]).unwrap();
        let mut request = ExecRequest::new(id, ToolName::parse(&[b't'; 255]).unwrap());
        request.args = vec![vec![b'"'; 300]; 1000];
        request.cwd = Some(b"/\xff\x01".repeat(1 << 20));
        let limits = Limits::default();
        let mut record = CallRecord::new(&request, 3, &limits);
        record.refused(&Refusal::BadRequest("\u{1}".repeat(1 << 20)));
        for text in [&record.argv, &record.cwd, record.reason.as_ref().unwrap()] {
            assert!(text.ends_with("..") && text.len() <= limits.max_log_text + 2);
        }
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abc", 2), "ab..");
        assert_eq!(cut("a\u{fffd}c", 3), "a..");
    }
}
