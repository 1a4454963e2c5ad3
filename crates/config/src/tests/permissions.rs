//! `[permissions]`.

use std::path::Path;

use aifo_policy::{AccessRequest, CallCommand};

use super::{flags, of_files as config};
use crate::Config;

fn judge(config: &Config, kind: &str, command: Option<&str>, paths: &[&str]) -> String {
    let (workspace, cwd) = (["/w".into()], Path::new("/w"));
    let command = command.map(CallCommand::from_text);
    let command = command.as_ref();
    let request = AccessRequest { kind, command, paths, workspace: &workspace, cwd };
    config.permissions.judge(&request).to_string()
}

#[test]
fn decisions_name_their_source() {
    let user = "[permissions]\n\
                allow = ['read',\n  { command = 'cargo test' },\n  { kind = 'edit', path = 'src' }]\n\
                ask = ['execute']\n\
                deny = [{ path = '.git' }, 'delete']\n\
                default = 'deny'\n";
    let mut config = config(user, "[permissions]\ndeny = [{ path = 'secrets' }]").unwrap();
    config.apply_flags(&flags("--yes-to", &["fetch"])).unwrap();
    let rows = [
        ("read", None, "a", "allow: \"read\" (/u.toml:2)"),
        ("execute", Some("cargo test"), "", "allow: { command = \"cargo test\" } (/u.toml:3)"),
        ("edit", None, "src/a", "allow: { kind = \"edit\", path = \"src\" } (/u.toml:4)"),
        ("execute", Some("ls"), "", "ask: \"execute\" (/u.toml:5)"),
        ("read", None, ".git/config", "deny: { path = \".git\" } (/u.toml:6)"),
        ("delete", None, "a", "deny: \"delete\" (/u.toml:6)"),
        ("read", None, "secrets/a", "deny: { path = \"secrets\" } (/w/.aifo.toml:2)"),
        ("fetch", None, "", "allow: \"fetch\" (--yes-to)"),
        ("edit", None, "a", "deny: default (/u.toml:7)"),
    ];
    for (kind, command, path, expected) in rows {
        let paths: Vec<&str> = path.split_whitespace().collect();
        assert_eq!(judge(&config, kind, command, &paths), expected);
    }
    let silent = Config::builtin();
    assert_eq!(judge(&silent, "read", None, &[]), "ask: default (built in)");
}

#[test]
fn invalid_rules() {
    let rows = [
        (
            "allow = ['reed']",
            "/u.toml:2: there is no kind of tool call 'reed'\nhint: did you mean 'read'?",
        ),
        ("deny = ['brand_new']", "hint: known kinds: read, edit, delete, move, search, execute, "),
        (
            "allow = [{ comand = 'x' }]",
            "/u.toml:2: there is no key 'comand'\nhint: did you mean 'command'?",
        ),
        ("allow = [\n  'read',\n  {},\n]", "/u.toml:4: a rule needs a kind, a command or a path\n"),
        ("deny = [{ command = ' ' }]", "/u.toml:2: the rule's command is empty\nhint: "),
        (
            "deny = [{ command = 'cd x && make' }]",
            "/u.toml:2: 'cd x && make' is not a single command\nhint: use one program with its",
        ),
        ("allow = [{ command = 'rm $X' }]", "/u.toml:2: 'rm $X' is not a single command\nhint: "),
        ("deny = [{ path = '' }]", "/u.toml:2: the rule's path is empty\nhint: "),
        ("deny = [{ path = '~/.ssh' }]", "/u.toml:2: invalid path '~/.ssh': expected one that"),
        (
            "allow = [{ kind = 'execute', path = 'src' }]",
            "/u.toml:2: a path alone cannot allow calls of kind 'execute'\nhint: ",
        ),
        (
            "allow = [7]",
            "/u.toml:2: expected a kind of tool call, or a table with a kind, a command or a path, \
             found integer `7`",
        ),
        ("allow = 'read'", "/u.toml:2: expected a list, found string"),
        (
            "default = 'allow'",
            "/u.toml:2: invalid value 'allow' for permissions.default: expected ask or deny",
        ),
    ];
    for (text, expected) in rows {
        let error = config(&format!("[permissions]\n{text}"), "").unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let new_kind = config("[permissions]\nallow = [{ kind = 'brand_new' }]", "").unwrap();
    assert!(judge(&new_kind, "brand_new", None, &[]).starts_with("allow: "));
}

#[test]
fn a_workspace_can_only_restrict() {
    let denied = config("[permissions]\nallow = ['all']", "[permissions]\ndeny = ['all']");
    assert!(judge(&denied.unwrap(), "read", None, &[]).starts_with("deny: \"all\""));
    let default = config("", "[permissions]\ndefault = 'deny'").unwrap();
    assert_eq!(judge(&default, "read", None, &[]), "deny: default (/w/.aifo.toml:2)");
    for text in ["allow = ['read']", "ask = ['read']", "default = 'ask'"] {
        let error = config("", &format!("[permissions]\n{text}")).unwrap_err();
        assert!(error.starts_with("/w/.aifo.toml:2: [permissions] "), "{text}: {error}");
        assert!(error.contains("a workspace's file may not do"), "{text}: {error}");
    }
}
