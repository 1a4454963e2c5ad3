//! Credentials of private registries, admitted to containers by name only.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use aifo_tests::{EVERY_TOOL, Engine, Outcome, SessionSetup, eventually, program};

const NPMRC: &str = "//registry.example/:_authToken=npm-secret\n";
const PIP: &str = "[global]\nindex-url = https://me:pip-secret@pypi.example/simple\n";
const CARGO: &str = "[registries.ours]\ntoken = \"cargo-secret\"\n";

/// Prints what a tool sees of each, and whether it can write there.
const PROBE: &str = "\
probe:
\t@for file in $$HOME/.npmrc \"$$PIP_CONFIG_FILE\" $$HOME/.cargo/credentials.toml; do \\
\t  if test -e \"$$file\"; then cat \"$$file\"; (echo x >> \"$$file\") 2>/dev/null && echo WRITTEN; fi; \\
\tdone; true
";

/// A user with all three files, and a project whose tools print what they see of them.
fn user(admit: &str) -> SessionSetup {
    let setup = SessionSetup::new();
    let home = setup.scratch().join("home");
    let files =
        [(".npmrc", NPMRC), (".config/pip/pip.conf", PIP), (".cargo/credentials.toml", CARGO)];
    for (name, text) in files {
        write(&home.join(name), text);
    }
    write(&home.join(".config/aifo/config.toml"), admit);
    write(&setup.workspace().join("Makefile"), PROBE);
    setup
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("it lies in a directory"))
        .expect("the scratch directory is writable");
    fs::write(path, text).expect("the scratch directory is writable");
}

/// A call in its own session with only this kind's sidecar.
fn call(setup: &SessionSetup, engine: &Engine, kind: &str, tool: &[&str]) -> Outcome {
    let image = format!("{kind}={EVERY_TOOL}");
    let image = ["--toolchain-image", &image];
    let options =
        [&["exec", "--no-toolchain-cache", "--toolchain", kind], &image[..], &["--"]].concat();
    Outcome::of(&mut engine.coder(setup, &[&options[..], tool].concat()))
}

#[test]
fn each_kind_sees_its_own_registry_and_cannot_write_there() {
    let Some(engine) = Engine::of_run("each_kind_sees_its_own_registry_and_cannot_write_there")
    else {
        return;
    };
    let setup = user("[containers]\nadmit = ['npmrc', 'pip', 'cargo']\n");
    for (kind, text) in [("node", NPMRC), ("python", PIP), ("rust", CARGO), ("c-cpp", "")] {
        let outcome = call(&setup, &engine, kind, &["make", "probe"]);
        assert_eq!(outcome.exited(0).text(), text, "{kind}: {outcome:?}");
        assert!(!outcome.stderr.contains("secret"), "{outcome:?}");
    }
}

/// Proves `spec/containers.md#registries-of-the-user`.
#[test]
fn tools_use_the_registries_of_the_user_without_its_secrets() {
    let Some(engine) = Engine::of_run("tools_use_the_registries_of_the_user_without_its_secrets")
    else {
        return;
    };
    let setup = user("").env("GOPROXY", "https://me:go-secret@go.example,direct");
    let home = setup.scratch().join("home");
    write(&home.join(".npmrc"), &format!("registry=https://npm.example/\n{NPMRC}"));
    let cargo = "[source.crates-io]\nreplace-with = \"ours\"\n\
                 [source.ours]\nregistry = \"sparse+https://me:cargo-secret@index.example/\"\n\
                 [build]\nrustc-wrapper = \"/tmp/wrapper\"\n";
    write(&home.join(".cargo/config.toml"), cargo);
    let print = "probe:\n\t@cat $$HOME/.npmrc $$HOME/.pip/pip.conf $$HOME/.cargo/config.toml 2>/dev/null; \
                 echo \"$$GOPROXY\"; (echo x >>$$HOME/.npmrc) 2>/dev/null && echo WRITTEN; true\n";
    write(&setup.workspace().join("Makefile"), print);
    let rows = [
        ("node", "registry=https://npm.example/\n\n"),
        ("python", "[global]\nindex-url = https://pypi.example/simple\n\n"),
        ("go", "https://go.example,direct\n"),
        ("c-cpp", "\n"),
    ];
    for (kind, text) in rows {
        let outcome = call(&setup, &engine, kind, &["make", "probe"]);
        let printed = outcome.exited(0).text();
        let printed = printed.strip_suffix("WRITTEN\n").unwrap_or(&printed);
        assert_eq!(printed, text, "{kind}: {outcome:?}");
        assert!(!outcome.stderr.contains("secret"), "{outcome:?}");
    }
    let outcome = call(&setup, &engine, "rust", &["make", "probe"]);
    let text = outcome.exited(0).text();
    for part in ["replace-with = \"ours\"", "registry = \"sparse+https://index.example/\""] {
        assert!(text.contains(part) && !text.contains("wrapper"), "{text}");
    }
    let warning = "tools of rust do not get a setting of yours: the login in source.ours.registry (~/.cargo/config.toml)\n";
    assert!(outcome.stderr.contains(warning), "{}", outcome.stderr);
}

#[test]
fn nothing_is_let_in_by_itself() {
    let Some(engine) = Engine::of_run("nothing_is_let_in_by_itself") else { return };
    let setup = user("");
    for kind in ["node", "python", "rust"] {
        let outcome = call(&setup, &engine, kind, &["make", "probe"]);
        assert_eq!(outcome.exited(0).text(), "", "{kind}: {outcome:?}");
    }
    let script = "import os; print(os.environ.get('SSH_AUTH_SOCK'), os.environ.get('PIP_CERT'))";
    let setup = setup.env("SSH_AUTH_SOCK", "/nonexistent").env("SSL_CERT_FILE", "/nonexistent");
    let outcome = call(&setup, &engine, "python", &["python3", "-c", script]);
    assert_eq!(outcome.exited(0).text(), "None None\n");
}

#[test]
fn a_workspace_cannot_let_anything_in() {
    let setup = user("");
    write(&setup.workspace().join(".aifo.toml"), "[containers]\nadmit = ['npmrc']\n");
    let outcome = Outcome::of(setup.coder().args(["serve", "--backend", "local"]));
    let printed = outcome.exited(86).stderr.clone();
    assert!(printed.contains(".aifo.toml:2: [containers]"), "{printed}");
    assert!(printed.contains("which a workspace's file may not do"), "{printed}");
}

#[test]
fn a_missing_file_is_a_warning_for_its_kind() {
    let Some(engine) = Engine::of_run("a_missing_file_is_a_warning_for_its_kind") else { return };
    let setup = user("[containers]\nadmit = ['npmrc']\n");
    let npmrc = setup.scratch().join("home/.npmrc");
    fs::remove_file(&npmrc).expect("it was there");
    let outcome = call(&setup, &engine, "node", &["make", "probe"]);
    let printed = format!(
        "aifo-coder: {}:2: npmrc is admitted, but there is no '{}'\n",
        setup.scratch().join("home/.config/aifo/config.toml").display(),
        npmrc.display()
    );
    assert!(outcome.exited(0).stderr.starts_with(&printed), "{}", outcome.stderr);
    let other = call(&setup, &engine, "c-cpp", &["make", "probe"]);
    assert!(!other.exited(0).stderr.contains("npmrc"), "{}", other.stderr);
}

#[test]
fn the_local_backend_needs_none_of_it() {
    let setup =
        user("[containers]\nadmit = ['npmrc', 'ssh-agent']\n").script("make", "cat ~/.npmrc");
    fs::remove_dir_all(setup.scratch().join("home/.cargo")).expect("it was there");
    let options = ["exec", "--backend", "local", "--toolchain", "c-cpp", "--", "make"];
    let setup = setup.env("PATH", "/usr/bin:/bin");
    let path = format!("{}:/usr/bin:/bin", setup.tools().display());
    let outcome = Outcome::of(setup.coder().env("PATH", path).args(options));
    assert_eq!(outcome.exited(0).text(), NPMRC);
}

#[test]
fn every_kind_trusts_the_certificates() {
    let Some(engine) = Engine::of_run("every_kind_trusts_the_certificates") else { return };
    let setup = SessionSetup::new();
    let bundle = setup.scratch().join("ca.pem");
    write(&bundle, "CERTIFICATES\n");
    let admit =
        format!("[containers]\nadmit = ['ca-bundle']\nca_bundle = '{}'\n", bundle.display());
    write(&setup.scratch().join("home/.config/aifo/config.toml"), &admit);
    let names = "SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS PIP_CERT \
                 CARGO_HTTP_CAINFO GIT_SSL_CAINFO";
    let probe = format!("probe:\n\t@for name in {names}; do eval cat \\\"\\$$$$name\\\"; done\n");
    write(&setup.workspace().join("Makefile"), &probe);
    for kind in ["go", "python"] {
        let outcome = call(&setup, &engine, kind, &["make", "probe"]);
        assert_eq!(outcome.exited(0).text(), "CERTIFICATES\n".repeat(7), "{kind}");
    }
}

/// An SSH agent without keys: the real one, or a fake.
struct Agent {
    socket: PathBuf,
    process: Option<Child>,
}

/// A request for the keys, and the empty response: a length, a type, and in the response a count.
const WHICH_KEYS: [u8; 5] = [0, 0, 0, 1, 11];
const NO_KEYS: [u8; 9] = [0, 0, 0, 5, 12, 0, 0, 0, 0];

impl Agent {
    fn start(dir: &Path) -> Self {
        let socket = dir.join("agent");
        let process = program("ssh-agent").map(|agent| {
            let mut agent = Command::new(agent);
            agent.args(["-D", "-a"]).arg(&socket).stdin(Stdio::null()).stdout(Stdio::null());
            agent.spawn().expect("an agent can be started")
        });
        if process.is_none() {
            let listener = UnixListener::bind(&socket).expect("the scratch directory is writable");
            std::thread::spawn(move || {
                for client in listener.incoming() {
                    let mut client = client.expect("a client connects");
                    let mut asked = [0; 5];
                    client.read_exact(&mut asked).expect("it asks");
                    assert_eq!(asked, WHICH_KEYS);
                    client.write_all(&NO_KEYS).expect("it listens");
                }
            });
        }
        eventually("the agent listens", || socket.exists());
        Agent { socket, process }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn a_tool_reaches_the_agent_and_nothing_else_of_it() {
    let Some(engine) = Engine::of_run("a_tool_reaches_the_agent_and_nothing_else_of_it") else {
        return;
    };
    let setup = SessionSetup::new();
    let agent = Agent::start(setup.scratch());
    let setup = setup.env_path("SSH_AUTH_SOCK", &agent.socket);
    let setup = setup.env("AIFO_TOOLCHAIN_SSH_FORWARD", "1");
    let script = "import os, socket
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ['SSH_AUTH_SOCK'])
s.sendall(bytes([0, 0, 0, 1, 11]))
print(list(s.recv(9)))
try:
    os.unlink(os.environ['SSH_AUTH_SOCK'])
except OSError:
    print('it stays')
";
    let outcome = call(&setup, &engine, "python", &["python3", "-c", script]);
    assert_eq!(outcome.exited(0).text(), format!("{NO_KEYS:?}\nit stays\n"));
    assert!(agent.socket.exists());
}

#[test]
fn a_dry_run_prints_paths_and_no_secret() {
    let Some(engine) = Engine::of_run("a_dry_run_prints_paths_and_no_secret") else { return };
    let setup = user("[containers]\nadmit = ['npmrc']\n");
    let options = ["exec", "--toolchain", "node", "--dry-run", "-v", "--", "node"];
    let outcome = Outcome::of(&mut engine.coder(&setup, &options));
    let text = outcome.exited(0).text();
    let from = setup.scratch().join("home/.npmrc");
    let mount = format!("source={},destination=/home/coder/.npmrc,readonly", from.display());
    assert!(text.contains(&mount), "{text}");
    assert!(!text.contains("npm-secret") && !outcome.stderr.contains("npm-secret"), "{outcome:?}");
}
