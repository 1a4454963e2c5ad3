//! An agent terminal authentication, which the editor starts through this program.

use serde_json::{Map, Value};

/// The program that the editor started as its agent (`spec/acp-relay.md#authentication`). For
/// terminal authentication the editor appends the agent arguments to the program's command line
/// and adds the agent variables to its environment, so the program must not take them as its own.
#[derive(Clone, Debug, Default)]
pub struct TerminalLogin {
    /// Its options and subcommands: `--name`, `-n`, `name`.
    pub words: Vec<String>,
    /// The prefix that it removes from the names of the agent variables.
    pub variable_prefix: String,
}

impl TerminalLogin {
    /// Rewrites the result of an `initialize`.
    pub(super) fn rewrite(&self, result: &mut Value) {
        let methods = result.get_mut("authMethods").and_then(Value::as_array_mut);
        let methods = methods.into_iter().flatten().filter_map(Value::as_object_mut);
        for method in methods {
            remove_commands(method);
            if method.get("type") != Some(&"terminal".into()) {
                continue;
            }
            if let Some(Value::Array(args)) = method.get_mut("args")
                && args.iter().filter_map(Value::as_str).any(|arg| self.is_own(arg))
            {
                args.insert(0, SEPARATOR.into());
            }
            match method.get_mut("env") {
                Some(Value::Object(variables)) => {
                    let renamed = std::mem::take(variables).into_iter();
                    let renamed = renamed.map(|(name, value)| (self.renamed(&name), value));
                    *variables = renamed.collect::<Map<_, _>>();
                }
                Some(Value::Array(variables)) => {
                    for name in variables.iter_mut().filter_map(|variable| variable.get_mut("name"))
                    {
                        if let Value::String(name) = name {
                            *name = self.renamed(name);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns whether the program could take the argument as its own.
    fn is_own(&self, arg: &str) -> bool {
        let has = |word: &str| self.words.iter().any(|own| own == word);
        let is_short =
            |rest: &str| rest.chars().next().is_some_and(|name| has(&format!("-{name}")));
        match arg.strip_prefix('-') {
            _ if arg == SEPARATOR => true,
            Some(rest) if rest.starts_with('-') => {
                has(arg.split_once('=').map_or(arg, |(name, _)| name))
            }
            Some(rest) => is_short(rest),
            None => has(arg),
        }
    }

    fn renamed(&self, name: &str) -> String {
        format!("{}{name}", self.variable_prefix)
    }
}

/// Removes members with a command, such as `terminal-auth`, from a method's `_meta`, at any depth: some
/// editors run it on the host, outside of the agent container.
fn remove_commands(method: &mut Map<String, Value>) {
    if let Some(meta) = method.get_mut("_meta") {
        remove_commands_below(meta);
    }
}

fn remove_commands_below(value: &mut Value) {
    let has_command = |value: &Value| value.get("command").is_some();
    match value {
        Value::Object(members) => {
            members.retain(|name, value| name != "terminal-auth" && !has_command(value));
            members.values_mut().for_each(remove_commands_below);
        }
        Value::Array(items) => {
            items.retain(|item| !has_command(item));
            items.iter_mut().for_each(remove_commands_below);
        }
        _ => {}
    }
}

/// Ends the program's options.
const SEPARATOR: &str = "--";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn agent_arguments_and_variables_are_separated_from_the_programs() {
        let words = ["--files", "--help", "-q", "replay"].map(str::to_owned).to_vec();
        let login = TerminalLogin { words, variable_prefix: "AIFO_ENV_".to_owned() };
        let rewritten = |method: Value| {
            let mut result = json!({"protocolVersion": 1, "authMethods": [method, 7]});
            login.rewrite(&mut result);
            result["authMethods"][0].clone()
        };
        let args =
            |args: Value| rewritten(json!({"type": "terminal", "args": args}))["args"].clone();
        for args_of_agent in [
            json!(["--cli"]),
            json!(["--filesystem"]),
            json!(["login", "--theirs", "-x"]),
            json!(["-"]),
            json!([""]),
            json!([]),
            json!([7]),
            json!("--files"),
            json!(null),
        ] {
            assert_eq!(args(args_of_agent.clone()), args_of_agent);
        }
        for own in ["--files", "--files=editor", "--help", "-q", "-qx", "replay", "--"] {
            assert_eq!(args(json!([own, "x"])), json!(["--", own, "x"]));
            assert_eq!(args(json!(["x", 7, own])), json!(["--", "x", 7, own]));
        }
        let env = |env: Value| rewritten(json!({"type": "terminal", "env": env}))["env"].clone();
        assert_eq!(
            env(json!({"A": "1", "LD_PRELOAD": "x"})),
            json!({"AIFO_ENV_A": "1", "AIFO_ENV_LD_PRELOAD": "x"})
        );
        assert_eq!(
            env(json!([{"name": "A", "value": "1"}, 7])),
            json!([{"name": "AIFO_ENV_A", "value": "1"}, 7])
        );
        for other in
            [json!({"type": "agent", "args": ["-q"], "env": {"A": "1"}}), json!({"id": "x"})]
        {
            assert_eq!(rewritten(other.clone()), other);
        }
        let meta = json!({"terminal-auth": {"command": "/bin/sh", "args": ["-c", "x"]}, "terminal-auth2":
            {"command": "/bin/sh"}, "label": "Log in", "editor": {"login": {"command": "/bin/sh"}},
            "list": [{"command": "/bin/sh"}, {"terminal-auth": 1, "label": "x"}]});
        assert_eq!(
            rewritten(json!({"id": "x", "_meta": meta})),
            json!({"id": "x", "_meta": {"label": "Log in", "editor": {}, "list": [{"label": "x"}]}}),
            "a command of the agent's does not reach the host"
        );
        for odd in [json!(null), json!({"authMethods": {}}), json!([])] {
            let mut result = odd.clone();
            login.rewrite(&mut result);
            assert_eq!(result, odd);
        }
    }
}
