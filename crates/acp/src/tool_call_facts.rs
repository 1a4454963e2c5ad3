//! The exact command and paths of a tool call, for permission rules. Titles and texts are not used.

use serde_json::{Map, Value};

use crate::tool_call::ToolCall;

impl ToolCall {
    /// Returns the whole command if the agent sends it exactly: `command` or `cmd` of `rawInput`, a
    /// string, or an array of words, which is quoted as for a shell. A wrapping shell, as in
    /// `["bash", "-lc", "make"]`, is removed, as other agents send the text alone.
    ///
    /// Agents stream it in parts, so decide by it only on a permission request.
    pub fn command(&self) -> Option<String> {
        let input = self.raw_input()?;
        let command = match (non_empty(input, "command"), non_empty(input, "cmd")) {
            (Some(command), None) | (None, Some(command)) => command,
            // It is not known which of the two runs.
            (Some(one), Some(other)) if one == other => one,
            _ => return None,
        };
        let arguments = match non_empty(input, "args") {
            Some(arguments) => all_words(arguments)?,
            None => Vec::new(),
        };
        let text = match command {
            Value::String(text) if arguments.is_empty() => text.clone(),
            Value::String(program) => joined(&[&[program.as_str()], &*arguments].concat()),
            words => match [all_words(words)?, arguments].concat().as_slice() {
                [shell, "-c" | "-lc", text] if is_shell(shell) => (*text).to_owned(),
                words => joined(words),
            },
        };
        (!text.trim().is_empty()).then_some(text)
    }

    /// Returns every path that the call names, once, as spelled: from `locations`, diffs, and the
    /// usual path fields of `rawInput`.
    pub fn paths(&self) -> Vec<&str> {
        let locations = self.member("locations").and_then(Value::as_array);
        let content = self.member("content").and_then(Value::as_array);
        let diffs = content.into_iter().flatten().filter(|block| is_diff(block));
        let places = locations.into_iter().flatten().chain(diffs);
        let mut paths: Vec<&str> = places.filter_map(|place| place.get("path")?.as_str()).collect();
        if let Some(input) = self.raw_input() {
            for name in PATH_NAMES {
                match input.get(name) {
                    Some(Value::String(path)) => paths.push(path),
                    Some(Value::Array(several)) => {
                        paths.extend(several.iter().filter_map(Value::as_str));
                    }
                    _ => {}
                }
            }
            // Codex: a patch's files.
            let changes = input.get("changes").and_then(Value::as_object);
            paths.extend(changes.into_iter().flat_map(Map::keys).map(String::as_str));
        }
        paths.retain(|path| !path.is_empty());
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    fn raw_input(&self) -> Option<&Map<String, Value>> {
        self.member("rawInput")?.as_object()
    }
}

/// Names of path arguments.
const PATH_NAMES: [&str; 22] = [
    "absPath",
    "abs_path",
    "absolutePath",
    "absolute_path",
    "destination",
    "dirPath",
    "dir_path",
    "directory",
    "file",
    "filePath",
    "file_path",
    "file_paths",
    "filepath",
    "from",
    "new_path",
    "notebook_path",
    "old_path",
    "path",
    "paths",
    "source",
    "target_file",
    "to",
];

fn is_diff(block: &Value) -> bool {
    block.get("type").and_then(Value::as_str) == Some("diff")
}

/// Returns a member that is not `null`.
fn non_empty<'a>(input: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    input.get(name).filter(|value| !value.is_null())
}

/// Returns the strings of an array; `None` for any other value.
fn all_words(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}

/// Returns whether a program is a common shell, by name or usual path.
fn is_shell(program: &str) -> bool {
    let name = ["/usr/bin/", "/bin/"].iter().find_map(|dir| program.strip_prefix(dir));
    ["sh", "bash", "dash", "zsh"].contains(&name.unwrap_or(program))
}

/// Quotes words as for a shell: different words give different texts.
fn joined(words: &[&str]) -> String {
    // Fails only for NUL bytes, which are allowed here.
    shlex::Quoter::new().allow_nul(true).join(words.iter().copied()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(call_update: &Value) -> ToolCall {
        let mut call = ToolCall::placeholder("t");
        call.merge(call_update, usize::MAX);
        call
    }

    #[test]
    fn a_command_is_exact_or_none() {
        let rows = [
            (json!({"command": "ls -l"}), Some("ls -l")),
            (json!({"command": "ls\n  -l"}), Some("ls\n  -l")),
            (json!({"cmd": "ls", "command": null}), Some("ls")),
            (json!({"cmd": "ls", "command": "ls"}), Some("ls")),
            (json!({"cmd": "ls", "command": "rm"}), None),
            (json!({"command": ["ls", "-l"]}), Some("ls -l")),
            (json!({"command": ["ls -l"]}), Some("'ls -l'")),
            (json!({"command": ["a", "", "it's", "$x"]}), Some(r#"a '' "it's" '$x'"#)),
            (json!({"command": ["bash", "-lc", "cargo test"]}), Some("cargo test")),
            (json!({"command": ["/bin/sh", "-c", "ls"]}), Some("ls")),
            (json!({"command": ["/tmp/sh", "-c", "ls"]}), Some("/tmp/sh -c ls")),
            (json!({"command": ["sh", "-c", "ls", "x"]}), Some("sh -c ls x")),
            (json!({"command": "ls", "args": []}), Some("ls")),
            (json!({"command": "rm", "args": ["-rf", "a b"]}), Some("rm -rf 'a b'")),
            (json!({"command": ["sh", "-c", "ls"], "args": ["x"]}), Some("sh -c ls x")),
            (json!({"command": "rm", "args": "-rf"}), None),
            (json!({"command": "rm", "args": [7]}), None),
            (json!({"command": []}), None),
            (json!({"command": ["ls", 1]}), None),
            (json!({"command": {}}), None),
            (json!({"command": "  "}), None),
            (json!("ls"), None),
        ];
        for (input, expected) in rows {
            let call = call(&json!({"title": "rm", "rawInput": input}));
            assert_eq!(call.command().as_deref(), expected, "{input}");
        }
        assert_eq!(call(&json!({"title": "ls -l"})).command(), None);
    }

    #[test]
    fn paths_are_collected_from_all_fields() {
        let call_update = call(&json!({
            "title": "/title",
            "locations": [{"path": "/a", "line": 1}, {"path": "/b"}, {"path": 7}, 17],
            "content": [
                {"type": "diff", "path": "/c", "newText": ""},
                {"type": "content", "content": {"type": "text", "text": "/text"}, "path": "/no"},
            ],
            "rawInput": {
                "file_path": "/a", "filePath": "d", "path": "", "to": null, "text": "/other",
                "paths": ["/e", 1, "/f"],
                "changes": {"/g": {"type": "add"}},
            },
        }));
        assert_eq!(call_update.paths(), ["/a", "/b", "/c", "/e", "/f", "/g", "d"]);
        for odd in [json!({}), json!({"locations": {}, "content": 1, "rawInput": []})] {
            assert_eq!(call(&odd).paths(), Vec::<&str>::new(), "{odd}");
        }
    }
}
