//! The shell tool of an agent, and calls of it.

use serde_json::{Value, json};

use super::schema::{kind, smallest};

/// A tool that an agent declares.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tool {
    pub(super) name: String,
    /// The JSON schema of its arguments, an object.
    pub(super) schema: Value,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    /// Unique within a script.
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
}

impl Tool {
    /// The tool that runs commands, if one is declared: the first of the known names.
    pub(super) fn shell(declared: &[Tool]) -> Option<&Self> {
        let named = |name: &&str| declared.iter().find(|tool| tool.name.eq_ignore_ascii_case(name));
        SHELLS.iter().find_map(named)
    }

    /// Calls it with a command. Other required arguments get the smallest valid value.
    pub(super) fn run(&self, id: String, command: &str) -> Call {
        let mut arguments = smallest(&self.schema);
        let property = |name: &str| self.schema.get("properties").and_then(|all| all.get(name));
        for name in COMMANDS {
            match property(name) {
                Some(schema) if kind(schema).as_deref() == Some("array") => {
                    arguments[name] = json!(["bash", "-c", command]);
                }
                Some(_) => arguments[name] = json!(command),
                None => {}
            }
        }
        if property(PATIENCE).is_some() {
            arguments[PATIENCE] = json!(PATIENT);
        }
        Call { id, tool: self.name.clone(), arguments }
    }
}

impl Call {
    /// Polls a continuing command of codex.
    pub(super) fn wait(id: String, session: u64) -> Self {
        let arguments = json!({"session_id": session, "chars": "", PATIENCE: PATIENT});
        Call { id, tool: "write_stdin".to_owned(), arguments }
    }
}

/// A command for an agent without tools: a block of shell in the text.
///
/// aider takes every line as a command, so several lines become one that prints and evaluates them.
pub(super) fn suggestion(command: &str) -> String {
    let line = match command.trim_end().contains('\n') {
        false => command.to_owned(),
        true => {
            let text = command.replace('\\', r"\\").replace('%', "%%").replace('\n', r"\n");
            format!(r#"eval "$(printf '{}')""#, text.replace('\'', r"'\''"))
        }
    };
    format!("```bash\n{line}\n```")
}

/// The names of agents' shell tools, in order of preference.
const SHELLS: [&str; 7] = [
    "exec_command",
    "shell",
    "shell_command",
    "bash",
    "run_shell_command",
    "terminal",
    "execute_bash",
];

/// The names of the argument with the command.
const COMMANDS: [&str; 2] = ["command", "cmd"];

/// codex's argument for the time in milliseconds before it reports a command as continuing, and its
/// maximum.
const PATIENCE: &str = "yield_time_ms";
const PATIENT: u64 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: Value, arguments: Value) {
        let tool = Tool { name: "bash".to_owned(), schema };
        let call = tool.run("call_0".to_owned(), "make");
        assert_eq!((call.tool.as_str(), call.arguments), ("bash", arguments));
    }

    #[test]
    fn commands_in_the_words_of_the_schema() {
        let properties = json!({
            "command": {"type": "string"},
            "description": {"type": "string"},
            "timeout": {"type": "number"},
        });
        check(
            json!({"type": "object", "properties": properties, "required": ["command", "description"]}),
            json!({"command": "make", "description": "ok"}),
        );
        let properties = json!({"command": {"type": "array", "items": {"type": "string"}}});
        check(
            json!({"type": "object", "properties": properties}),
            json!({"command": ["bash", "-c", "make"]}),
        );
        let properties = json!({"cmd": {"type": "string"}, "yield_time_ms": {"type": "number"}});
        check(
            json!({"type": "object", "properties": properties, "required": ["cmd"]}),
            json!({"cmd": "make", "yield_time_ms": 30_000}),
        );
    }

    #[test]
    fn a_block_is_one_line_of_shell() {
        let text = |command: &str| suggestion(command);
        assert_eq!(text("make"), "```bash\nmake\n```");
        let lines = text("cat <<'E'\n50%\\\nE\n");
        assert_eq!(lines, "```bash\neval \"$(printf 'cat <<'\\''E'\\''\\n50%%\\\\\\nE\\n')\"\n```");
    }
}
