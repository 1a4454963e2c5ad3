//! Files.

use aifo_policy::{ForwardDecision, StayReason};

use super::{of_files as config, of_user};

#[test]
fn every_key_is_read() {
    let text = r#"
        toolchains = ["rust", "py"]
        idle_stop_secs = 60
        max_secs = 600
        max_executions = 8
        verbose = true
        listen = "tcp://127.0.0.1:0"
        local_python = "/opt/venv/bin/python3"
        confine = "required"
        backend = "docker"

        [kind.java]
        tools = ["java", "javac"]
        [kind.rust]
        allow = ["just"]
        deny = ["rustup"]
        image = "rust:1.95"

        [containers]
        net = "separate"
        publish = ["3000:3000"]
        pools = ["10.89.0.0/16"]
        unrestricted = ["io-uring"]
        memory = "4g"
        pids = 512
        cpus = 1.5
        caches = "none"
        image_prefix = "registry.example/"
        image_tag = "stable"
        admit = ["npmrc", "ca-bundle"]
        ca_bundle = "/etc/ssl/company.pem"

        [net]
        allow = ["@rust", "static.example.org:443"]
        deny = ["crates.example"]
        host_ports = [11434]

        [env]
        allow = ["FOO", "MY_*"]
        deny = ["CC"]
        set = { MODE = "fast" }

        [notify]
        enabled = true
        command = ["/usr/bin/notify-send", "{args}"]
        allow = ["notify-send"]
        options = true
        safe_dirs = ["/usr/bin"]
        trim_env = true
        env_allow = ["DISPLAY"]
        timeout_secs = 5

        [agent]
        smart = "auto"
        node = true
        python = false

        [agents.mine]
        image = "registry.example/mine:1"
        command = ["mine"]
        state = [".mine"]
        private = [".mine/run"]
        settings = [".mine.toml"]
        variables = ["MINE_KEY"]
        set = { MODE = "fast" }
        node = true
        python = false
        local_python = "/opt/venv/bin/python3"
        shell = "/bin/sh"

        [agents.mine.acp]
        command = ["mine", "--acp"]
        fs = true
        terminal = false
        missing_file = "empty"
        stream = "auto"
        allow_option = "accept"
        initialize_secs = 90
        kill_on_eof = true
        set = { MODE = "fast" }

        [[rule]]
        kind = ["read", "edit"]
        path = "src"
        then = "allow"
    "#;
    let config = of_user(text).unwrap();
    assert_eq!(config.unrestricted.value, [aifo_process::Restriction::IoUring]);
    let max_secs = &config.max_secs;
    assert_eq!((max_secs.value, max_secs.source.to_string().as_str()), (Some(600), "/u.toml:4"));
    let deny = config.kinds.rules.iter().find(|rule| rule.tools.value == ["rustup"]).unwrap();
    assert_eq!(deny.tools.source.to_string(), "/u.toml:16");
}

#[test]
fn errors_have_a_line_and_a_hint() {
    let rows = [
        (
            "\ntoolchain = []",
            "/u.toml:2: there is no key 'toolchain'\nhint: did you mean 'toolchains'?",
        ),
        (
            "[kind.rust]\nfrobs = 'x'",
            "/u.toml:2: there is no key 'frobs'\nhint: known keys: image, tools, allow, deny",
        ),
        (
            "[notify]\n\nsafe-dirs = []",
            "/u.toml:3: there is no key 'safe-dirs'\nhint: did you mean 'safe_dirs'?",
        ),
        ("max_secs = 'x'", "/u.toml:1: expected a whole number, found string \"x\""),
        ("verbose = 1", "/u.toml:1: expected true or false, found integer `1`"),
        (
            "toolchains = 'rust'",
            "/u.toml:1: expected a list, found string \"rust\"\nhint: put it in brackets: ['rust']",
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(of_user(text).unwrap_err(), expected);
    }
    assert!(
        of_user("a = 1\nb").unwrap_err().starts_with("/u.toml:2: "),
        "{}",
        of_user("a = 1\nb").unwrap_err()
    );
    assert!(of_user("max_secs = -1").unwrap_err().starts_with("/u.toml:1: "));
}

#[test]
fn values_are_restricted() {
    let user = "confine = 'off'\ntoolchains = ['rust', 'node']\nmax_secs = 100\n[kind.rust]\nallow = ['just']";
    let narrow = "toolchains = ['node', 'go']\nmax_secs = 60\nmax_executions = 3\n\
                  confine = 'required'\n\
                  [kind.rust]\ndeny = ['just', 'cargo']\n[env]\ndeny = ['CI']\n[notify]\nenabled = false";
    let config = config(user, narrow).unwrap();
    let kinds = config.toolchains.value.words();
    assert_eq!(kinds, ["node"], "go is not added");
    assert_eq!(config.max_secs.value, Some(60));
    assert_eq!(config.max_secs.source.to_string(), "/w/.aifo.toml:2");
    assert_eq!(config.max_executions.value, 3);
    let rust = config.kinds.policy.kind_named("rust").unwrap();
    assert_eq!((rust.allowance("just"), rust.allowance("cargo")), (None, None));
    let judged = config.variables.forwarding.judge(b"CI", b"1", &["/w".into()]);
    assert_eq!(judged, ForwardDecision::Stays(StayReason::Denied));
    assert_eq!(config.confine.value, aifo_launch::ConfinementMode::Required);
    assert!(config.notify_rules().allowlist.is_empty());
}

#[test]
fn confinement_is_only_tightened() {
    let confine = |user: &str, workspace: &str| {
        let file = |word: &str| format!("confine = '{word}'");
        config(&file(user), &file(workspace)).unwrap().confine.value
    };
    use aifo_launch::ConfinementMode::{Namespace, Required};
    assert_eq!(confine("off", "required"), Required);
    assert_eq!(confine("auto", "namespace"), Namespace);
    assert_eq!(confine("required", "namespace"), Namespace);
    assert_eq!(confine("namespace", "required"), Namespace);
}

#[test]
fn toolchains_on_demand_are_restricted() {
    let toolchains = |user, workspace| {
        let toolchains = config(user, workspace).unwrap().toolchains.value;
        let on_demand =
            toolchains.on_demand.iter().map(|kind| kind.to_string()).collect::<Vec<_>>();
        (toolchains.words().join(" "), on_demand.join(" "))
    };
    let is = |words: &str, on_demand: &str| (words.to_owned(), on_demand.to_owned());
    let user = "toolchains = ['auto', 'rust@1.95']";
    assert_eq!(toolchains(user, "toolchains = ['go', 'rust']"), is("rust@1.95 auto", "go"));
    assert_eq!(
        toolchains(user, "toolchains = ['auto']"),
        is("rust@1.95 auto", "c-cpp go node python")
    );
    assert_eq!(toolchains("toolchains = ['rust']", "toolchains = ['auto']"), is("rust", ""));
}

#[test]
fn stricter_values_are_kept() {
    let config = config("max_secs = 100\nmax_executions = 2", "max_secs = 600").unwrap();
    assert_eq!(config.max_secs.value, Some(100));
    assert_eq!(config.max_secs.source.to_string(), "/u.toml:1");
    assert_eq!(config.max_executions.value, 2);
}

#[test]
fn caches_can_only_be_shared_less() {
    use aifo_host::CacheScope::{None, Project, User};
    let rows = [
        ("", "", Project),
        ("'user'", "", User),
        ("'none'", "", None),
        // The older boolean form.
        ("true", "", Project),
        ("false", "", None),
        ("'user'", "'project'", Project),
        ("'user'", "true", Project),
        ("'user'", "'none'", None),
        ("", "'project'", Project),
        ("", "false", None),
        ("'none'", "'project'", None),
    ];
    let file = |word: &str| match word {
        "" => String::new(),
        word => format!("[containers]\ncaches = {word}"),
    };
    for (user, workspace, expected) in rows {
        let config = config(&file(user), &file(workspace)).unwrap();
        assert_eq!(config.caches.value, expected, "{user} {workspace}");
    }
}

#[test]
fn keys_that_extend_are_rejected() {
    let rows = [
        "toolchains = ['rust@1.95']",
        "idle_stop_secs = 0",
        "max_secs = 0",
        "confine = 'off'",
        "confine = 'auto'",
        "verbose = true",
        "listen = 'tcp://0.0.0.0:1'",
        "local_python = '/w/python'",
        "[kind.rust]\nallow = ['sh']",
        "[kind.x]\ntools = ['sh']",
        "[env]\nallow = ['FOO']",
        "[env]\nset = { FOO = '1' }",
        "[notify]\nenabled = true",
        "[notify]\ncommand = ['/w/x']",
        "[notify]\nallow = ['sh']",
        "[notify]\noptions = true",
        "[notify]\nsafe_dirs = ['/w']",
        "[notify]\ntrim_env = false",
        "[notify]\nenv_allow = ['TOKEN']",
        "[notify]\ntimeout_secs = 9",
        "[containers]\nadmit = ['npmrc']",
        "[containers]\npools = []",
        "[containers]\nunrestricted = ['set-id']",
        "[containers]\ncaches = 'user'",
        "[containers]\nca_bundle = '/w/ca.pem'",
        "[agent]\nsmart = 'on'",
        "[agent]\nnode = true",
        "[agent]\npython = true",
    ];
    for text in rows {
        let error = config("", text).unwrap_err();
        let line = text.lines().count();
        assert!(error.starts_with(&format!("/w/.aifo.toml:{line}: ")), "{text}: {error}");
        assert!(error.contains("a workspace's file may not do"), "{text}: {error}");
        assert!(error.contains("hint: this belongs in your own file"), "{text}: {error}");
    }
}

#[test]
fn invalid_values_of_the_user_are_rejected() {
    let rows = [
        ("[kind.rsut]\nallow = []", "/u.toml:1: there is no toolchain 'rsut'\nhint: did you"),
        ("[kind.java]\nallow = []", "hint: define a new toolchain with: tools = [..]"),
        ("[kind.Java]\ntools = []", "'Java' cannot name a toolchain"),
        ("[containers]\npools = ['10.89.0.1/16']", "invalid subnet '10.89.0.1/16'"),
        (
            "[containers]\nunrestricted = ['uring']",
            "unknown restriction 'uring'\nhint: restrictions are: io-uring, openat2, ",
        ),
        (
            "[containers]\ncaches = 'all'",
            "/u.toml:2: invalid value 'all' for containers.caches: expected project, user or none",
        ),
        ("[containers]\ncaches = 3", "/u.toml:2: caches is \"project\", \"user\" or \"none\""),
        ("[kind.host]\ntools = []", "/u.toml:1: 'host' cannot name a toolchain"),
        ("[kind.auto]\ntools = []", "'auto' cannot name a toolchain: reserved for all"),
        ("[kind.rust]\ntools = []", "/u.toml:2: toolchain 'rust' already has tools"),
        ("[kind.rust]\nallow = ['a/b']", "/u.toml:2: invalid tool name 'a/b'"),
        ("[kind.rust]\ndeny = ['aifo-runner']", "names starting with 'aifo-' are reserved"),
        ("toolchains = ['rust', 'x']", "/u.toml:1: there is no toolchain 'x'; known toolchains: c"),
        ("max_executions = 0", "/u.toml:1: max_executions must be at least 1"),
        (
            "confine = 'yes'",
            "/u.toml:1: invalid value 'yes' for confine: expected auto, required, namespace or off",
        ),
        ("listen = 'x'", "/u.toml:1: "),
        ("local_python = 'python3'", "/u.toml:1: local_python 'python3' is not an absolute path"),
        ("[env]\nallow = ['A', 'B C']", "/u.toml:2: invalid variable 'B C'"),
        ("[env]\ndeny = ['=']", "/u.toml:2: invalid variable '='"),
        ("[env]\nset = { 'A*' = '' }", "/u.toml:2: invalid variable 'A*'"),
        ("[env]\nset = { PATH = '/x' }", "/u.toml:2: variable 'PATH' is reserved"),
        ("[env]\nset = { A = 1 }", "/u.toml:2: expected a string, found integer `1`"),
        ("[notify]\ncommand = ['say']", "/u.toml:2: command 'say' is not an absolute path"),
        ("[notify]\ncommand = []", "/u.toml:2: command '' is not an absolute path"),
        (
            "[agent]\nsmart = 'yes'",
            "/u.toml:2: invalid value 'yes' for agent.smart: expected auto, on or off",
        ),
    ];
    for (text, expected) in rows {
        let error = config(text, "").unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let java = config("toolchains = ['java']\n[kind.java]\ntools = ['javac']", "").unwrap();
    assert_eq!(java.toolchains.value.words(), ["java"]);
    assert!(java.kinds.policy.all_tools().contains("javac"));
}
