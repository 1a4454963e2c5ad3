//! Rules for an agent's permission requests (`spec/acp.md#rules`).

mod command;
mod request;
mod rule;
mod shell;

use std::fmt;

use crate::judge::Verdict;

pub use self::command::{CallCommand, RuleCommand};
pub use self::request::AccessRequest;
pub use self::rule::{InvalidRule, PermissionRule};

/// The permission rules of a session, each with its source. The first match decides, in the order
/// deny, allow, ask, default.
///
/// ```
/// use std::path::{Path, PathBuf};
/// use aifo_policy::{AccessRequest, DefaultVerdict, PermissionRule, PermissionRules};
/// use aifo_policy::{Verdict, WithSource};
///
/// let mut rules = PermissionRules::new(WithSource { value: DefaultVerdict::Ask, source: "built in" });
/// let edit = PermissionRule::from_keyword("edit").unwrap();
/// rules.allow.push(WithSource { value: edit, source: "--yes-to" });
/// let git = PermissionRule { path: Some(".git".into()), ..PermissionRule::all() };
/// rules.deny.push(WithSource { value: git, source: "config.toml:3" });
///
/// let workspace = [PathBuf::from("/workspace")];
/// let judge = |path| {
///     let (paths, cwd) = (&[path], Path::new("/workspace"));
///     rules.judge(&AccessRequest { kind: "edit", command: None, paths, workspace: &workspace, cwd })
/// };
/// assert_eq!(judge("/workspace/src/a.rs").verdict, Verdict::Allow);
/// let denied = judge("/workspace/src/../.git/config");
/// assert_eq!(denied.to_string(), r#"deny: { path = ".git" } (config.toml:3)"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionRules<S> {
    /// Rules that deny. A path rule matches if any path of the call is below it.
    pub deny: Vec<WithSource<PermissionRule, S>>,
    /// Rules that allow. A path rule matches if the call has paths and all are below it.
    pub allow: Vec<WithSource<PermissionRule, S>>,
    /// Rules that ask the user. They match like deny rules.
    pub ask: Vec<WithSource<PermissionRule, S>>,
    /// The verdict for other calls.
    pub default: WithSource<DefaultVerdict, S>,
}

/// A configured value with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithSource<T, S> {
    /// The value.
    pub value: T,
    /// The file and line, or the flag.
    pub source: S,
}

/// The verdict for a call that no rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultVerdict {
    /// The user decides.
    Ask,
    /// The call is denied.
    Deny,
}

/// The decision about a call, with the rule that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct PermissionDecision {
    /// The verdict.
    pub verdict: Verdict,
    /// True if a rule matched, false for the default.
    pub is_from_rule: bool,
    /// The rule as TOML, or `default`.
    pub rule: String,
    /// The source of the rule.
    pub source: String,
}

impl<S: fmt::Display> PermissionRules<S> {
    /// Creates an empty list of rules with this default.
    pub fn new(default: WithSource<DefaultVerdict, S>) -> Self {
        PermissionRules { deny: Vec::new(), allow: Vec::new(), ask: Vec::new(), default }
    }

    /// Decides about a call.
    pub fn judge(&self, request: &AccessRequest<'_>) -> PermissionDecision {
        let applies = PermissionRule::applies;
        first(&self.deny, Verdict::Deny, |rule| applies(rule, request))
            .or_else(|| first(&self.allow, Verdict::Allow, |rule| rule.allows(request)))
            .or_else(|| first(&self.ask, Verdict::Ask, |rule| applies(rule, request)))
            .unwrap_or_else(|| {
                let verdict = match self.default.value {
                    DefaultVerdict::Ask => Verdict::Ask,
                    DefaultVerdict::Deny => Verdict::Deny,
                };
                PermissionDecision {
                    verdict,
                    is_from_rule: false,
                    rule: "default".to_owned(),
                    source: self.default.source.to_string(),
                }
            })
    }
}

/// Formats the decision as one line: `deny: { path = ".git" }
/// (/home/me/.config/aifo/config.toml:3)`.
impl fmt::Display for PermissionDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PermissionDecision { verdict, rule, source, .. } = self;
        write!(f, "{}: {rule} ({source})", verdict.as_str())
    }
}

fn first<S: fmt::Display>(
    rules: &[WithSource<PermissionRule, S>],
    verdict: Verdict,
    holds: impl Fn(&PermissionRule) -> bool,
) -> Option<PermissionDecision> {
    let WithSource { value, source } = rules.iter().find(|sourced| holds(&sourced.value))?;
    Some(PermissionDecision {
        verdict,
        is_from_rule: true,
        rule: value.to_string(),
        source: source.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn kind(word: &str) -> PermissionRule {
        PermissionRule { kind: Some(word.into()), ..PermissionRule::all() }
    }

    fn command(text: &str) -> PermissionRule {
        PermissionRule { command: RuleCommand::parse(text), ..PermissionRule::all() }
    }

    fn path(text: &str) -> PermissionRule {
        PermissionRule { path: Some(text.into()), ..PermissionRule::all() }
    }

    fn rules(
        deny: &[PermissionRule],
        allow: &[PermissionRule],
        ask: &[PermissionRule],
        default: DefaultVerdict,
    ) -> PermissionRules<&'static str> {
        let sourced = |rules: &[PermissionRule]| {
            rules.iter().map(|rule| WithSource { value: rule.clone(), source: "f:1" }).collect()
        };
        PermissionRules {
            deny: sourced(deny),
            allow: sourced(allow),
            ask: sourced(ask),
            default: WithSource { value: default, source: "built in" },
        }
    }

    /// Returns the verdict about `kind | command | paths`.
    fn judge(rules: &PermissionRules<&'static str>, call: &str) -> Verdict {
        let parts: Vec<&str> = call.split('|').map(str::trim).collect();
        let [kind, command, paths] = parts[..] else { panic!("{call}") };
        let paths: Vec<&str> = paths.split_whitespace().collect();
        let command = Some(command).filter(|command| !command.is_empty());
        let command = command.map(CallCommand::from_text);
        let command = command.as_ref();
        let workspace = [PathBuf::from("/w"), PathBuf::from("/workspace")];
        let cwd = Path::new("/w");
        rules
            .judge(&AccessRequest { kind, command, paths: &paths, workspace: &workspace, cwd })
            .verdict
    }

    #[test]
    fn deny_comes_before_allow_before_ask_before_the_default() {
        let everything = || vec![PermissionRule::all()];
        let none = Vec::new;
        let rows = [
            (everything(), everything(), everything(), DefaultVerdict::Ask, Verdict::Deny),
            (none(), everything(), everything(), DefaultVerdict::Deny, Verdict::Allow),
            (none(), none(), everything(), DefaultVerdict::Deny, Verdict::Ask),
            (none(), none(), none(), DefaultVerdict::Deny, Verdict::Deny),
            (none(), none(), none(), DefaultVerdict::Ask, Verdict::Ask),
        ];
        for (deny, allow, ask, default, expected) in rows {
            let rules = rules(&deny, &allow, &ask, default);
            assert_eq!(judge(&rules, "edit | | a"), expected, "{rules:?}");
        }
    }

    #[test]
    fn allow_rules_must_cover_every_path_and_the_command() {
        let src_edits = PermissionRule { kind: Some("edit".into()), ..path("src") };
        let make_in_src = PermissionRule { command: RuleCommand::parse("make"), ..path("src") };
        let rows = [
            (kind("read"), "read | | /etc/passwd", true),
            (kind("read"), "edit | | a", false),
            (kind("read"), "read | cat x | x", false),
            (kind("fetch"), "fetch | curl x | ", false),
            (kind("execute"), "execute | a && b | ", true),
            (kind("other"), " | make | ", true),
            (command("cargo test"), "execute | cargo  'test' | ", true),
            (command("cargo test"), "execute | bash -lc 'cargo test' | ", true),
            (command("cargo test"), "execute | cargo test; x | ", false),
            (command("cargo test"), "execute | cargo test > x | ", false),
            (kind("brand_new"), "brand_new | | ", true),
            (kind("other"), " | | ", true),
            (command("cargo test"), "execute | cargo test | ", true),
            (command("cargo test"), "execute | cargo test --all | ", false),
            (command("cargo test"), "execute | cargo | ", false),
            (command("cargo test"), "execute | | ", false),
            (command("cargo test"), "read | cargo test | ", true),
            (path("src"), "edit | | src/a /workspace/src/b", true),
            (path("src"), "edit | | src/a .git/config", false),
            (path("src"), "edit | | src/../.git/config", false),
            (path("src"), "edit | | ", false),
            (path("src"), "edit | | src/a ~/a", false),
            (path("src"), "execute | | src/a", false),
            (path("src"), "execute | rm -rf . | src/a", false),
            (path("src"), "read | cat x | src/a", false),
            (path("src"), "brand_new | | src/a", false),
            (make_in_src.clone(), "execute | make | src", true),
            (make_in_src, "execute | make | src lib", false),
            (src_edits.clone(), "edit | | src/a", true),
            (src_edits, "delete | | src/a", false),
            (PermissionRule::all(), " | | ", true),
        ];
        for (rule, call, allowed) in rows {
            let expected = if allowed { Verdict::Allow } else { Verdict::Deny };
            let rules = rules(&[], std::slice::from_ref(&rule), &[], DefaultVerdict::Deny);
            assert_eq!(judge(&rules, call), expected, "{rule}: {call}");
        }
    }

    #[test]
    fn deny_and_ask_rules_match_any_path_or_command() {
        let rows = [
            (path(".git"), "edit | | src/a .git/config", true),
            (path(".git"), "execute | git gc | /workspace/.git", true),
            (path(".git"), "edit | | .gitignore", false),
            (path(".git"), "edit | | ", false),
            (command("rm -rf /"), "execute | rm -rf / | ", true),
            (command("rm -rf /"), "execute | cd x && rm -rf / | ", true),
            (command("rm -rf /"), "execute | sh -c 'x; rm -rf /' | ", true),
            (command("rm -rf /"), "execute | rm -rf /x | ", false),
            (kind("delete"), "delete | | a", true),
            (
                PermissionRule { kind: Some("edit".into()), ..path(".git") },
                "read | | .git/a",
                false,
            ),
        ];
        for (rule, call, held) in rows {
            let denying = rules(
                std::slice::from_ref(&rule),
                &[PermissionRule::all()],
                &[],
                DefaultVerdict::Ask,
            );
            let expected = if held { Verdict::Deny } else { Verdict::Allow };
            assert_eq!(judge(&denying, call), expected, "{rule}: {call}");
            let asking = rules(&[], &[], std::slice::from_ref(&rule), DefaultVerdict::Deny);
            let expected = if held { Verdict::Ask } else { Verdict::Deny };
            assert_eq!(judge(&asking, call), expected, "{rule}: {call}");
        }
    }

    #[test]
    fn a_decision_names_its_rule() {
        let rules =
            rules(&[kind("delete")], &[command("make")], &[kind("edit")], DefaultVerdict::Ask);
        let decide = |kind, command| {
            let command = Option::map(command, CallCommand::from_text);
            let command = command.as_ref();
            rules.judge(&AccessRequest { kind, command, ..AccessRequest::default() }).to_string()
        };
        assert_eq!(decide("delete", None), "deny: \"delete\" (f:1)");
        assert_eq!(decide("execute", Some("make")), "allow: { command = \"make\" } (f:1)");
        assert_eq!(decide("edit", None), "ask: \"edit\" (f:1)");
        assert_eq!(decide("fetch", None), "ask: default (built in)");
    }
}
