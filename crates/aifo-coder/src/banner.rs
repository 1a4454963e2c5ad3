//! What a user is told around an agent: what is isolated and what is not, and what it came to.

use aifo_launch::{AgentSpec, CallStats, Containers, Net, Session, agent_variables};
use aifo_types::Kind;

/// Says before the agent what holds for it, in at most eight lines.
pub(crate) fn before(
    session: &Session,
    spec: &AgentSpec,
    image: &str,
    containers: &Containers,
) -> String {
    let engine = containers.engine.flavor();
    let tools: Vec<_> = session.kinds().iter().map(Kind::as_str).collect();
    let tools = match tools.as_slice() {
        [] => "no toolchain; every tool of a sidecar is refused".to_owned(),
        kinds => format!("{} in sidecars; what else it runs, beside it", kinds.join(", ")),
    };
    let state: Vec<_> = spec.state.iter().map(|state| format!("~/{}", state.display())).collect();
    let state = match state.as_slice() {
        [] => "nothing of your home".to_owned(),
        folders => format!("{} of your home, read and write", folders.join(", ")),
    };
    let network = match containers.net {
        Net::Shared => "open to the outside; localhost is shared with the tools",
        Net::Separate => "open to the outside; a localhost of its own",
        Net::None => "none",
        Net::Host => "this machine's own, with all that listens here",
    };
    let set = |name: &&String| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let mut passed: Vec<_> = spec.variables.iter().filter(set).cloned().collect();
    passed.extend(agent_variables());
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
            "open",
            "what it may write it may spoil, and what it may read it may send away".to_owned(),
        ),
    ];
    let lines = rows.map(|(what, text)| format!("{:<8} {}\n", format!("{what}:"), one_line(&text)));
    lines.concat()
}

/// Says after the agent what its tools came to; nothing if it called none.
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
    fn what_the_tools_came_to() {
        let stats =
            |calls, failed| CallStats { calls, failed, tool_time: Duration::from_millis(1_940) };
        let id = "5d0c3b7f9a21e846";
        assert_eq!(after(stats(0, 0), id), None);
        let one = "1 tool call, none failed, 1.9 s in tools; see 'aifo-coder log 5d0c3b7f'";
        assert_eq!(after(stats(1, 0), id).as_deref(), Some(one));
        assert!(after(stats(40, 2), id).unwrap().starts_with("40 tool calls, 2 failed, "));
    }
}
