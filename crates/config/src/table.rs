//! The table of keys, and the configuration that holds their values.
//!
//! A new key is a row here, and a line in `spec/config.md#keys`.

use std::path::PathBuf;

use aifo_agents::{StateImport, StateMode};
use aifo_host::CacheScope;
use aifo_launch::{BackendChoice, ConfinementMode};
use aifo_policy::{CallerOptions, NotifyRules};
use aifo_process::Restriction;
use aifo_sidecar::Net;
use aifo_types::{Endpoint, Subnet, env};
use aifo_wire::Limits;

use crate::agents::Agents;
use crate::choices::{
    BACKEND, CACHES, CONFINE, CPUS, DETACH_KEYS, KEY_MODE, KeyMode, LISTEN, NET, NETWORK,
    ON_HANGUP, OnHangup, POOLS, PORTS, PROGRAM, PUBLISH, RESTRICTIONS, SIZE, SMART, STATE,
    STATE_IMPORT, SUBNETS, SmartMode,
};
use crate::definition::{at, table};
use crate::environment::{listen, smart, smart_runtime};
use crate::format::{
    ABSOLUTE_PATH, AT_LEAST_ONE, COUNT, Format, LIMIT, OPTIONAL_SWITCH, PATHS, SECONDS, SWITCH,
    TEXT, TEXTS,
};
use crate::key::{Apply, At, FlagGroup, Key, Row, Rule, Setting, Takes, Tightening};
use crate::keys::Services;
use crate::kinds::{Kinds, ToolEffect};
use crate::kubernetes::{CONTEXT, IMAGE, NAMESPACE, SECRET, SECRETS};
use crate::network::ConfiguredRules;
use crate::registries::{self, Admissions};
use crate::rules::{ArgumentRules, TOOL_NAMES, ToolNames, default_in_place};
use crate::source::Sourced;
use crate::toolchains::{self, Toolchains};
use crate::variables::Variables;

table! {
    []
        rule("toolchains",
            |config, item| toolchains::set(&mut config.toolchains, &config.kinds, item),
            Ok(|config, item| toolchains::restrict(&mut config.toolchains, &config.kinds, item)))
            // Read by `read_versions`, after detection.
            .variables(&["AIFO_<KIND>_TOOLCHAIN_VERSION"])
            .flag("--toolchain", Takes::List("KIND"), FlagGroup::Project,
                "Toolchain to start: rust, node, python, c-cpp, go or one of your own, with a version \
                 as in rust@1.95; auto adds all others, on demand; repeatable")
            .shown(|config| toolchains::show(&config.toolchains));
    // Longer than a pause between calls, shorter than a break.
    [idle_stop_secs: Option<u64> = Some(15 * 60)]
        setting("idle_stop_secs", at!(idle_stop_secs), LIMIT, "changes when sidecars stop")
            .unset("never")
            .flag("--idle-stop", Takes::One("N"), FlagGroup::Session,
                "Stop sidecars that were started on demand after N idle seconds; 0 for never");
    [max_secs: Option<u64> = None]
        setting("max_secs", at!(max_secs), LIMIT, "")
            .unset("no limit").variables(&[env::MAX_SECS, env::TIMEOUT_SECS])
            .flag("--max-secs", Takes::One("N"), FlagGroup::Session,
                "Time limit of a tool in seconds, 0 for none; sends INT, TERM 5 s and KILL 10 s after it")
            .tightened(Tightening {
                objection: |limit| limit.is_none().then_some("= 0 removes the limit"),
                is_stricter: |old, new| old.is_none_or(|old| new.is_some_and(|new| new < old)),
            });
    [max_executions: usize = Limits::default().max_executions]
        setting("max_executions", at!(max_executions), AT_LEAST_ONE, "")
            .variables(&[env::MAX_CONNECTIONS])
            .tightened(Tightening { objection: |_| None, is_stricter: |old, new| new < old });
    [verbose: bool = false]
        setting("verbose", at!(verbose), SWITCH, "changes the log")
            .variables(&[env::VERBOSE])
            .flag("--verbose", Takes::Nothing("true"), FlagGroup::Session,
                "Log decisions on stderr; RUST_LOG selects more")
            .short('v');
    [listen: Option<Endpoint> = None]
        setting("listen", at!(listen), LISTEN, "changes the proxy's address")
            .unset("a unix socket of the session").variables(&[env::USE_UNIX, env::BIND_HOST])
            .read_with(listen)
            .flag("--listen", Takes::One("URL"), FlagGroup::Session,
                "Address of the proxy: unix:///path/to.sock or tcp://host:port, port 0 for any");
    [local_python: Option<PathBuf> = None]
        setting("local_python", at!(local_python), ABSOLUTE_PATH, "chooses a program to run")
            .unset("the system's python3").variables(&[env::LOCAL_PYTHON]);
    [confine: ConfinementMode = ConfinementMode::Auto]
        setting("confine", at!(confine), CONFINE, "")
            .flag("--confine", Takes::One("HOW"), FlagGroup::Session,
                "Confinement of local tools: auto (as far as the kernel supports it), required (fail \
                 without it), namespace (also hide your keys; fail without it) or off")
            .tightened(Tightening {
                objection: |mode| matches!(mode, ConfinementMode::Auto | ConfinementMode::Off)
                    .then_some("other than \"required\" or \"namespace\" weakens confinement"),
                is_stricter: |old, _| *old != ConfinementMode::Namespace,
            });
    [backend: BackendChoice = BackendChoice::Auto]
        setting("backend", at!(backend), BACKEND, "chooses where tools run")
            .variables(&[env::BACKEND])
            .flag("--backend", Takes::One("HOW"), FlagGroup::Containers,
                "Backend of sidecars: docker, podman, local (child processes), kubernetes (a pod) or auto \
                 (containers if an engine answers and has the images, else local)");
    []
        rule("kind.NAME.image", |config, item| config.kinds.set_image(item), Err("chooses an image"))
            .variables(&["AIFO_<KIND>_TOOLCHAIN_IMAGE"])
            .read_with(|config, lookup| config.kinds.read_images(lookup))
            .flag("--toolchain-image", Takes::Many("KIND=IMAGE"), FlagGroup::Containers,
                "Image of a toolchain's containers; repeatable")
            .shown(|config| config.kinds.show_images());
    []
        rule(ATTACH, |config, item| config.kinds.attach(item), Err("attaches containers"))
            .flag("--attach", Takes::Many("NAME=KIND"), FlagGroup::Containers,
                "Run a toolchain's tools in a running container of yours, such as a devcontainer; \
                 repeatable")
            .shown(|config| config.kinds.show_attached());
    [history_enabled: bool = true]
        setting("history.enabled", at!(history_enabled), SWITCH, "changes what can be undone");
    [history_secrets: bool = false]
        setting("history.secrets", at!(history_secrets), SWITCH, "changes what is kept");
    [caches: CacheScope = CacheScope::Project]
        setting("containers.caches", at!(caches), CACHES, "")
            .flag("--no-toolchain-cache", Takes::Nothing("none"), FlagGroup::Containers,
                "Discard downloads and builds with the session instead of caching them")
            .tightened(Tightening {
                objection: |scope| (*scope == CacheScope::User).then_some("= \"user\" shares caches"),
                is_stricter: |old, new| new > old,
            });
    [net: Net = Net::Names]
        setting("containers.net", at!(net), NET, "")
            .tightened(Tightening {
                objection: |net| (*net != Net::None).then_some("other than \"none\" gives a network"),
                is_stricter: |_, _| true,
            })
            .flag("--net", Takes::One("HOW"), FlagGroup::Containers,
                "Network of containers: names (registries, forges, the agent's model, --allow-net), \
                 learn (all names, listed at the end), open (one stack), separate (open), none or host");
    [publish: Vec<String> = Vec::new()]
        setting("containers.publish", at!(publish), PUBLISH, "configures containers")
            .flag("--publish", Takes::Many("PORTS"), FlagGroup::Containers,
                "Publish a port of the tools: PORT, HOST:PORT or ADDR:HOST:PORT; at 127.0.0.1 without \
                 ADDR; repeatable");
    [pools: Option<Vec<Subnet>> = None]
        setting("containers.pools", at!(pools), POOLS, "configures containers")
            .unset("podman's own");
    [unrestricted: Vec<Restriction> = Vec::new()]
        setting("containers.unrestricted", at!(unrestricted), RESTRICTIONS, "allows system calls");
    [memory: Option<u64> = None]
        setting("containers.memory", at!(memory), SIZE, "configures containers")
            .unset("three quarters of the machine's")
            .flag("--memory", Takes::One("SIZE"), FlagGroup::Containers,
                "Memory limit of each container, for example 512m or 4g; 0 for none");
    [pids: Option<u32> = None]
        setting("containers.pids", at!(pids), COUNT, "configures containers")
            .unset("4096").flag("--pids", Takes::One("N"), FlagGroup::Containers,
                "Limit of processes and threads in each container; 0 for none");
    [cpus: Option<f64> = None]
        setting("containers.cpus", at!(cpus), CPUS, "configures containers")
            .unset("all").flag("--cpus", Takes::One("N"), FlagGroup::Containers,
                "Processors of each container, for example 1.5");
    [image_prefix: String = String::new()]
        setting("containers.image_prefix", at!(image_prefix), TEXT, "configures containers")
            .variables(&[env::IMAGE_PREFIX]);
    [image_tag: String = "latest".to_owned()]
        setting("containers.image_tag", at!(image_tag), TEXT, "configures containers")
            .variables(&[env::IMAGE_TAG]);
    []
        rule("containers.admit",
            |config, item| registries::set(&mut config.admit, item),
            Err("configures containers"))
            .variables(&[env::SSH_FORWARD])
            .read_with(|config, lookup| registries::read_ssh_forward(&mut config.admit, lookup))
            .shown(|config| registries::show(&config.admit));
    [ca_bundle: Option<PathBuf> = None]
        setting("containers.ca_bundle", at!(ca_bundle), ABSOLUTE_PATH, "configures containers")
            .unset("that of the machine");
    []
        rule("net.allow", |config, item| config.names.allow(&config.kinds, item),
            Err("allows names"))
            .flag("--allow-net", Takes::Many("NAME"), FlagGroup::Containers,
                "Let tools and agent also reach NAME, NAME:PORT, '*.NAME' or a group such as @debian; \
                 KIND=NAME and agent=NAME: only these tools, or the agent; repeatable")
            .shown(|config| config.names.show_allow());
    []
        rule("net.kind.NAME.allow", |config, item| config.names.allow_kind(&config.kinds, item),
            Err("allows names"))
            .shown(|config| config.names.show_kinds());
    []
        rule("net.agent.allow", |config, item| config.names.allow_agent(item), Err("allows names"))
            .shown(|config| config.names.show_agent());
    [net_defaults: bool = true]
        setting("net.defaults", at!(net_defaults), SWITCH, "")
            .tightened(Tightening {
                objection: |on| on.then_some("= true allows names"),
                is_stricter: |_, _| true,
            });
    []
        rule("net.deny",
            |config, item| config.names.deny(item),
            Ok(|config, item| config.names.deny(item)))
            .shown(|config| config.names.show_deny());
    [net_addresses: Vec<Subnet> = Vec::new()]
        setting("net.addresses", at!(net_addresses), SUBNETS, "permits addresses");
    [host_ports: Vec<u16> = Vec::new()]
        setting("net.host_ports", at!(host_ports), PORTS, "opens ports of this machine")
            .flag("--host-port", Takes::Many("PORT"), FlagGroup::Containers,
                "Relay localhost:PORT of the containers to this machine's, for a local model or \
                 database; repeatable");
    [agent_ports: Vec<u16> = Vec::new()]
        setting("net.agent_ports", at!(agent_ports), PORTS, "opens ports of the agent")
            .flag("--agent-port", Takes::Many("PORT"), FlagGroup::Containers,
                "Let tools reach what the agent listens on at localhost:PORT; repeatable");
    [join: Option<String> = None]
        setting("net.join", at!(join), NETWORK, "joins a network of the engine")
            .unset("none").flag("--join", Takes::One("NETWORK"), FlagGroup::Containers,
                "Join tools to this network of the engine, such as one of compose, instead of the names");
    [sockets: Vec<PathBuf> = Vec::new()]
        setting("net.sockets", at!(sockets), PATHS, "lets programs of this machine through");
    // Shown as those of `allow`.
    []
        rule("kind.NAME.tools", |config, item| config.kinds.allow(item), Err("lists tools"));
    []
        rule("kind.NAME.allow", |config, item| config.kinds.allow(item), Err("allows tools"))
            .shown(|config| config.kinds.show_rules(ToolEffect::Allow));
    []
        rule("kind.NAME.deny",
            |config, item| config.kinds.deny(item),
            Ok(|config, item| config.kinds.deny(item)))
            .shown(|config| config.kinds.show_rules(ToolEffect::Deny));
    // Shows all three lists, in the order in which they apply.
    []
        rule("env.allow", |config, item| config.variables.allow(item), Err("forwards variables"))
            .flag("--env", Takes::Many("NAME[=VALUE]"), FlagGroup::Project,
                "Forward the caller's variable NAME, or those of 'PREFIX*', to tools; NAME=VALUE sets \
                 it for every tool; repeatable")
            .shown(|config| config.variables.show());
    []
        rule("env.set", |config, item| config.variables.set(item), Err("sets variables of tools"));
    []
        rule("env.deny",
            |config, item| config.variables.deny(item),
            Ok(|config, item| config.variables.deny(item)));
    [notify_enabled: bool = true]
        setting("notify.enabled", at!(notify_enabled), SWITCH, "")
            .tightened(Tightening {
                objection: |enabled| enabled.then_some("= true switches notifications on"),
                is_stricter: |_, _| true,
            });
    [notify_command: Option<Vec<String>> = NotifyRules::default().command]
        setting("notify.command", at!(notify_command), PROGRAM, "chooses a program to run")
            .unset("looked up by name");
    [notify_allow: Vec<String> = NotifyRules::default().allowlist]
        setting("notify.allow", at!(notify_allow), TEXTS, "allows commands")
            .variables(&[env::NOTIFY_ALLOWLIST]);
    [notify_options: bool = NotifyRules::default().options == CallerOptions::Allowed]
        setting("notify.options", at!(notify_options), SWITCH, "allows options of the caller");
    [notify_safe_dirs: Vec<PathBuf> = NotifyRules::default().safe_dirs]
        setting("notify.safe_dirs", at!(notify_safe_dirs), PATHS, "allows commands")
            .variables(&[env::NOTIFY_SAFE_DIRS]);
    [notify_trim_env: bool = false]
        setting("notify.trim_env", at!(notify_trim_env), SWITCH, "changes an environment")
            .variables(&[env::NOTIFY_TRIM_ENV]);
    [notify_env_allow: Vec<String> = Vec::new()]
        setting("notify.env_allow", at!(notify_env_allow), TEXTS, "changes an environment")
            .variables(&[env::NOTIFY_ENV_ALLOW]);
    [notify_timeout_secs: Option<u64> = None]
        setting("notify.timeout_secs", at!(notify_timeout_secs), SECONDS, "changes a limit")
            .unset("as max_secs")
            .variables(&[env::NOTIFY_TIMEOUT_SECS]);
    [in_place: ToolNames = default_in_place()]
        setting("judge.in_place", at!(in_place), TOOL_NAMES, "changes which calls are judged");
    [ask_timeout_secs: Option<u64> = None]
        setting("ask.timeout_secs", at!(ask_timeout_secs), SECONDS, "changes who is asked")
            .unset("300, or 0 without an agent for a user");
    [ask_command: Option<Vec<String>> = None]
        setting("ask.command", at!(ask_command), PROGRAM, "chooses a program to run")
            .unset("none");
    [web_on_attention: Option<Vec<String>> = None]
        setting("web.on_attention", at!(web_on_attention), PROGRAM, "chooses a program to run")
            .unset("none");
    [web_unseen_secs: Option<u64> = Some(30)]
        setting("web.unseen_secs", at!(web_unseen_secs), SECONDS, "changes when a program runs");
    [web_keep_sessions: usize = 50]
        setting("web.keep_sessions", at!(web_keep_sessions), AT_LEAST_ONE, "removes files");
    [web_session_bytes: usize = 16 * 1024 * 1024]
        setting("web.session_bytes", at!(web_session_bytes), AT_LEAST_ONE, "removes files");
    [web_media_bytes: usize = 256 * 1024 * 1024]
        setting("web.media_bytes", at!(web_media_bytes), AT_LEAST_ONE, "changes a limit");
    [web_reports: usize = 20_000]
        setting("web.reports", at!(web_reports), AT_LEAST_ONE, "removes files");
    [web_report_bytes: usize = 8 * 1024 * 1024]
        setting("web.report_bytes", at!(web_report_bytes), AT_LEAST_ONE, "removes files");
    [web_removals: usize = 4096]
        setting("web.removals", at!(web_removals), AT_LEAST_ONE, "changes a limit");
    [web_stalled_secs: usize = 20]
        setting("web.stalled_secs", at!(web_stalled_secs), AT_LEAST_ONE, "changes a limit");
    [smart: SmartMode = SmartMode::Auto]
        setting("agent.smart", at!(smart), SMART, "changes where programs run")
            .variables(&[env::SMART])
            .read_with(smart);
    [smart_node: Option<bool> = None]
        setting("agent.node", at!(smart_node), OPTIONAL_SWITCH, "changes where programs run")
            .unset("as agent.smart").variables(&[env::SMART_NODE])
            .read_with(|lookup| smart_runtime(lookup, env::SMART_NODE))
            .flag("--smart-node", Takes::Nothing("true"), FlagGroup::Smart,
                "Run node programs from outside the workspace next to the agent");
    [smart_python: Option<bool> = None]
        setting("agent.python", at!(smart_python), OPTIONAL_SWITCH, "changes where programs run")
            .unset("as agent.smart").variables(&[env::SMART_PYTHON])
            .read_with(|lookup| smart_runtime(lookup, env::SMART_PYTHON))
            .flag("--smart-python", Takes::Nothing("true"), FlagGroup::Smart,
                "Run python modules, and programs from outside the workspace, next to the agent");
    [state: StateMode = StateMode::Own]
        setting("agent.state", at!(state), STATE, "chooses the agent's state")
            .flag("--state", Takes::One("WHOSE"), FlagGroup::State,
                "State of an agent in a container: own (a copy for this project) or host (yours, \
                 writable)");
    [state_import: StateImport = StateImport::Settings]
        setting("agent.state_import", at!(state_import), STATE_IMPORT, "copies conversations")
            .flag("--state-import", Takes::One("WHAT"), FlagGroup::State,
                "Import into an agent's own state: settings or conversations (settings, and once \
                 your conversations)");
    [key_mode: KeyMode = KeyMode::Proxy]
        setting("agent.keys", at!(key_mode), KEY_MODE, "gives the agent your keys")
            .flag("--keys", Takes::One("HOW"), FlagGroup::State,
                "Model keys of an agent in a container: proxy (aifo adds them to its requests) or pass \
                 (the agent gets them)");
    [on_hangup: OnHangup = OnHangup::End]
        setting("agent.on_hangup", at!(on_hangup), ON_HANGUP, "keeps sessions");
    [detach_keys: Option<aifo_terminal::DetachSequence> = Some(Default::default())]
        setting("attach.detach_keys", at!(detach_keys), DETACH_KEYS, "chooses keys");
    [max_requests: Option<u64> = None]
        setting("agent.max_requests", at!(max_requests), LIMIT, "changes a limit")
            .unset("no limit")
            .flag("--max-requests", Takes::One("N"), FlagGroup::State,
                "Requests to models in this session, with --keys proxy; 0 for no limit");
    [max_tokens: Option<u64> = None]
        setting("agent.max_tokens", at!(max_tokens), LIMIT, "changes a limit")
            .unset("no limit")
            .flag("--max-tokens", Takes::One("N"), FlagGroup::State,
                "Tokens of prompts and answers in this session, with --keys proxy; 0 for no limit");
    []
        rule("keys.NAME", |config, item| config.services.apply_key(item), Err("names a key"))
            .shown(|config| config.services.show_keys());
    []
        rule("services.NAME", |config, item| config.services.apply(item), Err("names a credential"))
            .shown(|config| config.services.show_forges());
    []
        rule("agents.NAME", |config, item| config.agents.apply(item), Err("configures an agent"))
            .shown(|config| config.agents.show());
    [kube_context: Option<String> = None]
        setting("kubernetes.context", at!(kube_context), CONTEXT, "chooses a cluster")
            .unset("the current one").flag("--context", Takes::One("NAME"), FlagGroup::Cluster,
                "Context of the kubeconfig, for sessions in a cluster");
    [kube_namespace: Option<String> = None]
        setting("kubernetes.namespace", at!(kube_namespace), NAMESPACE, "chooses a namespace")
            .unset("that of the context").flag("--namespace", Takes::One("NAME"), FlagGroup::Cluster,
                "Namespace of the sessions");
    [kubeconfig: Option<PathBuf> = None]
        setting("kubernetes.kubeconfig", at!(kubeconfig), ABSOLUTE_PATH, "chooses a cluster")
            .unset("kubectl's own").flag("--kubeconfig", Takes::One("FILE"), FlagGroup::Cluster,
                "Kubeconfig; an absolute path");
    [launcher_image: Option<String> = None]
        setting("kubernetes.launcher_image", at!(launcher_image), IMAGE, "chooses an image")
            .unset("aifo-launcher with the configured prefix and tag")
            .flag("--launcher-image", Takes::One("IMAGE"), FlagGroup::Pod, "Image with aifo-coder");
    [keys_secret: String = "aifo-keys".to_owned()]
        setting("kubernetes.keys_secret", at!(keys_secret), SECRET, "chooses keys")
            .flag("--keys-secret", Takes::One("NAME"), FlagGroup::Pod,
                "Secret with the keys of model providers, by the names of their variables");
    [pull_secrets: Vec<String> = Vec::new()]
        setting("kubernetes.pull_secrets", at!(pull_secrets), SECRETS, "uses secrets of registries")
            .flag("--image-pull-secret", Takes::Many("NAME"), FlagGroup::Pod,
                "Secret of a registry; repeatable");
    [kube_dns: Vec<String> = Vec::new()]
        setting("kubernetes.dns", at!(kube_dns), TEXTS, "opens DNS of a cluster")
            .flag("--dns", Takes::Many("WHERE"), FlagGroup::Pod,
                "DNS of the cluster: a namespace or an address, with :PORT if it is not 53; repeatable");
    [default_rules: bool = true]
        setting("default_rules", at!(default_rules), SWITCH, "")
            .flag("--no-rules", Takes::Nothing("false"), FlagGroup::Project,
                "Switch off the default rules on arguments, such as those about force pushes")
            .tightened(Tightening {
                objection: |on| (!on).then_some("= false removes rules"),
                is_stricter: |_, _| true,
            });
    []
        rule("rule", |config, item| config.argument_rules.add(item),
            Ok(|config, item| config.argument_rules.restrict(item)))
            .flag("--yes-to", Takes::List("KIND"), FlagGroup::Permissions,
                "Allow requests of this kind unless a rule denies them: read, edit, delete, move, \
                 search, execute, think, fetch, switch_mode, other or all; repeatable")
            .shown(|config| config.argument_rules.show());
}

/// `--attach` has no key in a file: the containers exist only for a while.
pub(crate) const ATTACH: &str = "attach.KIND";
