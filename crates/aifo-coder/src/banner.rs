//! Summaries printed before and after an agent: its isolation, and its tool calls.

use aifo_launch::{AgentSpec, CallStats, Containers, Net, Session, agent_variables};
use aifo_types::Kind;

/// Describes the agent's isolation in at most eight lines.
pub(crate) fn before(
    session: &Session,
    spec: &AgentSpec,
    image: &str,
    containers: &Containers,
) -> String {
    let engine = containers.engine.flavor();
    let tools: Vec<_> = session.kinds().iter().map(Kind::as_str).collect();
    let tools = match tools.as_slice() {
        [] => "no toolchain; every sidecar tool is refused".to_owned(),
        kinds => {
            format!("{} in sidecars; other programs in the agent's container", kinds.join(", "))
        }
    };
    let state: Vec<_> = spec.state.iter().map(|state| format!("~/{}", state.display())).collect();
    let state = match (state.as_slice(), session.has_own_state()) {
        ([], _) => "nothing of your home".to_owned(),
        (names, true) => format!("copies of {} for this project", names.join(", ")),
        (names, false) => format!("{} of your home, read and write", names.join(", ")),
    };
    let network = match containers.net {
        Net::Shared => "outbound access; localhost is shared with the tools",
        Net::Separate => "outbound access; its own localhost",
        Net::None => "none",
        Net::Host => "this machine's own, including all local services",
    };
    let set = |name: &&String| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let mut passed: Vec<_> = spec.variables.iter().filter(set).cloned().collect();
    passed.extend(agent_variables());
    if let Some(login) = spec.credentials.as_ref().filter(|_| session.has_own_state()) {
        passed.push(format!("the login in ~/{}", login.from.display()));
    }
    let passed = match passed.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let rows = [
        (
            "agent",
            format!("{} in a container of {engine} ({image}), session {}", spec.name, session.id()),
        ),
        ("files", format!("{}, read and write; {state}", session.workspace().display())),
        ("tools", tools),
        ("network", network.to_owned()),
        ("secrets", passed),
        (
            "risk",
            "the agent can damage what it can write, and send out what it can read".to_owned(),
        ),
    ];
    let lines = rows.map(|(what, text)| format!("{:<8} {}\n", format!("{what}:"), one_line(&text)));
    lines.concat()
}

/// Summarises the agent's tool calls; `None` if it made none.
pub(crate) fn after(stats: CallStats, id: &str) -> Option<String> {
    let calls = match stats.calls {
        0 => return None,
        1 => "1 tool call".to_owned(),
        calls => format!("{calls} tool calls"),
    };
    let failed = match stats.failed {
        0 => "none failed".to_owned(),
        failed => format!("{failed} failed"),
    };
    let seconds = stats.tool_time.as_secs_f64();
    let id = id.get(..8).unwrap_or(id);
    Some(format!("{calls}, {failed}, {seconds:.1} s in tools; see 'aifo-coder log {id}'"))
}

fn one_line(text: &str) -> String {
    aifo_types::escape_line(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn tool_calls_are_summarised() {
        let stats =
            |calls, failed| CallStats { calls, failed, tool_time: Duration::from_millis(1_940) };
        let id = "5d0c3b7f9a21e846";
        assert_eq!(after(stats(0, 0), id), None);
        let one = "1 tool call, none failed, 1.9 s in tools; see 'aifo-coder log 5d0c3b7f'";
        assert_eq!(after(stats(1, 0), id).as_deref(), Some(one));
        assert!(after(stats(40, 2), id).unwrap().starts_with("40 tool calls, 2 failed, "));
    }
}
