//! Forwarding.
//!
//! Proves `spec/acp-relay.md#what-passes`, `spec/acp-relay.md#ids`.

use super::*;

#[test]
fn unknown_messages_are_forwarded_unchanged() {
    let mut story = Story::start();
    let odd =
        json!({"a": [1.5, null, {"_meta": {"b": "\n\u{e9}"}}], "big": u64::MAX, "z": 1, "y": 2});
    for (from, asker_id) in [(Side::Editor, json!("x")), (Side::Agent, json!(7.5))] {
        let notification =
            json!({"jsonrpc": "2.0", "method": "_vendor/event", "params": odd, "traceparent": "t"});
        story.line(from, &notification.to_string());
        let request = json!({"jsonrpc": "2.0", "id": asker_id, "method": "_vendor/asked", "params": odd, "more": 1});
        story.line(from, &request.to_string());
        let received = if from == Side::Editor { story.agent() } else { story.editor() };
        let mut expected = request.clone();
        expected["id"] = json!(1);
        assert_eq!(received, [notification, expected]);
        let answer = json!({"jsonrpc": "2.0", "id": "1", "result": odd, "more": {"x": 1}});
        story.line(from.other(), &answer.to_string());
        let received = if from == Side::Editor { story.editor() } else { story.agent() };
        let mut expected = answer;
        expected["id"] = asker_id;
        assert_eq!(received, [expected]);
    }
    assert_eq!(story.events(), []);
}

#[test]
fn unknown_updates_and_errors_are_forwarded() {
    let mut story = Story::prompted();
    let update = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "_meta": 1,
        "update": {"sessionUpdate": "brand_new", "content": {"content": [17]}}}});
    story.agent_sends(update.clone());
    let failed = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "log in", "data": {"x": [1]}}});
    story.agent_sends(failed.clone());
    let mut answer = failed;
    answer["id"] = json!("p");
    assert_eq!(story.editor(), [update, answer]);
}

#[test]
fn the_data_of_an_error_may_be_null() {
    for (from, asker) in [(Side::Editor, Side::Agent), (Side::Agent, Side::Editor)] {
        let mut story = Story::start();
        story.line(asker, r#"{"id": "q", "method": "_vendor/asked"}"#);
        let mut failed =
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "m", "data": null}});
        story.line(from, &failed.to_string());
        failed["id"] = json!("q");
        let received = if asker == Side::Editor { story.editor() } else { story.agent() };
        assert_eq!(received, [failed]);
    }
}

#[test]
fn half_a_surrogate_pair_is_forwarded_as_a_replacement_character() {
    for (from, to) in [(Side::Editor, Side::Agent), (Side::Agent, Side::Editor)] {
        let mut story = Story::start();
        let line =
            r#"{"method": "_vendor/reported", "params": {"\ud800x": ["\udc00", "\ud83d\ude00"]}}"#;
        story.line(from, line);
        let received = if to == Side::Editor { story.editor() } else { story.agent() };
        assert_eq!(received[0]["params"], json!({"\u{fffd}x": ["\u{fffd}", "\u{1f600}"]}));
        assert_eq!(story.events(), [], "it is a message");
    }
    let mut story = Story::prompted();
    let ask = permission(7).to_string().replace("toolCallId\":\"t", "toolCallId\":\"\\udead");
    assert!(ask.contains("\\udead"), "{ask}");
    story.line(Side::Agent, &ask);
    let Some(RelayEvent::Request(RequestEvent::Permission { id, .. })) = story.events().pop()
    else {
        panic!("no permission request")
    };
    story.relay.ask_editor(&id, story.now);
    assert_eq!(story.editor()[0]["params"]["toolCall"]["toolCallId"], "\u{fffd}");
}

#[test]
fn a_byte_order_mark_before_the_first_line_is_skipped() {
    for (from, to) in [(Side::Editor, Side::Agent), (Side::Agent, Side::Editor)] {
        let mut story = Story::start();
        story.line(from, "\u{feff}{\"method\": \"_vendor/a\"}");
        story.line(from, "\u{feff}{\"method\": \"_vendor/b\"}");
        let received = if to == Side::Editor { story.editor() } else { story.agent() };
        assert_eq!(received, [json!({"jsonrpc": "2.0", "method": "_vendor/a"})]);
        assert_eq!(
            story.events(),
            [RelayEvent::NonJsonOutput { side: from, non_json: NonJsonOutput::NotJson }]
        );
    }
}

#[test]
fn jsonrpc_is_added_and_batches_are_split() {
    let mut story = Story::start();
    story.editor_sends(json!([{"method": "a"}, {"id": 5, "method": "b"}, 17, {"method": "c"}]));
    let received = [
        json!({"jsonrpc": "2.0", "method": "a"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "b"}),
        json!({"jsonrpc": "2.0", "method": "c"}),
    ];
    assert_eq!(story.agent(), received);
    story.agent_sends(json!([{"id": 1, "result": null}, {"method": "_vendor/d", "params": {}}]));
    assert_eq!(
        story.editor(),
        [ok(5, json!(null)), json!({"jsonrpc": "2.0", "method": "_vendor/d", "params": {}})]
    );
}

#[test]
fn non_json_output_is_dropped_and_reported() {
    for from in [Side::Agent, Side::Editor] {
        let mut story = Story::start();
        for line in ["Loading credentials...", "17", r#"{"id":1,"level":"info"}"#, "", " \r"] {
            story.line(from, line);
        }
        story.relay.receive(from, b"\xff\n", story.now);
        story.collect();
        let reported: Vec<NonJsonOutput> = story
            .events()
            .into_iter()
            .map(|event| match event {
                RelayEvent::NonJsonOutput { side, non_json } if side == from => non_json,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(reported.len(), 4);
        assert_eq!((reported[0], reported[3]), (NonJsonOutput::NotJson, NonJsonOutput::NotUtf8));
        assert!(story.relay.non_json(from).contains("Loading credentials..."));
        assert_eq!((story.editor(), story.agent()), (vec![], vec![]));
        assert_eq!(story.relay.traffic(from).non_json, 4);
    }
}

#[test]
fn responses_are_accepted_once_and_in_many_forms() {
    let mut story = Story::start();
    let ids = [json!(1), json!("1"), json!(-3), json!(2.0), json!("")];
    for id in &ids {
        story.editor_sends(json!({"id": id, "method": "m"}));
    }
    let sent: Vec<Value> = story.agent().iter().map(|message| message["id"].clone()).collect();
    assert_eq!(sent, [1, 2, 3, 4, 5]);
    for answer in [
        json!("3"),
        json!(1),
        json!(2.0),
        json!(1),
        json!("3"),
        json!(9),
        json!("x"),
        json!(5),
        json!(4),
    ] {
        story.agent_sends(json!({"id": answer, "result": answer}));
    }
    let expected = [
        ok(-3, json!("3")),
        ok(1, json!(1)),
        ok("1", json!(2.0)),
        ok("", json!(5)),
        ok(2.0, json!(4)),
    ];
    assert_eq!(story.editor(), expected);
    let protocol_errors = story.relay.protocol_errors(Side::Agent);
    assert_eq!((protocol_errors.duplicate_responses, protocol_errors.unknown_responses), (2, 2));
    assert_eq!(story.relay.unanswered(Side::Editor), 0);
}

#[test]
fn a_request_with_a_pending_id_is_counted_once() {
    let mut story = Story::start();
    for from in [Side::Editor, Side::Agent] {
        story.line(from, r#"{"id":1,"method":"m"}"#);
        story.line(from, r#"{"id":1,"method":"m"}"#);
        assert_eq!(story.relay.protocol_errors(from).duplicate_requests, 1);
        assert_eq!(story.relay.unanswered(from), 1);
    }
    assert_eq!((story.editor().len(), story.agent().len()), (1, 1));
}

#[test]
fn pending_requests_are_bounded() {
    let limits = Limits { requests: 2, ..Limits::default() };
    let mut story = Story::new(RelayConfig { limits, ..RelayConfig::default() });
    for from in [Side::Editor, Side::Agent] {
        for number in 0..3 {
            story.line(from, &json!({"id": number, "method": "m"}).to_string());
        }
        assert_eq!(story.relay.protocol_errors(from).excess_requests, 1);
        let received = if from == Side::Editor { story.editor() } else { story.agent() };
        assert!(received.contains(&error(2, -32603, "busy")), "{received:?}");
        let long = "x".repeat(2000);
        story.line(from, &json!({"id": long, "method": "m"}).to_string());
        assert_eq!(story.relay.unanswered(from), 2);
    }
}

#[test]
fn cancellations_use_the_receivers_id() {
    let mut story = Story::start();
    for from in [Side::Editor, Side::Agent] {
        story.line(from, r#"{"id":"mine","method":"m"}"#);
        let withdraw = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "mine", "_meta": 1}});
        story.line(from, &withdraw.to_string());
        story.line(from, r#"{"method":"$/cancel_request","params":{"requestId":"other"}}"#);
        let received = if from == Side::Editor { story.agent() } else { story.editor() };
        let mut expected = withdraw;
        expected["params"]["requestId"] = json!(1);
        assert_eq!(received[1..], [expected]);
        assert_eq!(story.relay.protocol_errors(from).unknown_cancellations, 1);
        story.line(from.other(), r#"{"id":1,"error":{"code":-32800,"message":"cancelled"}}"#);
        let received = if from == Side::Editor { story.editor() } else { story.agent() };
        assert_eq!(received, [error("mine", -32800, "cancelled")]);
    }
}

#[test]
fn a_message_too_long_to_read_fails_its_request() {
    let limits = Limits { frame: 200, ..Limits::default() };
    let mut story = Story::new(RelayConfig { limits, ..RelayConfig::default() });
    story.editor_sends(json!({"id": "a", "method": "m"}));
    let long = "x".repeat(300);
    story.agent_sends(json!({"id": 1, "result": long}));
    story.agent_sends(json!({"id": 8, "method": "m", "params": long}));
    story.agent_sends(json!({"method": "session/update", "params": long}));
    let editor = story.editor();
    assert_eq!(editor.len(), 1);
    assert_eq!((&editor[0]["id"], &editor[0]["error"]["code"]), (&json!("a"), &json!(-32603)));
    let agent = story.agent();
    assert_eq!((&agent[1]["id"], &agent[1]["error"]["code"]), (&json!(8), &json!(-32600)));
    let reported = story.events();
    assert_eq!(reported.len(), 3);
    let all =
        reported.iter().all(|event| matches!(event, RelayEvent::TooLong { side: Side::Agent, .. }));
    assert!(all, "{reported:?}");
}

#[test]
fn a_message_too_long_to_write_fails_its_request() {
    let limits = Limits { frame_out: 120, ..Limits::default() };
    let mut story = Story::new(RelayConfig { limits, ..RelayConfig::default() });
    let long = "x".repeat(120);
    story.editor_sends(json!({"id": "a", "method": "m", "params": [long]}));
    assert_eq!(story.editor()[0]["error"]["code"], -32600);
    story.editor_sends(json!({"id": "b", "method": "m"}));
    story.agent_sends(json!({"id": 2, "result": long}));
    assert_eq!(story.editor(), [error("b", -32603, "the answer is too long")]);
    story.agent_sends(json!({"method": "_vendor/event", "params": [long]}));
    assert_eq!(story.editor(), [] as [Value; 0]);
    assert_eq!(story.events().len(), 3);
    assert_eq!((story.relay.unanswered(Side::Editor), story.relay.unanswered(Side::Agent)), (0, 0));
}

#[test]
fn an_end_that_does_not_read_slows_the_other() {
    let config = RelayConfig { backlog: 1000, ..RelayConfig::default() };
    let mut story = Story::new(config);
    let line = format!("{}\n", json!({"method": "_vendor/event", "params": ["x".repeat(400)]}));
    story.relay.receive(Side::Agent, line.repeat(10).as_bytes(), story.now);
    assert_eq!(story.relay.poll_event(), None);
    assert!(!story.relay.should_read(Side::Agent) && story.relay.should_read(Side::Editor));
    assert!((1000..1600).contains(&story.relay.backlog(Side::Editor)));
    // The editor is still read.
    story.relay.receive(Side::Editor, b"{\"method\":\"m\"}\n", story.now);
    assert_eq!(story.relay.poll_event(), None);
    assert!(story.relay.poll_transmit(Side::Agent).is_some());
    for _ in 0..10 {
        assert!(story.relay.poll_transmit(Side::Editor).is_some());
        assert_eq!(story.relay.poll_event(), None);
        assert!(story.relay.backlog(Side::Editor) < 1600);
    }
    assert!(story.relay.should_read(Side::Agent));
    assert_eq!(story.relay.poll_transmit(Side::Editor), None);
}

#[test]
fn a_flood_of_requests_answered_by_the_relay_is_held_back() {
    let limits = Limits { frame_out: 500, ..Limits::default() };
    let config = RelayConfig {
        backlog: 1000,
        limits,
        terminal: MethodServer::Neither,
        ..RelayConfig::default()
    };
    let mut story = Story::new(config);
    let flood: String = (0..200)
        .map(|id| format!("{}\n", json!({"id": id, "method": "terminal/create"})))
        .collect();
    story.relay.receive(Side::Agent, flood.as_bytes(), story.now);
    assert_eq!(story.relay.poll_event(), None);
    assert!(!story.relay.should_read(Side::Agent));
    assert!(story.relay.backlog(Side::Agent) < 2700);
    let mut answers = 0;
    while story.relay.poll_transmit(Side::Agent).is_some() {
        assert_eq!(story.relay.poll_event(), None);
        answers += 1;
    }
    assert_eq!(answers, 200);
}

#[test]
fn paths_are_mapped_in_every_message() {
    let map = PathMap::default().map_directory("/h", "/i");
    let config = RelayConfig { map, files: MethodServer::Editor, ..RelayConfig::default() };
    let mut story = Story::new(config);
    let init = json!({"clientCapabilities": {"fs": {"readTextFile": true}}});
    story.editor_sends(json!({"id": 0, "method": "initialize", "params": init}));
    story.editor_sends(json!({"id": 1, "method": "session/new", "params": {"cwd": "/h/p"}}));
    story.editor_sends(json!({"id": 2, "method": "session/list", "params": {}}));
    story.agent_sends(json!({"id": 3, "result": {"sessions": [{"cwd": "/i/p"}]}}));
    story.agent_sends(json!({"id": 9, "method": "fs/read_text_file", "params": {"path": "/i/p/a", "sessionId": "s"}}));
    assert_eq!(story.agent()[1]["params"]["cwd"], "/i/p");
    let editor = story.editor();
    assert_eq!(editor[0], ok(2, json!({"sessions": [{"cwd": "/h/p"}]})));
    assert_eq!(editor[1]["params"], json!({"path": "/h/p/a", "sessionId": "s"}));
    let missing = |uri: &str| json!({"code": -32002, "message": "no", "data": {"uri": uri}});
    story.editor_sends(json!({"id": 1, "error": missing("file:///h/p/a")}));
    assert_eq!(story.agent()[0]["error"], missing("file:///i/p/a"));
}

#[test]
fn a_session_outside_of_the_roots_is_rejected_with_a_hint() {
    let config = RelayConfig {
        roots: vec!["/home/me/ws".to_owned()],
        remedy: "start it with --cwd".to_owned(),
        ..RelayConfig::default()
    };
    let mut story = Story::new(config);
    for method in ["session/new", "session/load", "session/resume", "session/fork"] {
        for cwd in ["/home/me", "/home/me/ws2", "/home/me/ws/../x", "ws", "/", ""] {
            story.editor_sends(json!({"id": 1, "method": method, "params": {"cwd": cwd}}));
            let text =
                format!("'{cwd}' is outside the agent's directories\nhint: start it with --cwd");
            assert_eq!(story.editor(), [error(1, -32602, &text)], "{method}");
        }
        for params in [
            json!({"cwd": "/home/me/ws"}),
            json!({"cwd": "/home/me/ws/a/../b"}),
            json!({}),
            json!(null),
        ] {
            story.editor_sends(
                json!({"id": params.to_string(), "method": method, "params": params}),
            );
            assert_eq!(story.agent().len(), 1, "{method} {params}");
            assert_eq!(story.editor(), [] as [Value; 0]);
        }
        story.relay = Relay::new(story.relay.config.clone(), story.now);
    }
}
