//! Own commands.
//!
//! Proves `spec/acp-relay.md#own-commands`.

use super::*;

fn story() -> Story {
    let command = OwnCommand {
        name: "aifo-undo".to_owned(),
        description: "d".to_owned(),
        hint: "h".to_owned(),
    };
    Story::new(RelayConfig { commands: vec![command], ..RelayConfig::default() })
}

fn listed() -> Value {
    json!({"name": "aifo-undo", "description": "d", "input": {"hint": "h"}})
}

#[test]
fn own_commands_are_added_to_the_agents_list() {
    let mut story = story();
    story.update(json!({"sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "undo", "description": "its own"}]}));
    let editor = story.editor();
    let commands = &editor[0]["params"]["update"]["availableCommands"];
    assert_eq!(*commands, json!([{"name": "undo", "description": "its own"}, listed()]));
}

#[test]
fn an_agent_without_a_list_gets_one() {
    let mut story = story();
    story.editor_sends(
        json!({"jsonrpc": "2.0", "id": "n", "method": "session/new", "params": {"cwd": "/"}}),
    );
    story.agent_sends(ok(1, json!({"sessionId": "s"})));
    let editor = story.editor();
    assert_eq!(editor[0]["id"], "n");
    assert_eq!(editor[1]["params"]["update"]["availableCommands"], json!([listed()]));
}

#[test]
fn a_prompt_of_an_own_command_never_reaches_the_agent() {
    let mut story = story();
    story.prompt("/aifo-undo 3f2a src/main.rs");
    assert_eq!(story.agent(), [Value::Null; 0]);
    let events = story.events();
    let [RelayEvent::Command { id, session, name, words }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!((session.as_str(), name.as_str()), ("s", "aifo-undo"));
    assert_eq!(*words, ["3f2a", "src/main.rs"]);
    let id = id.clone();
    story.relay.answer_command(&id, "s", "done", story.now);
    story.relay.answer_command(&id, "s", "twice", story.now);
    let editor = story.editor();
    assert_eq!(editor.len(), 2, "{editor:?}");
    assert_eq!(editor[0]["params"]["update"]["content"]["text"], "done");
    assert_eq!(editor[1], stopped("/aifo-undo 3f2a src/main.rs", "end_turn"));
    for text in ["/undo", "aifo-undo", "/aifo-undone"] {
        story.prompt(text);
        assert_eq!(story.agent().len(), 1, "{text}");
        story.stop(story.relay.traffic(Side::Agent).responses + 1, "end_turn");
    }
}
