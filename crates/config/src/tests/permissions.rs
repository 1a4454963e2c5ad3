//! Rules on requests, and what stands in for `[permissions]`.

use std::path::Path;

use aifo_policy::{AccessRequest, RequestedCommand};

use super::{flags, of_files as config};
use crate::Config;

fn judge(config: &Config, kind: &str, command: Option<&str>, paths: &[&str]) -> String {
    let (workspace, cwd) = (["/w".into()], Path::new("/w"));
    let command = command.map(|text| RequestedCommand::Text(text.to_owned()));
    let command = command.as_ref();
    let request = AccessRequest { kind, command, paths, workspace: &workspace, cwd };
    config.argument_rules.judge(true).judge_request(&request).to_string()
}

#[test]
fn decisions_name_their_source() {
    let user = "[[rule]]\nkind = 'read'\nthen = 'allow'\n\
                [[rule]]\nkind = 'execute'\nrun = 'cargo test'\nthen = 'allow'\n\
                [[rule]]\nkind = 'execute'\nthen = 'ask'\nbecause = 'look first'\n\
                [[rule]]\npath = ['.git', '.github']\nthen = 'deny'\n\
                [[rule]]\nkind = '*'\nthen = 'deny'\n";
    let workspace = "[[rule]]\npath = 'secrets'\nthen = 'deny'\n";
    let mut config = config(user, workspace).unwrap();
    config.apply_flags(&flags("--yes-to", &["fetch", "all"])).unwrap();
    let rows = [
        ("read", None, "a", "allow: /u.toml:1"),
        ("execute", Some("cargo test --all"), "", "allow: /u.toml:4"),
        ("execute", Some("ls"), "", "ask: /u.toml:8: look first"),
        ("read", None, ".git/config", "deny: /u.toml:12"),
        ("read", None, "secrets/a", "deny: /w/.aifo.toml:1"),
        ("fetch", None, "", "allow: --yes-to"),
        ("edit", None, "a", "allow: --yes-to"),
    ];
    for (kind, command, path, expected) in rows {
        let paths: Vec<&str> = path.split_whitespace().collect();
        assert_eq!(judge(&config, kind, command, &paths), expected);
    }
    let silent = Config::builtin();
    assert_eq!(judge(&silent, "read", None, &[]), "ask: no rule");
}

#[test]
fn words_of_the_flag() {
    let error = Config::builtin().apply_flags(&flags("--yes-to", &["reed"])).unwrap_err();
    let expected = "--yes-to: there is no kind of request 'reed'\nhint: did you mean 'read'?";
    assert!(error.to_string().contains(expected), "{error}");
    let error = Config::builtin().apply_flags(&flags("--yes-to", &["brand_new"])).unwrap_err();
    assert!(error.to_string().contains("hint: known kinds: read, edit, "), "{error}");
}

#[test]
fn invalid_rules() {
    let rows = [
        ("kind = 7", "/u.toml:2: expected a word, or a list of words"),
        ("kid = 'read'", "/u.toml:2: there is no key 'kid'\nhint: did you mean 'kind'?"),
        ("path = '~/.ssh'", "/u.toml:1: invalid path '~/.ssh': expected one that"),
        (
            "path = 'src'\nthen = 'allow'",
            "/u.toml:1: a rule that allows by a path names its kinds\nhint: for example: kind",
        ),
        (
            "kind = 'execute'\npath = 'src'\nthen = 'allow'",
            "of kind 'execute'\nhint: name kinds of files, or add 'run'",
        ),
        (
            "kind = 'edit'\nnet = 'none'",
            "is about requests\nhint: write a rule with 'run' and 'net' alone",
        ),
        ("kind = 'edit'\nwith = ['-f']", "but no 'run'\nhint: add 'run', or remove the conditions"),
    ];
    for (text, expected) in rows {
        let then =
            if text.contains("then") || text.contains("net") { "" } else { "\nthen = 'deny'" };
        let error = config(&format!("[[rule]]\n{text}{then}"), "").unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_workspace_can_only_restrict() {
    let denied =
        config("[[rule]]\nkind = '*'\nthen = 'allow'", "[[rule]]\nkind = '*'\nthen = 'deny'");
    assert_eq!(judge(&denied.unwrap(), "read", None, &[]), "deny: /w/.aifo.toml:1");
    let asked =
        config("[[rule]]\nkind = '*'\nthen = 'deny'", "[[rule]]\nkind = 'read'\nthen = 'ask'");
    assert_eq!(judge(&asked.unwrap(), "read", None, &[]), "deny: /u.toml:1");
    let error = config("", "[[rule]]\nkind = 'read'\nthen = 'allow'").unwrap_err();
    assert!(error.contains("a workspace's file may not do"), "{error}");
}

/// The error for the old table has rules that hold.
#[test]
fn an_old_table_is_an_error_with_the_rules_to_write() {
    let old = "[permissions]\n\
               allow = ['read', { command = 'cargo test --all' }, { path = 'src' }]\n\
               ask = ['execute', { command = \"make 'a b'\" }]\n\
               deny = [{ path = '.git' }, 'delete', { command = 'rm -rf *' }]\n\
               default = 'deny'\n";
    let expected = r#"[[rule]]
path = ".git"
then = "deny"
[[rule]]
kind = "delete"
then = "deny"
[[rule]]
kind = "*"
run = ["rm"]
then = "deny"
[[rule]]
kind = "read"
then = "allow"
[[rule]]
kind = "*"
run = ["cargo", "test", "--all"]
exact = true
then = "allow"
[[rule]]
kind = ["read", "edit", "delete", "move", "search"]
path = "src"
then = "allow"
[[rule]]
kind = "execute"
then = "ask"
[[rule]]
kind = "*"
run = ["make", "a b"]
exact = true
then = "ask"
[[rule]]
kind = "*"
then = "deny""#;
    for (user, workspace, file) in [(old, "", "/u.toml"), ("", old, "/w/.aifo.toml")] {
        let error = config(user, workspace).unwrap_err();
        let said = format!(
            "{file}:1: there is no [permissions] any more: rules are about requests, too\n\
             hint: write instead, at the end of the file:\n\n"
        );
        assert_eq!(error.strip_prefix(&said), Some(expected), "{error}");
    }
    let config = config(expected, "").unwrap();
    let rows = [
        ("execute", Some("cargo test --all"), "allow: "),
        ("execute", Some("cargo test"), "ask: "),
        ("execute", Some("make 'a b'"), "ask: "),
        ("execute", Some("rm x"), "deny: "),
        ("edit", None, "deny: "),
    ];
    for (kind, command, expected) in rows {
        let judgement = judge(&config, kind, command, &[]);
        assert!(judgement.starts_with(expected), "{kind} {command:?}: {judgement}");
    }
    assert!(super::of_files("[permissions]", "").unwrap_err().ends_with("hint: remove it"));
}
