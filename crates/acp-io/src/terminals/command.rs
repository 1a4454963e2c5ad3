//! Parses the command of `terminal/create`.

use aifo_acp::RpcError;
use serde_json::Value;

use crate::rpc::{invalid, optional, text};

/// A command of `terminal/create` (`spec/acp-hosts.md#commands`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalCommand {
    /// The program and its arguments, never empty.
    pub argv: Vec<String>,
    /// The directory, as the agent names it.
    pub cwd: String,
    /// Variables in addition to those of its environment.
    pub variables: Vec<(String, String)>,
}

impl TerminalCommand {
    /// Parses the parameters; `cwd` is the default directory.
    pub(super) fn parse(params: &Value, cwd: &str) -> Result<Self, RpcError> {
        let command = text(params, "command")?;
        let args = words(params)?;
        let cwd = match optional(params, "cwd") {
            None => cwd,
            Some(_) => text(params, "cwd")?,
        };
        if command.is_empty() || [command].into_iter().chain(args.iter().copied()).any(has_nul) {
            return Err(invalid("'command' and 'args' cannot be executed"));
        }
        let argv = if args.is_empty() && is_shell_line(command) {
            vec!["sh", "-c", command]
        } else {
            [command].into_iter().chain(args).collect()
        };
        Ok(TerminalCommand {
            argv: argv.into_iter().map(str::to_owned).collect(),
            cwd: cwd.to_owned(),
            variables: variables(params)?,
        })
    }
}

/// `args`, which may be missing.
fn words(params: &Value) -> Result<Vec<&str>, RpcError> {
    let wrong = || invalid("'args' must be an array of strings");
    let Some(args) = optional(params, "args") else { return Ok(Vec::new()) };
    let args = args.as_array().ok_or_else(wrong)?;
    args.iter().map(|arg| arg.as_str().ok_or_else(wrong)).collect()
}

/// Returns the variables of `env` that may pass.
fn variables(params: &Value) -> Result<Vec<(String, String)>, RpcError> {
    let wrong = || invalid("'env' must be an array of objects with 'name' and 'value'");
    let Some(env) = optional(params, "env") else { return Ok(Vec::new()) };
    let entry = |entry: &Value| {
        let text = |name| entry.get(name).and_then(Value::as_str).map(str::to_owned);
        text("name").zip(text("value")).ok_or_else(wrong)
    };
    let all: Vec<_> =
        env.as_array().ok_or_else(wrong)?.iter().map(entry).collect::<Result<_, _>>()?;
    Ok(all.into_iter().filter(|(name, value)| passes(name) && !has_nul(value)).collect())
}

/// True if a variable may pass: not one that changes the program that runs, and not one of aifo.
fn passes(name: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = name.bytes().all(word) && !name.starts_with(|first: char| first.is_ascii_digit());
    let kept = KEPT.contains(&name) || KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    !name.is_empty() && is_name && !kept
}

/// Variables that select programs, files and code that shells run.
const KEPT: &[&str] = &[
    "PATH",
    "HOME",
    "SHELL",
    "USER",
    "LOGNAME",
    "PWD",
    "OLDPWD",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
    "CDPATH",
    "GLOBIGNORE",
    "PROMPT_COMMAND",
    "PS4",
];

/// Prefixes of aifo's variables and those of dynamic loaders.
const KEPT_PREFIXES: &[&str] = &["AIFO_", "_AIFO_", "LD_", "DYLD_"];

fn has_nul(text: &str) -> bool {
    text.contains('\0')
}

/// Returns whether a command without arguments is a line for a shell.
fn is_shell_line(command: &str) -> bool {
    command.contains(|letter: char| letter.is_whitespace() || SPECIAL.contains(letter))
}

/// Characters with a meaning for a POSIX shell.
const SPECIAL: &str = "|&;<>()$`\\\"'*?[]#~=!{}^";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(params: Value) -> Result<TerminalCommand, RpcError> {
        TerminalCommand::parse(&params, "/ws")
    }

    #[test]
    fn shell_lines_are_recognised() {
        let rows = [
            (json!({"command": "ls"}), vec!["ls"]),
            (json!({"command": "ls -l"}), vec!["sh", "-c", "ls -l"]),
            (json!({"command": "a;b", "args": []}), vec!["sh", "-c", "a;b"]),
            (json!({"command": "A=1", "args": null}), vec!["sh", "-c", "A=1"]),
            (json!({"command": "~/x"}), vec!["sh", "-c", "~/x"]),
            (json!({"command": "./x-1.2_3@4+5:6,%7"}), vec!["./x-1.2_3@4+5:6,%7"]),
            (json!({"command": "größe"}), vec!["größe"]),
            // With arguments it is always a program.
            (json!({"command": "my tool", "args": ["x"]}), vec!["my tool", "x"]),
            (
                json!({"command": "git", "args": ["commit", "-m", "it's; rm", ""]}),
                vec!["git", "commit", "-m", "it's; rm", ""],
            ),
            (json!({"command": "/bin/sh", "args": ["-lc", "a b"]}), vec!["/bin/sh", "-lc", "a b"]),
        ];
        for (params, argv) in rows {
            assert_eq!(parse(params.clone()).unwrap().argv, argv, "{params}");
        }
    }

    #[test]
    fn invalid_commands() {
        let rows = [
            json!({}),
            json!({"command": ""}),
            json!({"command": 1}),
            json!({"command": "a\0"}),
            json!({"command": "a", "args": ["\0"]}),
            json!({"command": "a", "args": "b"}),
            json!({"command": "a", "args": [1]}),
            json!({"command": "a", "cwd": 1}),
            json!({"command": "a", "env": {"A": "1"}}),
            json!({"command": "a", "env": [{"name": "A"}]}),
        ];
        for params in rows {
            assert!(parse(params.clone()).is_err(), "{params}");
        }
    }

    #[test]
    fn variables_that_select_programs_are_not_parsed() {
        let env: Vec<_> = [
            "CI",
            "_x1",
            "EMPTY",
            "PATH",
            "HOME",
            "LD_PRELOAD",
            "AIFO_EXEC",
            "BASH_ENV",
            "",
            "1A",
            "A-B",
            "BASH_FUNC_ls%%",
            "A=B",
            "Ä",
            "_AIFO_GIVEN",
        ]
        .into_iter()
        .map(|name| json!({"name": name, "value": if name == "EMPTY" { "" } else { "1" }}))
        .collect();
        let command = parse(json!({"command": "a", "env": env})).unwrap();
        let passing = [("CI", "1"), ("_x1", "1"), ("EMPTY", "")];
        let passing = passing.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(command.variables, passing);
        let nul = json!([{"name": "A", "value": "\0"}]);
        assert!(parse(json!({"command": "a", "env": nul})).unwrap().variables.is_empty());
    }

    #[test]
    fn the_default_directory_is_that_of_the_session() {
        assert_eq!(parse(json!({"command": "a"})).unwrap().cwd, "/ws");
        assert_eq!(parse(json!({"command": "a", "cwd": null})).unwrap().cwd, "/ws");
        assert_eq!(parse(json!({"command": "a", "cwd": "/x"})).unwrap().cwd, "/x");
    }
}
