//! One permission rule, and when it matches.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::command::RuleCommand;
use super::request::AccessRequest;
use crate::directory::normalise;

/// The kinds of tool calls in ACP. An agent may send other kinds.
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

/// The conditions of a rule, all of which must hold. Without conditions it matches every call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionRule {
    /// The kind of the call.
    pub kind: Option<String>,
    /// A program with its arguments.
    pub command: Option<RuleCommand>,
    /// A file, or a directory and all below it: absolute, or relative to the workspace.
    pub path: Option<String>,
}

/// Why a rule is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidRule {
    /// It has no condition; a rule for every call is written as `all`.
    Empty,
    /// The condition of this key is empty.
    EmptyText(&'static str),
    /// The path starts with `~` or contains a NUL.
    InvalidPath(String),
    /// It allows calls by path whose kind is not about files.
    NotFileKind(String),
    /// Its command is not one program with its arguments, or it allows a command that a shell would
    /// expand.
    NotSingleCommand(String),
}

/// Matches every call.
const ALL: &str = "all";

impl PermissionRule {
    /// Returns the rule that matches every call.
    pub fn all() -> Self {
        PermissionRule::default()
    }

    /// Returns the words that are rules: the kinds of ACP, and `all`.
    pub fn keywords() -> impl Iterator<Item = &'static str> {
        TOOL_KINDS.into_iter().chain([ALL])
    }

    /// Returns the rule of one of the [`keywords`](Self::keywords).
    pub fn from_keyword(word: &str) -> Option<Self> {
        if word == ALL {
            return Some(PermissionRule::all());
        }
        let kind = TOOL_KINDS.iter().find(|kind| **kind == word)?;
        Some(PermissionRule { kind: Some((*kind).to_owned()), ..PermissionRule::default() })
    }

    /// Checks the conditions. Errors: there are none, or one of them can never hold.
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

    /// Checks a rule of the allow list; stricter than [`check`](Self::check).
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

    /// Returns whether the rule allows a call: it must cover the command and every path. A path
    /// rule covers kinds that are about files, but no command, whose paths do not limit what it
    /// does.
    pub(super) fn allows(&self, request: &AccessRequest<'_>) -> bool {
        let paths = self.path.as_ref().is_none_or(|rule| {
            let is_covered = self.command.is_some()
                || (request.command.is_none() && is_file_kind(request.kind()));
            is_covered
                && !request.paths.is_empty()
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

    /// Returns whether an allow rule covers calls that have a command; a kind such as `read` does
    /// not.
    pub fn covers_commands(&self) -> bool {
        let runs = |kind: &String| {
            !TOOL_KINDS.contains(&kind.as_str()) || ["execute", "other"].contains(&kind.as_str())
        };
        self.command.is_some() || self.kind.as_ref().is_none_or(runs)
    }

    /// Returns whether a deny or ask rule matches a call: any of its paths or commands suffices.
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

/// Formats the rule as TOML: `"read"`, or `{ kind = "edit", path = "src" }`.
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
                let pairs = conditions.into_iter().filter_map(|(key, text)| {
                    text.map(|text| format!("{key} = {}", toml_string(text)))
                });
                write!(f, "{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl fmt::Display for InvalidRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidRule::Empty => f.write_str("a rule needs a kind, a command or a path"),
            InvalidRule::EmptyText(key) => write!(f, "the rule's {key} is empty"),
            InvalidRule::InvalidPath(path) => {
                write!(
                    f,
                    "invalid path '{path}': expected one that is absolute or relative to the workspace"
                )
            }
            InvalidRule::NotFileKind(kind) => {
                write!(f, "a path alone cannot allow calls of kind '{kind}'")
            }
            InvalidRule::NotSingleCommand(text) => {
                write!(f, "'{}' is not a single command", text.escape_debug())
            }
        }
    }
}

impl std::error::Error for InvalidRule {}

/// Returns whether calls of this kind only affect the files that they name.
fn is_file_kind(kind: &str) -> bool {
    ["read", "edit", "delete", "move", "search"].contains(&kind)
}

/// Returns whether a call path is the rule's path or below it.
fn is_below(path: &str, rule: &str, request: &AccessRequest<'_>) -> bool {
    let Some(workspace) = request.workspace.first() else { return false };
    match (resolve(path, request.cwd, request), resolve(rule, workspace, request)) {
        (Some(path), Some(rule)) => path.starts_with(rule),
        _ => false,
    }
}

/// Makes a path absolute, with the workspace's first path as its prefix if it is in the workspace.
/// `None` for URLs and paths with `~`.
fn resolve(path: &str, base: &Path, request: &AccessRequest<'_>) -> Option<PathBuf> {
    if path.starts_with('~') || path.contains("://") {
        return None;
    }
    let path = normalised(&base.join(path))?;
    let mut roots = request.workspace.iter().filter_map(|name| normalised(name));
    let rest = roots.find_map(|name| path.strip_prefix(name).ok().map(Path::to_owned));
    match (rest, request.workspace.first()) {
        (Some(rest), Some(first)) => Some(normalised(first)?.join(rest)),
        _ => Some(path),
    }
}

/// Removes `.` and `..` from an absolute path.
fn normalised(path: &Path) -> Option<PathBuf> {
    let plain = normalise(path.as_os_str().as_bytes()).ok()?;
    Some(PathBuf::from(OsString::from_vec(plain)))
}

/// Quotes a text as a TOML string.
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
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let command = RuleCommand::parse(command);
        PermissionRule { kind: some(kind), command, path: some(path) }
    }

    #[test]
    fn rules_are_displayed_as_toml() {
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
    fn invalid_rules() {
        let spaces = PermissionRule { kind: Some(" ".into()), ..PermissionRule::all() };
        assert_eq!(PermissionRule::all().check(), Err(InvalidRule::Empty));
        assert_eq!(spaces.check(), Err(InvalidRule::EmptyText("kind")));
        let globbed = rule("", "rm *", "");
        assert_eq!(globbed.check(), Ok(()), "valid as a deny rule");
        assert_eq!(globbed.check_for_allow(), Err(InvalidRule::NotSingleCommand("rm *".into())));
        for path in ["~/x", "a\0b"] {
            assert_eq!(rule("", "", path).check(), Err(InvalidRule::InvalidPath(path.into())));
        }
        for kind in ["execute", "fetch", "brand_new"] {
            let of_paths = rule(kind, "", "src");
            assert_eq!(of_paths.check(), Ok(()), "valid as a deny rule");
            assert_eq!(of_paths.check_for_allow(), Err(InvalidRule::NotFileKind(kind.into())));
            assert_eq!(rule(kind, "make", "src").check_for_allow(), Ok(()));
        }
        assert_eq!(rule("edit", "", "src").check_for_allow(), Ok(()));
    }

    #[test]
    fn keywords() {
        assert_eq!(PermissionRule::from_keyword("all"), Some(PermissionRule::all()));
        assert_eq!(PermissionRule::from_keyword("edit"), Some(rule("edit", "", "")));
        assert_eq!(PermissionRule::from_keyword("Edit"), None);
    }

    #[test]
    fn paths_are_compared_lexically() {
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
        assert!(!is_below("/a", "/a", &nowhere), "no path matches without a workspace");
    }
}
