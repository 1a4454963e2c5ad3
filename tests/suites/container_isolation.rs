//! Isolation of a tool in a container. As a control, each probe also runs in a container that was
//! weakened on purpose, and finds something there.
//!
//! Proves `spec/config.md#the-workspaces-file`.

mod probes;

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;

use aifo_tests::{
    ContainerSession, ContainerSetup, EVERY_TOOL, Engine, Outcome, Running, Scratch, argv,
    environment, eventually, is_stopped, status_field,
};

/// Runs a probe in a control container, weakened by these arguments of `run`.
#[track_caller]
fn weaker(engine: &Engine, how: &[&str], probe: &str, args: &[&str]) -> String {
    let run = [&["run", "--rm"], how, &[EVERY_TOOL, "python3", "-c", probe], args].concat();
    engine.text(run)
}

fn two_kinds(engine: &Engine) -> ContainerSession {
    ContainerSetup::of(engine).kind("python").kind("rust").start()
}

/// `type=bind` of a directory at its own path.
fn bind(dir: &Path) -> String {
    let dir = dir.to_str().expect("the scratch path is text");
    format!("type=bind,source={dir},destination={dir}")
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn no_socket_of_proxy_runners_or_engine_is_in_reach() {
    let Some(engine) = Engine::of_run("no_socket_of_proxy_runners_or_engine_is_in_reach") else {
        return;
    };
    let session = two_kinds(&engine);
    assert_eq!(session.python(probes::SOCKETS, &[]), "");
    assert_eq!(session.python("import os; print(os.listdir('/run/aifo'))", &[]), "[]\n");
    let seen = session.python(
        "import os, sys; print([p for p in sys.argv[1:] if os.path.lexists(p)])",
        &[
            session.dir().to_str().unwrap(),
            "/run/docker.sock",
            "/var/run/docker.sock",
            "/run/podman",
        ],
    );
    assert_eq!(seen, "[]\n");

    let mount = bind(&session.dir());
    let found = weaker(&engine, &["--mount", &mount], probes::SOCKETS, &[]);
    let dir = session.dir();
    let socket = |name: &str| format!("socket {}/{name}\n", dir.display());
    let sockets = ["control.sock", "publish.sock", "front/exec.sock"];
    assert_eq!(found, sockets.map(socket).concat());
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn nothing_of_the_host_is_there_but_workspace_tmp_and_caches() {
    let Some(engine) = Engine::of_run("nothing_of_the_host_is_there_but_workspace_tmp_and_caches")
    else {
        return;
    };
    let session = two_kinds(&engine);
    let marker = session.scratch().join("marker-of-the-host");
    fs::write(&marker, "").unwrap();
    assert_eq!(session.python(probes::MARKER, &["marker-of-the-host"]), "");

    let mut expected = vec![
        "/etc/hostname".to_owned(),
        "/etc/hosts".to_owned(),
        "/etc/resolv.conf".to_owned(),
        "/home/coder".to_owned(),
        "/opt/aifo/bin/aifo-runner".to_owned(),
        "/run/aifo".to_owned(),
        "/tmp".to_owned(),
        "/var/cache/aifo/pip".to_owned(),
        "/workspace".to_owned(),
        session.workspace().display().to_string(),
        session.tmp().display().to_string(),
    ];
    // The workspace of a test is in the machine's `/tmp`.
    let workspace = session.workspace();
    let above = workspace.ancestors().skip(1).map(|path| path.display().to_string());
    expected.extend(above.filter(|path| path.starts_with("/tmp/")));
    let mounts = session.python(probes::MOUNTS, &[]);
    let mut found: Vec<_> = mounts.lines().collect();
    found.sort_unstable();
    expected.sort();
    assert_eq!(found, expected);

    let mount = format!("type=bind,source={},destination=/host", session.scratch().display());
    let mount = ["--mount", &mount];
    let found = weaker(&engine, &mount, probes::MARKER, &["marker-of-the-host"]);
    assert_eq!(found, "found /host/marker-of-the-host\n");
    assert!(weaker(&engine, &mount, probes::MOUNTS, &[]).contains("/host\n"));
    session.finish();
}

/// A tool may change the mode of its cache's root.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_mode_of_a_cache_is_restored() {
    let Some(engine) = Engine::of_run("the_mode_of_a_cache_is_restored") else { return };
    let project = Scratch::new();
    let python = |program: &str| {
        let setup = ContainerSetup::of(&engine).kind("python").caches().workspace(project.path());
        let session = setup.start();
        let mut shim = session.shim("python3");
        let run = shim.args(["-c", program]).current_dir(project.path());
        let text = Outcome::of(run).exited(0).text();
        session.finish();
        text
    };
    let root = "import os; root = '/var/cache/aifo/pip'; ";
    for mode in ["0o000", "0o777"] {
        python(&format!("{root} os.chmod(root, {mode})"));
        let program = format!(
            "{root} os.makedirs(root + '/new', exist_ok=True); print(oct(os.stat(root).st_mode))"
        );
        assert_eq!(python(&program), "0o40700\n", "{mode}");
    }
    ContainerSetup::of(&engine).clear_caches(project.path());
}

/// Code that one project's tool plants in its unpacked and compiled caches is in no other
/// project's.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_cache_carries_nothing_between_projects() {
    let Some(engine) = Engine::of_run("a_cache_carries_nothing_between_projects") else { return };
    let projects = [Scratch::new(), Scratch::new()];
    let [one, another] = projects.each_ref().map(Scratch::path);
    let start = |workspace: &Path| {
        ContainerSetup::of(&engine).kind("python").caches().workspace(workspace).start()
    };
    let marker = "planted-code";
    let python = |session: &ContainerSession, workspace: &Path, program: &str| {
        let mut shim = session.shim("python3");
        Outcome::of(shim.args(["-c", program, marker]).current_dir(workspace)).exited(0).text()
    };
    let found = format!("found /var/cache/aifo/pip/uv/{marker}\n");

    let session = start(one);
    assert_eq!(python(&session, one, probes::PLANT), "");
    assert_eq!(python(&session, one, probes::MARKER), found);
    let volumes = r#"{{range .Mounts}}{{if eq .Type "volume"}}{{.Name}} {{end}}{{end}}"#;
    let volume = engine.inspect(&session.container("python"), volumes).trim().to_owned();
    session.finish();
    for (project, expected) in [(another, ""), (one, &found)] {
        let session = start(project);
        assert_eq!(python(&session, project, probes::MARKER), expected);
        session.finish();
    }

    let mount = format!("type=volume,source={volume},destination=/var/cache/aifo/pip");
    assert_eq!(weaker(&engine, &["--mount", &mount], probes::MARKER, &[marker]), found);
    let containers = ContainerSetup::of(&engine);
    assert!(containers.clear_caches(one).contains(&volume), "{volume}");
    assert_eq!(containers.clear_caches(another).lines().count(), 1);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn no_process_has_a_right() {
    let Some(engine) = Engine::of_run("no_process_has_a_right") else { return };
    let session = two_kinds(&engine);
    assert_eq!(session.python(probes::RIGHTS, &[]), "");
    // From the host's view, also for other containers' processes.
    for container in [session.container("rust"), session.container("python")] {
        let pid = engine.pid(&container);
        let none = "0000000000000000";
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(status_field(pid, set), none, "{container} {set}");
        }
        assert_eq!(status_field(pid, "NoNewPrivs"), "1", "{container}");
        assert_eq!(status_field(pid, "Seccomp"), "2", "{container}");
    }
    let found = weaker(&engine, &["--security-opt", "seccomp=unconfined"], probes::RIGHTS, &[]);
    for finding in ["self CapEff", "self CapBnd", "may get new privileges", "is not filtered"] {
        assert!(found.contains(finding), "{finding}: {found}");
    }
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_fork_bomb_ends_at_its_limit_and_the_session_lives() {
    let Some(engine) = Engine::of_run("a_fork_bomb_ends_at_its_limit_and_the_session_lives") else {
        return;
    };
    let session = ContainerSetup::of(&engine).kind("python").flag("--pids", "64").start();
    let bomb = session.run("python3", &["-c", probes::BOMB, "300"]);
    let count: u32 = bomb.exited(1).text().trim_end().parse().unwrap();
    assert!((32..64).contains(&count), "{bomb:?}");
    assert!(bomb.only_line().contains("reached its limit on processes"), "{bomb:?}");
    assert_eq!(session.python("print('next')", &[]), "next\n");
    assert_eq!(weaker(&engine, &["--pids-limit", "-1"], probes::BOMB, &["300"]), "300\n");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_memory_hog_ends_at_its_limit_and_the_session_lives() {
    let Some(engine) = Engine::of_run("a_memory_hog_ends_at_its_limit_and_the_session_lives")
    else {
        return;
    };
    let session = ContainerSetup::of(&engine).kind("python").flag("--memory", "64m").start();
    let first = engine.pid(&session.container("python"));
    for _ in 0..3 {
        let hog = session.run("python3", &["-c", probes::HOG, "256"]);
        assert_eq!((hog.signal(), hog.text().as_str()), (Some(9), ""), "{hog:?}");
        assert!(hog.only_line().contains("reached its memory limit"), "{hog:?}");
    }
    assert_eq!(session.python("print('next')", &[]), "next\n");
    assert_eq!(engine.pid(&session.container("python")), first, "the runner is not what is killed");
    assert_eq!(weaker(&engine, &["--memory", "512m"], probes::HOG, &["256"]), "256\n");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn nothing_can_be_put_in_the_place_of_socket_or_runner() {
    let Some(engine) = Engine::of_run("nothing_can_be_put_in_the_place_of_socket_or_runner") else {
        return;
    };
    let session = two_kinds(&engine);
    let places = ["/run/aifo", "/opt/aifo/bin/aifo-runner"];
    for _ in 0..2 {
        assert_eq!(session.python(probes::REBIND, &places), "");
    }
    // The runner's binary can be executed, but its listener is closed.
    let find = "import glob; print(glob.glob('/opt/aifo/*/aifo-runner')[0])";
    let runner = session.python(find, &[]);
    let again = "import subprocess, sys; print(subprocess.run(sys.argv[1:]).returncode)";
    let words = [runner.trim_end(), "serve", "--connect", "/run/aifo/control"];
    let outcome = session.run("python3", &[&["-c", again], &words[..]].concat());
    assert_ne!(outcome.exited(0).text(), "0\n");
    assert_eq!(session.python("print('next')", &[]), "next\n");

    let dir = Scratch::new();
    fs::write(dir.path().join("runner"), "").unwrap();
    let mount = bind(dir.path());
    let at = dir.path().to_str().unwrap();
    let runner = format!("{at}/runner");
    let found = weaker(&engine, &["--mount", &mount], probes::REBIND, &[at, &runner]);
    for finding in ["removed runner", "bound control", "made a file"] {
        assert!(found.contains(finding), "{finding}: {found}");
    }
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_runner_cannot_be_touched() {
    let Some(engine) = Engine::of_run("the_runner_cannot_be_touched") else { return };
    let session = two_kinds(&engine);
    let first = engine.pid(&session.container("python"));
    assert_eq!(session.python(probes::GRASP, &["1"]), "");
    session.python(probes::SIGNALS, &[]);
    assert!(!is_stopped(first));
    assert_eq!(session.python("print('next')", &[]), "next\n");
    assert_eq!(engine.pid(&session.container("python")), first);

    // A process of the same user in place of the runner.
    let among = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']);\
        subprocess.run([sys.executable, '-c', sys.argv[1], str(p.pid)]); p.kill()";
    let found = session.python(among, &[probes::GRASP]);
    for finding in ["environment", "saw a", "opened a", "memory", "map", "root", "traced"] {
        assert!(found.contains(finding), "{finding}: {found}");
    }
    session.finish();
}

/// Also after another session has ended: netavark 1.4 then removes a rule that all of podman's
/// isolated networks need.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn sessions_do_not_reach_each_other() {
    let Some(engine) = Engine::of_run("sessions_do_not_reach_each_other") else { return };
    for net in ["open", "separate"] {
        let start = || ContainerSetup::of(&engine).kind("python").flag("--net", net).start();
        let (ours, theirs) = (start(), start());
        start().finish();
        let (server, port) = serving(&ours);
        let stack = match net {
            "open" => format!("aifo-pod-{}", ours.id()),
            _ => ours.container("python"),
        };
        let addresses = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        let address = engine.inspect(&stack, addresses);
        assert_eq!(theirs.python(probes::CONNECT, &[&address, &port]), "", "{net}");
        assert_eq!(theirs.python(probes::CONNECT, &["127.0.0.1", &port]), "", "{net}");
        // A container with rights could undo the isolation.
        assert_eq!(theirs.python(probes::RIGHTS, &[]), "", "{net}");

        assert_eq!(ours.python(probes::CONNECT, &["127.0.0.1", &port]), "reached !\n");
        let network = format!("aifo-net-{}", ours.id());
        let inside = ["--network", &network];
        assert_eq!(weaker(&engine, &inside, probes::CONNECT, &[&address, &port]), "reached !\n");
        drop(server);
        ours.finish();
        theirs.finish();
    }
}

/// Through the host's gateway.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_way_out_is_open() {
    let Some(engine) = Engine::of_run("the_way_out_is_open") else { return };
    let host = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = host.local_addr().unwrap().port().to_string();
    for net in ["open", "separate"] {
        let session = ContainerSetup::of(&engine).kind("python").flag("--net", net).start();
        let gateway = session.python(probes::GATEWAY, &[]);
        let connected = "import socket, sys; socket.create_connection(sys.argv[1:], timeout=9)";
        assert_eq!(session.python(connected, &[gateway.trim_end(), &port]), "", "{net}");
        assert!(host.accept().is_ok(), "{net}");
        session.finish();
    }
}

/// An engine configuration may prevent isolation: then the session refuses the network.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_network_that_cannot_be_kept_apart_is_not_used() {
    let test = "a_network_that_cannot_be_kept_apart_is_not_used";
    // Docker's daemon isolates all of them.
    let Some(engine) = Engine::of_run(test).filter(Engine::is_podman) else { return };
    for net in ["open", "separate"] {
        let containers = ContainerSetup::of(&engine).kind("python").flag("--net", net);
        let dir = containers.setup().scratch().join("home/.config/aifo");
        fs::create_dir_all(&dir).unwrap();
        let pools = "[containers]\npools = ['192.0.2.0/24']\n";
        fs::write(dir.join("config.toml"), pools).unwrap();
        let outcome = Outcome::of(containers.command("exec").args(["--", "python3", "-V"]));
        let said = &outcome.exited(86).stderr;
        let printed = ") is in none of the engine's pools (192.0.2.0/24)\nhint: ";
        assert!(said.contains(printed) && said.contains("pools = ["), "{said}");
        assert_eq!(engine.all_of(&containers.setup().runtime()), [""; 0], "{net}");
    }
}

/// A server in the python sidecar, and its port.
#[track_caller]
fn serving(session: &ContainerSession) -> (Running, String) {
    let server = Running::start(session.shim("python3").args(["-c", probes::SERVER]));
    let file = session.workspace().join("port");
    eventually("the server reports its port", || file.exists());
    (server, fs::read_to_string(file).unwrap())
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn without_a_network_there_is_no_way_out() {
    let Some(engine) = Engine::of_run("without_a_network_there_is_no_way_out") else { return };
    let session = ContainerSetup::of(&engine).kind("python").flag("--net", "none").start();
    assert_eq!(session.python(probes::DEVICES, &[]), "");
    assert!(weaker(&engine, &[], probes::DEVICES, &[]).contains("device eth0"));
    let host = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = host.local_addr().unwrap().port().to_string();
    assert_eq!(session.python(probes::CONNECT, &["127.0.0.1", &port]), "");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_token_is_nowhere_in_the_container() {
    let Some(engine) = Engine::of_run("the_token_is_nowhere_in_the_container") else { return };
    let session = two_kinds(&engine);
    let secret = session.scratch().join("secret");
    fs::write(&secret, format!("{}\n", session.token())).unwrap();
    let probe = |session: &ContainerSession| {
        let mut shim = session.shim("python3");
        let running = shim.args(["-c", probes::SECRET]).stdin(File::open(&secret).unwrap());
        Running::start(running).finish().exited(0).text()
    };
    assert_eq!(probe(&session), "");
    for kind in ["python", "rust"] {
        let container = session.container(kind);
        let pid = engine.pid(&container);
        let holds = |words: Vec<String>| words.iter().any(|word| word.contains(session.token()));
        assert!(!holds(environment(pid)) && !holds(argv(pid)));
        assert!(!engine.text(["inspect", &container]).contains(session.token()));
    }

    fs::copy(&secret, session.workspace().join("leaked")).unwrap();
    let found = probe(&session);
    assert!(found.contains("found in /workspace/leaked"), "{found}");
    let variable = format!("LEAKED={}", session.token());
    let run = ["run", "--rm", "--interactive", "--env", &variable, EVERY_TOOL];
    let mut control = engine.command([&run[..], &["python3", "-c", probes::SECRET]].concat());
    let outcome = Running::start(control.stdin(File::open(&secret).unwrap())).finish();
    assert!(outcome.exited(0).text().contains("environ"), "{outcome:?}");
    session.finish();
}
