//! Questions about calls, as permission requests to the editor (`spec/questions.md#editors`).

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use aifo_acp::{Id, OptionKind, PermissionRequest, Relay};
use aifo_policy::{Answer, AskedCall, QuestionState};
use aifo_proxy::CallApprovals;
use aifo_types::{escape_line, quote_word};
use serde_json::{Value, json};

use crate::acp::judge::{PermissionJudge, title_command};

/// The questions and permission requests that an editor is asked.
#[derive(Debug)]
pub(crate) struct EditorQuestions {
    approvals: CallApprovals,
    /// A part of the tool calls' ids that the agent does not know: it could change the call that the
    /// editor shows.
    secret: u64,
    /// The open questions, with the editor request; `None` after its answer.
    asked: BTreeMap<String, Option<u64>>,
    /// True if questions wait for a turn.
    wait_for_turn: bool,
    permissions: Vec<EditorPermission>,
}

/// A permission request at the editor.
#[derive(Debug)]
struct EditorPermission {
    id: Id,
    call: AskedCall,
    /// The calls that it runs.
    inner: Vec<AskedCall>,
    /// The options that allow it.
    allowing: Vec<Value>,
}

/// The time between two tries to find a turn.
const TURN_INTERVAL: Duration = Duration::from_millis(200);
/// Permission requests that are tracked; the oldest are dropped.
const MAX_PERMISSIONS: usize = 64;

impl EditorQuestions {
    pub(crate) fn new(approvals: CallApprovals) -> Self {
        let secret = RandomState::new().build_hasher().finish();
        EditorQuestions {
            approvals,
            secret,
            asked: BTreeMap::new(),
            wait_for_turn: false,
            permissions: Vec::new(),
        }
    }

    /// Asks the editor about questions that have opened, and withdraws those that have ended. An answer
    /// that ends the turn cancels it.
    pub(crate) fn update(&mut self, relay: &mut Relay, now: Instant) {
        let open = self.approvals.open();
        let is_open = |id: &String| open.iter().any(|open| open.id == *id);
        let ended: Vec<String> = self.asked.keys().filter(|id| !is_open(id)).cloned().collect();
        for id in ended {
            if let Some(Some(number)) = self.asked.remove(&id) {
                relay.withdraw_question(number, now);
            }
            let state = self.approvals.ended(&id).map(|(state, _)| state);
            if state == Some(QuestionState::Answered(Answer::DenyAndEnd.id().to_owned())) {
                relay.cancel_turns(now);
            }
        }
        self.wait_for_turn = false;
        for open in open.iter().filter(|open| !open.left) {
            let id = &open.id;
            if self.asked.contains_key(id) {
                continue;
            }
            let Some(call) = self.approvals.call(id) else { continue };
            let tool_call = format!("aifo-{id}-{:016x}", self.secret);
            let (call, options) = permission(&tool_call, &call, &open.reason);
            // Without a turn, another frontend may answer.
            match relay.ask_question(id, call, options, now) {
                Some(number) => _ = self.asked.insert(id.clone(), Some(number)),
                None => self.wait_for_turn = true,
            }
        }
    }

    /// Waits until [`update`](Self::update) may find a turn for its questions.
    pub(crate) async fn turn_may_run(&self) {
        match self.wait_for_turn {
            true => tokio::time::sleep(TURN_INTERVAL).await,
            false => std::future::pending().await,
        }
    }

    /// Takes the editor answer. Without one the question stays open for other frontends.
    pub(crate) fn answered(&mut self, id: &str, option: Option<&str>) {
        if let Some(number) = self.asked.get_mut(id) {
            *number = None;
        }
        let Some(option) = option.filter(|option| offered().any(|(id, ..)| id == *option)) else {
            return;
        };
        if let Err(error) = self.approvals.answer(id, option, "editor") {
            tracing::debug!(%error, "the editor's answer was late");
        }
    }

    /// Notes a permission request that the editor decides.
    pub(crate) fn forwarded(
        &mut self,
        id: &Id,
        judge: &PermissionJudge,
        request: &PermissionRequest,
    ) {
        let Some(call) = judge.single_call(request).filter(|_| shows_command(request)) else {
            return;
        };
        let allows =
            |kind: &OptionKind| matches!(kind, OptionKind::AllowOnce | OptionKind::AllowAlways);
        let options = request.options.iter().filter(|option| allows(&option.kind));
        let allowing = options.map(|option| option.id.clone()).collect();
        let inner = judge.covered(&call);
        if self.permissions.len() >= MAX_PERMISSIONS {
            self.permissions.remove(0);
        }
        self.permissions.push(EditorPermission { id: id.clone(), call, inner, allowing });
    }

    /// Covers the call of a permission request that the editor has allowed.
    pub(crate) fn permission_answered(&mut self, id: &Id, option: Option<&Value>) {
        let Some(at) = self.permissions.iter().position(|known| known.id == *id) else { return };
        let EditorPermission { call, inner, allowing, .. } = self.permissions.remove(at);
        if option.is_some_and(|option| allowing.contains(option)) && self.approvals.has_judge() {
            self.approvals.allow_once(call, inner);
        }
    }
}

/// Returns whether the title has the whole command. Editors show the title, so a command that it does not
/// have is not what the user allows.
fn shows_command(request: &PermissionRequest) -> bool {
    let Some(call) = &request.call else { return false };
    if title_command(call).is_some() {
        return true;
    }
    call.command()
        .is_some_and(|command| !command.trim().is_empty() && call.title().contains(command.trim()))
}

/// Returns the offered answers. *Always* needs a difference that no editor shows.
fn offered() -> impl Iterator<Item = (String, String, String)> {
    let options = Answer::options().into_iter();
    let options = options.filter(|option| option.id != Answer::Always.id());
    options.map(|option| (option.id, option.name, option.kind))
}

/// Returns the tool call and the options of a permission request.
fn permission(id: &str, call: &AskedCall, reason: &str) -> (Value, Value) {
    let words: Vec<_> = call.argv.iter().map(|word| quote_word(word)).collect();
    let line = words.join(" ");
    let directory = String::from_utf8_lossy(&call.directory).into_owned();
    let (directory_word, reason) = (quote_word(&call.directory), escape_line(reason));
    let text = format!("{line}\nin {directory_word}\n{reason}");
    let options =
        offered().map(|(id, name, kind)| json!({"optionId": id, "name": name, "kind": kind}));
    let call = json!({
        "toolCallId": id,
        "title": line,
        "kind": "execute",
        "status": "pending",
        "content": [{"type": "content", "content": {"type": "text", "text": text}}],
        "rawInput": {"command": call.words(), "cwd": directory},
    });
    (call, options.collect())
}
