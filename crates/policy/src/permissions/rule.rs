//! One rule about what agents ask, and when it holds.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::command::RuleCommand;
use super::request::AccessRequest;
use crate::directory::normalise;

/// The kinds of tool calls that the protocol has. An agent may say any other word.
const TOOL_KINDS: [&str; 10] = [
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
];

/// What a rule is about. Of several conditions all have to hold; without any it is about everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionRule {
    /// The kind of the call.
    pub kind: Option<String>,
    /// A program with its arguments.
    pub command: Option<RuleCommand>,
    /// A file, or a folder and all beneath it: absolute, or relative to the workspace.
    pub path: Option<String>,
}

/// Why a rule cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidRule {
    /// It has no condition. What is about everything says so, with `all`.
    Empty,
    /// A condition is an empty text, by its key.
    EmptyText(&'static str),
    /// A path that begins with `~`, or holds a NUL.
    InvalidPath(String),
    /// It would allow, by a path alone, what is no matter of files: a call of this kind.
    NotFileKind(String),
    /// Its command is not one program with its arguments; or it would allow one of which a shell
    /// expands a word.
    NotSingleCommand(String),
}

/// The word for everything.
const ALL: &str = "all";

impl PermissionRule {
    /// A rule about everything.
    pub fn all() -> Self {
        PermissionRule::default()
    }

    /// The words that are a rule alone: the kinds that the protocol has, and `all`.
    pub fn keywords() -> impl Iterator<Item = &'static str> {
        TOOL_KINDS.into_iter().chain([ALL])
    }

    /// What one of the [`keywords`](Self::keywords) says.
    pub fn from_keyword(word: &str) -> Option<Self> {
        if word == ALL {
            return Some(PermissionRule::all());
        }
        let kind = TOOL_KINDS.iter().find(|kind| **kind == word)?;
        Some(PermissionRule { kind: Some((*kind).to_owned()), ..PermissionRule::default() })
    }

    /// Errors: it could never hold, or everything would.
    pub fn check(&self) -> Result<(), InvalidRule> {
        let conditions = [("kind", &self.kind), ("path", &self.path)];
        if self.command.is_none() && conditions.iter().all(|(_, text)| text.is_none()) {
            return Err(InvalidRule::Empty);
        }
        let empty =
            |text: &Option<String>| text.as_ref().is_some_and(|text| text.trim().is_empty());
        if let Some((key, _)) = conditions.into_iter().find(|(_, text)| empty(text)) {
            return Err(InvalidRule::EmptyText(key));
        }
        match &self.path {
            Some(path) if path.starts_with('~') || path.contains('\0') => {
                Err(InvalidRule::InvalidPath(path.clone()))
            }
            _ => Ok(()),
        }
    }

    /// As [`check`](Self::check), for a rule that is to allow.
    pub fn check_for_allow(&self) -> Result<(), InvalidRule> {
        self.check()?;
        match (&self.kind, &self.command, &self.path) {
            (_, Some(command), _) if !command.is_plain() => {
                Err(InvalidRule::NotSingleCommand(command.as_str().to_owned()))
            }
            (Some(kind), None, Some(_)) if !is_file_kind(kind) => {
                Err(InvalidRule::NotFileKind(kind.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Whether it lets the call pass: all that the call names has to be covered. A path covers what
    /// is done with files; what a command does is not told by the paths that come with it.
    pub(super) fn allows(&self, request: &AccessRequest<'_>) -> bool {
        let paths = self.path.as_ref().is_none_or(|rule| {
            let told = self.command.is_some()
                || (request.command.is_none() && is_file_kind(request.kind()));
            told && !request.paths.is_empty()
                && request.paths.iter().all(|path| is_below(path, rule, request))
        });
        let command = match (&self.command, request.command) {
            (Some(rule), Some(command)) => command.is(rule),
            (Some(_), None) => false,
            (None, Some(_)) => self.covers_commands(),
            (None, None) => true,
        };
        paths && command && self.matches_kind(request)
    }

    /// Whether it lets calls of its kind pass that have a command: a word such as `read` says that there
    /// is none.
    pub fn covers_commands(&self) -> bool {
        let runs = |kind: &String| {
            !TOOL_KINDS.contains(&kind.as_str()) || ["execute", "other"].contains(&kind.as_str())
        };
        self.command.is_some() || self.kind.as_ref().is_none_or(runs)
    }

    /// Whether it holds the call up: one path of several is enough, and one command of several.
    pub(super) fn applies(&self, request: &AccessRequest<'_>) -> bool {
        let any = |rule: &String| request.paths.iter().any(|path| is_below(path, rule, request));
        let runs = |rule| request.command.is_some_and(|command| command.runs(rule));
        self.path.as_ref().is_none_or(any)
            && self.matches_kind(request)
            && self.command.as_ref().is_none_or(runs)
    }

    fn matches_kind(&self, request: &AccessRequest<'_>) -> bool {
        self.kind.as_ref().is_none_or(|kind| kind == request.kind())
    }
}

/// As a configuration file spells it: `"read"`, or `{ kind = "edit", path = "src" }`.
impl fmt::Display for PermissionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kind, &self.command, &self.path) {
            (None, None, None) => f.write_str(&toml_string(ALL)),
            (Some(kind), None, None) if PermissionRule::from_keyword(kind).is_some() => {
                f.write_str(&toml_string(kind))
            }
            (kind, command, path) => {
                let command = command.as_ref().map(RuleCommand::as_str);
                let conditions =
                    [("kind", kind.as_deref()), ("command", command), ("path", path.as_deref())];
                let told = conditions.into_iter().filter_map(|(key, text)| {
                    text.map(|text| format!("{key} = {}", toml_string(text)))
                });
                write!(f, "{{ {} }}", told.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl fmt::Display for InvalidRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidRule::Empty => f.write_str("a rule has a kind, a command or a path"),
            InvalidRule::EmptyText(key) => write!(f, "the {key} of a rule is empty"),
            InvalidRule::InvalidPath(path) => {
                write!(f, "'{path}' is neither absolute nor relative to the workspace")
            }
            InvalidRule::NotFileKind(kind) => {
                write!(f, "what is done by '{kind}' is not told by its paths")
            }
            InvalidRule::NotSingleCommand(text) => {
                write!(f, "'{}' is not one command", text.escape_debug())
            }
        }
    }
}

impl std::error::Error for InvalidRule {}

/// Whether calls of this kind are about the files that they name, and nothing else.
fn is_file_kind(kind: &str) -> bool {
    ["read", "edit", "delete", "move", "search"].contains(&kind)
}

/// Whether a path of a call is the rule's, or beneath it, component by component.
fn is_below(path: &str, rule: &str, request: &AccessRequest<'_>) -> bool {
    let Some(workspace) = request.workspace.first() else { return false };
    match (resolve(path, request.cwd, request), resolve(rule, workspace, request)) {
        (Some(path), Some(rule)) => path.starts_with(rule),
        _ => false,
    }
}

/// Where a path leads by its spelling: relative ones from `base` on, and the workspace under the
/// first of its names. `None` for what only somebody else can read.
fn resolve(path: &str, base: &Path, request: &AccessRequest<'_>) -> Option<PathBuf> {
    if path.starts_with('~') || path.contains("://") {
        return None;
    }
    let path = normalised(&base.join(path))?;
    let mut names = request.workspace.iter().filter_map(|name| normalised(name));
    let rest = names.find_map(|name| path.strip_prefix(name).ok().map(Path::to_owned));
    match (rest, request.workspace.first()) {
        (Some(rest), Some(first)) => Some(normalised(first)?.join(rest)),
        _ => Some(path),
    }
}

/// An absolute path without `.` and `..`.
fn normalised(path: &Path) -> Option<PathBuf> {
    let plain = normalise(path.as_os_str().as_bytes()).ok()?;
    Some(PathBuf::from(OsString::from_vec(plain)))
}

/// A text as TOML has it.
fn toml_string(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            letter if letter.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(letter)));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(kind: &str, command: &str, path: &str) -> PermissionRule {
        let told = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let command = RuleCommand::parse(command);
        PermissionRule { kind: told(kind), command, path: told(path) }
    }

    #[test]
    fn a_rule_is_told_as_a_file_spells_it() {
        let rows = [
            (PermissionRule::all(), r#""all""#),
            (rule("read", "", ""), r#""read""#),
            (rule("brand_new", "", ""), r#"{ kind = "brand_new" }"#),
            (rule("edit", "", "src"), r#"{ kind = "edit", path = "src" }"#),
            (rule("", "echo \"a\\b\n\u{1b}\"", ""), r#"{ command = "echo \"a\\b\n\u001B\"" }"#),
        ];
        for (rule, expected) in rows {
            assert_eq!(rule.to_string(), expected);
        }
    }

    #[test]
    fn what_cannot_be_a_rule() {
        let spaces = PermissionRule { kind: Some(" ".into()), ..PermissionRule::all() };
        assert_eq!(PermissionRule::all().check(), Err(InvalidRule::Empty));
        assert_eq!(spaces.check(), Err(InvalidRule::EmptyText("kind")));
        let globbed = rule("", "rm *", "");
        assert_eq!(globbed.check(), Ok(()), "it may deny");
        assert_eq!(globbed.check_for_allow(), Err(InvalidRule::NotSingleCommand("rm *".into())));
        for path in ["~/x", "a\0b"] {
            assert_eq!(rule("", "", path).check(), Err(InvalidRule::InvalidPath(path.into())));
        }
        for kind in ["execute", "fetch", "brand_new"] {
            let of_paths = rule(kind, "", "src");
            assert_eq!(of_paths.check(), Ok(()), "it may deny");
            assert_eq!(of_paths.check_for_allow(), Err(InvalidRule::NotFileKind(kind.into())));
            assert_eq!(rule(kind, "make", "src").check_for_allow(), Ok(()));
        }
        assert_eq!(rule("edit", "", "src").check_for_allow(), Ok(()));
    }

    #[test]
    fn words() {
        assert_eq!(PermissionRule::from_keyword("all"), Some(PermissionRule::all()));
        assert_eq!(PermissionRule::from_keyword("edit"), Some(rule("edit", "", "")));
        assert_eq!(PermissionRule::from_keyword("Edit"), None);
    }

    #[test]
    fn paths_are_compared_as_they_are_spelled() {
        let workspace = [PathBuf::from("/home/me/p"), PathBuf::from("/workspace")];
        let cwd = Path::new("/workspace/sub");
        let rows = [
            ("/workspace/src/a.rs", "src", true),
            ("/home/me/p/src", "src", true),
            ("/home/me/p/src/a", "/workspace/src", true),
            ("/workspace/src", "/home/me/p/src/", true),
            ("a.rs", "sub", true),
            ("a.rs", "src", false),
            ("../src/a.rs", "./src", true),
            ("/workspace/src-evil/a", "src", false),
            ("/workspace/src/../.git/config", "src", false),
            ("/workspace/src/../.git/config", ".git", true),
            ("/workspace/../etc/passwd", ".", false),
            ("/workspace/../etc/passwd", "/etc", true),
            ("/workspace-evil", ".", false),
            ("/workspace", ".", true),
            ("/a", "/", true),
            ("~/p/src", ".", false),
            ("file:///home/me/p/src", ".", false),
            ("a\0b", ".", false),
        ];
        for (path, rule, expected) in rows {
            let request = AccessRequest { workspace: &workspace, cwd, ..AccessRequest::default() };
            assert_eq!(is_below(path, rule, &request), expected, "{path} {rule}");
        }
        let nowhere = AccessRequest { cwd, ..AccessRequest::default() };
        assert!(!is_below("/a", "/a", &nowhere), "without a workspace nothing is anywhere");
    }
}
