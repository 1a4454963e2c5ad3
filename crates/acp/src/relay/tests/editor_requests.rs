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

/// A relay with these methods allowed.
fn allowing(allowed: &[&str]) -> Story {
    let allowed_requests = allowed.iter().map(|&name| name.to_owned()).collect();
    Story::of(RelayConfig { allowed_requests, ..RelayConfig::default() })
}

#[test]
fn requests_outside_of_the_schema_need_to_be_allowed() {
    let mut story = allowing(&["_vendor/ask", "_other/*", "_*", "*", "terminal/*"]);
    for (method, passes) in [
        ("_vendor/ask", true),
        ("elicitation/create", true),
        ("_other/x", true),
        ("_other/x/y", true),
        ("_other", false),
        ("_othermore/x", false),
        ("_vendor/asked", false),
        ("workspace/applyEdit", false),
        ("terminal/output", false),
        ("session/new", false),
    ] {
        story.agent_sends(json!({"id": method, "method": method, "params": {"a": 1}}));
        assert_eq!(story.editor().len(), usize::from(passes), "{method}");
        let text = format!("no method '{method}'");
        let refused = if passes { vec![] } else { vec![error(method, -32601, &text)] };
        assert_eq!(story.agent(), refused);
    }
}

/// An editor may select what it executes by the method alone.
#[test]
fn notifications_outside_of_the_schema_need_to_be_allowed() {
    let mut story = allowing(&["vendor/ask", "_allowed/*", "fs/*", "terminal/create"]);
    let is_forwarded = |story: &mut Story, method: &str| {
        let params = json!({"path": "/etc/passwd", "command": "x"});
        story.agent_sends(json!({"method": method, "params": params}));
        assert_eq!(story.agent(), [] as [Value; 0], "{method}");
        story.editor().len() == 1
    };
    let refused = [
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "terminal/kill",
        "session/request_permission",
        "elicitation/create",
        "session/new",
        "workspace/applyEdit",
        "_vendor/run",
        "_allowed",
        "$/execute",
        "$/setTrace",
        "",
    ];
    for method in refused {
        for _ in 0..2 {
            assert!(!is_forwarded(&mut story, method), "{method}");
        }
    }
    let count = |story: &Story| story.relay.protocol_errors(Side::Agent).refused_notifications;
    assert_eq!(count(&story), 2 * refused.len() as u64);
    let reported: Vec<_> = story.events.drain(..).collect();
    let expected = refused.map(|method| RelayEvent::NotificationRefused { method: method.into() });
    assert_eq!(reported, expected, "once for each method");
    for method in
        ["session/update", "elicitation/complete", "mcp/message", "_allowed/event", "vendor/ask"]
    {
        assert!(is_forwarded(&mut story, method), "{method}");
    }
    assert_eq!(count(&story), 2 * refused.len() as u64);
    assert!(!is_forwarded(&mut story, &"_".repeat(257)));
    assert_eq!(story.events, [], "too long to be kept");
    for number in 0..100 {
        assert!(!is_forwarded(&mut story, &format!("_{number}")));
    }
    assert_eq!(story.events.len(), 16 - refused.len());
}
