//! `aifo-coder config`, and the effect of the configuration on sessions.
//!
//! Proves `spec/cli.md#session-files`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use aifo_tests::{Outcome, SessionSetup, Tool};

const USER: &str = "home/.config/aifo/config.toml";
const WORKSPACE: &str = "workspace/.aifo.toml";

fn path(setup: &SessionSetup, file: &str) -> PathBuf {
    setup.workspace().parent().expect("a setup has one parent directory").join(file)
}

fn write(setup: &SessionSetup, file: &str, text: &str) -> PathBuf {
    let path = path(setup, file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

fn coder(setup: &SessionSetup, args: &[&str]) -> Outcome {
    Outcome::of(setup.coder().args(args))
}

/// The line of `config show` with a key, with single spaces.
#[track_caller]
fn shown(setup: &SessionSetup, args: &[&str], key: &str) -> String {
    let outcome = coder(setup, &[&["config", "show"], args].concat());
    let text = outcome.exited(0).text();
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(key));
    let words: Vec<_> = line.unwrap_or_default().split_whitespace().skip(1).collect();
    words.join(" ")
}

#[test]
fn each_layer_wins_over_the_one_before() {
    let setup = SessionSetup::new();
    assert_eq!(shown(&setup, &[], "max_secs"), "(no limit) built in");
    let user = write(&setup, USER, "# mine\nmax_secs = 500\n");
    let from_user = format!("500 {}:2", user.display());
    assert_eq!(shown(&setup, &[], "max_secs"), from_user);
    let setup = setup.env("AIFO_TOOLEEXEC_MAX_SECS", "400");
    assert_eq!(shown(&setup, &[], "max_secs"), "400 AIFO_TOOLEEXEC_MAX_SECS");
    assert_eq!(shown(&setup, &["--max-secs=300"], "max_secs"), "300 --max-secs");
    let workspace = write(&setup, WORKSPACE, "max_secs = 200\n");
    let from_workspace = format!("200 {}:1", workspace.display());
    assert_eq!(shown(&setup, &["--max-secs=300"], "max_secs"), from_workspace);
    assert_eq!(shown(&setup, &["--max-secs=100"], "max_secs"), "100 --max-secs");
}

#[test]
fn toolchains_come_from_the_project_unless_they_are_named() {
    let setup = SessionSetup::new();
    fs::write(setup.workspace().join("Cargo.toml"), "").unwrap();
    let workspace = setup.workspace();
    let found = format!("[\"rust\",\"auto\"] the files of {}", workspace.display());
    assert_eq!(shown(&setup, &[], "toolchains"), found);
    let user = write(&setup, USER, "toolchains = ['py', 'ts', 'python']");
    let from_user = format!("[\"python\",\"node\"] {}:1", user.display());
    assert_eq!(shown(&setup, &[], "toolchains"), from_user);
    assert_eq!(
        shown(&setup, &["--toolchain=go,C++"], "toolchains"),
        "[\"go\",\"c-cpp\"] --toolchain"
    );
}

#[test]
fn json_has_every_value_with_its_layer() {
    let setup = SessionSetup::new();
    write(&setup, USER, "[kind.rust]\nallow = ['just']");
    let outcome = coder(&setup, &["config", "show", "--json"]);
    let text = outcome.exited(0).text();
    let words: Vec<_> = text.split_whitespace().collect();
    let text = words.join(" ");
    let rule = "\"key\": \"kind.rust.allow\", \"value\": [ \"just\" ], \"layer\": \"user\"";
    assert!(text.contains(rule), "{text}");
    assert!(
        text.contains("\"key\": \"listen\", \"value\": null, \"layer\": \"built-in\""),
        "{text}"
    );
}

#[test]
fn a_mistake_has_a_place_and_a_remedy() {
    let setup = SessionSetup::new();
    let user = write(&setup, USER, "\ntoolchain = ['rust']\n");
    let message = format!(
        "aifo-coder: {}:2: there is no key 'toolchain'\nhint: did you mean 'toolchains'?\n",
        user.display()
    );
    let check: &[&str] = &["config", "check"];
    for (args, code) in [(check, 1), (&["config", "show"], 1), (&["why", "make"], 1)] {
        assert_eq!(coder(&setup, args).exited(code).stderr, message, "{args:?}");
    }
    for args in [&["run", "--", "make"][..], &["exec", "--", "make"], &["serve"]] {
        assert_eq!(coder(&setup, args).exited(86).stderr, message, "{args:?}");
    }
}

#[test]
fn a_key_that_a_workspace_may_not_set_starts_nothing() {
    let setup = SessionSetup::new();
    let file = write(&setup, WORKSPACE, "[kind.rust]\nallow = ['sh']\n");
    let outcome = coder(&setup, &["run", "--", "make"]);
    let message = format!(
        "aifo-coder: {}:2: [kind.rust] allow allows tools, which a workspace's file may not do\n\
         hint: this belongs in your own file, '{}'\n",
        file.display(),
        path(&setup, USER).display()
    );
    assert_eq!(outcome.exited(86).stderr, message);
}

#[test]
fn a_workspace_may_turn_off_the_network() {
    let setup = SessionSetup::new();
    let file = write(&setup, WORKSPACE, "[containers]\nnet = 'none'\n");
    let from_workspace = format!("\"none\" {}:2", file.display());
    assert_eq!(shown(&setup, &["--net=host"], "containers.net"), from_workspace);
    let outcome = coder(&setup, &["run", "--backend=local", "--", "true"]);
    let warning = "has no effect: tools run as processes of this machine";
    assert!(outcome.stderr.contains(warning), "{}", outcome.stderr);
    write(&setup, WORKSPACE, "[containers]\nnet = 'host'\n");
    let outcome = coder(&setup, &["config", "check"]);
    let error = "other than \"none\" gives a network";
    let hint = "hint: this belongs in your own file, '";
    let stderr = &outcome.exited(1).stderr;
    assert!(stderr.contains(error) && stderr.contains(hint), "{stderr}");
    write(&setup, WORKSPACE, "net = 'none'\n");
    let outcome = coder(&setup, &["config", "check"]);
    let expected = "'net' is not a table\nhint: 'net' as a value belongs in [containers]\n";
    assert!(outcome.exited(1).stderr.contains(expected), "{}", outcome.stderr);
}

#[test]
fn a_users_file_that_an_agent_could_edit_is_not_read() {
    let setup = SessionSetup::new();
    write(&setup, "workspace/aifo/config.toml", "[kind.rust]\nallow = ['sh']\n");
    let setup = {
        let workspace = setup.workspace();
        setup.env("XDG_CONFIG_HOME", workspace.to_str().unwrap())
    };
    let outcome = coder(&setup, &["exec", "--toolchain=rust", "--", "sh", "-c", "true"]);
    let stderr = &outcome.exited(86).stderr;
    assert!(stderr.contains("is in the workspace"), "{stderr}");
    assert!(stderr.contains("hint: choose a smaller workspace"), "{stderr}");
}

/// Only a session cannot be there.
#[test]
fn commands_without_a_session_work_in_the_home_directory() {
    let setup = SessionSetup::new();
    write(&setup, USER, "[net]\nallow = ['own.example']\n");
    let home = setup.scratch().join("home");
    let there = |words: &[&str]| Outcome::of(setup.coder().current_dir(&home).args(words));
    for words in [
        &["config", "show"][..],
        &["config", "check"],
        &["why", "cargo", "test"],
        &["net", "check", "own.example"],
        &["policy", "check", "--", "git", "push"],
        &["agents"],
        &["images", "list", "--json"],
    ] {
        assert!(
            there(words).code() != Some(86) && !there(words).stderr.contains("workspace '"),
            "{words:?}"
        );
    }
    assert!(there(&["config", "show"]).exited(0).text().contains("own.example"));
    there(&["exec", "--toolchain", "rust", "cargo"]).exited(86);
}

/// Proves `spec/cli.md#net-list-net-forget`.
#[test]
fn network_rules_are_allowed_listed_and_forgotten() {
    let setup = SessionSetup::new();
    write(&setup, USER, "# mine\n[net]\nallow = [\"kept.example\"]\n");
    coder(&setup, &["net", "allow", "own.example", "other.example"]).exited(0);
    let listed = coder(&setup, &["net", "list", "--json"]).exited(0).text();
    let rules: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let rules: Vec<&str> =
        rules.as_array().unwrap().iter().filter_map(|row| row["rule"].as_str()).collect();
    for rule in ["kept.example", "own.example", "other.example", "@forges"] {
        assert!(rules.contains(&rule), "{rule}: {listed}");
    }
    let forgotten = coder(&setup, &["net", "forget", "own.example"]);
    assert!(forgotten.exited(0).text().contains("\"other.example\"]"), "{forgotten:?}");
    let none = coder(&setup, &["net", "forget", "own.example"]);
    assert!(none.exited(1).stderr.contains("has no such rule\nhint: "), "{}", none.stderr);
    let text = fs::read_to_string(path(&setup, USER)).unwrap();
    assert_eq!(text, "# mine\n[net]\nallow = [\"kept.example\", \"other.example\"]\n");
    let shown = coder(&setup, &["net", "list"]).exited(0).text();
    assert!(shown.starts_with("RULE ") && shown.contains("  all "), "{shown}");
}

#[test]
fn the_files_are_named_and_checked() {
    let setup = SessionSetup::new();
    let user = path(&setup, USER);
    let outcome = coder(&setup, &["config", "path"]);
    assert_eq!(outcome.exited(0).text(), format!("{}\n", user.display()));
    write(&setup, USER, "toolchains = ['java']\n[kind.java]\ntools = ['javac']");
    let workspace = write(&setup, WORKSPACE, "[kind.java]\ndeny = ['javac']");
    let outcome = coder(&setup, &["config", "check"]);
    let message = format!("{}: ok\n{}: ok\n", user.display(), workspace.display());
    assert_eq!(outcome.exited(0).text(), message);
    let odd = write(&setup, "odd.toml", "max_secs = 'soon'");
    let outcome = coder(&setup, &["config", "check", odd.to_str().unwrap()]);
    let place = format!("{}:1: ", odd.display());
    assert!(outcome.exited(1).stderr.contains(&place), "{}", outcome.stderr);
    coder(&setup, &["config", "check", "/nonexistent"]).exited(1);
}

#[test]
fn a_fifo_in_place_of_a_file_does_not_block() {
    let setup = SessionSetup::new();
    let file = path(&setup, WORKSPACE);
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let outcome = coder(&setup, &["config", "show"]);
    assert!(outcome.exited(1).stderr.contains("is not a file"), "{}", outcome.stderr);
}

#[test]
fn a_workspaces_file_that_is_a_link_to_elsewhere_is_not_read() {
    let setup = SessionSetup::new();
    let secret = write(&setup, "secret", "password 7");
    symlink(&secret, path(&setup, WORKSPACE)).unwrap();
    let outcome = coder(&setup, &["config", "show"]);
    assert!(outcome.exited(1).stderr.contains("leads out of the workspace"), "{}", outcome.stderr);
}

#[test]
fn tools_of_the_users_own_run_and_denied_ones_do_not() {
    let setup = SessionSetup::new().tool("just", Tool::Fake).tool("javac", Tool::Fake);
    let user = "toolchains = ['rust', 'java']\n\
                [kind.rust]\nallow = ['just']\n[kind.java]\ntools = ['javac']";
    write(&setup, USER, user);
    write(&setup, WORKSPACE, "[kind.rust]\ndeny = ['cargo', 'make']");
    for tool in ["just", "javac"] {
        let outcome = coder(&setup, &["exec", "--", tool, "say", "hi"]);
        assert_eq!(outcome.exited(0).text(), "hi\n", "{tool}");
    }
    let outcome = coder(&setup, &["exec", "--", "make", "say", "hi"]);
    assert_eq!(outcome.exited(86).text(), "");
    assert!(outcome.stderr.contains("make"), "{}", outcome.stderr);
}

/// The rows of `config show` whose keys start with `prefix`.
fn rows_of(text: &str, prefix: &str) -> Vec<String> {
    let rows = text.lines().filter(|line| line.starts_with(prefix));
    rows.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn variables_are_listed_set_and_denied() {
    let setup = SessionSetup::new();
    let user = "[env]\nallow = ['FOO', 'MY_*']\nset = { MODE = 's3cret' }\n";
    let user = write(&setup, USER, user);
    let workspace = write(&setup, WORKSPACE, "[env]\ndeny = ['MY_KEY']\n");
    let flags = ["--env=BAR", "--env", "SPEED=s3cret=s3cret", "--env=X_*"];
    let outcome = coder(&setup, &[&["config", "show"], &flags[..]].concat());
    let text = outcome.exited(0).text();
    let rows = rows_of(&text, "env.");
    let (user, workspace) = (user.display(), workspace.display());
    let expected = [
        format!("env.allow [\"FOO\",\"MY_*\"] {user}:2"),
        format!("env.set [\"MODE\"] {user}:3"),
        "env.allow [\"BAR\",\"X_*\"] --env".to_owned(),
        "env.set [\"SPEED\"] --env".to_owned(),
        format!("env.deny [\"MY_KEY\"] {workspace}:2"),
    ];
    assert_eq!(rows, expected);
    assert!(!text.contains("s3cret"), "secret values are not printed");
}

#[test]
fn rules_are_shown_one_by_one() {
    let setup = SessionSetup::new();
    let rules = "[[rule]]\nkind = ['read', 'search']\nthen = 'allow'\n\
                 [[rule]]\nrun = 'cargo test'\nnet = 'none'\n";
    let user = write(&setup, USER, rules);
    let workspace = write(&setup, WORKSPACE, "[[rule]]\npath = '.git'\nthen = 'deny'\n");
    let outcome = coder(&setup, &["config", "show", "--yes-to", "edit,fetch"]);
    let rows = rows_of(&outcome.exited(0).text(), "rule");
    let (user, workspace) = (user.display(), workspace.display());
    let expected = [
        format!("rule {{\"kind\":\"read|search\",\"then\":\"allow\"}} {user}:1"),
        format!("rule {{\"run\":\"cargo test\",\"net\":\"none\"}} {user}:4"),
        "rule {\"kind\":\"edit\",\"then\":\"allow\"} --yes-to".to_owned(),
        "rule {\"kind\":\"fetch\",\"then\":\"allow\"} --yes-to".to_owned(),
        format!("rule {{\"path\":\".git\",\"then\":\"deny\"}} {workspace}:1"),
    ];
    assert_eq!(rows, expected);
    let outcome = coder(&setup, &["config", "show", "--yes-to", "edti"]);
    let stderr = &outcome.exited(2).stderr;
    assert!(stderr.contains("did you mean 'edit'?"), "{stderr}");
}

#[test]
fn agents_that_speak_acp_are_distinguished() {
    let setup = SessionSetup::new();
    write(&setup, USER, "[agents.mine.acp]\ncommand = ['mine', '--acp']");
    let outcome = coder(&setup, &["agents", "--json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&outcome.exited(0).text()).unwrap();
    let acp = |name| &rows.iter().find(|row| row["name"] == name).unwrap()["acp"];
    assert_eq!(acp("mine"), &serde_json::json!(["mine", "--acp"]));
    assert_eq!(acp("opencode"), &serde_json::json!(["opencode", "acp"]));
    assert!(acp("aider").is_null());
}

#[test]
fn agents_are_listed_with_the_keys_that_they_use() {
    let setup = SessionSetup::new().env("OPENAI_API_KEY", "sk-x");
    write(
        &setup,
        USER,
        "[keys.anthropic]\ncommand = ['secret']\n[keys.gemini]\nurl = 'https://g.example'",
    );
    let text = coder(&setup, &["agents"]).exited(0).text();
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(row("opencode").contains(" OPENAI_API_KEY keys.anthropic "), "{text}");
    assert!(row("claude").contains(" keys.anthropic "), "{text}");
    assert!(!row("gemini ").contains("keys."), "no key is named: {text}");
    // The agent gets the key itself, and does not use the entry.
    assert!(!row("crush").contains("keys."), "{text}");
    write(&setup, USER, "[agent]\nkeys = 'pass'\n[keys.anthropic]\nenv = 'X'");
    assert!(!coder(&setup, &["agents"]).exited(0).text().contains("keys."), "not proxied");
}

#[test]
fn a_limit_that_an_agent_could_exceed_starts_nothing() {
    let setup = SessionSetup::new().env("OPENAI_API_KEY", "sk-x");
    for (limit, name) in [("max_tokens", "--max-tokens"), ("max_requests", "--max-requests")] {
        write(&setup, USER, &format!("[agent]\n{limit} = 5"));
        let outcome = coder(&setup, &["run", "--backend", "local", "--", "qwen"]);
        assert_eq!(outcome.code(), Some(86), "{outcome:?}");
        let expected = format!("{name} does not limit this agent: it runs on this machine\nhint: ");
        assert!(outcome.stderr.contains(&expected), "{outcome:?}");
        let outcome = coder(&setup, &["run", "--backend", "local", "--", "/bin/true"]);
        assert_eq!(outcome.code(), Some(0), "no agent: {outcome:?}");
        for words in [&["crush"][..], &["--keys", "pass", "qwen"]] {
            let outcome = coder(&setup, &[&["kube", "render"], words].concat());
            let expected = format!("{name} does not limit this agent: aifo adds no key");
            assert!(outcome.stderr.contains(&expected), "{words:?}: {outcome:?}");
        }
    }
}

#[test]
fn variables_that_cannot_be_passed_are_a_wrong_command_line() {
    let setup = SessionSetup::new();
    let rows = [
        ("PATH", "aifo-coder: --env: variable 'PATH' is reserved: the sidecar sets its own\n"),
        ("AIFO_EXEC=1", "aifo-coder: --env: variable 'AIFO_EXEC' is reserved"),
        ("A,B", "aifo-coder: --env: invalid variable 'A,B'\n"),
        ("=1", "aifo-coder: --env: invalid variable ''\n"),
    ];
    for (word, message) in rows {
        for command in [&["exec", "--env", word, "--", "make"][..], &["why", "--env", word, "make"]]
        {
            let outcome = coder(&setup, command);
            let stderr = &outcome.exited(2).stderr;
            assert!(stderr.starts_with(message), "{command:?}: {stderr}");
        }
    }
}

#[test]
fn shims_get_the_list_of_variables_to_send() {
    let setup = SessionSetup::new().tool("agent", Tool::Fake);
    let message = |words: &[&str]| {
        let outcome =
            coder(&setup, &[&["run", "--toolchain=rust"], words, &["--", "agent", "env"]].concat());
        let text = outcome.exited(0).text();
        text.lines().find_map(|line| line.strip_prefix("AIFO_SHIM_ENV=")).map(str::to_owned)
    };
    assert_eq!(message(&[]), None);
    assert_eq!(message(&["--env=MODE=fast"]), None, "what is set is no caller's");
    assert_eq!(message(&["--env=MY_*", "--env=FOO"]).as_deref(), Some("FOO,MY_*"));
    let words = ["run", "--toolchain=rust", "--env=FOO", "--"];
    let settings = ["sh", "-c", "cat \"${PATH%%:*}/shim.env\""];
    let setup =
        setup.tool("sh", Tool::Link("/bin/sh".into())).tool("cat", Tool::Link("/bin/cat".into()));
    let outcome = coder(&setup, &[&words[..], &settings].concat());
    let text = outcome.exited(0).text();
    assert!(text.lines().any(|line| line == "AIFO_SHIM_ENV=FOO"), "{text}");
}

#[test]
fn a_limit_of_the_workspace_ends_tools() {
    let setup = SessionSetup::new();
    write(&setup, WORKSPACE, "max_secs = 1");
    coder(&setup, &["exec", "--toolchain=rust", "--", "make", "wait"]).exited(124);
}

#[test]
fn an_agent_gets_the_switches_of_the_table_and_of_its_user() {
    let setup = SessionSetup::new().tool("codex", Tool::Fake).tool("aider", Tool::Fake);
    let setup = setup.tool("other", Tool::Fake);
    let switches = |words: &[&str]| {
        let outcome = coder(&setup, &[&["run", "--toolchain=rust"], words, &["env"]].concat());
        let text = outcome.exited(0).text();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.map(str::to_owned).unwrap_or_default()
        };
        ["AIFO_SHIM_SMART", "AIFO_SHIM_SMART_NODE", "AIFO_SHIM_SMART_PYTHON"].map(value).join("")
    };
    assert_eq!(switches(&["--", "codex"]), "110");
    assert_eq!(switches(&["--", "aider"]), "101");
    assert_eq!(switches(&["--", "other"]), "000");
    assert_eq!(switches(&["--smart-python", "--", "codex"]), "111");
    write(&setup, USER, "[agent]\nsmart = 'off'");
    assert_eq!(switches(&["--", "codex"]), "000");
    write(&setup, USER, "local_python = '/opt/venv/bin/python3'\n[agent]\nnode = true");
    assert_eq!(switches(&["--", "other"]), "110");
}

#[test]
fn rust_log_selects_log_lines() {
    let message = |level: &str| {
        let setup = SessionSetup::new().env("RUST_LOG", level);
        coder(&setup, &["exec", "--toolchain=rust", "--", "make", "say", "hi"]).exited(0).clone()
    };
    assert!(message("debug").stderr.contains("aifo-coder: exec tool=make"));
    assert!(message("warn,aifo_proxy=debug").stderr.contains("aifo-coder: exec tool=make"));
    assert_eq!(message("warn").stderr, "");
    let nonsense = message("aifo_proxy=loud");
    assert!(nonsense.stderr.contains("ignoring invalid RUST_LOG"), "{}", nonsense.stderr);
}

/// `net check` has the rules of a session with the same flags.
#[test]
fn net_check_follows_the_flags() {
    let setup = SessionSetup::new();
    write(&setup, WORKSPACE, "[net]\ndeny = [\"denied.example\"]\n");
    let rows: [(&[&str], &[&str]); 12] = [
        (
            &["static.crates.io"],
            &["static.crates.io:443\n", "tools  allowed: '@rust' (rust, default)"],
        ),
        (
            &["static.crates.io", "--toolchain", "go"],
            &["tools:rust  allowed: '@rust'", "tools:go    refused: no rule allows it"],
        ),
        (
            &["x.example:8443", "--allow-net", "x.example:8443"],
            &["tools  allowed: 'x.example:8443' (--allow-net)", "agent  allowed: 'x.example:8443'"],
        ),
        (
            &["x.example", "--toolchain", "go", "--allow-net", "go=x.example"],
            &["tools:rust  refused", "tools:go    allowed: 'x.example' (go, --allow-net)"],
        ),
        (
            &["x.example", "--allow-net", "agent=x.example"],
            &["tools  refused", "agent  allowed: 'x.example' (agent, --allow-net)"],
        ),
        (&["x.example:22", "--allow-net", "x.example:443"], &["tools  refused", "agent  refused"]),
        (&["x.example", "--net", "open"], &["x.example:443, if --net were names; it is open\n"]),
        (&["x.example", "--net", "learn"], &["--net learn allows names without a rule\n"]),
        (
            &["api.anthropic.com", "--agent", "claude"],
            &["tools  refused", "agent  allowed: '@agent-model' (agent, default)"],
        ),
        (&["api.anthropic.com"], &["agent  refused: no rule allows it\nhint: allow it with: "]),
        (
            &["denied.example", "--allow-net", "denied.example"],
            &["tools  refused: net.deny takes it away with 'denied.example'"],
        ),
        (
            &["x.example", "--json", "--allow-net", "rust=x.example"],
            &["\"mode\": \"names\"", "\"only\": \"rust\"", "\"source\": \"--allow-net\""],
        ),
    ];
    for (args, expected) in rows {
        let outcome = coder(&setup, &[&["net", "check", "--toolchain", "rust"], args].concat());
        let text = outcome.exited(0).text();
        for line in expected {
            assert!(text.contains(line), "{args:?} lacks {line:?}:\n{text}");
        }
    }
    let rows: [(&[&str], &str); 4] = [
        (&["x.example", "--agent", "nope"], "there is no agent 'nope'\nhint: "),
        (&["a/b"], "the name has a character other than"),
        (&["*.example"], "is not one name with one port\nhint: for example: "),
        (&["x.example", "--allow-net", "http://x.example/"], "is a URL"),
    ];
    for (args, expected) in rows {
        let outcome = coder(&setup, &[&["net", "check"], args].concat());
        assert!(outcome.exited(2).stderr.contains(expected), "{args:?}: {outcome:?}");
    }
}

/// A value that can never be valid is a wrong command line, whatever else is configured.
#[test]
fn a_bad_value_of_a_flag_is_a_wrong_command_line() {
    let setup = SessionSetup::new();
    let run = ["run", "--backend=local", "--", "true"];
    let acp = ["acp", "--backend=local"];
    let rows: &[(&[&str], &str, &[&str])] = &[
        (&run, "publish", &["", "99999:1", "x", "1:0", "localhost:1:1"]),
        (&run, "host-port", &["0", "53", "99999", "x"]),
        (&run, "agent-port", &["0", "53", "99999", "x"]),
        (&run, "cpus", &["0", "-1", "1e99", "nan", "0.001"]),
        (&run, "memory", &["", "x", "-1", "1k"]),
        (&run, "pids", &["-1", "x", "1.5"]),
        (&run, "max-secs", &["-1", "x"]),
        (&run, "idle-stop", &["-1", "x"]),
        (&run, "image", &["", "-x", "a b", "a\nb"]),
        (&run, "listen", &["", "x", "tcp://1.2.3.4:99999"]),
        (&run, "net", &["", "x"]),
        (&run, "join", &["", "a b", "host"]),
        (&acp, "agent-command", &["", " ", "'x"]),
        (&acp, "allow-request", &["", "a b", "*", "_*", "_/*", "fs/*", "_a*"]),
        (&["images", "list"], "engine", &["", "x", "Docker"]),
        (&["setup"], "engine", &["", "x"]),
        (&["web", "codex"], "listen", &["", "x", "127.0.0.1:99999", "127.0.0.1"]),
    ];
    for (command, flag, values) in rows {
        for value in *values {
            let given = format!("--{flag}={value}");
            let (first, rest) = command.split_first().unwrap();
            let words = [&[*first][..], &[&given], rest].concat();
            // The option of a subcommand comes after it.
            let words = if *first == "images" { vec!["images", "list", &given] } else { words };
            let outcome = coder(&setup, &words);
            let stderr = &outcome.exited(2).stderr;
            assert!(stderr.contains(&format!("--{flag}")), "{words:?}: {stderr}");
        }
    }
}

/// A typing error in `--workspace` or `--agent` is not taken for an empty project.
#[test]
fn a_workspace_or_an_agent_that_does_not_exist_is_a_usage_error() {
    let setup = SessionSetup::new();
    let commands: [&[&str]; 8] = [
        &["why", "git", "push"],
        &["why", "--toolchains"],
        &["config", "show"],
        &["config", "check"],
        &["agents"],
        &["state", "clear", "--project"],
        &["policy", "test"],
        &["policy", "check", "git", "push"],
    ];
    for command in commands {
        let at =
            command.len().min(if command[0] == "why" || command[0] == "agents" { 1 } else { 2 });
        let (head, rest) = command.split_at(at);
        let words = [head, &["--workspace", "/nonexistent"], rest].concat();
        let outcome = Outcome::of(setup.coder().args(&words));
        let errors = &outcome.exited(2).stderr;
        let expected = "'/nonexistent' cannot be the workspace: No such file or directory";
        assert!(errors.contains(expected) && errors.contains("\nhint: "), "{words:?}: {errors}");
    }
    let outcome = Outcome::of(setup.coder().args(["why", "--agent", "bogus", "git", "push"]));
    let errors = &outcome.exited(2).stderr;
    assert!(errors.contains("there is no agent 'bogus'\nhint: "), "{errors}");
    let outcome = Outcome::of(setup.coder().args(["why", "--agent", "codxe", "git", "push"]));
    let errors = &outcome.exited(2).stderr;
    assert!(errors.contains("did you mean 'codex'?"), "{errors}");
}
