//! Decides permission requests by the rules (`spec/acp-commands.md#decisions-by-rules`).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_acp::{Decision, PermissionRequest, ToolCall, Verdict};
use aifo_acp_io::{Access, Resolved, TerminalCommand, Workspace};
use aifo_launch::{AskedCall, CallApprovals, Judgement, Verdict as CallVerdict};
use aifo_policy::{
    AccessRequest, CallCommand, PermissionDecision, PermissionRule, PermissionRules,
    PermissionVerdict,
};
use aifo_types::Refusal;
use serde_json::Value;

use crate::config::Source;

/// Permission rules with the paths that they are applied to.
#[derive(Clone)]
pub(crate) struct PermissionJudge {
    pub(crate) rules: PermissionRules<Source>,
    /// The option that allows, for agents whose options do not show it.
    pub(crate) allow_option: Option<String>,
    /// The workspace's paths as the agent sees it.
    pub(crate) workspace: Vec<PathBuf>,
    /// The opened workspace, for resolving links.
    pub(crate) place: Arc<Workspace>,
    /// The agent's working directory.
    pub(crate) cwd: PathBuf,
    /// The rules on arguments.
    pub(crate) approvals: CallApprovals,
}

/// A request of an agent, of any kind, for one decision function.
#[derive(Clone, Copy)]
pub(crate) enum AgentRequest<'a> {
    /// `session/request_permission`
    Permission(&'a PermissionRequest),
    /// `terminal/create`, with the real directory below the workspace.
    Terminal(&'a TerminalCommand, &'a Path),
    /// `fs/read_text_file` and `fs/write_text_file`: the path, and its real path below the workspace.
    File(Access, &'a str, &'a Path),
}

/// A decision and its reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PermissionOutcome {
    pub(crate) decision: Decision,
    /// The rule that decided.
    pub(crate) rule: String,
    /// For a denial: how to allow it.
    pub(crate) remedy: Option<String>,
}

impl PermissionJudge {
    /// Decides without a user: `ask` is a denial.
    pub(crate) fn decide(&self, request: &PermissionRequest) -> PermissionOutcome {
        let ruling = self.ruling(AgentRequest::Permission(request));
        let rule = ruling.to_string();
        if ruling.verdict == PermissionVerdict::Allow {
            if let Some(decision) = self.allow(request) {
                return PermissionOutcome { decision, rule, remedy: None };
            }
            let remedy = "none of its options is known to allow it once; set \
                          [agents.NAME.acp] allow_option";
            return denied(request, rule, remedy.to_owned());
        }
        let kind = request.call.as_ref().map_or("", |call| call.kind());
        let kind = if kind.is_empty() { "other" } else { kind };
        let runs = request.call.as_ref().is_some_and(|call| command_of(call).is_some());
        let is_word = PermissionRule::from_keyword(kind).is_none_or(|rule| rule.covers_commands());
        let kind = if runs && !is_word { "all" } else { kind };
        let remedy = match ruling.verdict {
            PermissionVerdict::Deny => "a rule denies it; denials override other rules".to_owned(),
            _ => format!("--yes-to {kind} allows it"),
        };
        denied(request, rule, remedy)
    }

    /// Returns the rules' decision, or `None` if the user must decide.
    pub(crate) fn consult(&self, request: &PermissionRequest) -> (Option<Decision>, String) {
        let command = request.call.as_ref().and_then(command_of);
        let strictest = self.strictest(command.as_ref(), &self.cwd);
        if let Some(Judgement { verdict: CallVerdict::Deny, rule, .. }) = &strictest {
            return (request.choose(Verdict::Deny, None), format!("rule '{rule}'"));
        }
        let ruling = self.ruling(AgentRequest::Permission(request));
        let decision = match ruling.verdict {
            // The call would wait for a user.
            PermissionVerdict::Allow if strictest.is_some() => None,
            PermissionVerdict::Allow => self.allow(request),
            PermissionVerdict::Deny => request.choose(Verdict::Deny, None),
            PermissionVerdict::Ask => None,
        };
        (decision, ruling.to_string())
    }

    /// Checks a request that aifo itself serves. Only an explicit deny rule rejects it: the agent asks
    /// for permission separately, if at all. The error text is for the agent.
    pub(crate) fn serve(&self, entry: AgentRequest<'_>) -> Result<(), String> {
        if let AgentRequest::Terminal(command, _) = entry {
            let directory = Path::new(&command.cwd);
            let parsed = CallCommand::from_argv(&command.argv);
            if let Some(Judgement { verdict: CallVerdict::Deny, rule, reason }) =
                self.strictest(Some(&parsed), directory)
            {
                return Err(Refusal::DeniedByRule { rule, reason }.body().trim_end().to_owned());
            }
        }
        let ruling = self.ruling(entry);
        match ruling.verdict {
            PermissionVerdict::Deny if ruling.is_from_rule => {
                Err(format!("denied by policy: {ruling}"))
            }
            PermissionVerdict::Allow | PermissionVerdict::Deny | PermissionVerdict::Ask => Ok(()),
        }
    }

    /// Returns the strictest verdict on the programs of a command, unless all are allowed.
    fn strictest(&self, command: Option<&CallCommand>, directory: &Path) -> Option<Judgement> {
        let parts = command.into_iter().flat_map(CallCommand::parts);
        let judgements = parts.filter_map(|part| {
            let argv: Vec<_> = part.iter().map(|word| word.clone().into_bytes()).collect();
            self.approvals.judge(&argv, Some(directory.as_os_str().as_bytes()))
        });
        let strict = judgements.filter(|judgement| judgement.verdict != CallVerdict::Allow);
        strict.max_by_key(|judgement| judgement.verdict)
    }

    /// Returns the call of a permission request, if it is exactly one program with its arguments.
    pub(crate) fn single_call(&self, request: &PermissionRequest) -> Option<AskedCall> {
        let command = command_of(request.call.as_ref()?)?;
        let argv = command.single()?.iter().map(|word| word.clone().into_bytes()).collect();
        Some(AskedCall { argv, directory: self.cwd.as_os_str().as_bytes().to_vec() })
    }

    /// Covers the call of a permission request that a user has allowed.
    pub(crate) fn cover(&self, request: &PermissionRequest) {
        if self.approvals.has_judge()
            && let Some(call) = self.single_call(request)
        {
            self.approvals.allow_once(call);
        }
    }

    fn allow(&self, request: &PermissionRequest) -> Option<Decision> {
        request.choose(Verdict::Allow, self.allow_option.as_deref())
    }

    fn ruling(&self, entry: AgentRequest<'_>) -> PermissionDecision {
        let (kind, command, mut paths) = match entry {
            AgentRequest::Permission(request) => match &request.call {
                None => ("", None, Vec::new()),
                Some(call) => {
                    let paths = call.paths().into_iter().map(str::to_owned).collect();
                    (call.kind(), command_of(call), self.with_real_paths(paths))
                }
            },
            AgentRequest::Terminal(command, real) => {
                let paths = vec![command.cwd.clone(), self.beneath(real)];
                ("execute", Some(CallCommand::from_argv(&command.argv)), paths)
            }
            AgentRequest::File(access, path, real) => {
                let kind = match access {
                    Access::Read => "read",
                    Access::Write => "edit",
                };
                (kind, None, vec![path.to_owned(), self.beneath(real)])
            }
        };
        paths.dedup();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        self.rules.judge(&AccessRequest {
            kind,
            command: command.as_ref(),
            paths: &paths,
            workspace: &self.workspace,
            cwd: &self.cwd,
        })
    }

    /// The paths, and where those beneath the workspace really lead.
    fn with_real_paths(&self, mut paths: Vec<String>) -> Vec<String> {
        let mut real = Vec::new();
        for (index, path) in paths.iter().enumerate() {
            let spelled = self.cwd.join(path);
            let resolved = match spelled.to_str() {
                Some(spelled) if index < MOST_RESOLVED => self.place.resolve(spelled),
                _ => Resolved::Nowhere,
            };
            match resolved {
                Resolved::Beneath(path) => real.push(self.beneath(&path)),
                // No path of a rule covers it.
                Resolved::Nowhere => real.push(NOWHERE.to_owned()),
                Resolved::Elsewhere => {}
            }
        }
        paths.append(&mut real);
        paths.sort_unstable();
        paths
    }

    /// The absolute path of a path below the workspace.
    fn beneath(&self, real: &Path) -> String {
        let root = self.workspace.first().map(PathBuf::as_path).unwrap_or(Path::new("/"));
        root.join(real).to_string_lossy().into_owned()
    }
}

/// Paths of one call that are resolved; the rest counts as unresolvable.
const MOST_RESOLVED: usize = 1024;

/// A path that matches no rule.
const NOWHERE: &str = "~";

/// The command of a call. Two different ones, or one of unknown form, still make it a command.
fn command_of(call: &ToolCall) -> Option<CallCommand> {
    if is_file_editor(call) {
        return None;
    }
    if let Some(text) = call.command() {
        return Some(CallCommand::from_text(&text));
    }
    let input = call.member("rawInput")?;
    let is_blank = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
    let values = ["command", "cmd"].into_iter().filter_map(|name| input.get(name));
    let values: Vec<&Value> = values.filter(|value| !value.is_null() && !is_blank(value)).collect();
    let words = |value: &Value| match value {
        Value::Array(words) => words.iter().filter_map(Value::as_str).map(quoted).collect(),
        other => vec![other.as_str().unwrap_or_default().to_owned()],
    };
    let texts: Vec<String> = values.iter().map(|value| words(value).join(" ")).collect();
    (!texts.is_empty()).then(|| CallCommand::from_any(texts.iter().map(String::as_str)))
}

/// True if a call is a file editor's, whose `command` is a verb, not a program: the editor tool of
/// OpenHands and others sends `{"command": "view", "path": ..}`.
fn is_file_editor(call: &ToolCall) -> bool {
    const VERBS: [&str; 5] = ["create", "insert", "str_replace", "undo_edit", "view"];
    let Some(input) = call.member("rawInput").filter(|_| call.kind() != "execute") else {
        return false;
    };
    let verb = input.get("command").and_then(Value::as_str);
    verb.is_some_and(|verb| VERBS.contains(&verb))
        && input.get("path").is_some_and(Value::is_string)
        && input.get("cmd").is_none()
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    shlex::try_quote(word).map(Into::into).unwrap_or_default()
}

fn denied(request: &PermissionRequest, rule: String, remedy: String) -> PermissionOutcome {
    // Without an option to deny, only cancelling the turn is left.
    let decision = request.choose(Verdict::Deny, None).unwrap_or(Decision::Cancelled);
    PermissionOutcome { decision, rule, remedy: Some(remedy) }
}
