//! Verdicts on calls, and calls that wait for a user's approval (`spec/questions.md`).

mod waiting;

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aifo_policy::{
    AnswerEffect, AnswerError, Approvals, AskedCall, Judge, JudgedCall, JudgedUpdate, Judgement,
    Question, QuestionState, Verdict, asks_only_for_version, redact,
};
use aifo_types::{ExecRequest, FileId, Refusal, quote_word, replaced_while_waiting};
use aifo_wire::Limits;
use tokio::sync::watch;

use crate::asked_files::{DirectoryError, SharedNames};

pub(crate) use waiting::{
    Approved, WaitEnd, approve_attached, approve_in_place, approve_plain, ends_unstarted_tool,
    wait_for_answer,
};

/// Judges calls. It runs on the reactor and must not block.
#[derive(Clone)]
pub struct CallJudge {
    judge: Arc<JudgeFn>,
    /// The calls that an allowed call covers; see [`Judge::covered`].
    covered: Arc<CoveredFn>,
    push: Arc<PushFn>,
}

type JudgeFn = dyn Fn(&JudgedCall<'_>) -> Judgement + Send + Sync;
type PushFn = dyn Fn(&JudgedUpdate<'_>) -> Judgement + Send + Sync;
type CoveredFn = dyn Fn(&JudgedCall<'_>) -> Vec<AskedCall> + Send + Sync;

/// The verdicts of a session, and its calls that wait for approval. Cheap to clone; frontends for users
/// share it with the proxy.
#[derive(Clone, Debug)]
pub struct CallApprovals(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None` allows every call.
    judge: Option<CallJudge>,
    shared: SharedNames,
    /// The workspace names, absolute.
    workspace: Vec<Vec<u8>>,
    timeout: Duration,
    /// The user's command that answers.
    answer_command: String,
    limits: Limits,
    state: Mutex<Approvals>,
    /// The number of changes.
    changes: watch::Sender<u64>,
}

/// A call that a user must approve.
pub(crate) struct Unapproved {
    call: AskedCall,
    /// The call in one line, without secrets.
    line: String,
    /// The rule and its reason.
    why: String,
}

/// Where a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunsIn {
    /// In a sidecar or on the host.
    Sidecar,
    /// Where its client is.
    Agent,
}

/// Bytes that a string needs besides its own.
const STRING_COST: usize = 64;

impl CallJudge {
    /// Returns a judge that calls `judge` once per call. Pushes are asked.
    pub fn new(judge: impl Fn(&JudgedCall<'_>) -> Judgement + Send + Sync + 'static) -> Self {
        let push = Arc::new(|of: &JudgedUpdate<'_>| Judge::default().judge_push(of));
        CallJudge { judge: Arc::new(judge), covered: Arc::new(|_| Vec::new()), push }
    }
}

impl From<Judge> for CallJudge {
    fn from(judge: Judge) -> Self {
        let judge = Arc::new(judge);
        let (for_covered, for_push) = (Arc::clone(&judge), Arc::clone(&judge));
        let push = Arc::new(move |of: &JudgedUpdate<'_>| for_push.judge_push(of));
        let covered = Arc::new(move |call: &JudgedCall<'_>| for_covered.covered(call));
        CallJudge { covered, push, ..CallJudge::new(move |call| judge.judge(call)) }
    }
}

impl fmt::Debug for CallJudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallJudge(..)")
    }
}

impl CallApprovals {
    /// Returns the approvals of a session. Without a judge every call is allowed. `shared` are the
    /// directories that agent and tools share, the workspace first: of each its path for the proxy, then its other
    /// absolute names. `timeout` is the time for an answer, 0 if no user can give one; `answer_command` is
    /// the command line that gives one.
    pub fn new(
        judge: Option<CallJudge>,
        shared: Vec<Vec<PathBuf>>,
        timeout: Duration,
        limits: &Limits,
        answer_command: String,
    ) -> Self {
        let shared = SharedNames::new(shared);
        let workspace = shared.workspace().iter();
        let workspace = workspace.map(|name| name.as_os_str().as_bytes().to_vec()).collect();
        CallApprovals(Arc::new(Inner {
            judge,
            shared,
            workspace,
            timeout,
            answer_command,
            limits: limits.clone(),
            state: Mutex::new(Approvals::new(limits.max_unapproved)),
            changes: watch::Sender::new(0),
        }))
    }

    /// Returns approvals that allow every call.
    pub fn allow_all() -> Self {
        CallApprovals::new(None, Vec::new(), Duration::ZERO, &Limits::default(), String::new())
    }

    /// Returns the time for an answer.
    pub(crate) fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// Returns the user's command that answers.
    pub fn answer_command(&self) -> &str {
        &self.0.answer_command
    }

    /// Returns whether it has a judge.
    pub fn has_judge(&self) -> bool {
        self.0.judge.is_some()
    }

    /// Returns the verdict on a call; `None` without a judge.
    pub fn judge(&self, argv: &[Vec<u8>], directory: Option<&[u8]>) -> Option<Judgement> {
        let (judge, workspace) = (self.0.judge.as_ref()?, self.0.workspace.as_slice());
        let root = workspace.first().map(Vec::as_slice).unwrap_or_default();
        let directory = directory.unwrap_or(root);
        Some((judge.judge)(&JudgedCall { argv, directory, workspace }))
    }

    /// Returns the calls that a call runs and that are allowed with it; none without a judge.
    pub fn covered(&self, call: &AskedCall) -> Vec<AskedCall> {
        let AskedCall { argv, directory, .. } = call;
        let call = JudgedCall { argv, directory, workspace: &self.0.workspace };
        let covered = self.0.judge.as_ref().map(|judge| (judge.covered)(&call));
        let covered = covered.into_iter().flatten();
        covered.map(|AskedCall { argv, directory, .. }| self.asked(argv, directory)).collect()
    }

    /// Returns a call as a user is asked about it now: with the directory and the scripts that its names lead to.
    pub fn asked(&self, argv: Vec<Vec<u8>>, directory: Vec<u8>) -> AskedCall {
        let call = AskedCall::new(argv, directory);
        match self.has_judge() {
            true => self.0.shared.pin(&call).unwrap_or(call),
            false => call,
        }
    }

    /// Checks right before the start of a call that its names lead to the directory and the scripts that a user
    /// was asked about.
    pub(crate) fn check(&self, call: Option<&AskedCall>) -> Result<(), Refusal> {
        call.map_or(Ok(()), |call| self.0.shared.check(call))
    }

    /// Returns the open questions, the oldest first.
    pub fn open(&self) -> Vec<Question> {
        let mut state = self.lock();
        state.expire(Instant::now());
        let open = state.open().map(|question| {
            let left = state.has_left(&question.id);
            Question { left, ..question.clone() }
        });
        open.collect()
    }

    /// Returns the state of a question and the sender of its answer; `None` if it ended long ago.
    pub fn ended(&self, id: &str) -> Option<(QuestionState, Option<String>)> {
        let state = self.lock();
        let by = state.answered_by(id).map(str::to_owned);
        state.get(id).map(|question| (question.state.clone(), by))
    }

    /// Answers an open question; the first answer counts. `by` describes the sender.
    pub fn answer(&self, id: &str, option: &str, by: &str) -> Result<AnswerEffect, AnswerError> {
        let effect = self.lock().answer(id, option, by, Instant::now())?;
        self.announce();
        Ok(effect)
    }

    /// Returns the call of an open question.
    pub fn call(&self, id: &str) -> Option<AskedCall> {
        self.lock().call(id).cloned()
    }

    /// Covers the next call with these arguments, which a user has allowed elsewhere, and once each of
    /// the calls that it runs.
    pub fn allow_once(&self, call: AskedCall, inner: Vec<AskedCall>) {
        self.lock().allow_once(call, inner, Instant::now());
        self.announce();
    }

    /// Returns a receiver that changes when questions open and end.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Returns when the next question expires.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.lock().next_expiry()
    }

    /// Judges a request. `Some` if a user must approve it; the request then has the directory without links, and its
    /// id. Errors: a rule denies it, it is too long to be shown, or its directory cannot be opened.
    pub(crate) fn judge_request(
        &self,
        request: &mut ExecRequest,
        runs_in: RunsIn,
    ) -> Result<Option<Unapproved>, Refusal> {
        if self.0.judge.is_none() {
            return Ok(None);
        }
        // The arguments are moved, not copied: most calls are allowed.
        let mut argv = std::mem::take(&mut request.args);
        argv.insert(0, request.tool.as_str().as_bytes().to_vec());
        let judgement = self.judge(&argv, request.cwd.as_deref());
        argv.remove(0);
        request.args = argv;
        let judgement = judgement.map(|mut judgement| {
            request.no_network = judgement.no_network.take();
            judgement
        });
        match judgement {
            None | Some(Judgement { verdict: Verdict::Allow, .. }) => Ok(None),
            Some(Judgement { verdict: Verdict::Deny, rule, reason, .. }) => {
                Err(Refusal::DeniedByRule { rule, reason })
            }
            Some(judgement) => self.unapproved(request, &judgement, runs_in).map(Some),
        }
    }

    fn unapproved(
        &self,
        request: &mut ExecRequest,
        judgement: &Judgement,
        runs_in: RunsIn,
    ) -> Result<Unapproved, Refusal> {
        let variables = &request.inherited.environment;
        let strings = request.argv().chain(variables.iter().map(Vec::as_slice));
        let len = strings.map(|string| string.len().saturating_add(STRING_COST)).sum();
        let limit = self.0.limits.max_asked;
        if len > limit {
            return Err(Refusal::TooLongForApproval { len, limit_kib: limit / 1024 });
        }
        let root = || self.0.workspace.first().cloned().unwrap_or_default();
        let argv = request.argv().map(<[u8]>::to_vec).collect();
        let mut call = AskedCall::new(argv, request.cwd.clone().unwrap_or_else(root));
        // The agent's own directories may be in its container only, where the call is already.
        if runs_in == RunsIn::Agent && !self.0.shared.name(&call.directory) {
            return Ok(unapproved(call, judgement));
        }
        let mut pinned = self.0.shared.pin(&call);
        if matches!(pinned, Err(DirectoryError::Outside)) && asks_only_for_version(&request.args) {
            request.cwd = None;
            call.directory = root();
            pinned = self.0.shared.pin(&call);
        }
        let call = pinned.map_err(|error| error.refusal(&call.directory))?;
        request.cwd = request.cwd.as_ref().map(|_| call.directory.clone());
        request.cwd_id = call.files.as_ref().map(|files| files.directory);
        Ok(unapproved(call, judgement))
    }

    /// Returns the verdict on the update of a ref by a push; [`Verdict::Ask`] without a judge.
    pub fn judge_push(&self, update: &JudgedUpdate<'_>) -> Judgement {
        match &self.0.judge {
            Some(judge) => (judge.push)(update),
            None => Judge::default().judge_push(update),
        }
    }

    /// Asks about a command that is no call of a shim, and waits for the answer, which covers once each of
    /// the calls that it runs. `directory` is the one that it runs in. Returns the wait and the command in one line,
    /// without secrets. Errors of the wait: the command must not run. Dropping the wait leaves the question to an
    /// identical command.
    pub fn ask(
        &self,
        (call, directory): (AskedCall, FileId),
        inner: Vec<AskedCall>,
        judgement: &Judgement,
    ) -> (String, impl Future<Output = Result<(), Refusal>> + Send + use<>) {
        let len = call.argv.iter().map(|word| word.len().saturating_add(STRING_COST)).sum();
        let limit = self.0.limits.max_asked;
        let (approvals, unapproved) = (self.clone(), unapproved(call, judgement));
        let line = unapproved.line.clone();
        let wait = async move {
            if len > limit {
                return Err(Refusal::TooLongForApproval { len, limit_kib: limit / 1024 });
            }
            if unapproved.call.files.as_ref().is_none_or(|files| files.directory != directory) {
                let path = Path::new(OsStr::from_bytes(&unapproved.call.directory));
                return Err(Refusal::BadRequest(replaced_while_waiting(path)));
            }
            let never = std::future::pending();
            let timeout = approvals.0.timeout;
            let (approved, call) =
                wait_for_answer(&approvals, unapproved, |_| {}, never, timeout).await?;
            approvals.check(Some(&call))?;
            if approved == Approved::Answered {
                approvals.lock().allow_inner(inner, Instant::now());
            }
            Ok(())
        };
        (line, wait)
    }

    fn announce(&self) {
        self.0.changes.send_modify(|number| *number = number.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, Approvals> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unapproved(call: AskedCall, judgement: &Judgement) -> Unapproved {
    let (first, args) = match call.argv.split_first() {
        Some((first, args)) => (quote_word(first), args),
        None => (String::new(), [].as_slice()),
    };
    let line = format!("{first} {}", redact(args));
    let mut why = format!("rule '{}'", judgement.rule);
    if !judgement.reason.is_empty() {
        why = format!("{why}: {}", judgement.reason);
    }
    Unapproved { line: line.trim_end().to_owned(), call, why }
}
