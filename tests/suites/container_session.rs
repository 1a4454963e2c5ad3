//! A session with containers: routing, one network, file owners, and caches.
//!
//! Proves `spec/containers.md#choosing`.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use aifo_tests::{
    ContainerSession, ContainerSetup, EVERY_TOOL, Engine, Outcome, Running, Scratch, can_run,
    eventually, write_script,
};

/// Prints the sidecar, by variables that only one kind has.
const WHERE: &str = "all:\n\t@echo $${CARGO_HOME:+rust}$${CCACHE_DIR:+c-cpp}\n";

/// A server in the python sidecar that writes its port to a file.
const SERVER: &str = "
import http.server, os, sys
server = http.server.HTTPServer(('0.0.0.0', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
with open('port.new', 'w') as file:
    file.write(str(server.server_port))
os.rename('port.new', 'port')
server.serve_forever()
";

#[track_caller]
fn serve(session: &ContainerSession, port: &str) -> (Running, String) {
    let server = Running::start(session.shim("python3").args(["-c", SERVER, port]));
    let file = session.workspace().join("port");
    eventually("the server reports its port", || file.exists());
    (server, fs::read_to_string(file).unwrap())
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn make_goes_where_it_is() {
    let Some(engine) = Engine::of_run("make_goes_where_it_is") else { return };
    let bare = engine.build(&format!("FROM {EVERY_TOOL}\nRUN rm /usr/bin/make\n"));
    let rust = || ContainerSetup::of(&engine).kind("rust");
    for (containers, expected) in [
        (rust(), "rust\n"),
        (rust().kind("c-cpp"), "c-cpp\n"),
        (rust().kind_from("c-cpp", bare.name()), "rust\n"),
    ] {
        let session = containers.start();
        fs::write(session.workspace().join("Makefile"), WHERE).unwrap();
        assert_eq!(session.run("make", &[]).exited(0).text(), expected);
        session.finish();
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_project_brings_its_own_tools() {
    let Some(engine) = Engine::of_run("a_project_brings_its_own_tools") else { return };
    let session = ContainerSetup::of(&engine).kind("python").kind("node").start();
    assert_eq!(session.run("tsc", &["-p"]).exited(0).text(), "tsc\n-p\n", "the image's");
    let workspace = session.workspace();
    write_script(workspace.join("node_modules/.bin/tsc"), "echo local \"$@\"");
    write_script(workspace.join(".venv/bin/python3"), "echo \"$VIRTUAL_ENV\" \"$@\"");
    assert_eq!(session.run("tsc", &["-p"]).exited(0).text(), "local -p\n");
    let message = session.run("python3", &["-V"]).exited(0).text();
    assert_eq!(message, format!("{}/.venv -V\n", workspace.display()));
    session.finish();
}

/// As a user without other sessions: the first one finds volumes owned by root.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn sessions_of_a_project_share_caches_and_files_are_the_users() {
    let test = "sessions_of_a_project_share_caches_and_files_are_the_users";
    let Some(engine) = Engine::of_run(test) else { return };
    // Podman needs subordinate ids for the user.
    if engine.is_podman() || !can_run(test, &["setpriv", "--reuid", "12345", "true"]) {
        return;
    }
    let group = fs::metadata("/var/run/docker.sock").unwrap().gid().to_string();
    let gone = || {
        let all = engine.text(["volume", "ls", "--quiet", "--filter", "name=aifo-cargo-"]);
        for ours in all.lines().filter(|name| name.contains("-12345")) {
            engine.text(["volume", "rm", ours]);
        }
    };
    gone();
    let user = ["setpriv", "--reuid", "12345", "--regid", "12345", "--groups", &group];
    let projects = Scratch::new();
    let give = |path: &Path| chown(path, Some(12345), Some(12345)).unwrap();
    give(projects.path());
    let make = |project: &str, makefile: &str, scope: &str| {
        let project = projects.path().join(project);
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join("Makefile"), makefile).unwrap();
        let containers =
            ContainerSetup::of(&engine).kind("rust").through(&user).workspace(&project);
        let containers = if scope == "none" { containers } else { containers.caches() };
        let scratch = containers.setup().scratch();
        fs::create_dir_all(scratch.join("home/.config/aifo")).unwrap();
        let file = format!("[containers]\ncaches = '{scope}'\n");
        fs::write(scratch.join("home/.config/aifo/config.toml"), file).unwrap();
        for dir in ["home", "run"] {
            give(&scratch.join(dir));
        }
        for path in [project.clone(), project.join("Makefile")] {
            give(&path);
        }
        let mut exec = containers.command("exec");
        let outcome = Outcome::of(exec.args(["--", "make"]).current_dir(&project));
        let made = fs::metadata(project.join("made"));
        assert_eq!(
            made.map(|made| (made.uid(), made.gid())).ok(),
            Some((12345, 12345)),
            "{outcome:?}"
        );
        outcome.exited(0).text()
    };
    let write = "all:\n\t@touch made && id -u && echo kept > $(CARGO_HOME)/registry/marker\n";
    let read = "all:\n\t@touch made; cat $(CARGO_HOME)/registry/marker 2>/dev/null; \
                stat -c %u:%g $(CARGO_HOME)/registry $(CARGO_HOME)/git\n";
    assert_eq!(make("one", write, "project"), "12345\n");
    assert_eq!(make("one", read, "project"), "kept\n12345:12345\n12345:12345\n");
    let own = "12345:12345\n12345:12345\n";
    assert_eq!(make("another", read, "project"), own, "another project has its own");
    assert_eq!(make("one", read, "none"), own, "none");

    // A linked worktree of it, as git creates it, and a directory that only claims to be one.
    let entry = projects.path().join("one/.git/worktrees/linked");
    for directory in [&entry, &projects.path().join("linked"), &projects.path().join("forged")] {
        fs::create_dir_all(directory).unwrap();
    }
    let claim = format!("gitdir: {}\n", entry.display());
    let back = projects.path().join("linked/.git");
    fs::write(entry.join("gitdir"), format!("{}\n", back.display())).unwrap();
    for file in [&back, &projects.path().join("forged/.git")] {
        fs::write(file, &claim).unwrap();
        give(file);
    }
    for path in [&entry.join("gitdir"), &projects.path().join("one/.git")] {
        give(path);
    }
    assert_eq!(make("linked", read, "project"), format!("kept\n{own}"));
    assert_eq!(make("forged", read, "project"), own);

    // By the user's choice.
    assert_eq!(make("one", write, "user"), "12345\n");
    assert_eq!(make("another", read, "user"), format!("kept\n{own}"));
    gone();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn two_sessions_at_once() {
    let Some(engine) = Engine::of_run("two_sessions_at_once") else { return };
    let sessions = [(); 2].map(|()| ContainerSetup::of(&engine).kind("python").start());
    let [one, two] = &sessions;
    assert_ne!(one.id(), two.id());
    one.python("open('one', 'w')", &[]);
    two.python("open('/tmp/two', 'w')", &[]);
    assert!(one.workspace().join("one").exists() && !two.workspace().join("one").exists());
    assert!(two.tmp().join("two").exists() && !one.tmp().join("two").exists());
    let [one, two] = sessions;
    one.finish();
    assert_eq!(two.python("print('still there')", &[]), "still there\n");
    two.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_server_is_at_localhost_for_all_of_the_session() {
    let Some(engine) = Engine::of_run("a_server_is_at_localhost_for_all_of_the_session") else {
        return;
    };
    let session = ContainerSetup::of(&engine).kind("python").kind("node").start();
    fs::write(session.workspace().join("page"), "served").unwrap();
    let (server, port) = serve(&session, "0");
    let fetch =
        format!("fetch('http://localhost:{port}/page').then(r => r.text()).then(console.log)");
    eventually("the mirror is up", || session.run("node", &["-e", &fetch]).text() == "served\n");
    let network = format!("container:{}", session.container("node"));
    let get = format!(
        "import urllib.request; print(urllib.request.urlopen('http://localhost:{port}/page').read())"
    );
    let joined = ["run", "--rm", "--network", &network, EVERY_TOOL, "python3", "-c", &get];
    assert_eq!(engine.text(joined), "b'served'\n");
    drop(server);
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_published_port_is_reached_from_the_machine() {
    let Some(engine) = Engine::of_run("a_published_port_is_reached_from_the_machine") else {
        return;
    };
    let session = ContainerSetup::of(&engine)
        .kind("python")
        .flag("--net", "open")
        .flag("--publish", "127.0.0.1::8000")
        .start();
    let (server, _) = serve(&session, "8000");
    let address = engine.text(["port", &format!("aifo-pod-{}", session.id()), "8000"]);
    let mut peer = TcpStream::connect(address.trim_end()).unwrap();
    std::io::Write::write_all(&mut peer, b"GET /port HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    peer.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\n8000"), "{answer}");
    drop(server);
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_sessions_tmp_is_tmp() {
    let Some(engine) = Engine::of_run("the_sessions_tmp_is_tmp") else { return };
    let session = ContainerSetup::of(&engine).kind("c-cpp").start();
    let source = "#include <stdio.h>\nint main(void) { puts(\"built\"); return 0; }\n";
    fs::write(session.tmp().join("t.c"), source).unwrap();
    session.run("gcc", &["/tmp/t.c", "-o", "/tmp/one"]).exited(0);
    let own = |name: &str| session.tmp().join(name).to_str().unwrap().to_owned();
    session.run("gcc", &[&own("t.c"), "-o", &own("two")]).exited(0);
    for name in ["one", "two"] {
        assert!(session.tmp().join(name).is_file(), "{name}");
    }
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_workspace_may_have_any_name() {
    let Some(engine) = Engine::of_run("a_workspace_may_have_any_name") else { return };
    let scratch = Scratch::new();
    let dir = scratch.path().join("a project's own=directory: ü");
    fs::create_dir(&dir).unwrap();
    let session = ContainerSetup::of(&engine).kind("python").workspace(&dir).start();
    let mut shim = session.shim("python3");
    shim.args(["-c", "import os, sys; print(os.getcwd(), os.listdir(sys.argv[1]))"]).arg(&dir);
    fs::write(dir.join("it"), "").unwrap();
    let message = Outcome::of(shim.current_dir(&dir)).exited(0).text();
    assert_eq!(message, format!("{} ['it']\n", dir.display()));
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn without_caches_no_volume_is_there() {
    let Some(engine) = Engine::of_run("without_caches_no_volume_is_there") else { return };
    let template = r#"{{range .Mounts}}{{if eq .Type "volume"}}{{.Name}} {{end}}{{end}}"#;
    let project = Scratch::new();
    for kept in [true, false] {
        let containers = ContainerSetup::of(&engine).kind("rust").workspace(project.path());
        let containers = if kept { containers.caches() } else { containers };
        let session = containers.start();
        let volumes = engine.inspect(&session.container("rust"), template);
        assert_eq!(volumes.contains("aifo-cargo-registry-"), kept, "{volumes}");
        session.finish();
    }
    let cleared = ContainerSetup::of(&engine).clear_caches(project.path());
    assert_eq!(cleared.lines().count(), 2, "{cleared}");
}

/// The printed commands are those that run: a wrapper of the engine records its arguments.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_dry_run_prints_what_a_run_does() {
    let Some(engine) = Engine::of_run("a_dry_run_prints_what_a_run_does") else { return };
    for net in ["open", "names"] {
        check_dry_run(&engine, net);
    }
}

#[track_caller]
fn check_dry_run(engine: &Engine, net: &str) {
    let bin = Scratch::new();
    let heard = bin.path().join("heard");
    fs::create_dir(&heard).unwrap();
    let take_heard = || {
        let files = fs::read_dir(&heard).unwrap().map(|file| file.unwrap().path());
        let take = |file: PathBuf| {
            let line = fs::read_to_string(&file).unwrap();
            fs::remove_file(file).unwrap();
            line
        };
        files.map(take).collect::<String>()
    };
    let real = Outcome::of(std::process::Command::new("which").arg(engine.name())).text();
    write_script(
        bin.path().join(engine.name()),
        &format!(
            // A file for each process, as two may run at once.
            "{{ printf '%s\\0' \"$@\"; printf '\\n'; }} > {}/$$\nexec {} \"$@\"",
            heard.display(),
            real.trim_end()
        ),
    );
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.path().display());
    let containers = ContainerSetup::of(engine).kind("python").kind("rust").env("PATH", &path);
    let containers = containers.env("https_proxy", "http://user:secret@proxy:1");
    let containers = containers.flag("--pids", "99").flag("--net", net);

    let dry = Outcome::of(containers.command("serve").arg("--dry-run"));
    let planned = dry.exited(0).text();
    assert!(!planned.contains("secret"), "{planned}");
    let asked = take_heard();
    assert!(asked.lines().all(|line| line.starts_with("info\0")), "nothing is run: {asked}");

    let session = containers.start();
    let id = session.id().to_owned();
    session.finish();
    let heard = take_heard();
    assert!(!heard.contains("secret"), "{heard}");
    let acts = |line: &&str| line.starts_with("run\0") || line.starts_with("network\0create\0");
    let mut run: Vec<String> = heard.lines().filter(acts).map(str::to_owned).collect();
    // Split as a shell does.
    let words = |line: &str| {
        let paste =
            format!("{engine}() {{ printf '%s\\0' \"$@\"; }}; {line}", engine = engine.name());
        Outcome::of(std::process::Command::new("sh").args(["-c", &paste])).exited(0).text()
    };
    let planned: Vec<String> =
        planned.lines().map(|line| words(line).replace("SESSION", &id)).collect();
    let mut planned_acts: Vec<_> =
        planned.iter().filter(|line| acts(&line.as_str())).cloned().collect();
    run.sort();
    planned_acts.sort();
    assert_eq!(run, planned_acts);
    let removes = format!("network\0rm\0aifo-net-{id}\0");
    let is_made = net == "open";
    assert_eq!(planned.contains(&removes), is_made, "{net}: {planned:?}");
    assert_eq!(heard.lines().any(|line| line == removes), is_made, "{net}: {heard:?}");
}

/// One of several sidecars does not start: the others are removed.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_start_that_fails_halfway_leaves_nothing() {
    let Some(engine) = Engine::of_run("a_start_that_fails_halfway_leaves_nothing") else { return };
    let of = || ContainerSetup::of(&engine).kind("python").kind("rust");
    let missing = "localhost:1/aifo-test-nobody-has-this:latest";
    let scratch = Scratch::new();
    let odd = scratch.path().join("no engine\ntakes this");
    fs::create_dir(&odd).unwrap();
    for (what, containers, cause) in [
        ("an image", of().kind_from("c-cpp", missing), "nobody-has-this"),
        ("a port", of().flag("--publish", "198.51.100.7:39999:3000"), "198.51.100.7"),
        ("a path", of().workspace(&odd), "contains a line break"),
    ] {
        let outcome = Outcome::of(containers.command("exec").args(["--", "make"]));
        outcome.exited(86);
        let lines = &outcome.stderr;
        assert!(lines.starts_with("aifo-coder: ") && lines.contains(cause), "{what}: {outcome:?}");
        let setup = containers.setup();
        assert_eq!(engine.all_of(&setup.runtime()), [""; 0], "{what}");
        assert_eq!(fs::read_dir(setup.runtime()).unwrap().count(), 0, "{what}");
    }
}

/// Without any image all tools run on this machine, with one line; one missing image of several concerns only its
/// own tools.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_missing_image_concerns_its_own_tools_only() {
    let test = "a_missing_image_concerns_its_own_tools_only";
    let Some(engine) = Engine::of_run(test) else { return };
    // Docker is preferred; podman's images do not count for it.
    if !can_run(test, &["test", engine.name(), "=", "docker"]) {
        return;
    }
    let prefix = format!("aifo-t{}/", std::process::id());
    let of = |kind: &str| format!("{prefix}aifo-toolchain-{kind}:latest");
    let containers = ContainerSetup::of(&engine);
    let call = |kinds: &str| {
        let mut run = containers.setup().coder();
        run.env("AIFO_CODER_IMAGE_PREFIX", &prefix).args(["run", "--backend", "auto"]);
        run.arg("--workspace").arg(containers.setup().workspace()).args(["--toolchain", kinds]);
        run.args(["--", "sh", "-c", "python3 -c 'print(1 + 1)'; node -v; echo $?"]);
        Outcome::of(&mut run)
    };
    let none = call("rust,go");
    let message = format!(
        "aifo-coder: docker has no image {}, {}; all tools run as processes of this machine; to run \
         them in containers, see: aifo-coder setup\n",
        of("rust"),
        of("go")
    );
    assert!(none.exited(0).stderr.starts_with(&message), "{}", none.stderr);
    engine.text(["tag", EVERY_TOOL, &of("python")]);
    let one = call("python,node");
    engine.text(["rmi", &of("python")]);
    let message = format!(
        "aifo-coder: docker has no image {}; tools of node are refused until it has one: aifo-coder setup\n",
        of("node")
    );
    assert!(one.stderr.starts_with(&message), "{}", one.stderr);
    let refusal = format!("the node sidecar has no image '{}' yet; load it", of("node"));
    assert!(one.stderr.contains(&refusal), "{}", one.stderr);
    assert_eq!(one.exited(0).text(), "2\n86\n", "{}", one.stderr);
}

/// Of the kinds that the project's files do not show, those with an image start with their first call.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_kind_on_demand_starts_if_its_image_exists() {
    let test = "a_kind_on_demand_starts_if_its_image_exists";
    let Some(engine) = Engine::of_run(test) else { return };
    let prefix = format!("aifo-o{}/", std::process::id());
    let of = |kind: &str| format!("{prefix}aifo-toolchain-{kind}:latest");
    for kind in ["go", "python"] {
        engine.text(["tag", EVERY_TOOL, &of(kind)]);
    }
    let containers = ContainerSetup::of(&engine);
    fs::write(containers.setup().workspace().join("go.mod"), "module x\n").unwrap();
    let call = |script: &str| {
        let mut run = containers.setup().coder();
        run.env("AIFO_CODER_IMAGE_PREFIX", &prefix).args(["run", "--backend", engine.name()]);
        run.arg("--workspace").arg(containers.setup().workspace());
        run.args(["--no-toolchain-cache", "--", "sh", "-c", script]);
        Outcome::of(&mut run)
    };
    let outcome = call("python3 -c 'print(1 + 1)'; cargo say; echo $?");
    engine.text(["rmi", &of("go"), &of("python")]);
    let refusal = format!(
        "tool 'cargo' not available in running sidecars; the rust sidecar has no image '{0}' yet; load it \
         into {1}, or pull it with {1}\n",
        of("rust"),
        engine.name()
    );
    assert_eq!(outcome.exited(0).text(), "2\n86\n", "{}", outcome.stderr);
    assert!(outcome.stderr.ends_with(&refusal), "{}", outcome.stderr);
}
