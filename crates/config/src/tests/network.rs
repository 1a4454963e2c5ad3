//! `[net]` and `--allow-net`.
//!
//! Proves `spec/network.md#writers`.

use aifo_egress::NetRules;
use aifo_network::NetworkRules;

use super::{flags, of_files, of_user};
use crate::Config;

fn list(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The rules of a session, without those of the settings of this machine's user.
fn rules(config: &Config) -> NetworkRules {
    let mut rules = match config.net_defaults.value {
        true => NetworkRules::default_of(&config.toolchains.value.kinds()),
        false => NetworkRules::default(),
    };
    config.names.add_to(&mut rules);
    rules
}

#[test]
fn a_flag_adds_to_the_files_rules_and_the_workspace_takes_away() {
    let user = "[net]\nallow = [\"a.example\", \"b.example:22\"]\ndeny = [\"d.example\"]\n\
                defaults = false";
    let workspace = "[net]\ndeny = [\"b.example\"]";
    let mut config = of_files(user, workspace).unwrap();
    config.apply_flags(&flags("--allow-net", &["c.example"])).unwrap();
    let allowed = NetRules::parse(&list(&["a.example", "b.example:22", "c.example"])).unwrap();
    let expected = allowed.take_away(&list(&["d.example", "b.example"])).unwrap();
    assert_eq!(rules(&config).of_all(), expected);
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
fn rules_are_for_all_for_a_kind_or_for_the_agent() {
    let user = "toolchains = [\"rust\", \"c-cpp\"]\n\
                [net]\nallow = [\"all.example\"]\n\
                [net.kind.rust]\nallow = [\"rust.example\"]\n\
                [net.agent]\nallow = [\"agent.example\"]";
    let mut config = of_user(user).unwrap();
    let words = ["c++=cpp.example:443", "agent=more.example", "x.example address=10.0.0.1"];
    config.apply_flags(&flags("--allow-net", &words)).unwrap();
    let rules = rules(&config);
    let printed: Vec<_> = rules.iter().map(ToString::to_string).collect();
    let expected = [
        "@forges",
        "@rust (rust)",
        "@agent-model (agent)",
        "all.example (/u.toml:3)",
        "rust.example (rust, /u.toml:5)",
        "agent.example (agent, /u.toml:7)",
        "cpp.example:443 (c-cpp, --allow-net)",
        "more.example (agent, --allow-net)",
        "x.example address=10.0.0.1 (--allow-net)",
    ];
    assert_eq!(printed, expected);
    let shown: Vec<_> = config.entries().iter().map(|entry| entry.key.clone()).collect();
    for key in ["net.allow", "net.kind.rust.allow", "net.kind.c-cpp.allow", "net.agent.allow"] {
        assert!(shown.iter().any(|it| it == key), "{key}: {shown:?}");
    }
    let error = config.apply_flags(&flags("--allow-net", &["rsut=a.example"])).unwrap_err();
    assert!(error.to_string().contains("did you mean 'rust'?"), "{error}");
    let error = of_user("[net.kind.rsut]\nallow = [\"a.example\"]").unwrap_err();
    assert!(error.contains("did you mean 'rust'?"), "{error}");
}

#[test]
fn a_workspace_may_only_turn_the_default_rules_off() {
    let config = of_files("", "[net]\ndefaults = false").unwrap();
    assert_eq!(rules(&config).iter().count(), 0);
    let error = of_files("", "[net]\ndefaults = true").unwrap_err();
    assert!(error.contains("[net] defaults = true allows names"), "{error}");
    for table in ["[net.agent]", "[net.kind.rust]"] {
        let error = of_files("", &format!("{table}\nallow = [\"a.example\"]")).unwrap_err();
        assert!(error.contains("allow allows names, which a workspace's file"), "{error}");
    }
}

#[test]
fn addresses_are_subnets_of_the_user() {
    let config = of_user("[net]\naddresses = [\"198.18.0.0/15\", \"100.64.0.0/10\"]").unwrap();
    let shown: Vec<String> = config.net_addresses.value.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["198.18.0.0/15", "100.64.0.0/10"]);
    let error = of_user("[net]\naddresses = [\"198.18.0.1\"]").unwrap_err().to_string();
    assert!(error.contains("invalid subnet '198.18.0.1'"), "{error}");
    let error = of_files("", "[net]\naddresses = [\"198.18.0.0/15\"]").unwrap_err().to_string();
    assert!(error.contains("permits addresses"), "{error}");
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

#[test]
fn an_agents_row_has_hosts() {
    let user = "[agents.mine]\nhosts.model = [\"api.mine.example:443\"]\n\
                hosts.update = [\"@node\"]\n\
                [net.agent]\nallow = [\"@agent-update\", \"@agent-telemetry\"]";
    let config = of_user(user).unwrap();
    let hosts = &config.agents.named("mine").unwrap().hosts;
    assert_eq!(hosts.model, ["api.mine.example:443"]);
    let mut rules = rules(&config);
    rules.set_agent(hosts).unwrap();
    let reached = |name: &str| rules.of_agent().iter().any(|rule| rule.to_string() == name);
    assert!(reached("api.mine.example:443") && reached("registry.npmjs.org:443"));
    let error = of_user("[agents.mine]\nhosts.model = [\"https://x.example/\"]").unwrap_err();
    assert!(error.starts_with("/u.toml:2: network rule 'https://x.example/' is a URL"), "{error}");
}

#[test]
fn a_network_to_join_is_the_users_choice() {
    let config = of_user("[net]\njoin = \"shop_default\"").unwrap();
    assert_eq!(config.join.value.as_deref(), Some("shop_default"));
    for name in ["", "host", "none", "container:x", "-x", "a b"] {
        let error = of_user(&format!("[net]\njoin = \"{name}\"")).unwrap_err().to_string();
        assert!(error.contains(&format!("invalid network '{name}'\nhint: ")), "{error}");
    }
    let error = of_files("", "[net]\njoin = \"shop_default\"").unwrap_err().to_string();
    assert!(error.contains("joins a network of the engine"), "{error}");
}
