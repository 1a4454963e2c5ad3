//! Real agents in pods: a task with tools for a scripted model, and their screens, detached and attached.
//!
//! `cargo xtask test kubernetes` runs them on the cluster of kubectl, for each agent whose image this
//! machine has. `AIFO_TEST_MODEL_ADDRESS` is this machine's address for pods, if it is not that towards
//! the first node.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use aifo_tests::model::{Agent, FakeModel, KEY, Script, Start};
use aifo_tests::{
    Engine, PodCluster, Running, Signal, Tmux, eventually, fresh_id, is_alive, is_zombie,
    send_signal,
};

/// Some agents load for many seconds, after their image was pulled.
const PATIENCE: Duration = Duration::from_secs(240);
const MAKEFILE: &str = "where:\n\t@echo made for $$CARGO_HOME\nslow:\n\t@sleep 3; echo made slowly; echo of the pod >made.txt\n";
/// Runs a command, then others that are typed, with the terminal's modes before and after each.
const AROUND: &str = "stty -g >before; \"$@\"; code=$?; stty -g >after; echo left with $code
    while read -r line; do clear; \"$1\" attach --backend kubernetes; code=$?; stty -g >after
    echo left with $code; done";

/// An agent with its image in the cluster, its model, and the secret with the model's key.
struct PodAgent {
    agent: Agent,
    cluster: PodCluster,
    image: String,
    secret: String,
    model: FakeModel,
    _relay: Relay,
}

/// A process in the pod that passes its loopback port on to the model: a key is sent without TLS to no other
/// address.
struct Relay {
    is_over: Arc<AtomicBool>,
    started: Option<JoinHandle<Option<Child>>>,
}

const RELAY: &str = "import socket, sys, threading
def copy(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass
host, port = sys.argv[1], int(sys.argv[2])
server = socket.create_server(('127.0.0.1', port))
while True:
    client, _ = server.accept()
    model = socket.create_connection((host, port))
    threading.Thread(target=copy, args=(client, model), daemon=True).start()
    threading.Thread(target=copy, args=(model, client), daemon=True).start()
";

impl Relay {
    /// Starts it as soon as the pod runs.
    fn to(model: SocketAddr) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let started = thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    if let Some(pod) = running_pod() {
                        let (host, port) = (model.ip().to_string(), model.port().to_string());
                        let mut exec = Command::new("kubectl");
                        exec.args(["exec", "--stdin", &pod, "--container", "rust", "--"]);
                        exec.args(["python3", "-c", RELAY, &host, &port]).stdin(Stdio::piped());
                        let mut exec = exec.stderr(Stdio::null()).spawn().ok()?;
                        thread::sleep(Duration::from_secs(1));
                        // A pod runs before all of its containers do.
                        if let Ok(None) = exec.try_wait() {
                            return Some(exec);
                        }
                    }
                    thread::sleep(Duration::from_millis(100));
                }
                None
            }
        });
        Relay { is_over, started: Some(started) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let started = self.started.take().and_then(|it| it.join().ok()).flatten();
        if let Some(mut child) = started {
            // It may have ended with the pod.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The pod of the session, when it runs. These tests run one after the other.
fn running_pod() -> Option<String> {
    let mut kubectl = Command::new("kubectl");
    kubectl.args(["get", "pods", "--selector=app.kubernetes.io/managed-by=aifo", "--output=name"]);
    kubectl.args(["--field-selector=status.phase=Running"]);
    let pods = String::from_utf8(kubectl.output().ok()?.stdout).ok()?;
    pods.lines().next().map(str::to_owned)
}

/// The agents of `AIFO_TEST_AGENTS` (default: all) whose images this machine has; they are pushed.
fn agents(test: &str) -> Vec<Agent> {
    let Some(engine) = Engine::of_run(test) else { return Vec::new() };
    let wanted = std::env::var("AIFO_TEST_AGENTS").unwrap_or_default();
    let wanted =
        |agent: &Agent| wanted.is_empty() || wanted.split(',').any(|name| name == agent.name());
    let ready = |agent: &Agent| {
        let image = format!("aifo-agent-{}:latest", agent.name());
        let is_ready = engine.command(["image", "inspect", &image]).output();
        let is_ready = is_ready.is_ok_and(|known| known.status.success());
        if !is_ready {
            eprintln!("skipped: {test}: {0}: aifo-coder images build {0}", agent.name());
        }
        is_ready
    };
    Agent::ALL.into_iter().filter(wanted).filter(ready).collect()
}

/// Runs a test for each agent. Without a cluster of kubectl, reports it as skipped.
fn with_agents(test: &str, agents_of_test: &[Agent], script: &Script, run: impl Fn(&PodAgent)) {
    for agent in agents(test).into_iter().filter(|agent| agents_of_test.contains(agent)) {
        let Some(cluster) = PodCluster::of_kubectl(test) else { return };
        let engine = Engine::of_run(test).unwrap();
        let image = cluster.provide(&format!("aifo-agent-{}:latest", agent.name()), &engine);
        let model = FakeModel::bind(SocketAddr::from((own_address(), 0)), script.clone());
        let secret = format!("aifo-test-{}", fresh_id());
        let (model, workspace) = (model.unwrap(), cluster.setup().workspace());
        fs::write(workspace.join("Makefile"), MAKEFILE).unwrap();
        let relay = Relay::to(model.address());
        run(&PodAgent { agent, cluster, image, secret, model, _relay: relay });
    }
}

/// This machine's address for pods.
fn own_address() -> IpAddr {
    if let Ok(address) = std::env::var("AIFO_TEST_MODEL_ADDRESS") {
        return address.parse().expect("AIFO_TEST_MODEL_ADDRESS is an address");
    }
    let path = "jsonpath={.items[0].status.addresses[?(@.type==\"InternalIP\")].address}";
    let mut kubectl = Command::new("kubectl");
    let nodes = kubectl.args(["get", "nodes", "--output", path]).output().unwrap();
    let node = String::from_utf8(nodes.stdout).unwrap();
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // A dual-stack node has two addresses.
    let address = node.split_whitespace().next().unwrap_or_default();
    socket.connect((address, 9)).expect("the first node has an address");
    socket.local_addr().unwrap().ip()
}

impl PodAgent {
    /// `run` in a pod, with the settings of the agent where it finds them there: variables, the secret,
    /// and files of the workspace.
    fn run(&self, start: &Start) -> Command {
        let name = self.agent.name();
        let (keys, plain): (Vec<_>, Vec<_>) = start.environment.iter().partition(|(name, _)| {
            name.ends_with("_KEY") || name.ends_with("_URL") || name.ends_with("_BASE")
        });
        let mut create = Command::new("kubectl");
        create.args(["create", "secret", "generic", &self.secret]).stdout(Stdio::null());
        create.args(keys.iter().map(|(name, value)| format!("--from-literal={name}={value}")));
        assert!(create.status().unwrap().success(), "{name}: the secret is created");
        for (path, text) in &start.files {
            let path = path.strip_prefix(".config/opencode/").unwrap_or(path);
            let file = self.cluster.setup().workspace().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let tools = format!("rust={}", self.cluster.image());
        let mut run = self.cluster.coder(&["run", "--backend", "kubernetes", "--net", "open"]);
        run.args(["--launcher-image", self.cluster.launcher(), "--image", &self.image]);
        run.args(["--toolchain", "rust", "--toolchain-image", &tools]);
        if self.agent == Agent::Vibe {
            run.args(["--keys", "pass"]);
        }
        run.args(["--keys-secret", &self.secret]).args(&start.command);
        run.envs(plain.iter().map(|(name, value)| (format!("AIFO_ENV_{name}"), value)));
        run.current_dir(self.cluster.setup().workspace());
        run
    }
}

impl Drop for PodAgent {
    fn drop(&mut self) {
        let mut kubectl = Command::new("kubectl");
        let _ = kubectl.args(["delete", "secret", &self.secret]).stdout(Stdio::null()).status();
        if thread::panicking() {
            let mut kubectl = Command::new("kubectl");
            kubectl.args(["delete", "pod,networkpolicy", "--wait=false"]);
            kubectl.args(["--selector=app.kubernetes.io/managed-by=aifo"]);
            let _ = kubectl.stdout(Stdio::null()).status();
        }
    }
}

/// The start of the script's task with a key of the secret.
fn task(agent: Agent, url: &str, script: &Script) -> Start {
    // opencode and vibe take no base URL from a variable, but from settings.
    let keyed = (agent != Agent::Opencode).then(|| agent.with_key(url, script)).flatten();
    let mut start = keyed.unwrap_or_else(|| agent.headless(url, script));
    if agent == Agent::Vibe {
        // Its home in the workspace, and the key of its row, as it gets no other.
        start.environment =
            vec![("MISTRAL_API_KEY", KEY.to_owned()), ("VIBE_HOME", "/workspace/.vibe".to_owned())];
        for (_, text) in &mut start.files {
            *text = text.replace("FAKE_KEY", "MISTRAL_API_KEY");
        }
    }
    start
}

#[test]
#[ignore = "container: cargo xtask test kubernetes"]
fn an_agent_does_its_task_with_tools_in_a_pod() {
    let test = "an_agent_does_its_task_with_tools_in_a_pod";
    let script = Script::new().shell("make where").shell("make slow").say("It is done.");
    with_agents(test, &Agent::ALL, &script, |pod| {
        let name = pod.agent.name();
        let mut start = task(pod.agent, &pod.model.url_at("127.0.0.1"), &script);
        start.command.retain(|word| word != "--no-daemon");
        let (reader, mut writer) = std::io::pipe().unwrap();
        let running = Running::start(pod.run(&start).stdin(reader));
        // Some agents do not read it.
        let _ = writer.write_all(start.stdin.as_bytes());
        drop(writer);
        let (pid, started) = (running.pid(), Instant::now());
        while is_alive(pid) && !is_zombie(pid) {
            assert!(
                started.elapsed() < PATIENCE,
                "{name} does not end: {:?}",
                pod.model.requests()
            );
            thread::sleep(Duration::from_millis(100));
        }
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{name}: {outcome:?}");
        let results = pod.model.results();
        let outputs: Vec<_> = results.iter().map(|result| result.output.as_str()).collect();
        assert_eq!(outputs.len(), 2, "{name}: {outputs:?}");
        assert!(outputs[0].contains("made for /home/coder/.cargo"), "{name}: {outputs:?}");
        assert!(outputs[1].contains("made slowly"), "{name}: {outputs:?}");
        let made = fs::read_to_string(pod.cluster.setup().workspace().join("made.txt"));
        assert_eq!(made.ok().as_deref(), Some("of the pod\n"), "{name}: the file is fetched");
        eprintln!("{name}: did its task in a pod");
    });
}

/// Its prompt, and the keys that end it.
fn screen(agent: Agent) -> (&'static str, &'static [&'static str]) {
    match agent {
        Agent::Codex => ("OpenAI Codex", &["C-c", "C-c"]),
        _ => ("Ask anything", &["C-c"]),
    }
}

#[test]
#[ignore = "container: cargo xtask test kubernetes"]
fn an_agents_screen_is_left_and_shown_again_in_a_pod() {
    let test = "an_agents_screen_is_left_and_shown_again_in_a_pod";
    let script = Script::new().shell("make where").shell("make slow").say("The end of it.");
    with_agents(test, &[Agent::Codex, Agent::Opencode], &script, |pod| {
        let (name, (ready, end)) = (pod.agent.name(), screen(pod.agent));
        let url = pod.model.url_at("127.0.0.1");
        let mut start = pod.agent.interactive(&url);
        if pod.agent == Agent::Codex {
            start.files.clear();
            start.environment = pod.agent.with_key(&url, &script).unwrap().environment;
            start.command.extend(["--model", "aifo-model"].map(str::to_owned));
        }
        start.command.retain(|word| word != "--no-daemon");
        let command = pod.run(&start);
        let workspace = pod.cluster.setup().workspace();
        let mut around = Command::new("/bin/sh");
        around.args(["-c", AROUND, "-"]).arg(command.get_program()).args(command.get_args());
        around.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        around.env("TERM", "tmux-256color").env("COLORTERM", "truecolor");
        let tmux = Tmux::start(around.current_dir(&workspace));
        let patient = |text: &str| {
            let started = Instant::now();
            while !tmux.screen().contains(text) {
                let screen = tmux.screen();
                assert!(started.elapsed() < PATIENCE, "{name} never showed {text:?}:\n{screen}");
                thread::sleep(Duration::from_millis(50));
            }
        };
        patient(ready);
        tmux.press(&["w", "o", "r", "d"]);
        patient("word");
        tmux.press(&["C-\\", "C-d"]);
        patient("left with 0");
        let modes = ["before", "after"].map(|it| fs::read_to_string(workspace.join(it)).unwrap());
        assert_eq!(modes[0], modes[1], "{name} leaves the terminal as it was");
        assert_eq!(tmux.value("#{alternate_on} #{mouse_any_flag}"), "0 0", "{name}");
        // In another size, and with a killed kubectl.
        tmux.resize(100, 40);
        tmux.press(&["Enter"]);
        patient("word");
        let id = pod.cluster.latest();
        let relays = pod.cluster.relays(&id);
        relays.iter().for_each(|pid| send_signal(*pid, Signal::SIGKILL));
        eventually("the client has connected again", || {
            pod.cluster.relays(&id).iter().any(|pid| !relays.contains(pid))
        });
        patient("word");
        // It works without a client.
        tmux.press(&["Enter"]);
        pod.model.called(0);
        tmux.press(&["C-\\", "C-d"]);
        patient("left with 0");
        pod.model.finished();
        tmux.press(&["Enter"]);
        patient("The end of it.");
        tmux.press(end);
        patient("left with ");
        let outputs: Vec<_> = pod.model.results().into_iter().map(|it| it.output).collect();
        assert!(outputs[0].contains("made for /home/coder/.cargo"), "{name}: {outputs:?}");
        let made = fs::read_to_string(workspace.join("made.txt")).ok();
        assert_eq!(made.as_deref(), Some("of the pod\n"), "{name}: the file is fetched");
        pod.cluster.expect_nothing_left(&id);
        eprintln!("{name}: was left and shown again in a pod");
    });
}
