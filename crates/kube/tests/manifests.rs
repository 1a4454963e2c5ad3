//! Rendered manifests are those of Kubernetes' own types, and obey Pod Security *restricted*.

use std::collections::BTreeMap;
use std::net::IpAddr;

use aifo_kube::{
    AgentContainer, DnsServer, Keys, KindContainer, Limits, Network, Right, Role, SessionPod,
    Subject, Workspace,
};
use aifo_types::Kind;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicyPort,
};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role as RoleObject, RoleBinding};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn session() -> SessionPod {
    let kind = |name: &str, caches: &[&str]| KindContainer {
        kind: Kind::parse(name).unwrap(),
        image: format!("registry.example:5000/aifo-toolchain-{name}:latest"),
        variables: vec![("CC".to_owned(), "gcc $(HOME)".to_owned())],
        caches: caches.iter().map(|cache| (*cache).to_owned()).collect(),
    };
    SessionPod {
        session: "0000000000000001".to_owned(),
        namespace: Some("team".to_owned()),
        launcher_image: "aifo-launcher:latest".to_owned(),
        arguments: ["run", "--backend", "pod", "codex", "a: \"b\"\n$(X)"]
            .map(str::to_owned)
            .to_vec(),
        settings: "\"env\" = { \"set\" = { \"A\" = \"$(B)\" } }\n".to_owned(),
        client: " --backend kubernetes --namespace team".to_owned(),
        agent_variables: vec![("AIFO_ENV_MODEL".to_owned(), "large".to_owned())],
        terminal: true,
        agent: AgentContainer {
            name: "codex".to_owned(),
            image: "aifo-agent-codex:latest".to_owned(),
            variables: vec![("SHELL".to_owned(), "/bin/bash".to_owned())],
            git: vec![("user.name".to_owned(), "Jo \"J\" $(X)".to_owned())],
        },
        kinds: vec![kind("rust", &[]), kind("go", &["/var/cache/aifo/go"])],
        workspace: Workspace::Git {
            url: "https://git.example/p.git".to_owned(),
            reference: Some("main".to_owned()),
            secret: Some("git-login".to_owned()),
            is_pushed: false,
        },
        serves_files: false,
        keys: Some(Keys {
            secret: "aifo-keys".to_owned(),
            variables: vec!["OPENAI_API_KEY".to_owned()],
        }),
        pull_secrets: vec!["registry".to_owned()],
        restrictions: vec!["io-uring".to_owned(), "set-id".to_owned()],
        limits: Limits { memory: Some(1 << 30), milli_cpus: Some(1500) },
        deadline_secs: Some(3600),
        user: 1000,
        further_tools: vec!["javac".to_owned()],
        in_place: vec!["git".to_owned()],
        network: Network::Ports(vec![22, 443]),
        dns: Vec::new(),
        api_server: Vec::new(),
        warnings: vec!["two\nlines".to_owned()],
    }
}

/// Returns the documents of a manifest.
fn documents(text: &str) -> Vec<Value> {
    let documents = serde_yaml::Deserializer::from_str(text);
    documents.map(|one| Value::deserialize(one).expect(text)).filter(|one| !one.is_null()).collect()
}

/// Parses a document by a type, and checks that the type has all of its fields.
fn typed<T: DeserializeOwned + Serialize>(document: &Value) -> T {
    let typed: T = serde_json::from_value(document.clone()).unwrap();
    let printed = serde_json::to_value(&typed).unwrap();
    assert_eq!(without_empty(&printed), without_empty(document), "a field is lost");
    typed
}

/// Removes empty lists, which the types leave out, but not empty objects.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept =
                fields.iter().filter(|(_, value)| value.as_array().is_none_or(|it| !it.is_empty()));
            Value::Object(kept.map(|(name, value)| (name.clone(), without_empty(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_empty).collect()),
        other => other.clone(),
    }
}

fn rendered(session: &SessionPod) -> (NetworkPolicy, Pod) {
    let documents = documents(&session.render().unwrap());
    let [policy, pod] = documents.as_slice() else { panic!("{documents:?}") };
    (typed(policy), typed(pod))
}

fn all_containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

/// Sessions that together use every field.
fn sessions() -> Vec<SessionPod> {
    let claim = Workspace::Claim("project".to_owned());
    let anonymous = Workspace::Git {
        url: "https://git.example/p.git".to_owned(),
        reference: None,
        secret: None,
        is_pushed: true,
    };
    let open = SessionPod { workspace: anonymous, network: Network::Open, ..session() };
    let none = SessionPod {
        workspace: claim,
        network: Network::None,
        namespace: None,
        terminal: false,
        keys: None,
        pull_secrets: Vec::new(),
        restrictions: Vec::new(),
        limits: Limits::default(),
        deadline_secs: None,
        kinds: Vec::new(),
        ..session()
    };
    let upload = SessionPod { workspace: Workspace::Upload, ..session() };
    vec![session(), open, none, upload]
}

#[test]
fn only_the_container_of_an_upload_writes_the_workspace_before_the_agent() {
    let (_, pod) = rendered(&SessionPod { workspace: Workspace::Upload, ..session() });
    let spec = pod.spec.unwrap();
    let inits = spec.init_containers.unwrap();
    let names: Vec<_> = inits.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["install", "upload"]);
    let upload = &inits[1];
    let command = ["/usr/local/bin/aifo-coder", "_workspace", "wait"].map(str::to_owned);
    assert_eq!(upload.command.as_deref(), Some(&command[..]));
    let mounts = |container: &Container| -> Vec<_> {
        let mounts = container.volume_mounts.iter().flatten();
        mounts.map(|it| (it.mount_path.clone(), it.read_only.unwrap_or_default())).collect()
    };
    assert_eq!(mounts(upload), [("/workspace".to_owned(), false), ("/tmp".to_owned(), false)]);
    assert!(mounts(&spec.containers[0]).contains(&("/workspace".to_owned(), true)));
    for container in all_containers(&rendered(&session()).1.spec.unwrap()) {
        let has = container.env.iter().flatten().any(|it| it.name == "AIFO_POD_UPLOAD");
        assert!(!has, "{} would wait for a fetch", container.name);
    }
    let launcher = spec.containers[0].env.iter().flatten();
    assert_eq!(launcher.filter(|it| it.name == "AIFO_POD_UPLOAD").count(), 1);
}

#[test]
fn git_accepts_the_root_of_a_volume_in_every_container_that_runs_it() {
    let (_, pod) = rendered(&session());
    for container in all_containers(&pod.spec.unwrap()) {
        let value = |name: &str| {
            let found = container.env.iter().flatten().find(|it| it.name == name)?;
            found.value.clone()
        };
        let expected = !["install", "clone", "aifo"].contains(&container.name.as_str());
        assert_eq!(value("GIT_CONFIG_KEY_0").is_some(), expected, "{}", container.name);
        assert_eq!(value("GIT_CONFIG_VALUE_0").is_some_and(|it| it == "/workspace"), expected);
        // Only the agent commits in the user's name.
        let is_agent = container.name == "agent";
        assert_eq!(value("GIT_CONFIG_KEY_1").is_some_and(|it| it == "user.name"), is_agent);
        let count = expected.then_some(if is_agent { "2" } else { "1" });
        assert_eq!(value("GIT_CONFIG_COUNT").as_deref(), count, "{}", container.name);
    }
}

#[test]
fn manifests_survive_a_round_trip_through_the_types_of_kubernetes() {
    for session in sessions() {
        let (policy, pod) = rendered(&session);
        assert_eq!(policy.metadata.name, pod.metadata.name);
        for container in all_containers(pod.spec.as_ref().unwrap()) {
            assert_eq!(container.image_pull_policy.as_deref(), Some("IfNotPresent"));
        }
        assert_eq!(policy.metadata.namespace, session.namespace);
        assert_eq!(pod.spec.unwrap().active_deadline_seconds, session.deadline_secs.map(|_| 3600));
    }
    let subjects = [
        Subject::User("me".to_owned()),
        Subject::Group("us".to_owned()),
        Subject::ServiceAccount("it".to_owned()),
    ];
    for subject in subjects {
        let role = Role { namespace: "team".to_owned(), subject };
        let documents = documents(&role.render());
        let [role, binding] = documents.as_slice() else { panic!("{documents:?}") };
        let (role, binding): (RoleObject, RoleBinding) = (typed(role), typed(binding));
        assert_eq!(role.metadata.name, Some(binding.role_ref.name));
        let all = |values: &Option<Vec<String>>| values.iter().flatten().any(|one| one == "*");
        for rule in role.rules.iter().flatten() {
            assert!(!rule.verbs.iter().any(|verb| verb == "*"), "{rule:?}");
            assert!(!all(&rule.resources) && !all(&rule.api_groups), "{rule:?}");
        }
        let has =
            |list: &Option<Vec<String>>, word: &str| list.iter().flatten().any(|it| it == word);
        let grants = |right: &Right| {
            role.rules.iter().flatten().any(|rule| {
                has(&rule.api_groups, right.group)
                    && has(&rule.resources, right.resource)
                    && rule.verbs.iter().any(|verb| verb == right.verb)
            })
        };
        assert!(Role::rights().all(|right| grants(&right)));
        let count = |rule: &PolicyRule| rule.verbs.len() * rule.resources.as_ref().unwrap().len();
        let granted: usize = role.rules.iter().flatten().map(count).sum();
        assert_eq!(Role::rights().count(), granted, "each right of the role");
    }
}

#[test]
fn a_pod_is_restricted_rule_by_rule() {
    for session in sessions() {
        let spec = rendered(&session).1.spec.unwrap();
        for flag in [spec.host_network, spec.host_pid, spec.host_ipc] {
            assert_ne!(flag, Some(true), "host namespaces");
        }
        assert_ne!(spec.host_users, Some(true), "host users");
        for volume in spec.volumes.iter().flatten() {
            let restricted = volume.empty_dir.is_some() || volume.persistent_volume_claim.is_some();
            assert!(restricted, "volume types: {volume:?}");
        }
        let of_pod = spec.security_context.as_ref().unwrap();
        assert_eq!(of_pod.run_as_non_root, Some(true), "running as non-root");
        assert!(of_pod.run_as_user.is_some_and(|user| user > 0), "running as non-root user");
        let seccomp = of_pod.seccomp_profile.as_ref().unwrap();
        assert_eq!(seccomp.type_, "RuntimeDefault", "seccomp");
        assert_eq!(of_pod.sysctls, None, "sysctls");
        assert_eq!(of_pod.se_linux_options, None, "SELinux");
        assert_eq!(of_pod.app_armor_profile, None, "AppArmor");
        for container in all_containers(&spec) {
            let name = &container.name;
            let own = container.security_context.as_ref().unwrap();
            assert_eq!(own.allow_privilege_escalation, Some(false), "{name}: privilege escalation");
            let capabilities = own.capabilities.as_ref().unwrap();
            assert_eq!(
                capabilities.drop.as_deref(),
                Some(&["ALL".to_owned()][..]),
                "{name}: capabilities"
            );
            assert_eq!(capabilities.add, None, "{name}: capabilities");
            assert_ne!(own.privileged, Some(true), "{name}: privileged");
            assert_eq!(own.proc_mount, None, "{name}: /proc mount type");
            let overridden = (own.run_as_user, own.run_as_non_root, own.seccomp_profile.as_ref());
            assert_eq!(overridden, (None, None, None), "{name}: overrides the pod's");
            assert_eq!(own.read_only_root_filesystem, Some(true), "{name}: root");
            let ports = container.ports.iter().flatten();
            assert_eq!(
                ports.filter(|port| port.host_port.is_some()).count(),
                0,
                "{name}: host ports"
            );
            let hooks =
                (&container.lifecycle, &container.liveness_probe, &container.readiness_probe);
            assert_eq!(hooks, (&None, &None, &None), "{name}: hosts of probes");
        }
        assert_eq!(spec.automount_service_account_token, Some(false));
        assert_eq!(spec.enable_service_links, Some(false));
        assert_eq!(spec.restart_policy.as_deref(), Some("Never"));
    }
}

#[test]
fn a_launcher_that_pushes_has_the_login_and_no_tool_has_it() {
    let Workspace::Git { url, reference, secret, .. } = session().workspace else { panic!() };
    let workspace = Workspace::Git { url, reference, secret, is_pushed: true };
    let spec = rendered(&SessionPod { workspace, ..session() }).1.spec.unwrap();
    for container in all_containers(&spec) {
        let variables = || container.env.iter().flatten();
        let names: Vec<_> = variables()
            .filter(|it| it.name.starts_with("AIFO_GIT_") || it.name == "AIFO_POD_PUSH")
            .map(|it| it.name.as_str())
            .collect();
        let expected: &[&str] = match container.name.as_str() {
            "aifo" => &["AIFO_POD_PUSH", "AIFO_GIT_USERNAME", "AIFO_GIT_PASSWORD"],
            "clone" => &["AIFO_GIT_USERNAME", "AIFO_GIT_PASSWORD"],
            _ => &[],
        };
        assert_eq!(names, expected, "{}", container.name);
        let is_plain = variables().any(|it| it.name == "AIFO_GIT_PASSWORD" && it.value.is_some());
        assert!(!is_plain, "{}", container.name);
    }
    for container in all_containers(&rendered(&session()).1.spec.unwrap()) {
        let mut variables = container.env.iter().flatten();
        assert!(variables.all(|it| it.name != "AIFO_POD_PUSH"), "{}", container.name);
    }
}

#[test]
fn only_the_launcher_has_keys_and_only_the_clone_the_login() {
    let spec = rendered(&session()).1.spec.unwrap();
    let secrets = |container: &Container| -> Vec<String> {
        let variables = container.env.iter().flatten();
        let sources = variables.filter_map(|variable| variable.value_from.as_ref());
        sources.map(|source| source.secret_key_ref.as_ref().unwrap().name.clone()).collect()
    };
    for container in all_containers(&spec) {
        let expected: &[&str] = match container.name.as_str() {
            "aifo" => &["aifo-keys"],
            "clone" => &["git-login", "git-login"],
            _ => &[],
        };
        assert_eq!(secrets(container), expected, "{}", container.name);
        assert_eq!(container.env_from, None);
    }
}

#[test]
fn each_side_has_only_its_own_sockets() {
    let spec = rendered(&session()).1.spec.unwrap();
    let mount = |container: &str, suffix: &str| {
        let container = spec.containers.iter().find(|it| it.name == container).unwrap();
        let volume = format!("aifo-0000000000000001-{suffix}");
        let mut mounts = container.volume_mounts.iter().flatten();
        mounts
            .find(|mount| mount.name == volume)
            .map(|mount| (mount.mount_path.clone(), mount.read_only == Some(true)))
    };
    for container in ["agent", "rust", "go"] {
        for other in ["agent", "rust", "go"] {
            let found = mount(container, &format!("back-{other}"));
            assert_eq!(found.is_some(), container == other, "{container} {other}");
            assert!(found.is_none_or(|(_, read_only)| read_only), "{container} {other}");
        }
        assert_eq!(mount(container, "bin"), Some(("/opt/aifo/bin".to_owned(), true)));
        assert_eq!(mount(container, "front").is_some(), container == "agent");
        assert_eq!(mount(container, "tmp-aifo"), None);
    }
    assert_eq!(mount("agent", "front"), Some(("/run/aifo".to_owned(), true)));
    assert_eq!(mount("aifo", "back-go"), Some(("/run/aifo-pod/back/go".to_owned(), false)));
    assert_eq!(mount("aifo", "workspace"), Some(("/workspace".to_owned(), true)));
}

#[test]
fn arguments_reach_the_launcher_unchanged() {
    let spec = rendered(&session()).1.spec.unwrap();
    let launcher = spec.containers.iter().find(|it| it.name == "aifo").unwrap();
    let command = launcher.command.as_ref().unwrap();
    // Kubernetes replaces `$$` by `$`, and does not expand what follows.
    assert_eq!(command.last().unwrap(), "a: \"b\"\n$$(X)");
    assert_eq!((launcher.tty, launcher.stdin), (Some(true), Some(true)));
}

#[test]
fn the_policy_admits_no_connection_and_only_the_ports_of_rules() {
    let spec = rendered(&session()).0.spec.unwrap();
    assert_eq!(spec.policy_types.unwrap(), ["Ingress", "Egress"]);
    assert!(spec.ingress.iter().flatten().next().is_none(), "no rule admits a connection");
    let egress = serde_json::to_string(&spec.egress).unwrap();
    for part in ["\"port\":22,", "\"port\":443,", "\"port\":53,", "169.254.0.0/16", "10.0.0.0/8"] {
        assert!(egress.contains(part), "{part}: {egress}");
    }
    assert!(!egress.contains("\"port\":80,"), "{egress}");
    let [_, open, none, _] = sessions().try_into().unwrap();
    let open = rendered(&open).0.spec.unwrap().egress.unwrap();
    assert_eq!(serde_json::to_string(&open).unwrap(), "[{}]");
    assert!(rendered(&none).0.spec.unwrap().egress.unwrap_or_default().is_empty());
}

/// A protocol and a port.
type PolicyPort = (String, i32);

/// The rules of the egress of a policy: the peers and the ports of each.
fn egress(session: &SessionPod) -> Vec<(Vec<NetworkPolicyPeer>, Vec<PolicyPort>)> {
    let rules = rendered(session).0.spec.unwrap().egress.unwrap();
    let ports = |rule: &NetworkPolicyEgressRule| {
        let ports = rule.ports.iter().flatten();
        let of = |port: &NetworkPolicyPort| match (&port.protocol, &port.port) {
            (Some(protocol), Some(IntOrString::Int(number))) => (protocol.clone(), *number),
            other => panic!("{other:?}"),
        };
        ports.map(of).collect()
    };
    rules.iter().map(|rule| (rule.to.clone().unwrap(), ports(rule))).collect()
}

/// Returns whether an address is in a block such as `10.0.0.0/8`.
fn is_in(address: IpAddr, block: &str) -> bool {
    let (network, bits) = block.split_once('/').unwrap();
    let bits: u32 = bits.parse().unwrap();
    match (address, network.parse().unwrap()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or_default();
            one.to_bits() & mask == other.to_bits() & mask
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or_default();
            one.to_bits() & mask == other.to_bits() & mask
        }
        _ => false,
    }
}

/// The ports at which a policy admits an address.
fn ports_at(session: &SessionPod, address: &str) -> Vec<PolicyPort> {
    let address: IpAddr = address.parse().unwrap();
    let admits = |peer: &NetworkPolicyPeer| {
        peer.ip_block.as_ref().is_some_and(|block| {
            let mut except = block.except.iter().flatten();
            is_in(address, &block.cidr) && !except.any(|block| is_in(address, block))
        })
    };
    let rules = egress(session).into_iter().filter(|(peers, _)| peers.iter().any(admits));
    rules.flat_map(|(_, ports)| ports).collect()
}

#[test]
fn a_network_by_name_reaches_public_addresses_and_dns_only() {
    let tcp = |port: i32| ("TCP".to_owned(), port);
    let session = session();
    for address in ["1.1.1.1", "140.82.121.4", "2606:4700::1111"] {
        assert_eq!(ports_at(&session, address), [tcp(22), tcp(443)], "{address}");
    }
    for address in [
        // Metadata services, private, shared, link-local, and other addresses that are not public.
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "10.96.0.1",
        "172.20.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "127.0.0.1",
        "0.0.0.0",
        "192.0.0.8",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "fd00:ec2::254",
        "fe80::1",
        "::1",
        "::",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::1",
        "ff02::1",
    ] {
        assert_eq!(ports_at(&session, address), [], "{address}");
    }
    let dns = [("UDP".to_owned(), 53), tcp(53)];
    assert_eq!(ports_at(&session, "169.254.20.10"), dns, "NodeLocal DNSCache");
    assert_eq!(ports_at(&session, "169.254.20.11"), []);
    let namespaces = |session: &SessionPod| -> Vec<PolicyPort> {
        let named = egress(session).into_iter().filter_map(|(peers, ports)| {
            let labels = peers[0].namespace_selector.clone()?.match_labels?;
            assert_eq!((peers.len(), labels.len(), &peers[0].pod_selector), (1, 1, &None));
            assert_eq!(ports[0].1, ports[1].1);
            Some((labels["kubernetes.io/metadata.name"].clone(), ports[0].1))
        });
        named.collect()
    };
    let usual = [("kube-system".to_owned(), 53), ("openshift-dns".to_owned(), 5353)];
    assert_eq!(namespaces(&session), usual);
    let dns = ["dns:5300", "10.0.0.2", "fd00::a"].map(|it| it.parse::<DnsServer>().unwrap());
    let session = SessionPod { dns: dns.to_vec(), ..session };
    assert_eq!(namespaces(&session), [("dns".to_owned(), 5300)]);
    assert_eq!(ports_at(&session, "10.0.0.2"), [("UDP".to_owned(), 53), tcp(53)]);
    assert_eq!(ports_at(&session, "fd00::a"), [("UDP".to_owned(), 53), tcp(53)]);
    assert_eq!(ports_at(&session, "169.254.20.10"), []);
}

#[test]
fn no_container_reaches_the_api_server() {
    let api_server = ["34.1.2.3", "10.0.0.1", "2600:1901::1", "fd00::1"];
    let api_server = api_server.map(|it| it.parse().unwrap()).to_vec();
    let session = SessionPod { api_server: api_server.clone(), ..session() };
    for address in &api_server {
        assert_eq!(ports_at(&session, &address.to_string()), [], "{address}");
    }
    assert_ne!(ports_at(&session, "34.1.2.4"), []);
    // The API server rejects an exception outside of its block.
    for (peers, _) in egress(&session) {
        for block in peers.into_iter().filter_map(|peer| peer.ip_block) {
            for except in block.except.iter().flatten() {
                let network = except.split_once('/').unwrap().0.parse().unwrap();
                assert!(is_in(network, &block.cidr), "{except} in {}", block.cidr);
            }
        }
    }
}

#[test]
fn limits_are_those_of_every_container() {
    let spec = rendered(&SessionPod { workspace: Workspace::Upload, ..session() }).1.spec.unwrap();
    let quantity = |values: Option<&BTreeMap<String, Quantity>>, name: &str| {
        values.and_then(|values| values.get(name)).map(|it| it.0.clone())
    };
    for container in all_containers(&spec) {
        let (name, resources) = (&container.name, container.resources.as_ref().unwrap());
        let limit = |of: &str| quantity(resources.limits.as_ref(), of);
        assert_eq!(limit("cpu").as_deref(), Some("1500m"), "{name}");
        let memory = if name == "aifo" { "256Mi" } else { "1073741824" };
        assert_eq!(limit("memory").as_deref(), Some(memory), "{name}");
        let requested = quantity(resources.requests.as_ref(), "cpu");
        assert_eq!(requested.as_deref(), (name == "aifo").then_some("100m"), "{name}");
    }
}

#[test]
fn the_same_session_gives_the_same_short_text() {
    let text = session().render().unwrap();
    assert_eq!(text, session().render().unwrap());
    assert!(text.lines().count() < 300, "{} lines", text.lines().count());
    assert!(text.contains("# WARNING: two lines\n"), "{text}");
}

#[test]
fn a_session_that_is_no_pod_is_rejected() {
    let error = |session: SessionPod| session.render().unwrap_err().to_string();
    assert!(error(SessionPod { user: 0, ..session() }).contains("root"));
    let kind = |name: &str| {
        let kind = Kind::parse(name).unwrap();
        let kinds = vec![KindContainer { kind, ..session().kinds[0].clone() }];
        SessionPod { kinds, ..session() }
    };
    assert!(error(kind("aifo")).contains("'aifo' cannot be the name of a container"));
    let workspace = Workspace::Git {
        url: "--upload-pack=x".to_owned(),
        reference: None,
        secret: None,
        is_pushed: false,
    };
    assert!(error(SessionPod { workspace, ..session() }).contains("--upload-pack"));
}
