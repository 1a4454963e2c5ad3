//! `[net]` and `--allow-net`.

use aifo_launch::NetRules;

use super::{flags, of_files, of_user};
use crate::config::Config;

fn list(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_flag_adds_to_the_files_rules_and_the_workspace_takes_away() {
    let user = "[net]\nallow = [\"a.example\", \"b.example:22\"]\ndeny = [\"d.example\"]";
    let workspace = "[net]\ndeny = [\"b.example\"]";
    let mut config = of_files(user, workspace).unwrap();
    config.apply_flags(&flags("--allow-net", &["c.example"])).unwrap();
    let allowed = NetRules::parse(&list(&["a.example", "b.example:22", "c.example"])).unwrap();
    let expected = allowed.take_away(&list(&["b.example", "d.example"])).unwrap();
    assert_eq!(config.names.rules().unwrap(), expected);
    let entries = config.entries();
    let shown = entries.iter().filter(|entry| ["net.allow", "net.deny"].contains(&&*entry.key));
    let shown: Vec<_> = shown.map(|it| format!("{} {} {}", it.key, it.value, it.from)).collect();
    let expected = [
        "net.allow [\"a.example\",\"b.example:22\"] /u.toml:2",
        "net.allow [\"c.example\"] --allow-net",
        "net.deny [\"d.example\"] /u.toml:3",
        "net.deny [\"b.example\"] /w/.aifo.toml:2",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn invalid_rules_have_the_place_and_a_hint() {
    let error = of_user("[net]\nallow = [\"a.example\", \"*\"]").unwrap_err();
    let expected = "/u.toml:2: invalid wildcard in network rule '*'";
    assert!(error.starts_with(expected) && error.contains("\nhint: "), "{error}");
    let mut config = Config::builtin();
    let flag = config.apply_flags(&flags("--allow-net", &["10.0.0.1"])).unwrap_err();
    assert!(flag.to_string().starts_with("--allow-net: invalid name"), "{flag}");
    let config = of_user("[net]\nhost_ports = [5432, 11434, 5432]").unwrap();
    assert_eq!(config.host_ports.value, [5432, 11434]);
    for port in ["0", "53", "65536", "-1"] {
        let error = of_user(&format!("[net]\nhost_ports = [{port}]")).unwrap_err();
        assert!(error.starts_with(&format!("/u.toml:2: invalid port '{port}'")), "{error}");
    }
    let error = of_files("", "[net]\nhost_ports = [22]").unwrap_err();
    assert!(error.contains("opens ports of this machine"), "{error}");
    let error = of_files("", "[net]\ndeny = [\"a.example raw\"]").unwrap_err();
    assert!(error.starts_with("/w/.aifo.toml:2: option 'raw'"), "{error}");
    let error = of_files("", "[net]\nallow = [\"a.example\"]").unwrap_err();
    assert!(error.contains("[net] allow allows names, which a workspace's file"), "{error}");
}
