//! Which of the permissions that an agent asks for it gets: `spec/acp.md#rules`.

mod asked;
mod command;
mod rule;
mod shell;

use std::fmt;

pub use self::asked::Asked;
pub use self::command::{AskedCommand, RuleCommand};
pub use self::rule::{InvalidRule, PermissionRule};

/// The rules of a session, each with where it comes from. Of those that hold the first counts:
/// denying ones, allowing ones, asking ones, the default.
///
/// ```
/// use std::path::{Path, PathBuf};
/// use aifo_policy::{Asked, Fallback, PermissionRule, PermissionRules, Ruled, Stated};
///
/// let mut rules = PermissionRules::new(Stated { what: Fallback::Ask, from: "built in" });
/// let edit = PermissionRule::named("edit").unwrap();
/// rules.allow.push(Stated { what: edit, from: "--yes-to" });
/// let git = PermissionRule { path: Some(".git".into()), ..PermissionRule::all() };
/// rules.deny.push(Stated { what: git, from: "config.toml:3" });
///
/// let workspace = [PathBuf::from("/workspace")];
/// let judge = |path| {
///     let cwd = Path::new("/workspace");
///     rules.judge(&Asked { kind: "edit", command: None, paths: &[path], workspace: &workspace, cwd })
/// };
/// assert_eq!(judge("/workspace/src/a.rs").verdict, Ruled::Allow);
/// let denied = judge("/workspace/src/../.git/config");
/// assert_eq!(denied.to_string(), r#"deny: { path = ".git" } (config.toml:3)"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionRules<S> {
    /// What is denied, whatever allows it. A rule by path holds if any of the paths is beneath it.
    pub deny: Vec<Stated<PermissionRule, S>>,
    /// What is allowed. A rule by path holds if all of the paths, at least one, are beneath it.
    pub allow: Vec<Stated<PermissionRule, S>>,
    /// What a person decides, whatever the default says.
    pub ask: Vec<Stated<PermissionRule, S>>,
    /// What becomes of everything else.
    pub default: Stated<Fallback, S>,
}

/// Something that was said, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated<T, S> {
    /// What was said.
    pub what: T,
    /// The line, flag or other place, as its `Display` tells it.
    pub from: S,
}

/// What becomes of a call that no rule speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// A person decides.
    Ask,
    /// It is denied.
    Deny,
}

/// What the rules say of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Ruling {
    /// What is to be done.
    pub verdict: Ruled,
    /// Whether a rule says so, and not the default.
    pub is_of_rule: bool,
    /// The rule that says so, as a configuration file spells it.
    pub rule: String,
    /// Where the rule stands.
    pub from: String,
}

/// What is to be done with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruled {
    /// Let it pass, this once.
    Allow,
    /// Do not.
    Deny,
    /// A person decides. Where nobody can be asked: [`Ruling::unasked`].
    Ask,
}

impl<S: fmt::Display> PermissionRules<S> {
    /// No rules, but what becomes of everything.
    pub fn new(default: Stated<Fallback, S>) -> Self {
        PermissionRules { deny: Vec::new(), allow: Vec::new(), ask: Vec::new(), default }
    }

    /// What becomes of a call, and by which rule.
    pub fn judge(&self, asked: &Asked<'_>) -> Ruling {
        let stops = PermissionRule::stops;
        first(&self.deny, Ruled::Deny, |rule| stops(rule, asked))
            .or_else(|| first(&self.allow, Ruled::Allow, |rule| rule.allows(asked)))
            .or_else(|| first(&self.ask, Ruled::Ask, |rule| stops(rule, asked)))
            .unwrap_or_else(|| {
                let verdict = match self.default.what {
                    Fallback::Ask => Ruled::Ask,
                    Fallback::Deny => Ruled::Deny,
                };
                Ruling {
                    verdict,
                    is_of_rule: false,
                    rule: "default".to_owned(),
                    from: self.default.from.to_string(),
                }
            })
    }
}

impl Ruling {
    /// What becomes of it where nobody can be asked: a question is a denial.
    pub fn unasked(self) -> Self {
        match self.verdict {
            Ruled::Allow | Ruled::Deny => self,
            Ruled::Ask => Ruling { verdict: Ruled::Deny, ..self },
        }
    }
}

/// On one line: `deny: { path = ".git" } (/home/me/.config/aifo/config.toml:3)`.
impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ruling { verdict, rule, from, .. } = self;
        write!(f, "{}: {rule} ({from})", verdict.as_str())
    }
}

impl Ruled {
    /// The word for it, as configuration and logs spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Ruled::Allow => "allow",
            Ruled::Deny => "deny",
            Ruled::Ask => "ask",
        }
    }
}

impl Fallback {
    /// What `default` means in a file.
    pub fn parse(word: &str) -> Option<Self> {
        [Fallback::Ask, Fallback::Deny].into_iter().find(|known| known.as_str() == word)
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Fallback::Ask => "ask",
            Fallback::Deny => "deny",
        }
    }
}

fn first<S: fmt::Display>(
    rules: &[Stated<PermissionRule, S>],
    verdict: Ruled,
    holds: impl Fn(&PermissionRule) -> bool,
) -> Option<Ruling> {
    let Stated { what, from } = rules.iter().find(|stated| holds(&stated.what))?;
    Some(Ruling { verdict, is_of_rule: true, rule: what.to_string(), from: from.to_string() })
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
        default: Fallback,
    ) -> PermissionRules<&'static str> {
        let stated = |rules: &[PermissionRule]| {
            rules.iter().map(|rule| Stated { what: rule.clone(), from: "f:1" }).collect()
        };
        PermissionRules {
            deny: stated(deny),
            allow: stated(allow),
            ask: stated(ask),
            default: Stated { what: default, from: "built in" },
        }
    }

    /// A verdict, from `kind | command | paths`.
    fn judge(rules: &PermissionRules<&'static str>, call: &str) -> Ruled {
        let parts: Vec<&str> = call.split('|').map(str::trim).collect();
        let [kind, command, paths] = parts[..] else { panic!("{call}") };
        let paths: Vec<&str> = paths.split_whitespace().collect();
        let command = Some(command).filter(|command| !command.is_empty());
        let command = command.map(AskedCommand::of_text);
        let command = command.as_ref();
        let workspace = [PathBuf::from("/w"), PathBuf::from("/workspace")];
        let cwd = Path::new("/w");
        rules.judge(&Asked { kind, command, paths: &paths, workspace: &workspace, cwd }).verdict
    }

    #[test]
    fn the_ladder() {
        let everything = || vec![PermissionRule::all()];
        let none = Vec::new;
        let rows = [
            (everything(), everything(), everything(), Fallback::Ask, Ruled::Deny),
            (none(), everything(), everything(), Fallback::Deny, Ruled::Allow),
            (none(), none(), everything(), Fallback::Deny, Ruled::Ask),
            (none(), none(), none(), Fallback::Deny, Ruled::Deny),
            (none(), none(), none(), Fallback::Ask, Ruled::Ask),
        ];
        for (deny, allow, ask, default, expected) in rows {
            let rules = rules(&deny, &allow, &ask, default);
            assert_eq!(judge(&rules, "edit | | a"), expected, "{rules:?}");
        }
    }

    #[test]
    fn what_allows_covers_all_that_is_named() {
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
            let expected = if allowed { Ruled::Allow } else { Ruled::Deny };
            let rules = rules(&[], std::slice::from_ref(&rule), &[], Fallback::Deny);
            assert_eq!(judge(&rules, call), expected, "{rule}: {call}");
        }
    }

    #[test]
    fn what_denies_or_asks_needs_one_of_them() {
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
            let denying =
                rules(std::slice::from_ref(&rule), &[PermissionRule::all()], &[], Fallback::Ask);
            let expected = if held { Ruled::Deny } else { Ruled::Allow };
            assert_eq!(judge(&denying, call), expected, "{rule}: {call}");
            let asking = rules(&[], &[], std::slice::from_ref(&rule), Fallback::Deny);
            let expected = if held { Ruled::Ask } else { Ruled::Deny };
            assert_eq!(judge(&asking, call), expected, "{rule}: {call}");
        }
    }

    #[test]
    fn a_ruling_tells_its_rule_and_where_nobody_is_asked_it_is_a_denial() {
        let rules = rules(&[kind("delete")], &[command("make")], &[kind("edit")], Fallback::Ask);
        let told = |kind, command| {
            let command = Option::map(command, AskedCommand::of_text);
            let command = command.as_ref();
            let ruling = rules.judge(&Asked { kind, command, ..Asked::default() });
            (ruling.to_string(), ruling.unasked().to_string())
        };
        let same = |text: &str| (text.to_owned(), text.to_owned());
        assert_eq!(told("delete", None), same("deny: \"delete\" (f:1)"));
        assert_eq!(told("execute", Some("make")), same("allow: { command = \"make\" } (f:1)"));
        assert_eq!(
            told("edit", None),
            ("ask: \"edit\" (f:1)".into(), "deny: \"edit\" (f:1)".into())
        );
        assert_eq!(
            told("fetch", None),
            ("ask: default (built in)".into(), "deny: default (built in)".into())
        );
    }
}
