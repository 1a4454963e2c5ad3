//! Decides permission requests by the rules (`spec/acp-commands.md#decisions-by-rules`).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_acp::{PermissionAnswer, PermissionOutcome, PermissionRequest, ToolCall};
use aifo_acp_io::{Access, Resolved, TerminalCommand, TerminalVerdict, Workspace};
use aifo_policy::{
    AccessRequest, AskedCall, Judge, Judgement, RequestedCommand, Verdict, covers_commands,
};
use aifo_proxy::CallApprovals;
use aifo_types::{FileId, Refusal, escape_line};
use serde_json::Value;

/// Rules on requests with the paths that they are applied to.
#[derive(Clone)]
pub struct PermissionJudge {
    /// The rules on requests.
    pub rules: Arc<Judge>,
    /// The option that allows, for agents whose options do not show it.
    pub allow_option: Option<String>,
    /// The workspace paths as the agent sees it.
    pub workspace: Vec<PathBuf>,
    /// The opened workspace, for resolving links.
    pub place: Arc<Workspace>,
    /// The agent's working directory.
    pub cwd: PathBuf,
    /// The rules on calls.
    pub approvals: CallApprovals,
    /// The directory of shims, whose calls are judged by the proxy.
    pub shims: PathBuf,
}

/// An agent request, of any kind, for one decision function.
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
pub struct JudgedPermission {
    /// The outcome.
    pub decision: PermissionOutcome,
    /// The rule that decided.
    pub rule: String,
    /// For a denial: how to allow it.
    pub remedy: Option<String>,
}

impl PermissionJudge {
    /// Decides without a user: `ask` is a denial.
    pub fn decide(&self, request: &PermissionRequest) -> JudgedPermission {
        let denied_call = self.strictest(request.call.as_ref());
        let denied_call = denied_call.filter(|judgement| judgement.verdict == Verdict::Deny);
        let ruling = denied_call.unwrap_or_else(|| self.ruling(AgentRequest::Permission(request)));
        let rule = ruling.to_string();
        if ruling.verdict == Verdict::Allow {
            if let Some(decision) = self.allow(request) {
                return JudgedPermission { decision, rule, remedy: None };
            }
            let remedy = "none of its options is known to allow it once; set \
                          [agents.NAME.acp] allow_option";
            return denied(request, rule, remedy.to_owned());
        }
        let kind = request.call.as_ref().map_or("", |call| call.kind());
        let kind = if kind.is_empty() { "other" } else { kind };
        let runs = request.call.as_ref().is_some_and(|call| command_of(call).is_some());
        let kind = if runs && !covers_commands(kind) { "all" } else { kind };
        let remedy = match ruling.verdict {
            Verdict::Deny => "a rule denies it; denials override other rules".to_owned(),
            _ => format!("--yes-to {kind} allows it"),
        };
        denied(request, rule, remedy)
    }

    /// Returns the rules' decision, or `None` if the user must decide, and the judgement with its reason.
    pub fn consult(&self, request: &PermissionRequest) -> (Option<PermissionOutcome>, Judgement) {
        let of_call = self.strictest(request.call.as_ref()).unwrap_or_default();
        let of_request = self.ruling(AgentRequest::Permission(request));
        // Its call would wait for a user, who reads why.
        let ruling = of_request.or_stricter(of_call);
        let decision = match ruling.verdict {
            Verdict::Allow => self.allow(request),
            Verdict::Deny => request.choose(PermissionAnswer::Deny, None),
            Verdict::Ask => None,
        };
        (decision, ruling)
    }

    /// Checks a request that aifo itself serves. Only an explicit deny rule rejects it: the agent asks
    /// for permission separately, if at all. The error text is for the agent.
    pub(crate) fn serve(&self, entry: AgentRequest<'_>) -> Result<(), String> {
        match self.with_request(entry, |request| self.rules.denial(request)) {
            Some(denial) => Err(format!("denied by policy: {denial}")),
            None => Ok(()),
        }
    }

    /// Decides whether a terminal's command runs, waits or is denied.
    pub(crate) fn terminal(
        &self,
        command: &TerminalCommand,
        (real, id): (&Path, FileId),
    ) -> TerminalVerdict {
        if let Err(reason) = self.serve(AgentRequest::Terminal(command, real)) {
            return TerminalVerdict::Denied(reason);
        }
        let parsed = RequestedCommand::Words(command.argv.clone());
        let directory = Path::new(&command.cwd);
        // The variables may define an alias.
        let assigned = command.variables.iter().map(|(name, value)| format!("{name}={value}"));
        let prefix = (!command.variables.is_empty()).then(|| "env".to_owned());
        let whole: Vec<String> =
            prefix.into_iter().chain(assigned).chain(command.argv.iter().cloned()).collect();
        let judged = self.judge(std::slice::from_ref(&whole), directory);
        let no_network = judged.no_network && !self.is_call(&parsed, &whole);
        match judged.strictest {
            None => TerminalVerdict::Run { no_network },
            Some(Judgement { verdict: Verdict::Deny, rule, reason, .. }) => {
                TerminalVerdict::Denied(text_of(&Refusal::DeniedByRule { rule, reason }))
            }
            Some(judgement) => {
                self.ask_terminal((&parsed, &whole), (directory, id), &judgement, no_network)
            }
        }
    }

    fn ask_terminal(
        &self,
        (parsed, whole): (&RequestedCommand, &[String]),
        (directory, id): (&Path, FileId),
        judgement: &Judgement,
        no_network: bool,
    ) -> TerminalVerdict {
        // The proxy asks about it.
        if self.is_call(parsed, whole) {
            return TerminalVerdict::Run { no_network };
        }
        let single = single(parsed, whole);
        let asked = |words: &[String]| {
            let argv = words.iter().map(|word| word.clone().into_bytes()).collect();
            self.approvals.asked(argv, directory.as_os_str().as_bytes().to_vec())
        };
        // The terminal has the variables.
        let inner = self.covered(&asked(whole));
        let call = asked(single.as_deref().unwrap_or(whole));
        let (line, wait) = self.approvals.ask((call, id), inner, judgement);
        let approval = Box::pin(async move { wait.await.map_err(|refusal| text_of(&refusal)) });
        let command = self.approvals.answer_command();
        let notice = format!("aifo: waiting for approval: {line}; answer with: {command}");
        TerminalVerdict::Wait { notice, approval, no_network }
    }

    /// Returns whether a command is exactly one call of a shim, which the proxy judges.
    fn is_call(&self, parsed: &RequestedCommand, whole: &[String]) -> bool {
        let words = single(parsed, whole).unwrap_or_default();
        words.first().is_some_and(|program| self.is_shim(program))
    }

    /// Returns the calls of shims that a command runs and that are allowed with it: the user has seen them.
    pub fn covered(&self, call: &AskedCall) -> Vec<AskedCall> {
        let mut inner = self.approvals.covered(call);
        inner.retain(|call| {
            let program = call.argv.first().and_then(|word| std::str::from_utf8(word).ok());
            program.is_some_and(|program| self.is_shim(program))
        });
        inner
    }

    /// Returns whether a program, as it is spelled, is a shim in the agent PATH.
    fn is_shim(&self, program: &str) -> bool {
        !program.is_empty()
            && !program.contains('/')
            && self.shims.join(program).symlink_metadata().is_ok()
    }

    /// Judges a request's command by the rules on calls, and returns the strictest verdict unless it is allowed.
    fn strictest(&self, call: Option<&ToolCall>) -> Option<Judgement> {
        let texts = match call.and_then(command_of) {
            Some(RequestedCommand::Text(text)) => vec![text],
            Some(RequestedCommand::AnyOf(texts)) => texts,
            Some(RequestedCommand::Words(_)) | None => Vec::new(),
        };
        let shells = texts.iter().map(|text| ["sh", "-c", text].map(str::to_owned).to_vec());
        self.judge(&shells.collect::<Vec<_>>(), &self.cwd).strictest
    }

    /// Judges commands, of which one will run.
    fn judge(&self, commands: &[Vec<String>], directory: &Path) -> Judged {
        let judgements: Vec<_> = commands
            .iter()
            .filter_map(|words| {
                let argv: Vec<_> = words.iter().map(|word| word.clone().into_bytes()).collect();
                self.approvals.judge(&argv, Some(directory.as_os_str().as_bytes()))
            })
            .collect();
        let no_network = judgements.iter().any(|judgement| judgement.no_network.is_some());
        let strict = judgements.into_iter();
        let strict = strict.filter(|judgement| judgement.verdict != Verdict::Allow);
        Judged { strictest: strict.max_by_key(|judgement| judgement.verdict), no_network }
    }

    /// Returns the call of a permission request that users see: one program with its arguments, or the shell
    /// text that a terminal would run.
    pub fn single_call(&self, request: &PermissionRequest) -> Option<AskedCall> {
        let call = request.call.as_ref()?;
        let text = match title_command(call) {
            Some(title) => title.to_owned(),
            None => match command_of(call)? {
                RequestedCommand::Text(text) => text,
                RequestedCommand::AnyOf(_) | RequestedCommand::Words(_) => return None,
            },
        };
        let single = RequestedCommand::Text(text.clone()).single();
        let words = single.unwrap_or_else(|| ["sh".to_owned(), "-c".to_owned(), text].to_vec());
        let argv = words.into_iter().map(String::into_bytes).collect();
        Some(self.approvals.asked(argv, self.cwd.as_os_str().as_bytes().to_vec()))
    }

    /// Covers the call of a permission request that a user has allowed.
    pub fn cover(&self, request: &PermissionRequest) {
        if self.approvals.has_judge()
            && let Some(call) = self.single_call(request)
        {
            let inner = self.covered(&call);
            self.approvals.allow_once(call, inner);
        }
    }

    fn allow(&self, request: &PermissionRequest) -> Option<PermissionOutcome> {
        request.choose(PermissionAnswer::Allow, self.allow_option.as_deref())
    }

    fn ruling(&self, entry: AgentRequest<'_>) -> Judgement {
        self.with_request(entry, |request| self.rules.judge_request(request))
    }

    /// Asks the rules about a request.
    fn with_request<T>(
        &self,
        entry: AgentRequest<'_>,
        judge: impl FnOnce(&AccessRequest<'_>) -> T,
    ) -> T {
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
                ("execute", Some(RequestedCommand::Words(command.argv.clone())), paths)
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
        judge(&AccessRequest {
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

/// Verdicts on commands, by the rules on calls.
struct Judged {
    /// The strictest one, unless all are allowed.
    strictest: Option<Judgement>,
    no_network: bool,
}

/// Returns the words of a command that is one program without variables.
fn single(parsed: &RequestedCommand, whole: &[String]) -> Option<Vec<String>> {
    let has_variables = whole.first().is_some_and(|word| word == "env");
    parsed.single().filter(|_| !has_variables)
}

/// Paths of one call that are resolved; the rest counts as unresolvable.
const MOST_RESOLVED: usize = 1024;

/// A path that matches no rule.
const NOWHERE: &str = "~";

/// The command of a call. Two different ones, or one of unknown form, still make it a command.
fn command_of(call: &ToolCall) -> Option<RequestedCommand> {
    if is_file_editor(call) {
        return None;
    }
    if let Some(text) = call.command() {
        return Some(RequestedCommand::Text(text));
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
    (!texts.is_empty()).then_some(RequestedCommand::AnyOf(texts))
}

/// Returns the title of a call that has its command nowhere else, as that of gemini. It decides nothing, but a
/// user who allows the call has seen it.
pub(crate) fn title_command(call: &ToolCall) -> Option<&str> {
    let title = call.title();
    let is_plain = escape_line(title) == title && title.chars().count() <= MAX_TITLE;
    let has_input = call.member("rawInput").is_some_and(|input| !input.is_null());
    (call.kind() == "execute" && is_plain && !has_input).then_some(title)
}

/// Characters of a title that editors show as a whole.
const MAX_TITLE: usize = 300;

/// Returns the reason of a refusal for the agent.
fn text_of(refusal: &Refusal) -> String {
    refusal.body().trim_end().to_owned()
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

fn denied(request: &PermissionRequest, rule: String, remedy: String) -> JudgedPermission {
    // Without an option to deny, only cancelling the turn is left.
    let decision =
        request.choose(PermissionAnswer::Deny, None).unwrap_or(PermissionOutcome::Cancelled);
    JudgedPermission { decision, rule, remedy: Some(remedy) }
}
