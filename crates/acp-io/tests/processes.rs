//! Agents as shell scripts: pipes and exits.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use aifo_acp::{Config, Event, Failure, Limits, RequestEvent, StopReason, TurnEnd};
use aifo_acp_io::{AgentConnection, NoHost, ProcessLimits};
use serde_json::json;
use tokio::process::Command;

/// The start of a script: functions that answer a request by its number.
const PRELUDE: &str = r#"
answer() { printf '{"id":%s,"result":%s}\n' "$1" "$2"; }
ready() { read -r _; answer 1 '{"protocolVersion":1}'; read -r _; answer 2 '{"sessionId":"s"}'; read -r _; }
say() { printf '{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}\n' "$1"; }
"#;

type Agent = AgentConnection<NoHost>;

fn start(script: &str, config: Config, limits: ProcessLimits) -> Agent {
    // Processes that leave the group remain descendants.
    aifo_process::become_subreaper().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{PRELUDE}{script}")]);
    let mut agent = AgentConnection::start(command, config, limits, None, NoHost).unwrap();
    agent.with_client(|client, now| client.initialize("test", "1", now)).unwrap();
    agent
}

/// Short timeouts, all of which expire in these tests.
fn hasty() -> ProcessLimits {
    let moment = Duration::from_millis(100);
    ProcessLimits { write: moment, eof: moment, term: moment, ..ProcessLimits::default() }
}

/// Opens a session, sends a prompt, and returns all events.
async fn converse(agent: &mut Agent) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = agent.next().await {
        match &event {
            Event::Ready(_) => {
                agent.with_client(|client, now| client.new_session(json!({}), now)).unwrap();
            }
            Event::Opened { .. } => {
                agent.with_client(|client, now| client.prompt("s", json!([]), now)).unwrap();
            }
            _ => {}
        }
        let is_over = matches!(event, Event::TurnEnded(_) | Event::Closed);
        events.push(event);
        if is_over {
            break;
        }
    }
    events
}

fn turn_of(events: &[Event]) -> &TurnEnd {
    let turn = events.iter().find_map(|event| match event {
        Event::TurnEnded(end) => Some(end),
        _ => None,
    });
    turn.unwrap_or_else(|| panic!("no turn ended: {events:?}"))
}

/// Returns whether a process with this word on its command line is running.
fn runs(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.into_iter().any(|entry| {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        // A zombie has no command line.
        command.split(|byte| *byte == 0).any(|found| found == word.as_bytes())
    })
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A unique number of seconds to sleep.
fn nap() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{}", 100_000 + std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[tokio::test]
async fn a_turn() {
    let script =
        "ready; echo thinking >&2; say Hello; answer 3 '{\"stopReason\":\"end_turn\"}'; cat";
    let mut agent = start(script, Config::default(), ProcessLimits::default());
    let events = converse(&mut agent).await;
    let turn = turn_of(&events);
    assert_eq!((&turn.outcome, turn.answer.text.as_str()), (&Ok(StopReason::EndTurn), "Hello"));
    let end = agent.end().await;
    assert_eq!(end.status.unwrap().code(), Some(0), "closing its stdin suffices");
    assert_eq!(end.stderr, "thinking\n");
}

#[tokio::test]
async fn an_agent_that_exits_at_any_time_fails_pending_requests() {
    // The number of answered requests, and the way to exit.
    for requests in 0..4 {
        for (end, code, signal) in [("exit 3", Some(3), None), ("kill -9 $$", None, Some(9))] {
            let answers = ["answer 1 '{}'", "answer 2 '{\"sessionId\":\"s\"}'", "say half"];
            let steps: String =
                answers[..requests].iter().map(|answer| format!("read -r _; {answer}; ")).collect();
            let script = format!("{steps} echo last words >&2; {end}");
            let mut agent = start(&script, Config::default(), ProcessLimits::default());
            let events = converse(&mut agent).await;
            if requests < 2 {
                let failed =
                    |event: &Event| matches!(event, Event::Failed { failure: Failure::Ended, .. });
                assert!(events.iter().any(failed), "{requests} {events:?}");
                assert_eq!(events.last(), Some(&Event::Closed));
            } else {
                let turn = turn_of(&events);
                assert_eq!(turn.outcome, Err(Failure::Ended));
                assert_eq!(turn.answer.text, if requests == 3 { "half" } else { "" });
            }
            let end = agent.end().await;
            let status = end.status.unwrap();
            assert_eq!((status.code(), status.signal()), (code, signal));
            assert_eq!(end.stderr, "last words\n");
        }
    }
}

#[tokio::test]
async fn an_agent_that_does_not_exit_is_killed_with_its_processes() {
    let (inside, outside) = (nap(), nap());
    let script = format!(
        "trap '' TERM INT HUP; sleep {inside} & setsid sh -c 'trap \"\" TERM; sleep {outside}; :' & \
         ready; while :; do sleep 1; done"
    );
    let mut agent = start(&script, Config::default(), hasty());
    while !matches!(agent.next().await, Some(Event::Ready(_))) {}
    until(|| runs(&inside) && runs(&outside)).await;
    let end = agent.end().await;
    assert_eq!(end.status.unwrap().signal(), Some(9));
    assert!(!runs(&inside) && !runs(&outside));
}

#[tokio::test]
async fn an_agent_that_is_dropped_is_killed() {
    let inside = nap();
    let script = format!("trap '' TERM; ready; sleep {inside}; :");
    let mut agent = start(&script, Config::default(), ProcessLimits::default());
    while !matches!(agent.next().await, Some(Event::Ready(_))) {}
    agent.with_client(|client, now| client.new_session(json!({}), now)).unwrap();
    while !matches!(agent.next().await, Some(Event::Opened { .. })) {}
    agent.with_client(|client, now| client.prompt("s", json!([]), now)).unwrap();
    tokio::select! {
        event = agent.next() => panic!("{event:?}"),
        () = until(|| runs(&inside)) => {}
    }
    drop(agent);
    until(|| !runs(&inside)).await;
}

#[tokio::test]
async fn background_processes_of_an_agent_are_killed() {
    // One process in the group and one outside; both hold its stdout.
    let (inside, outside) = (nap(), nap());
    let script = format!(
        "(while :; do say more; sleep {inside}; done) & setsid sleep {outside} & \
         read -r _; exit 0"
    );
    let mut agent = start(&script, Config::default(), ProcessLimits::default());
    let events = converse(&mut agent).await;
    assert!(matches!(events.last(), Some(Event::Closed)), "{events:?}");
    agent.end().await;
    assert!(!runs(&inside) && !runs(&outside));
}

#[tokio::test]
async fn a_flood_on_stderr_does_not_block() {
    let script = "head -c 4194304 /dev/zero | tr '\\0' e >&2; printf end >&2; \
                  ready; answer 3 '{\"stopReason\":\"end_turn\"}'; cat";
    let mut agent = start(script, Config::default(), ProcessLimits::default());
    let events = converse(&mut agent).await;
    assert_eq!(turn_of(&events).outcome, Ok(StopReason::EndTurn));
    let end = agent.end().await;
    assert_eq!(end.stderr.len(), 64 * 1024);
    assert!(end.stderr.ends_with("eeend"));
}

#[tokio::test]
async fn writing_to_an_agent_that_does_not_read_times_out() {
    // More than the pipe and the queue hold.
    let script = "read -r _; answer 1 '{}'; while :; do sleep 1; done";
    let mut agent = start(script, Config::default(), hasty());
    while !matches!(agent.next().await, Some(Event::Ready(_))) {}
    let long = "x".repeat(1 << 20);
    for _ in 0..20 {
        agent
            .with_client(|client, now| client.request("long", json!({"text": long}), now))
            .unwrap();
    }
    let mut failed = 0;
    while let Some(event) = agent.next().await {
        failed += u32::from(matches!(event, Event::Failed { failure: Failure::Ended, .. }));
    }
    assert_eq!(failed, 20);
    assert_eq!(agent.end().await.status.unwrap().signal(), Some(15));
}

#[tokio::test]
async fn an_agent_that_is_overdue_is_killed() {
    let script = "ready; while :; do read -r _; done";
    let limits = Limits { cancel_grace: Duration::from_millis(50), ..Limits::default() };
    let mut agent = start(script, Config { limits, ..Config::default() }, ProcessLimits::default());
    while !matches!(agent.next().await, Some(Event::Ready(_))) {}
    agent.with_client(|client, now| client.new_session(json!({}), now)).unwrap();
    while !matches!(agent.next().await, Some(Event::Opened { .. })) {}
    agent.with_client(|client, now| client.prompt("s", json!([]), now)).unwrap();
    agent.with_client(|client, now| client.cancel("s", aifo_acp::CancelCause::Requested, now));
    let mut events = Vec::new();
    while let Some(event) = agent.next().await {
        events.push(event);
    }
    assert!(events.iter().any(|event| matches!(event, Event::Overdue { .. })), "{events:?}");
    let turn = turn_of(&events);
    assert_eq!(turn.cancelled, Some(aifo_acp::CancelCause::Requested));
    assert_eq!(agent.end().await.status.unwrap().signal(), Some(9));
}

#[tokio::test]
async fn an_agent_that_does_not_read_is_held_back() {
    // Every unknown request is answered, but the answers are not read.
    let script = "read -r _; answer 1 '{}'; \
                  while :; do printf '{\"id\":1,\"method\":\"unheard/of\"}\\n'; done";
    let mut agent = start(script, Config::default(), hasty());
    while let Some(event) = agent.next().await {
        assert!(!matches!(event, Event::Request(RequestEvent::Host { .. })));
    }
    assert_eq!(agent.end().await.status.unwrap().signal(), Some(15));
}
