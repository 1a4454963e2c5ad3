//! Requests of the agent that the editor may serve.

use super::*;

/// A relay to an editor that serves files and terminals.
fn with_able_editor(config: RelayConfig) -> Story {
    let mut story = Story::new(config);
    let able = json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true});
    let init = json!({"id": 0, "method": "initialize", "params": {"clientCapabilities": able}});
    story.editor_sends(init);
    story.agent();
    story
}

#[test]
fn paths_outside_of_the_roots_are_not_requested_from_the_editor() {
    let config = RelayConfig {
        roots: vec!["/home/me/ws".to_owned()],
        map: PathMap::default().map_alias("/workspace", "/home/me/ws"),
        ..RelayConfig::default()
    };
    let mut story = with_able_editor(config);
    let rows = [
        ("fs/read_text_file", json!({"path": "/workspace/a"}), true),
        ("fs/write_text_file", json!({"path": "/home/me/ws/a"}), true),
        ("terminal/create", json!({"cwd": "/workspace"}), true),
        ("terminal/create", json!({"cwd": null}), true),
        ("fs/read_text_file", json!({"path": "/home/me/.ssh/id"}), false),
        ("fs/write_text_file", json!({"path": "/workspace/../.bashrc"}), false),
        ("fs/write_text_file", json!({"path": "a"}), false),
        ("terminal/create", json!({"cwd": "/"}), false),
    ];
    for (id, (method, params, passes)) in rows.into_iter().enumerate() {
        story.agent_sends(json!({"id": id, "method": method, "params": params}));
        assert_eq!(story.editor().len(), usize::from(passes), "{method} {params}");
        let refused = story.agent();
        assert_eq!(refused.len(), usize::from(!passes), "{method} {params}");
        assert!(refused.iter().all(|answer| answer["error"]["code"] == -32602), "{refused:?}");
    }
}

/// The editor gets resolved paths only, and an error of the resolver reaches the agent.
#[test]
fn paths_are_resolved_before_the_editor_gets_them() {
    let resolver = PathResolver::new(|path| match path {
        "/ws/link" => Ok("/ws/target".to_owned()),
        path => Err(RpcError::new(-32602, format!("no {path}"))),
    });
    let config = RelayConfig {
        resolver,
        roots: vec!["/ws".to_owned()],
        map: PathMap::default().map_alias("/workspace", "/ws"),
        ..RelayConfig::default()
    };
    let mut story = with_able_editor(config);
    for (method, member) in
        [("fs/read_text_file", "path"), ("fs/write_text_file", "path"), ("terminal/create", "cwd")]
    {
        let mut ask = |path: Value| {
            story.agent_sends(json!({"id": 1, "method": method, "params": {member: path}}));
            let sent = story.editor();
            for request in &sent {
                story.editor_sends(json!({"id": request["id"], "result": null}));
            }
            (sent, story.agent())
        };
        let (sent, _) = ask(json!("/workspace/link"));
        assert_eq!(sent[0]["params"], json!({member: "/ws/target"}));
        let (sent, refused) = ask(json!("/workspace/x"));
        assert_eq!((sent.len(), refused), (0, vec![error(1, -32602, "no /ws/x")]));
        for odd in [json!(7), json!(["/ws/link"])] {
            let (sent, refused) = ask(odd);
            let text = format!("'{member}' is not a path");
            assert_eq!((sent.len(), refused), (0, vec![error(1, -32602, &text)]));
        }
        let (sent, _) = ask(Value::Null);
        assert_eq!(sent.len(), usize::from(member == "cwd"));
    }
}

#[test]
fn requests_outside_of_the_schema_need_to_be_allowed() {
    let config =
        RelayConfig { allowed_requests: vec!["_vendor/ask".to_owned()], ..RelayConfig::default() };
    let mut story = Story::of(config);
    for (method, passes) in [
        ("_vendor/ask", true),
        ("elicitation/create", true),
        ("_vendor/asked", false),
        ("workspace/applyEdit", false),
        ("session/new", false),
    ] {
        story.agent_sends(json!({"id": method, "method": method, "params": {"a": 1}}));
        assert_eq!(story.editor().len(), usize::from(passes), "{method}");
        let text = format!("no method '{method}'");
        let refused = if passes { vec![] } else { vec![error(method, -32601, &text)] };
        assert_eq!(story.agent(), refused);
    }
}

#[test]
fn a_request_without_an_id_is_no_notification() {
    let config =
        RelayConfig { allowed_requests: vec!["vendor/ask".to_owned()], ..RelayConfig::default() };
    let mut story = Story::of(config);
    let is_forwarded = |story: &mut Story, method: &str| {
        story.agent_sends(
            json!({"method": method, "params": {"path": "/etc/passwd", "command": "x"}}),
        );
        assert_eq!(story.agent(), [] as [Value; 0], "{method}");
        story.editor().len() == 1
    };
    let requests = [
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "terminal/kill",
        "session/request_permission",
        "elicitation/create",
        "session/new",
        "workspace/applyEdit",
    ];
    for method in requests {
        assert!(!is_forwarded(&mut story, method), "{method}");
    }
    assert_eq!(story.relay.protocol_errors(Side::Agent).refused_notifications, 8);
    for method in [
        "session/update",
        "elicitation/complete",
        "mcp/message",
        "_vendor/event",
        "$/event",
        "vendor/ask",
    ] {
        assert!(is_forwarded(&mut story, method), "{method}");
    }
    assert_eq!(story.relay.protocol_errors(Side::Agent).refused_notifications, 8);
}
