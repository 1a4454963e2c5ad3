//! Maps the path fields of the protocol (`spec/acp-relay.md#fields`).

use serde_json::Value;

use super::path_map::{Direction, PathMap};
use crate::message::{RpcError, code};

/// Maps fields that are paths by the schema. Texts, commands and extension fields are unchanged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    map: &'a PathMap,
    direction: Direction,
}

impl<'a> Fields<'a> {
    pub(super) fn new(map: &'a PathMap, direction: Direction) -> Self {
        Fields { map, direction }
    }

    /// Maps the parameters of a request or a notification.
    pub(super) fn params(self, method: &str, params: &mut Value) {
        if self.map.is_identity(self.direction) {
            return;
        }
        match (self.direction, method) {
            (
                Direction::ToAgent,
                "session/new" | "session/load" | "session/resume" | "session/fork",
            ) => {
                self.place(params);
                for server in items(params, "mcpServers") {
                    self.path(server, "command");
                }
                if let Some(system) = params.get_mut("systemPrompt") {
                    self.content(system, "content");
                }
            }
            (Direction::ToAgent, "session/list") => self.path(params, "cwd"),
            (Direction::ToAgent, "session/prompt") => self.content(params, "prompt"),
            (Direction::ToEditor, "session/update") => {
                if let Some(update) = params.get_mut("update") {
                    self.update(update);
                }
            }
            (Direction::ToEditor, "session/request_permission") => {
                if let Some(call) = params.get_mut("toolCall") {
                    self.call(call);
                }
            }
            (Direction::ToEditor, "fs/read_text_file" | "fs/write_text_file") => {
                self.path(params, "path");
            }
            (Direction::ToEditor, "terminal/create") => self.path(params, "cwd"),
            _ => {}
        }
    }

    /// Maps the result of a request.
    pub(super) fn result(self, method: &str, result: &mut Value) {
        if (self.direction, method) == (Direction::ToEditor, "session/list") {
            for session in items(result, "sessions") {
                self.place(session);
            }
        }
    }

    /// Maps the path in the error of a request.
    pub(super) fn error(self, error: &mut RpcError) {
        if error.code == code::NOT_FOUND {
            error.data.iter_mut().for_each(|data| self.uri(data));
        }
    }

    fn update(self, update: &mut Value) {
        self.call(update);
        match update.get("sessionUpdate").and_then(Value::as_str) {
            Some("subagent_update") => self.place(update),
            Some("compaction_update") => self.content(update, "summary"),
            Some("plan_update") => {
                if let Some(plan) = update.get_mut("plan") {
                    self.uri(plan);
                }
            }
            _ => {}
        }
    }

    /// Maps a session's directories.
    fn place(self, value: &mut Value) {
        self.path(value, "cwd");
        for directory in items(value, "additionalDirectories") {
            self.text(directory, PathMap::path);
        }
    }

    /// Maps a tool call, or a piece of content with the same fields.
    fn call(self, value: &mut Value) {
        for location in items(value, "locations") {
            self.path(location, "path");
        }
        self.content(value, "content");
    }

    /// Maps a block, an array of blocks, or nested blocks, and the content of tool calls.
    fn content(self, holder: &mut Value, name: &str) {
        match holder.get_mut(name) {
            Some(Value::Array(blocks)) => blocks.iter_mut().for_each(|block| self.block(block)),
            Some(block) => self.block(block),
            None => {}
        }
    }

    fn block(self, block: &mut Value) {
        match block.get("type").and_then(Value::as_str) {
            Some("diff") => self.path(block, "path"),
            Some("resource_link" | "image") => self.uri(block),
            Some("resource") => {
                if let Some(resource) = block.get_mut("resource") {
                    self.uri(resource);
                }
            }
            // A nested block; some omit the type.
            Some("content") | None => self.content(block, "content"),
            Some(_) => {}
        }
    }

    fn path(self, holder: &mut Value, name: &str) {
        if let Some(path) = holder.get_mut(name) {
            self.text(path, PathMap::path);
        }
    }

    fn uri(self, holder: &mut Value) {
        if let Some(uri) = holder.get_mut("uri") {
            self.text(uri, PathMap::uri);
        }
    }

    fn text(self, value: &mut Value, map: impl Fn(&PathMap, Direction, &str) -> Option<String>) {
        if let Value::String(text) = value
            && let Some(mapped) = map(self.map, self.direction, text)
        {
            *text = mapped;
        }
    }
}

/// Returns the elements of an array member.
fn items<'a>(holder: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    holder.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Maps `/h` on the host to `/i` in the container.
    fn map() -> PathMap {
        PathMap::default().map_directory("/h", "/i")
    }

    /// Fills `HERE` with each path and checks the result; text such as `stays /h /i` must not
    /// change.
    fn check(direction: Direction, method: &str, template: &str) {
        let (from, to) = match direction {
            Direction::ToAgent => ("/h/x", "/i/x"),
            Direction::ToEditor => ("/i/x", "/h/x"),
        };
        let fill = |path: &str| -> Value {
            let filled = template.replace("HERE", path).replace("FILE", &format!("file://{path}"));
            serde_json::from_str(&filled).unwrap()
        };
        let mut params = fill(from);
        Fields::new(&map(), direction).params(method, &mut params);
        assert_eq!(params, fill(to), "{method}");
    }

    #[test]
    fn paths_of_the_editor() {
        let place = r#"{"cwd": "HERE", "additionalDirectories": ["HERE", 7, "HERE"], "sessionId": "/h/x",
            "mcpServers": [{"name": "/h/x", "command": "HERE", "args": ["/h/x"], "env": [{"value": "/h/x"}]},
                {"type": "http", "url": "file:///h/x"}],
            "systemPrompt": {"content": [{"type": "resource_link", "uri": "FILE"}]}, "_meta": {"cwd": "/h/x"}}"#;
        for method in ["session/new", "session/load", "session/resume", "session/fork"] {
            check(Direction::ToAgent, method, place);
        }
        check(Direction::ToAgent, "session/list", r#"{"cwd": "HERE", "cursor": "/h/x"}"#);
        let prompt = r#"{"sessionId": "/h/x", "prompt": [
            {"type": "text", "text": "look at /h/x and file:///h/x", "uri": "file:///h/x"},
            {"type": "resource_link", "uri": "FILE", "name": "/h/x"},
            {"type": "resource", "resource": {"uri": "FILE", "text": "/h/x"}},
            {"type": "image", "uri": "FILE", "data": "/h/x"},
            {"type": "audio", "data": "/h/x"}, 17, {"type": "_new", "uri": "file:///h/x"}],
            "_meta": {"path": "/h/x"}}"#;
        check(Direction::ToAgent, "session/prompt", prompt);
        let untouched = r#"{"cwd": "/h/x", "path": "/h/x", "prompt": [{"type": "image", "uri": "file:///h/x"}]}"#;
        for method in
            ["session/set_mode", "authenticate", "_vendor/cwd", "initialize", "mcp/message"]
        {
            check(Direction::ToAgent, method, untouched);
        }
    }

    #[test]
    fn paths_of_the_agent() {
        let call = |holder: &str| {
            let body = r#"{"toolCallId": "/i/x", "title": "read /i/x", "sessionUpdate": "tool_call",
                "locations": [{"path": "HERE", "line": 1}, {"path": null}, "x"],
                "content": [{"type": "diff", "path": "HERE", "oldText": "/i/x", "newText": "/i/x"},
                    {"type": "content", "content": {"type": "resource_link", "uri": "FILE"}},
                    {"content": {"type": "text", "text": "/i/x"}},
                    {"type": "terminal", "terminalId": "/i/x"}],
                "rawInput": {"path": "/i/x", "cwd": "/i/x"}, "rawOutput": "/i/x", "_meta": {"path": "/i/x"}}"#;
            format!(
                r#"{{"sessionId": "/i/x", "{holder}": {body}, "options": [{{"name": "/i/x"}}]}}"#
            )
        };
        check(Direction::ToEditor, "session/update", &call("update"));
        check(Direction::ToEditor, "session/request_permission", &call("toolCall"));
        let updates = [
            r#"{"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "uri": "FILE"}}"#,
            r#"{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "/i/x"}}"#,
            r#"{"sessionUpdate": "session_message", "content": [{"type": "resource", "resource": {"uri": "FILE"}}]}"#,
            r#"{"sessionUpdate": "compaction_update", "summary": [{"type": "resource_link", "uri": "FILE"}]}"#,
            r#"{"sessionUpdate": "subagent_update", "cwd": "HERE", "additionalDirectories": ["HERE"]}"#,
            r#"{"sessionUpdate": "plan_update", "plan": {"type": "file", "planId": "/i/x", "uri": "FILE"}}"#,
            r#"{"sessionUpdate": "plan", "entries": [{"content": "edit /i/x"}]}"#,
            r#"{"sessionUpdate": "_new", "cwd": "/i/x", "plan": {"uri": "file:///i/x"}, "summary": {"type": "image", "uri": "file:///i/x"}}"#,
        ];
        for update in updates {
            check(Direction::ToEditor, "session/update", &format!(r#"{{"update": {update}}}"#));
        }
        let file = r#"{"path": "HERE", "content": "/i/x", "sessionId": "/i/x"}"#;
        check(Direction::ToEditor, "fs/read_text_file", file);
        check(Direction::ToEditor, "fs/write_text_file", file);
        let terminal = r#"{"command": "/i/x", "args": ["/i/x"], "cwd": "HERE", "env": [{"name": "A", "value": "/i/x"}]}"#;
        check(Direction::ToEditor, "terminal/create", terminal);
        check(
            Direction::ToEditor,
            "elicitation/create",
            r#"{"message": "/i/x", "url": "file:///i/x"}"#,
        );
        check(Direction::ToEditor, "_vendor/x", r#"{"path": "/i/x", "cwd": "/i/x"}"#);
    }

    #[test]
    fn paths_in_answers() {
        let map = map();
        let fields = Fields::new(&map, Direction::ToEditor);
        let sessions = |path: &str| {
            json!({"sessions": [{"sessionId": "/i", "cwd": path, "title": "/i",
            "additionalDirectories": [path]}]})
        };
        let mut result = sessions("/i/x");
        fields.result("session/list", &mut result);
        assert_eq!(result, sessions("/h/x"));
        let mut other = sessions("/i/x");
        fields.result("_vendor/list", &mut other);
        assert_eq!(other, sessions("/i/x"));
        let mut error = RpcError {
            code: -32002,
            message: "/i/x".into(),
            data: Some(json!({"uri": "file:///i/x"})),
        };
        fields.error(&mut error);
        assert_eq!(
            (error.message.as_str(), error.data),
            ("/i/x", Some(json!({"uri": "file:///h/x"})))
        );
    }

    #[test]
    fn unexpected_shapes_are_unchanged() {
        let odd = [
            json!(null),
            json!(7),
            json!([]),
            json!({"update": 1}),
            json!({"update": {"content": null,
            "locations": {}, "summary": 7, "plan": []}}),
            json!({"cwd": ["/i"], "toolCall": "x"}),
        ];
        for value in odd {
            for method in
                ["session/update", "session/request_permission", "fs/read_text_file", "session/new"]
            {
                for direction in [Direction::ToAgent, Direction::ToEditor] {
                    let mut params = value.clone();
                    Fields::new(&map(), direction).params(method, &mut params);
                    assert_eq!(params, value);
                }
            }
        }
    }
}
