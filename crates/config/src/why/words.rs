//! The explanation as text.

use std::path::Path;

use aifo_decide::{Program, Reason};
use aifo_types::escape_line;

use super::explanation::{Explanation, Fate, Mode, Route, Variable};

/// The level of detail of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Variables are summarised.
    Summary,
    /// Each variable has a line.
    Variables,
}

impl Explanation {
    /// Renders `key: value` lines with aligned values. The third line is the result.
    pub fn text(&self, detail: Detail) -> String {
        let mut lines = vec![
            ("call", call(self)),
            ("called in", show(&self.cwd)),
            ("result", result(self)),
            ("because", self.because.clone()),
        ];
        if let Some(decided) = &self.decided_by {
            let reason = match decided.reason.as_str() {
                "" => String::new(),
                reason => format!(": {reason}"),
            };
            lines
                .push(("verdict", format!("{}, by rule '{}'{reason}", self.verdict, decided.rule)));
            let judged = self.calls.iter().map(|call| without_secrets(call));
            lines.extend(judged.filter(|it| *it != call(self)).map(|it| ("judged as", it)));
            if self.unclear {
                lines.push(("judged as", "(a part that is known only when it runs)".to_owned()));
            }
        }
        if let Some(refused) = &self.refusal {
            lines.push(("refused", refused.text.clone()));
            lines.push(("remedy", refused.remedy.clone()));
        }
        if let Some(route) = &self.route {
            lines.push(("sidecars", route.sidecars.clone()));
            lines.extend(chosen(self, route).map(|chosen| ("chosen", chosen)));
        }
        if self.refusal.is_none() {
            lines.extend(self.directory.iter().map(|path| ("runs in", runs_in(self, path))));
            lines.push(("environment", environment(self, detail)));
            let each = self.variables.iter().flatten().filter(|_| detail == Detail::Variables);
            lines.extend(each.map(|one| ("variable", variable(one))));
            if matches!(self.mode, Mode::Proxy | Mode::Notify) {
                let limit =
                    self.max_secs.map_or("none".to_owned(), |seconds| format!("{seconds} s"));
                lines.push(("time limit", limit));
            }
            lines.extend(self.confinement.iter().map(|line| ("confinement", line.clone())));
            let is_judged = matches!(self.mode, Mode::Proxy | Mode::InPlace);
            match &self.no_network {
                Some(rule) if is_judged => {
                    lines.push(("network", format!("none, by rule '{rule}'")));
                }
                _ => lines.extend(self.network.iter().map(|line| ("network", line.clone()))),
            }
        }
        let line = |(key, value): (&str, String)| {
            let key = format!("{key}:");
            format!("{key:<13}{}\n", escape_line(&value))
        };
        lines.into_iter().map(line).collect()
    }
}

/// Explains in a sentence where a call of `tool` runs.
pub(crate) fn because(tool: &str, reason: Reason, program: Option<&Program>) -> String {
    let program = program.map(ToString::to_string).unwrap_or_else(|| "its program".to_owned());
    let runtime = if tool.starts_with("python") { "python" } else { "node" };
    match reason {
        Reason::OutsideWorkspace => {
            format!("{program} is outside the workspace, so the agent's own {runtime} runs it")
        }
        Reason::PythonModule => {
            format!("the agent's own python runs the module {program} (-m)")
        }
        Reason::CalledByPath => {
            in_a_sidecar(&format!("{program} leads to an interpreter of a toolchain"))
        }
        Reason::EnvironmentModule => {
            in_a_sidecar(&format!("the module {program} makes an environment of the project"))
        }
        Reason::NotifyTool => format!("{tool} is a notification"),
        Reason::NotARuntime => format!("{tool} always runs in a sidecar"),
        Reason::SmartOff => {
            format!("{tool} always runs in a sidecar while smart decisions are off for {runtime}")
        }
        Reason::InsideWorkspace => in_a_sidecar(&format!("{program} is in the workspace")),
        Reason::LinkIntoWorkspace => in_a_sidecar(&format!("{program} links into the workspace")),
        Reason::NoProgram => in_a_sidecar("it names no program"),
        Reason::StdinProgram => in_a_sidecar("the program is read from stdin"),
        Reason::Eval => in_a_sidecar("the program is an argument"),
        Reason::TestRunner => in_a_sidecar("it runs the workspace's tests"),
        Reason::RunScript => in_a_sidecar("it runs a script of package.json"),
        Reason::EntryUrl => in_a_sidecar("the program is a URL"),
        Reason::Debugger => in_a_sidecar("the debugger has no program"),
    }
}

fn in_a_sidecar(what: &str) -> String {
    format!("{what}, so it runs in a sidecar")
}

/// A call in normal form, which is quoted for a shell.
fn without_secrets(call: &str) -> String {
    let words = shlex::split(call).unwrap_or_default();
    aifo_policy::redact(&words.into_iter().map(String::into_bytes).collect::<Vec<_>>())
}

fn call(explanation: &Explanation) -> String {
    let args: Vec<Vec<u8>> = explanation.args.iter().map(|arg| arg.clone().into_bytes()).collect();
    format!("{} {}", explanation.tool, aifo_policy::redact(&args)).trim_end().to_owned()
}

fn result(explanation: &Explanation) -> String {
    if let Some(refused) = &explanation.refusal {
        return format!("nothing would run, exit code {}", refused.exit_code);
    }
    let executable =
        explanation.executable.as_deref().map_or_else(|| explanation.tool.clone(), show);
    let kind =
        explanation.route.as_ref().and_then(|route| route.kind.as_deref()).unwrap_or("right");
    match explanation.mode {
        Mode::Proxy => format!("{executable} would run in the {kind} sidecar"),
        Mode::Notify => format!("{executable} would run on the user's machine"),
        Mode::Local | Mode::InPlace | Mode::Direct => {
            format!("{executable} would run next to the agent")
        }
    }
}

fn runs_in(explanation: &Explanation, directory: &Path) -> String {
    let moved = if *directory == explanation.cwd { "" } else { ", as it only queries the version" };
    show(directory) + moved
}

/// Summarises the tool environment.
fn environment(explanation: &Explanation, detail: Detail) -> String {
    let Some(variables) = &explanation.variables else { return explanation.environment.to_owned() };
    let names = |fate| {
        let of_fate = variables.iter().filter(|one| one.fate == fate);
        of_fate.map(|one| one.name.as_str()).collect::<Vec<_>>()
    };
    let (passing, set, staying) = (names(Fate::Passes), names(Fate::Set), names(Fate::Stays));
    let mut line = "the sidecar's own".to_owned();
    if !passing.is_empty() {
        line += &format!(", with the caller's {}", passing.join(", "));
    }
    if !set.is_empty() {
        line += &format!("; {} as set", set.join(", "));
    }
    line += &format!("; {} not passed on", staying.len());
    line + if detail == Detail::Summary { " (see -v)" } else { "" }
}

/// `FOO is withheld, unlisted; --env FOO passes it`.
fn variable(variable: &Variable) -> String {
    let Variable { name, fate, reason, remedy } = variable;
    let remedy = remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
    match fate {
        Fate::Passes => format!("{name} passes, {reason}"),
        Fate::Stays => format!("{name} is withheld, {reason}{remedy}"),
        Fate::Set => format!("{name} is {reason}"),
    }
}

/// The chosen sidecar, or those that lack the tool.
fn chosen(explanation: &Explanation, route: &Route) -> Option<String> {
    let tool = &explanation.tool;
    match (&route.kind, route.rule) {
        (Some(kind), Some("own-kind")) => Some(format!("{kind}, the toolchain of {tool}")),
        (Some(kind), _) if explanation.executable.is_none() => {
            Some(format!("{kind}, if its container has {tool}"))
        }
        (Some(kind), _) => Some(format!("{kind}, the first that has {tool}")),
        (None, _) if route.tried.iter().all(|tried| tried.installed.is_some()) => None,
        (None, _) => {
            let tried: Vec<_> = route.tried.iter().map(|tried| tried.kind.as_str()).collect();
            Some(format!(
                "none: {tool} may run in {}, but is not installed there",
                tried.join(", ")
            ))
        }
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}
