use std::time::Duration;

use super::*;

fn facts() -> Facts {
    Facts {
        engine: "docker",
        image: "aifo-agent-codex:latest".to_owned(),
        session: "codex-1".to_owned(),
        workspace: "/home/me/project".into(),
        access: WorkspaceAccess::ReadWrite,
        state: vec![".codex".into()],
        settings: Vec::new(),
        kinds: ["rust", "node"].map(|kind| Kind::parse(kind).unwrap()).to_vec(),
        has_on_demand: false,
        registries: Vec::new(),
        net: Net::Separate,
        net_source: None,
        rules: Vec::new(),
        attached: Vec::new(),
        host_ports: Vec::new(),
        join: None,
        variables: Vec::new(),
        proxied: Vec::new(),
        forges: None,
        admitted: Vec::new(),
        has_own_state: false,
        login: Some(".codex/auth.json".into()),
        is_logged_in: true,
        login_has_phantoms: false,
    }
}

#[test]
fn every_line_of_the_banner() {
    let expected = "\
agent:   codex-1, in a container of docker (aifo-agent-codex:latest); rust, node in sidecars
files:   /home/me/project, read and write; ~/.codex of your home, read and write
network: outbound access; its own localhost
secrets: none
";
    assert_eq!(facts().text(), expected);
}

#[test]
fn files_are_writable_only_if_they_are() {
    let files = |access, state: &[&str], settings: &[&str]| {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        Facts { access, state: paths(state), settings: paths(settings), ..facts() }.files()
    };
    let rows = [
        (WorkspaceAccess::ReadWrite, &[][..], &[][..], "read and write; nothing of your home"),
        (
            WorkspaceAccess::ReadOnly,
            &[".a"],
            &[],
            "read only, as its file system is; ~/.a of your home, read and write",
        ),
        (
            WorkspaceAccess::Foreign(0),
            &[".a", ".b"],
            &[".c"],
            "not writable: it belongs to uid 0; ~/.a, ~/.b of your home, read and write; ~/.c, read only",
        ),
        (WorkspaceAccess::ReadWrite, &[], &[".c"], "read and write; ~/.c of your home, read only"),
    ];
    for (access, state, settings, expected) in rows {
        let expected = format!("/home/me/project, {expected}");
        assert_eq!(files(access, state, settings), expected);
    }
}

#[test]
fn every_admission_but_certificates_is_a_secret() {
    let secrets = |variables: &[&str], admitted: &[Admission]| {
        let variables = variables.iter().map(|name| (*name).to_owned()).collect();
        Facts { variables, admitted: admitted.to_vec(), ..facts() }.secrets()
    };
    let agent = "your SSH agent, which signs for agent and tools";
    assert_eq!(secrets(&[], &[]), "none");
    assert_eq!(secrets(&["A_KEY", "B"], &[]), "A_KEY, B");
    assert_eq!(secrets(&[], &[Admission::SshAgent]), agent);
    assert_eq!(secrets(&["A_KEY"], &[Admission::SshAgent]), format!("A_KEY, {agent}"));
    let rows = [
        (Admission::ProxyLogin, "the logins of your proxies, for agent and tools"),
        (Admission::Npmrc, "npmrc for node tools"),
        (Admission::Cargo, "cargo's tokens for rust tools"),
        (Admission::CaBundle, "none"),
        // The session has no python.
        (Admission::Pip, "none"),
    ];
    for (admission, expected) in rows {
        assert_eq!(secrets(&[], &[admission]), expected);
    }
}

#[test]
fn tools_and_network_are_those_of_the_session() {
    let none = Facts { kinds: Vec::new(), ..facts() };
    assert_eq!(none.tools(), "no toolchain, so every sidecar tool is refused");
    let network = |net| Facts { net, ..facts() }.network();
    assert_eq!(network(Net::None), "none");
    let names = |count: u8| {
        let rules = (1..=count).map(|number| format!("{number}.example")).collect();
        let text = Facts { net: Net::Names, rules, ..facts() }.network();
        text.split("; ").next().unwrap().to_owned()
    };
    assert_eq!(names(0), "no name, as no rule allows one");
    assert_eq!(names(2), "only 1.example, 2.example");
    let with_port = Facts { net: Net::Names, host_ports: vec![11434], ..facts() }.network();
    assert!(with_port.ends_with("allows one, this machine's port 11434"), "{with_port}");
    let attached = Facts { net: Net::Names, attached: facts().kinds, ..facts() }.network();
    assert!(attached.ends_with("; rust, node tools have their container's"), "{attached}");
    let joined =
        Facts { net: Net::Names, join: Some("shop_default".to_owned()), ..facts() }.network();
    assert!(joined.ends_with("; tools have all of the engine's network shop_default"), "{joined}");
    let many = "only 1.example, 2.example, 3.example, 4.example and 5 more";
    assert_eq!(names(9), many);
    assert_eq!(network(Net::Shared), "outbound access; localhost is shared with the tools");
    assert_eq!(network(Net::Host), "this machine's own, including all local services");
    let net_source = Some("/w/.aifo.toml:2".to_owned());
    let restricted = Facts { net: Net::None, net_source, ..facts() };
    assert_eq!(restricted.network(), "none (/w/.aifo.toml:2)");
}

/// Each row of README's table of trust has a row with its tests in the coverage, which
/// `cargo xtask tidy` compares with the tests that exist.
#[test]
fn every_row_of_the_table_of_trust_is_tested() {
    let titles = |page: &str, heading: &str| -> Vec<String> {
        let section = page.split(heading).nth(1).expect(heading).split("\n## ").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| ")).skip(2);
        rows.map(|row| row.split('|').nth(1).unwrap().trim().to_owned()).collect()
    };
    let readme = include_str!("../../../../README.md");
    let stated = titles(readme, "\n## What is isolated, and what is not\n");
    let coverage = include_str!("../../../../spec/coverage.md");
    let tested = titles(coverage, "\n## The table of trust\n");
    assert_eq!(stated, tested);
    assert_eq!(stated.len(), 8, "{stated:?}");
}

#[test]
fn tool_calls_are_summarised() {
    let stats = |calls, failed| CallStats {
        calls,
        failed,
        tool_time: Duration::from_millis(1_940),
        ..CallStats::default()
    };
    let id = "5d0c3b7f9a21e846";
    assert_eq!(after(&stats(0, 0), id), [""; 0]);
    let one = "1 tool call, none failed, 1.9 s in tools; see 'aifo-coder log 5d0c3b7f'";
    assert_eq!(after(&stats(1, 0), id), [one]);
    assert!(after(&stats(40, 2), id)[0].starts_with("40 tool calls, 2 failed, "));
    let reasons = vec!["forbidden: tool 'ls'\nx".to_owned()];
    let refused = CallStats { refused: 1, reasons, ..stats(40, 2) };
    let [totals, why] = &after(&refused, id)[..] else { panic!("{refused:?}") };
    assert!(totals.starts_with("40 tool calls, 2 failed, 1 of them refused, "), "{totals}");
    assert_eq!(why, "refused: forbidden: tool 'ls'; x");
}

#[test]
fn a_state_of_its_own_is_named_with_its_login() {
    let facts = Facts { has_own_state: true, ..facts() };
    assert!(facts.files().contains("copies of ~/.codex for this project"), "{}", facts.files());
    assert_eq!(facts.secrets(), "the login in ~/.codex/auth.json");
    let facts = Facts { is_logged_in: false, ..facts };
    assert_eq!(facts.secrets(), "no login yet; a new one is copied to ~/.codex/auth.json");
    let facts = Facts { proxied: vec!["openai".to_owned()], ..facts };
    assert_eq!(facts.secrets(), "none; aifo adds the key of openai outside");
}

#[test]
fn missing_certificates_are_named() {
    let text = missing_certificates(&["SSL_CERT_FILE", "/usr/local/share/ca-certificates"]);
    assert!(text.contains("of SSL_CERT_FILE, /usr/local/share/ca-certificates; "), "{text}");
    assert!(text.contains("admit = [\"ca-bundle\"]"), "{text}");
}
