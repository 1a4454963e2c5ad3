//! The agent container, tested with commands in place of agents: its environment, its isolation,
//! and its ending (`spec/agents.md`).

mod in_place;
mod places;
mod start;
mod state;

use std::fs;
use std::path::Path;
use std::process::Command;

use aifo_tests::{ContainerSetup, EVERY_TOOL, Engine, Outcome, Running, write_script};

/// Prints a variable that only one kind's sidecar has.
pub(crate) const WHERE: &str = "all:\n\t@echo made for $${CCACHE_DIR:-nobody}\n";
/// Its output in the c-cpp sidecar.
pub(crate) const MADE: &str = "made for /var/cache/aifo/ccache\n";

/// Sidecars for c-cpp and python, and a workspace whose `make` prints where it ran.
pub(crate) fn containers(engine: &Engine) -> ContainerSetup {
    let containers = ContainerSetup::of(engine).kind("c-cpp").kind("python");
    fs::write(containers.setup().workspace().join("Makefile"), WHERE).unwrap();
    containers
}

/// `aifo-coder run` of a command in a container.
pub(crate) fn contained(containers: &ContainerSetup, command: &[&str]) -> Command {
    let mut run = containers.command("run");
    run.args(["--image", EVERY_TOOL, "--"]).args(command);
    run
}

/// Runs a shell script as the agent, which must succeed; returns its output.
#[track_caller]
pub(crate) fn printed(containers: &ContainerSetup, script: &str) -> String {
    let outcome = Outcome::of(&mut contained(containers, &["sh", "-c", script]));
    outcome.exited(0).text()
}

/// Writes a script into the workspace, which is an agent of this name.
fn script(containers: &ContainerSetup, name: &str, body: &str) -> String {
    let path = containers.setup().workspace().join(name);
    write_script(&path, body);
    path.display().to_string()
}

pub(crate) fn user_file(containers: &ContainerSetup, text: &str) {
    let dir = containers.setup().scratch().join("home/.config/aifo");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), text).unwrap();
}

/// The lines of `env` with this prefix.
fn those_of(text: &str, beginning: &str) -> Vec<String> {
    let mut lines: Vec<_> =
        text.lines().filter(|line| line.starts_with(beginning)).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn every_agent_has_the_same_path_and_its_own_switches() {
    let Some(engine) = Engine::of_run("every_agent_has_the_same_path_and_its_own_switches") else {
        return;
    };
    let first = "PATH=/opt/aifo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:";
    let rows = [
        ("letta", "1", "1", "0"),
        ("codex", "1", "1", "0"),
        ("crush", "1", "1", "0"),
        ("opencode", "1", "1", "0"),
        ("aider", "1", "0", "1"),
        ("openhands", "1", "0", "1"),
        ("somebody", "0", "0", "0"),
    ];
    for (name, smart, node, python) in rows {
        let containers = ContainerSetup::of(&engine);
        let agent = script(&containers, name, "env");
        let outcome = Outcome::of(&mut contained(&containers, &[&agent]));
        let text = outcome.exited(0).text();
        assert_eq!(those_of(&text, "AIFO_AGENT_NAME="), [format!("AIFO_AGENT_NAME={name}")]);
        let switches = [
            format!("AIFO_SHIM_SMART={smart}"),
            format!("AIFO_SHIM_SMART_NODE={node}"),
            format!("AIFO_SHIM_SMART_PYTHON={python}"),
        ];
        assert_eq!(those_of(&text, "AIFO_SHIM_SMART"), switches, "{name}");
        let path = those_of(&text, "PATH=");
        assert!(path.len() == 1 && path.iter().all(|path| path.starts_with(first)), "{path:?}");
        assert_eq!(
            those_of(&text, "AIFO_TOOLEEXEC_URL="),
            ["AIFO_TOOLEEXEC_URL=unix:///run/aifo/exec.sock"]
        );
        let workspace = containers.setup().workspace();
        let names = [
            format!("AIFO_WORKSPACE={}", workspace.display()),
            "AIFO_WORKSPACE_ALIAS=/workspace".to_owned(),
        ];
        assert_eq!(those_of(&text, "AIFO_WORKSPACE"), names);
        assert_eq!(those_of(&text, "HOME="), ["HOME=/home/coder"]);
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn tools_run_in_their_sidecars_whatever_shell_calls_them() {
    let Some(engine) = Engine::of_run("tools_run_in_their_sidecars_whatever_shell_calls_them")
    else {
        return;
    };
    let containers = containers(&engine);
    let shells = [
        "make",
        "sh -c make",
        "bash -c make",
        "bash -lc make",
        "sh -lc make",
        "env -i /bin/bash -lc make",
        // As agents start servers: with PATH and little else.
        "env -i PATH=\"$PATH\" make",
        "env -i /opt/aifo/bin/make",
        "true | make | cat",
    ];
    for shell in shells {
        assert_eq!(printed(&containers, shell), MADE, "{shell}");
    }
    let heredoc = "python3 - <<'EOF'\nimport os\nprint(os.environ['PIP_CACHE_DIR'])\nEOF";
    assert_eq!(printed(&containers, heredoc), "/var/cache/aifo/pip/pip\n");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_agents_own_programs_stay_with_it() {
    let Some(engine) = Engine::of_run("the_agents_own_programs_stay_with_it") else { return };
    let containers = ContainerSetup::of(&engine).kind("node").kind("python");
    let setup = containers.setup();
    fs::write(setup.workspace().join("app.js"), "console.log(!!process.env.NPM_CONFIG_CACHE)")
        .unwrap();
    fs::write(
        setup.workspace().join("app.py"),
        "import os\nprint('PIP_CACHE_DIR' in os.environ)\n",
    )
    .unwrap();
    let own = "mkdir -p /tmp/own; cp app.js app.py /tmp/own;";
    let js = format!("{own} node /tmp/own/app.js; node app.js");
    let codex = script(&containers, "codex", &js);
    let log = setup.scratch().join("home");
    let run = |agent: &str| Outcome::of(&mut contained(&containers, &[agent])).exited(0).text();
    assert_eq!(run(&codex), "false\ntrue\n");
    let aider =
        script(&containers, "aider", &format!("{own} python3 /tmp/own/app.py; python3 app.py"));
    assert_eq!(run(&aider), "False\nTrue\n");
    // Programs in the agent container do not reach the proxy.
    let calls =
        Outcome::of(Command::new("grep").args(["-rh", "own/app", "--include=*.jsonl"]).arg(log));
    assert_eq!(calls.text(), "");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn it_gets_the_variables_of_its_row_and_nothing_else_secret() {
    let Some(engine) = Engine::of_run("it_gets_the_variables_of_its_row_and_nothing_else_secret")
    else {
        return;
    };
    let containers = ContainerSetup::of(&engine)
        .env("CODEX_API_KEY", "sk-of-the-row")
        .env("GITHUB_TOKEN", "ghp-of-nobody")
        .env("AIFO_ENV_MINE", "given")
        .env("AIFO_ENV_HOME", "/not/that")
        .env("AIFO_ENV_LD_PRELOAD", "/not/that.so")
        .env("COLORTERM", "truecolor");
    let agent =
        script(&containers, "codex", "env; touch started; while ! [ -e seen ]; do sleep 0.1; done");
    let run = Running::start(&mut contained(&containers, &[&agent]));
    let workspace = containers.setup().workspace();
    aifo_tests::eventually("the agent has started", || workspace.join("started").exists());
    let known = engine.all_of(containers.setup().scratch());
    let container =
        known.iter().find(|name| name.starts_with("aifo-agent-")).expect("it runs").clone();
    let inspected = engine.text(["inspect", &container]);
    let lines = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    let lines: Vec<u8> = lines.flatten().collect();
    fs::write(workspace.join("seen"), "").unwrap();
    let outcome = run.finish();
    let text = outcome.exited(0).text();
    for line in
        ["CODEX_API_KEY=sk-of-the-row", "MINE=given", "COLORTERM=truecolor", "HOME=/home/coder"]
    {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    for secret in ["ghp-of-nobody", "/not/that", "AIFO_ENV_"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let token = those_of(&text, "AIFO_TOOLEEXEC_TOKEN=");
    let token =
        token.first().and_then(|line| line.split('=').nth(1)).expect("it has one").to_owned();
    let lines = String::from_utf8_lossy(&lines).into_owned();
    for secret in [token.as_str(), "sk-of-the-row", "given"] {
        assert!(!inspected.contains(secret), "the engine knows {secret}");
        assert!(secret == "given" || !lines.contains(secret), "a command line has {secret}");
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn it_reaches_the_proxy_and_its_own_and_nothing_else() {
    let Some(engine) = Engine::of_run("it_reaches_the_proxy_and_its_own_and_nothing_else") else {
        return;
    };
    let containers = containers(&engine).flag("--net", "separate");
    let home = containers.setup().scratch().join("home");
    fs::write(home.join(".netrc"), "a secret").unwrap();
    let look = "ls -A /run/aifo /run/aifo-agent /home/coder; \
                ls /var/run/docker.sock /run/docker.sock /run/podman/podman.sock 2>&1 | grep -vc 'o such file'; \
                touch /run/aifo/x /opt/aifo/bin/x /etc/passwd 2>/dev/null && echo written; \
                grep -h Cap /proc/self/status | grep -vc 0000000000000000; \
                grep NoNewPrivs /proc/self/status";
    let expected = "/home/coder:\n.private\n\n/run/aifo:\nexec.sock\nshim.env\n\n/run/aifo-agent:\n\
                    0\n0\nNoNewPrivs:\t1\n";
    let seen = printed(&containers, &format!("{look}; true"));
    // The bounding set grants nothing by itself.
    let seen = seen.replace("\n1\nNoNewPrivs", "\n0\nNoNewPrivs");
    assert_eq!(seen, expected);
    // The sidecar can see neither the proxy nor the agent.
    fs::write(
        containers.setup().workspace().join("Makefile"),
        "all:\n\t@ls -A /run/aifo /run/aifo-agent /opt/aifo/bin 2>/dev/null; true\n",
    )
    .unwrap();
    let seen = printed(&containers, "make");
    assert_eq!(seen, "/opt/aifo/bin:\naifo-runner\n\n/run/aifo:\n");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn its_user_has_a_passwd_entry() {
    let Some(engine) = Engine::of_run("its_user_has_a_passwd_entry") else { return };
    let containers = ContainerSetup::of(&engine);
    let home = containers.setup().scratch().join("home");
    fs::write(
        home.join(".gitconfig"),
        "[user]\n\tname = \"Jo \\\"J\\\" #1\"\n\temail = jo@example.org\n\
         [init]\n\tdefaultBranch = trunk\n[core]\n\texcludesFile = ~/mine\n\tpager = touch ran\n\
         [commit]\n\tgpgsign = true\n",
    )
    .unwrap();
    fs::write(home.join("mine"), "*.orig\n").unwrap();
    let look = "id -un; echo $USER $LOGNAME $SHELL; cat /etc/gitconfig /etc/git-excludes; \
                /usr/bin/python3 -c 'import os, pwd; me = pwd.getpwuid(os.getuid()); print(me.pw_dir, me.pw_shell)'";
    let expected = "coder\ncoder coder /bin/bash\n[user]\n\tname = \"Jo \\\"J\\\" #1\"\n\
                    [user]\n\temail = \"jo@example.org\"\n[init]\n\tdefaultbranch = \"trunk\"\n\
                    [core]\n\texcludesFile = /etc/git-excludes\n*.orig\n/home/coder /bin/bash\n";
    let outcome = Outcome::of(&mut contained(&containers, &["sh", "-c", look]));
    assert_eq!(outcome.exited(0).text(), expected);
    assert!(outcome.stderr.contains("are not signed: commit.gpgsign"), "{}", outcome.stderr);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn it_starts_where_the_user_is() {
    let Some(engine) = Engine::of_run("it_starts_where_the_user_is") else { return };
    let containers = containers(&engine);
    let below = containers.setup().workspace().join("sub/folder");
    fs::create_dir_all(&below).unwrap();
    fs::write(below.join("Makefile"), "all:\n\t@pwd\n").unwrap();
    let from = |dir: &Path| {
        let mut run = contained(&containers, &["sh", "-c", "pwd; make"]);
        Outcome::of(run.current_dir(dir)).exited(0).text()
    };
    let here = format!("{}\n", below.display());
    assert_eq!(from(&below), [here.as_str(), &here].concat());
    let root = format!("{}\n", containers.setup().workspace().display());
    assert!(from(Path::new("/")).starts_with(&root), "elsewhere is the workspace's root");
    let mut run = contained(&containers, &["sh", "-c", "cd /workspace/sub/folder && make"]);
    assert_eq!(Outcome::of(&mut run).exited(0).text(), "/workspace/sub/folder\n");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_server_with_a_trimmed_environment_runs_in_its_sidecar() {
    let Some(engine) = Engine::of_run("a_server_with_a_trimmed_environment_runs_in_its_sidecar")
    else {
        return;
    };
    let containers = ContainerSetup::of(&engine).kind("node").kind("python");
    let workspace = containers.setup().workspace();
    // The agent starts a server and sends it a thousand requests.
    fs::write(workspace.join("agent.py"), include_str!("container_agents/agent.py")).unwrap();
    fs::write(workspace.join("mcp.py"), include_str!("container_agents/mcp.py")).unwrap();
    fs::write(workspace.join("mcp.js"), include_str!("container_agents/mcp.js")).unwrap();
    for server in [["python3", "mcp.py"], ["node", "mcp.js"]] {
        let command = [&["/usr/bin/python3", "agent.py"][..], &server].concat();
        let outcome = Outcome::of(&mut contained(&containers, &command));
        assert_eq!(outcome.exited(0).text(), "1000 answers from /var/cache/aifo\n", "{server:?}");
    }
}
