//! Declared capabilities and the servers of methods.

use super::*;

fn story(files: MethodServer, terminal: MethodServer) -> Story {
    let mut story = Story::new(RelayConfig { files, terminal, ..RelayConfig::default() });
    let capabilities =
        json!({"fs": {"readTextFile": true, "writeTextFile": false}, "terminal": true, "_meta": 1});
    let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": {"name": "e"}});
    story.editor_sends(json!({"id": "i", "method": "initialize", "params": params}));
    story
}

#[test]
fn only_served_methods_are_declared() {
    let declared = |files, terminal| {
        let mut story = story(files, terminal);
        let received = story.agent().remove(0);
        let answer = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []});
        story.agent_sends(json!({"id": 1, "result": answer}));
        assert_eq!(story.editor(), [ok("i", answer)]);
        assert_eq!(received["params"]["protocolVersion"], 1);
        assert_eq!(received["params"]["clientInfo"]["name"], "e");
        received["params"]["clientCapabilities"].clone()
    };
    let expected = |read: bool, write: bool, terminal: bool| json!({"fs": {"readTextFile": read, "writeTextFile": write}, "terminal": terminal, "_meta": 1});
    assert_eq!(declared(MethodServer::Host, MethodServer::Host), expected(true, true, true));
    assert_eq!(declared(MethodServer::Editor, MethodServer::Editor), expected(true, false, true));
    assert_eq!(
        declared(MethodServer::Neither, MethodServer::Neither),
        expected(false, false, false)
    );
}

#[test]
fn version_1_is_offered_and_a_later_one_rejected() {
    let offered = |version: Value| {
        let mut story = Story::start();
        let params = json!({"protocolVersion": version});
        story.editor_sends(json!({"id": "i", "method": "initialize", "params": params}));
        story.agent().remove(0)["params"]["protocolVersion"].clone()
    };
    for later in [json!(2), json!(1.5), json!(u64::MAX), json!("2"), json!("draft"), json!([1])] {
        assert_eq!(offered(later.clone()), 1, "{later}");
    }
    for spoken in [json!(1), json!("1"), json!(0), json!(null)] {
        assert_eq!(offered(spoken.clone()), spoken);
    }
    let mut silent = Story::start();
    silent.editor_sends(json!({"id": "i", "method": "initialize"}));
    assert_eq!(silent.agent().remove(0)["params"].get("protocolVersion"), None);

    let answered = |version: Value| {
        let mut story = story(MethodServer::Neither, MethodServer::Neither);
        story.agent();
        story.agent_sends(json!({"id": 1, "result": {"protocolVersion": version}}));
        (story.editor().remove(0), story)
    };
    for spoken in [json!(1), json!("1"), json!(0), json!(null)] {
        assert_eq!(answered(spoken.clone()).0, ok("i", json!({"protocolVersion": spoken})));
    }
    for later in [json!(2), json!("2"), json!("draft"), json!({})] {
        let (answer, mut story) = answered(later.clone());
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("i"), &json!(-32603)));
        let text = answer["error"]["message"].as_str().unwrap();
        let expected = format!(
            "the agent speaks version {later} of the protocol, and aifo speaks version 1\nhint: "
        );
        assert!(text.starts_with(&expected), "{text}");
        // Further requests are rejected until another `initialize`.
        story.prompt("p");
        assert_eq!(story.editor(), [error("p", -32603, text)]);
        story.cancel();
        assert_eq!(story.agent(), [] as [Value; 0]);
        story.editor_sends(json!({"id": "j", "method": "initialize"}));
        story.agent_sends(json!({"id": 2, "result": {"protocolVersion": 1}}));
        story.prompt("q");
        assert_eq!(story.agent().len(), 2);
    }
}

#[test]
fn host_requests_are_reported_and_answered_once() {
    let mut story = story(MethodServer::Host, MethodServer::Host);
    story.agent();
    let params = json!({"path": "/w/a", "sessionId": "s"});
    story.agent_sends(json!({"id": 4, "method": "fs/write_text_file", "params": params}));
    let sent = RelayEvent::Request(RequestEvent::Host {
        id: id(4),
        method: "fs/write_text_file".into(),
        params,
    });
    assert_eq!(story.events(), [sent]);
    assert_eq!(story.editor(), [] as [Value; 0]);
    assert!(!story.relay.decide(&id(4), &PermissionOutcome::Cancelled, story.now));
    assert!(!story.relay.ask_editor(&id(4), story.now));
    assert!(story.relay.respond(&id(4), Ok(json!(null)), story.now));
    assert!(!story.relay.respond(&id(4), Ok(json!(null)), story.now));
    assert_eq!(story.agent(), [ok(4, json!(null))]);
    story.agent_sends(json!({"id": 5, "method": "terminal/create", "params": {}}));
    story.agent_sends(json!({"method": "$/cancel_request", "params": {"requestId": 5}}));
    assert!(story.events().contains(&RelayEvent::Request(RequestEvent::Withdrawn {
        id: id(5),
        why: Withdrawal::ByAgent
    })));
    assert!(story.relay.respond(&id(5), Err(RpcError::new(-32800, "cancelled")), story.now));
    assert_eq!(story.agent(), [error(5, -32800, "cancelled")]);
}

#[test]
fn a_served_terminal_is_text_for_the_editor() {
    let mut story = story(MethodServer::Neither, MethodServer::Host);
    story.prompt("p");
    story.agent();
    story.editor();
    let create = json!({"sessionId": "s", "command": "make", "args": ["-j4"]});
    story.agent_sends(json!({"id": 1, "method": "terminal/create", "params": create}));
    assert!(story.relay.respond(&id(1), Ok(json!({"terminalId": "t1"})), story.now));
    let blocks = json!([{"type": "terminal", "terminalId": "t1"}]);
    let body = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "make", "content": blocks});
    let params = json!({"sessionId": "s", "update": body});
    story.agent_sends(json!({"method": "session/update", "params": params}));
    let text =
        |message: &Value| message["params"]["update"]["content"][0]["content"]["text"].clone();
    let sent = story.editor();
    assert_eq!((sent.len(), text(&sent[0])), (1, json!("```\n$ make -j4\n```")));

    let output = json!({"sessionId": "s", "terminalId": "t1"});
    story.agent_sends(json!({"id": 2, "method": "terminal/output", "params": output}));
    let result = json!({"output": "all done\n", "exitStatus": {"exitCode": 0}});
    assert!(story.relay.respond(&id(2), Ok(result.clone()), story.now));
    story.collect();
    let sent = story.editor();
    assert_eq!(sent.len(), 1, "sent by the relay");
    let update = &sent[0]["params"]["update"];
    assert_eq!(
        (&update["toolCallId"], &update["sessionUpdate"]),
        (&json!("c"), &json!("tool_call_update"))
    );
    assert_eq!(text(&sent[0]), "```\n$ make -j4\nall done\n```\nexit code 0");
    assert_eq!(story.agent().last(), Some(&ok(2, result)), "the agent's answer");
    // The tracked call has the agent's content.
    let call = story.relay.tools("s").unwrap().get("c").unwrap();
    assert_eq!(call.member("content"), Some(&blocks));

    let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "c", "content": blocks},
        "options": [{"optionId": "y", "kind": "allow_once", "name": "Yes"}]});
    story.agent_sends(json!({"id": 3, "method": "session/request_permission", "params": params}));
    assert!(story.relay.ask_editor(&id(3), story.now));
    story.collect();
    let asked = story.editor();
    assert!(asked[0]["params"]["toolCall"]["content"][0]["content"]["text"].is_string());
}

#[test]
fn editor_requests_are_forwarded_and_unserved_ones_rejected() {
    let mut story = story(MethodServer::Editor, MethodServer::Neither);
    story.agent();
    let methods = [
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "terminal/output",
        "fs/list",
    ];
    for (id, method) in methods.into_iter().enumerate() {
        story.agent_sends(json!({"id": id, "method": method, "params": {"path": "/a"}}));
    }
    let editor = story.editor();
    assert_eq!(editor.len(), 1);
    assert_eq!(
        (&editor[0]["method"], &editor[0]["params"]["path"]),
        (&json!("fs/read_text_file"), &json!("/a"))
    );
    let refused = story.agent();
    assert_eq!(refused.len(), 4);
    assert_eq!(refused[0], error(1, -32601, "no method 'fs/write_text_file'"));
    assert!(refused.iter().all(|answer| answer["error"]["code"] == -32601));
    assert_eq!(story.relay.protocol_errors(Side::Agent).unknown_requests, 4);
}
