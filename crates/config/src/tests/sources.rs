//! The environment and flags.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use aifo_types::{Endpoint, env};

use super::{flags, of_user};
use crate::{Config, Flags, Source};

fn config(variables: &[(&str, &str)]) -> Result<Config, String> {
    of_environment(Config::builtin(), variables)
}

fn of_environment(mut config: Config, variables: &[(&str, &str)]) -> Result<Config, String> {
    let variables: HashMap<_, _> = variables.iter().copied().collect();
    let applied = config.apply_environment(&|name| variables.get(name).map(OsString::from));
    applied.map(|()| config).map_err(|error| error.to_string())
}

#[test]
fn numbers() {
    let newer = config(&[(env::MAX_SECS, "5"), (env::TIMEOUT_SECS, "7")]).unwrap();
    assert_eq!(newer.max_secs.value, Some(5));
    assert_eq!(newer.max_secs.source, Source::Environment(env::MAX_SECS.into()));
    let older = config(&[(env::MAX_SECS, ""), (env::TIMEOUT_SECS, "7")]).unwrap();
    assert_eq!(older.max_secs.value, Some(7));
    assert_eq!(config(&[(env::MAX_SECS, "0")]).unwrap().max_secs.value, None);
    let error = config(&[(env::MAX_SECS, "5m")]).unwrap_err();
    assert_eq!(error, "AIFO_TOOLEEXEC_MAX_SECS: invalid value '5m': expected a whole number");
    assert!(config(&[(env::MAX_CONNECTIONS, "0")]).is_err());
}

#[test]
fn listening() {
    let listen = |variables: &[_]| config(variables).unwrap().listen.value;
    assert_eq!(listen(&[(env::BIND_HOST, "0.0.0.0")]), None);
    assert_eq!(listen(&[(env::USE_UNIX, "1")]), None);
    let tcp =
        |host: &str| Some(Endpoint::Tcp { host: host.to_owned(), port: 0, prefix: String::new() });
    assert_eq!(listen(&[(env::USE_UNIX, "0")]), tcp("127.0.0.1"));
    assert_eq!(listen(&[(env::USE_UNIX, "0"), (env::BIND_HOST, "::1")]), tcp("::1"));
}

#[test]
fn smart_switches_as_a_shim_reads_them() {
    let smart = |variables: &[_]| {
        let smart = config(variables).unwrap().smart_for(Some("codex"));
        (smart.node, smart.python)
    };
    assert_eq!(smart(&[]), (true, false), "the table");
    assert_eq!(
        smart(&[(env::SMART_PYTHON, "1")]),
        (true, false),
        "ignored without the main switch"
    );
    assert_eq!(smart(&[(env::SMART, "1")]), (false, false));
    assert_eq!(smart(&[(env::SMART, "1"), (env::SMART_PYTHON, "on")]), (false, true));
    assert_eq!(smart(&[(env::SMART, "0"), (env::SMART_NODE, "1")]), (false, false));
}

#[test]
fn notifications() {
    let variables = [
        (env::NOTIFY_ALLOWLIST, "say, notify-send,"),
        (env::NOTIFY_SAFE_DIRS, "/usr/bin,/opt/bin"),
        (env::NOTIFY_TRIM_ENV, "yes"),
        (env::NOTIFY_TIMEOUT_SECS, "3"),
    ];
    let rules = config(&variables).unwrap().notify_rules();
    assert_eq!(rules.allowlist, ["say", "notify-send"]);
    assert_eq!(rules.safe_dirs, [PathBuf::from("/usr/bin"), PathBuf::from("/opt/bin")]);
    assert_eq!(rules.kept_variables().map(|names| names.len()), Some(4));
    assert_eq!(rules.timeout.map(|timeout| timeout.as_secs()), Some(3));
}

fn attached(attach: &[&str], images: &[&str]) -> Result<Config, String> {
    let given = Flags::default().and(&flags("--attach", attach));
    let given = given.and(&flags("--toolchain-image", images));
    let mut config = Config::builtin();
    config.apply_flags(&given).map_err(|error| error.to_string())?;
    config.add_attached_kinds();
    Ok(config)
}

#[test]
fn attached_kinds_are_added_to_the_session() {
    let config = attached(&["devbox=rust", "web=ts", "devbox=c++"], &["go=golang:1"]).unwrap();
    let found = config.kinds.attached.iter();
    let attached: Vec<_> = found.map(|(kind, name)| (kind.as_str(), name.value.as_str())).collect();
    assert_eq!(attached, [("c-cpp", "devbox"), ("node", "web"), ("rust", "devbox")]);
    assert_eq!(config.toolchains.value.list.len(), 3);
}

#[test]
fn invalid_attachments() {
    let rows: [(&[&str], &[&str], &str); 5] = [
        (&["devbox"], &[], "--attach: missing kind in 'devbox'\nhint: use NAME=KIND"),
        (&["devbox=rsut"], &[], "did you mean 'rust'?"),
        (&["-v=rust"], &[], "invalid container '-v'"),
        (&["a=rust", "b=rust"], &[], "rust is already attached to 'a'"),
        (&["a=rust"], &["rust=rust:1"], "rust has both --attach and --toolchain-image\nhint: "),
    ];
    for (attach, images, expected) in rows {
        let error = attached(attach, images).unwrap_err();
        assert!(error.contains(expected), "{attach:?}: {error}");
    }
}

fn registries(file: &str, forward: &str) -> Result<Vec<(String, String)>, String> {
    let config = of_environment(of_user(file)?, &[(env::SSH_FORWARD, forward)])?;
    Ok(config.admit.iter().map(|it| (it.value.to_string(), it.source.to_string())).collect())
}

#[test]
fn only_listed_items_are_admitted() {
    let row = |name: &str, from: &str| (name.to_owned(), from.to_owned());
    assert_eq!(registries("", ""), Ok(Vec::new()));
    let named = "[containers]\nadmit = ['npmrc', 'ssh-agent', 'npmrc']";
    let from = "/u.toml:2";
    assert_eq!(registries(named, ""), Ok(vec![row("npmrc", from), row("ssh-agent", from)]));
    assert_eq!(registries(named, "0"), Ok(vec![row("npmrc", from)]));
    assert_eq!(registries("", "on"), Ok(vec![row("ssh-agent", env::SSH_FORWARD)]));
}

#[test]
fn unknown_items_are_rejected() {
    let error = |text: &str| registries(&format!("[containers]\n{text}"), "").unwrap_err();
    let near = error("admit = ['npmrcs']");
    assert!(near.starts_with("/u.toml:2: invalid value 'npmrcs' for containers.admit"), "{near}");
    assert!(near.ends_with("hint: did you mean 'npmrc'?"), "{near}");
    let far = error("admit = ['everything']");
    assert!(
        far.ends_with("expected npmrc, pip, cargo, ca-bundle, ssh-agent or proxy-login"),
        "{far}"
    );
    assert!(error("ca_bundle = 'ca.pem'").contains("is not an absolute path"));
}
