use serde_json::json;

use super::*;

/// A log that is written line by line, and its replay.
struct Log {
    text: String,
}

impl Log {
    fn new() -> Self {
        Log { text: String::new() }
    }

    fn line(mut self, time: u64, direction: &str, kind: Value) -> Self {
        let mut line = kind;
        line["t"] = json!(1_000_000 + time);
        line["dir"] = json!(direction);
        self.text.push_str(&format!("{line}\n"));
        self
    }

    fn out(self, time: u64, frame: Value) -> Self {
        self.line(time, "out", json!({"frame": frame}))
    }

    fn received(self, time: u64, frame: Value) -> Self {
        self.line(time, "in", json!({"frame": frame}))
    }

    /// A log with an open session `s`; request ids start at 11.
    fn open() -> Self {
        let capabilities = json!({"fs": {"readTextFile": true}});
        Log::new()
            .out(0, json!({"id": 11, "method": "initialize", "params": {"clientCapabilities": capabilities}}))
            .received(1, json!({"id": "11", "result": {"protocolVersion": 1}}))
            .out(2, json!({"id": 12, "method": "session/new", "params": {"cwd": "/w"}}))
            .received(3, json!({"id": 12, "result": {"sessionId": "s"}}))
            .out(4, json!({"id": 13, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}}))
    }

    fn replay(&self) -> Vec<Value> {
        let mut reports = Vec::new();
        let report = |event: ReplayEvent| reports.extend(event.reports());
        let mut replay = Replay::new(Config::default(), Instant::now(), report);
        self.text.lines().for_each(|line| replay.take_line(line.as_bytes()));
        replay.finish();
        reports
    }

    /// Returns the reports after the prompt.
    #[track_caller]
    fn after_prompt(&self) -> Vec<String> {
        let reports = self.replay();
        let types: Vec<&str> = reports.iter().map(|one| one["type"].as_str().unwrap()).collect();
        assert_eq!(types[..5], ["sent", "agent", "sent", "session", "sent"], "{reports:?}");
        reports[5..].iter().map(summary).collect()
    }
}

/// A report as a short line.
fn summary(report: &Value) -> String {
    let mut words = vec![report["type"].as_str().unwrap().to_owned()];
    for name in ["text", "method", "id", "why", "stop_reason", "cancelled", "bytes"] {
        match &report[name] {
            Value::Null => {}
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => words.push(text.clone()),
            value => words.push(value.to_string()),
        }
    }
    words.join(" ")
}

fn say(text: &str) -> Value {
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": text});
    json!({"method": "session/update", "params": {"sessionId": "s", "update": update}})
}

fn permission(id: &str) -> Value {
    let options = json!([{"optionId": "y", "kind": "allow_once", "name": "Yes"}]);
    let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": options});
    json!({"id": id, "method": "session/request_permission", "params": params})
}

fn selected(id: &str) -> Value {
    json!({"id": id, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}})
}

fn cancelled(id: &str) -> Value {
    json!({"id": id, "result": {"outcome": {"outcome": "cancelled"}}})
}

#[test]
fn a_turn_is_replayed_unchanged() {
    let log = Log::open()
        .received(5, say("Hello "))
        .received(6, permission("p"))
        .out(9, selected("p"))
        .received(10, json!({"id": 1, "method": "fs/read_text_file", "params": {}}))
        .out(11, json!({"id": 1, "result": {"content": "x"}}))
        .received(12, json!({"id": 2, "method": "terminal/create"}))
        .out(13, json!({"id": 2, "error": {"code": -32601, "message": "no"}}))
        .line(14, "err", json!({"text": "careful", "len": 7}))
        .received(15, say("World"))
        .received(16, json!([{"id": 13.0, "result": {"stopReason": "end_turn"}}]))
        .received(200, say("!"))
        .line(900, "in", json!({"end": true}));
    let expected = [
        "draft Hello ",
        "permission p",
        "sent p",
        "request fs/read_text_file 1",
        "sent 1",
        "sent 2",
        "stderr careful",
        "draft World",
        "draft !",
        "final Hello World! end_turn",
        "closed",
    ];
    assert_eq!(log.after_prompt(), expected);
    let reports = log.replay();
    let end = reports.iter().find(|report| report["type"] == "final").unwrap();
    assert_eq!((&end["at"], &end["line"]), (&json!(450), &json!(17)), "quiet since 200");
}

#[test]
fn a_prompt_may_immediately_follow_the_response() {
    let again =
        |id: u64| json!({"id": id, "method": "session/prompt", "params": {"sessionId": "s"}});
    let log = Log::open()
        .received(5, say("one"))
        .received(6, json!({"id": 13, "result": {"stopReason": "end_turn"}}))
        .out(6, again(14))
        .received(7, say("two"))
        .received(7, json!({"id": 14, "result": {"stopReason": "cancelled"}}))
        .out(7, again(15))
        .received(8, json!({"id": 15, "error": {"code": -1, "message": "no"}}));
    let expected = [
        "draft one",
        "final one end_turn",
        "sent session/prompt 14",
        "draft two",
        "final two cancelled",
        "sent session/prompt 15",
        "final",
        "closed",
    ];
    assert_eq!(log.after_prompt(), expected);
}

#[test]
fn a_relay_log_has_an_editors_requests_and_answers() {
    let head =
        json!({"log": "acp", "version": 1, "agent": "a", "pid": 1, "part": 1, "relay": true});
    let prompt = |id: u64, session: &str| json!({"id": id, "method": "session/prompt", "params": {"sessionId": session}});
    let end = |id: u64| json!({"id": id, "result": {"stopReason": "end_turn"}});
    let hour = 3_600_000;
    let log = Log::new()
        .line(0, "", head)
        // The editor sends requests without waiting for answers ..
        .out(0, json!({"id": 1, "method": "initialize", "params": {}}))
        .out(0, json!({"id": 2, "method": "session/load", "params": {"sessionId": "s"}}))
        .out(0, json!({"id": 3, "method": "session/resume", "params": {"sessionId": "r"}}))
        .out(0, prompt(4, "s"))
        .out(0, prompt(5, "r"))
        .received(1, json!({"id": 1, "result": {"protocolVersion": 1}}))
        .received(2, json!({"id": 2, "result": {}}))
        .received(3, json!({"id": 3, "result": {}}))
        // .. takes long, serves requests of its own, and sends notifications of its own.
        .received(4, permission("p"))
        .received(4, permission("q"))
        .received(4, json!({"id": "e", "method": "elicitation/create"}))
        .received(4, json!({"id": "f", "method": "fs/read_text_file"}))
        .out(4, json!({"id": "f", "error": {"code": -32601, "message": "no"}}))
        .out(hour, json!({"id": "p", "result": {"outcome": {"outcome": "selected", "optionId": "new"}}}))
        .out(hour, json!({"id": "q", "error": {"code": -1, "message": "no"}}))
        .out(hour, json!({"id": "e", "result": {"action": "accept"}}))
        .out(hour, json!({"method": "$/cancel_request", "params": {"requestId": 9}}))
        .received(2 * hour, end(4))
        .out(2 * hour, json!({"method": "session/cancel", "params": {"sessionId": "s"}}))
        .out(2 * hour, prompt(6, "s"))
        .received(2 * hour, end(6))
        .received(2 * hour, end(5))
        // A permission request of an unknown session, and another `initialize`.
        .received(2 * hour, json!({"id": "t", "method": "session/request_permission", "params": {"sessionId": "t"}}))
        .out(2 * hour, cancelled("t"))
        .out(2 * hour, json!({"id": 7, "method": "initialize", "params": {}}))
        .received(2 * hour, json!({"id": 7, "result": {}}));
    let reports = log.replay();
    let of = |name: &str| reports.iter().filter(|one| one["type"] == name).count();
    assert_eq!(of("misfit"), 0, "{reports:?}");
    assert_eq!(
        (of("final"), of("permission"), of("request"), of("agent")),
        (3, 3, 1, 2),
        "{reports:?}"
    );
}

#[test]
fn timeouts_are_replayed() {
    let log = Log::open()
        .received(5, permission("p"))
        .out(300_005, json!({"method": "session/cancel", "params": {"sessionId": "s"}}))
        .out(300_005, cancelled("p"))
        .received(300_006, json!({"id": 13, "result": {"stopReason": "cancelled"}}));
    let expected = [
        "permission p",
        "withdrawn p timed_out",
        "sent session/cancel",
        "sent p",
        "final cancelled permission_timeout",
        "closed",
    ];
    assert_eq!(log.after_prompt(), expected);
    // A user cancels earlier.
    let log = Log::open()
        .received(5, permission("p"))
        .out(10, json!({"method": "session/cancel", "params": {"sessionId": "s"}}))
        .out(10, cancelled("p"))
        .received(11, json!({"id": 13, "error": {"code": -1, "message": "stopped"}}));
    let expected = ["permission p", "sent session/cancel", "withdrawn p turn_cancelled", "sent p"];
    assert_eq!(log.after_prompt()[..4], expected);
}

#[test]
fn other_output_and_long_lines_are_replayed() {
    let giant = (32 << 20) + 7;
    let log = Log::open()
        .line(5, "in", json!({"text": "Loading", "len": 7}))
        .line(5, "in", json!({"text": "\u{fffd}", "len": 1, "utf8": false}))
        .line(6, "in", json!({"skipped": giant, "head": "{\"id\":\"q\",\"method\":\"fs/x\","}))
        .out(6, json!({"id": "q", "error": {"code": -32600, "message": "too long"}}))
        .received(7, json!({"id": 13, "result": {}}));
    let expected = [
        "noise a line that is not JSON",
        "noise a line that is not UTF-8",
        "too_long 33554439",
        "sent q",
        "final",
        "closed",
    ];
    assert_eq!(log.after_prompt(), expected);
}

#[test]
fn mismatches_are_reported() {
    let again = json!({"id": 14, "method": "session/prompt", "params": {"sessionId": "s"}});
    let log = Log::open()
        .out(5, again)
        .received(6, json!({"id": 14, "result": {"stopReason": "end_turn"}}))
        .received(7, json!({"id": 99, "result": {}}))
        .out(8, selected("unknown"))
        .out(8, json!({"method": "$/cancel_request", "params": {"requestId": 1}}))
        .out(8, json!({"method": "session/cancel", "params": {"sessionId": "other"}}))
        .out(8, json!(17))
        .received(9, json!({"id": 5, "method": "unheard_of"}))
        .out(10, json!({"id": 5, "result": {}}))
        .received(11, json!({"id": 6, "method": "unheard_of"}))
        .line(12, "sideways", json!({"frame": 1}))
        .received(13, json!({"id": 13, "result": {"stopReason": "refusal"}}));
    let expected = [
        "misfit the client does not send 'session/prompt': session 's' already has a running prompt",
        "misfit request \"unknown\" is not pending",
        "misfit the client never sends '$/cancel_request'",
        "misfit no turn to cancel",
        "misfit not a message of a client",
        "misfit request 5 is answered differently",
        "misfit not a line of a log",
        "final refusal",
        "closed",
    ];
    let reports = log.after_prompt();
    assert_eq!(reports[..expected.len()], expected);
    assert!(reports[expected.len()].starts_with("misfit not in the log: {"), "{reports:?}");
    assert_eq!(reports.len(), expected.len() + 1, "{reports:?}");
}

#[test]
fn missing_files_and_odd_times_are_accepted() {
    let head =
        |part: u64| json!({"log": "acp", "version": 1, "agent": "a", "pid": 1, "part": part});
    let log = Log::new()
        .line(0, "", head(2))
        .line(1, "", head(4))
        .line(u64::MAX - 1_000_000, "in", json!({"frame": 1}))
        .line(3, "out", json!({"frame": {"id": 1, "method": "session/new"}}));
    let reports: Vec<String> = log.replay().iter().map(summary).collect();
    let expected = [
        "misfit missing log files between part 0 and part 2",
        "misfit missing log files between part 2 and part 4",
        "noise not a message: not an object",
        "misfit the client does not send 'session/new': the agent is not ready",
        "closed",
    ];
    assert_eq!(reports, expected);
}

#[test]
fn a_log_is_replayed_from_its_files() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("log");
    let limits = crate::WireLogLimits { file_bytes: 300, files: 100 };
    let log = crate::WireLog::open(&directory, limits, "gemini", Requests::Own, vec![]).unwrap();
    let mut client = Client::new(Config::default(), Instant::now());
    let now = Instant::now();
    let mut events = Vec::new();
    let mut turn = |client: &mut Client, came: &str| {
        while let Some(line) = client.poll_transmit() {
            log.record_out(&line);
        }
        log.record_in(came.as_bytes());
        client.receive(came.as_bytes(), now);
        while let Some(event) = client.poll_event() {
            events.push(event);
        }
    };
    client.initialize("test", "1", now).unwrap();
    turn(&mut client, "{\"id\":1,\"result\":{}}\n");
    client.new_session(json!({}), now).unwrap();
    turn(&mut client, "{\"id\":2,\"result\":{\"sessionId\":\"s\"}}\n");
    client.prompt("s", json!([]), now).unwrap();
    turn(&mut client, "hm\n");
    for number in 0..10 {
        turn(&mut client, &format!("{}\n", say(&number.to_string())));
    }
    turn(&mut client, "{\"id\":3,\"result\":{\"stopReason\":\"end_turn\"}}\n");
    log.end_in();
    client.receive_eof(now);
    while let Some(event) = client.poll_event() {
        events.push(event);
    }
    let any = directory.read_dir().unwrap().next().unwrap().unwrap().path();
    let files = crate::parts(&any).unwrap();
    assert!(files.len() > 3, "{files:?}");
    let mut replayed = Vec::new();
    let report = |event: ReplayEvent| match event.kind {
        ReplayEventKind::Event(event) => replayed.push(*event),
        ReplayEventKind::Sent(_) => {}
        other => panic!("{other:?}"),
    };
    replay(&files, Config::default(), report).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(replayed, events);
}
