//! What becomes of a request for permission (`spec/acp-commands.md#permissions`).

use std::path::{Path, PathBuf};

use aifo_acp::{Decision, PermissionRequest, Verdict};
use aifo_doors::TerminalCommand;
use aifo_policy::{Asked, PermissionRules, Ruled, Ruling};

use crate::config::Source;

/// Rules, and what is needed to follow them.
#[derive(Clone)]
pub(crate) struct Judge {
    pub(crate) rules: PermissionRules<Source>,
    /// The option that allows, where that is not clear from the options.
    pub(crate) allow_option: Option<String>,
    /// The names that the workspace has where the agent is.
    pub(crate) workspace: Vec<PathBuf>,
    /// Where the agent works.
    pub(crate) cwd: PathBuf,
}

/// What is answered, and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    /// The rule that says so.
    pub(crate) rule: String,
    /// For a denial: what would allow it.
    pub(crate) remedy: Option<String>,
}

impl Judge {
    /// Decides where nobody can be asked.
    pub(crate) fn decide(&self, request: &PermissionRequest) -> Decided {
        let ruling = self.ruling(request);
        let rule = ruling.to_string();
        if ruling.verdict == Ruled::Allow {
            if let Some(decision) = self.allow(request) {
                return Decided { decision, rule, remedy: None };
            }
            let remedy = "none of its options is known to be a plain yes; name the one in \
                          [agents.NAME.acp] allow_option";
            return denied(request, rule, remedy.to_owned());
        }
        let kind = request.call.as_ref().map_or("", |call| call.kind());
        let kind = if kind.is_empty() { "other" } else { kind };
        let remedy = match ruling.verdict {
            Ruled::Deny => "a rule denies it, whatever else allows it".to_owned(),
            _ => format!("--yes-to {kind} allows it"),
        };
        denied(request, rule, remedy)
    }

    /// What the rules say; `None` is that a person has to be asked.
    pub(crate) fn consult(&self, request: &PermissionRequest) -> (Option<Decision>, String) {
        let ruling = self.ruling(request);
        let decision = match ruling.verdict {
            Ruled::Allow => self.allow(request),
            Ruled::Deny => request.choose(Verdict::Deny, None),
            Ruled::Ask => None,
        };
        (decision, ruling.to_string())
    }

    /// Whether a command may run in a terminal. Permission for it was asked for elsewhere, if at all;
    /// what a rule denies, is not run. The error is what its agent reads.
    pub(crate) fn terminal(&self, command: &TerminalCommand) -> Result<(), String> {
        let ruling = self.rules.judge(&Asked {
            kind: "execute",
            command: Some(&command.line),
            paths: &[],
            workspace: &self.workspace,
            cwd: Path::new(&command.cwd),
        });
        match ruling.verdict {
            Ruled::Deny if ruling.rule != "default" => Err(format!("denied by policy: {ruling}")),
            Ruled::Allow | Ruled::Deny | Ruled::Ask => Ok(()),
        }
    }

    fn allow(&self, request: &PermissionRequest) -> Option<Decision> {
        request.choose(Verdict::Allow, self.allow_option.as_deref())
    }

    fn ruling(&self, request: &PermissionRequest) -> Ruling {
        let call = request.call.as_ref();
        let command = call.and_then(|call| call.command());
        let paths = call.map(|call| call.paths()).unwrap_or_default();
        self.rules.judge(&Asked {
            kind: call.map_or("", |call| call.kind()),
            command: command.as_deref(),
            paths: &paths,
            workspace: &self.workspace,
            cwd: &self.cwd,
        })
    }
}

fn denied(request: &PermissionRequest, rule: String, remedy: String) -> Decided {
    // Without an option to deny, what is left ends the turn.
    let decision = request.choose(Verdict::Deny, None).unwrap_or(Decision::Cancelled);
    Decided { decision, rule, remedy: Some(remedy) }
}
