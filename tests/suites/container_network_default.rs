//! The default network of containers: without configuration, tools of each kind reach their registry and the
//! forges, and nothing else (`spec/network.md#default-rules`).

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aifo_tests::{ContainerSession, ContainerSetup, EVERY_TOOL, Engine, Outcome, Signal};

/// The kinds, each with the host of its registry that a package manager asks first.
const REGISTRIES: [(&str, &str); 5] = [
    ("rust", "index.crates.io"),
    ("node", "registry.npmjs.org"),
    ("python", "pypi.org"),
    ("go", "proxy.golang.org"),
    // Its dependencies come from repositories.
    ("c-cpp", "codeload.github.com"),
];

/// Names that no kind reaches by default.
const OTHERS: [&str; 5] = [
    "example.com",
    "gist.github.com",
    "deb.debian.org",
    "storage.googleapis.com",
    "api.openai.com",
];

/// Prints whether each name has an address in the stack.
const RESOLVE: &str = "
import socket, sys
for name in sys.argv[1:]:
    try:
        print(name, socket.gethostbyname(name).startswith('127.64.') and 'reached')
    except socket.gaierror:
        print(name, 'unknown')
";

/// Fetches a page by HTTPS, and prints why it failed.
const FETCH: &str = "
import ssl, sys, urllib.request
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
try:
    urllib.request.urlopen(sys.argv[1], timeout=20, context=context)
except OSError as e:
    print(e.reason)
";

/// A session of a kind in which python3 may run as well.
fn setup(engine: &Engine, kind: &str) -> ContainerSetup {
    let setup = ContainerSetup::of(engine).kind(kind);
    let config = setup.setup().scratch().join("home/.config/aifo");
    fs::create_dir_all(&config).unwrap();
    let text = format!("[kind.{kind}]\nallow = ['python3']\n");
    fs::write(config.join("config.toml"), text).unwrap();
    setup
}

/// Returns whether each name has an address in the tools' stack.
#[track_caller]
fn reached(session: &ContainerSession, names: &[&str]) -> Vec<bool> {
    let printed = session.python(RESOLVE, names);
    let lines = names.iter().zip(printed.lines());
    lines.map(|(name, line)| line == format!("{name} reached")).collect()
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn every_kind_reaches_its_registry_and_the_forges_without_configuration() {
    let test = "every_kind_reaches_its_registry_and_the_forges_without_configuration";
    let Some(engine) = Engine::of_run(test) else { return };
    for (kind, registry) in REGISTRIES {
        let mut session = setup(&engine, kind).start();
        let others = REGISTRIES.iter().filter(|(other, _)| *other != kind && *other != "c-cpp");
        let others: Vec<_> = others.map(|(_, name)| *name).chain(OTHERS).collect();
        assert_eq!(reached(&session, &[registry, "github.com"]), [true, true], "{kind}");
        assert_eq!(reached(&session, &others), vec![false; others.len()], "{kind}");
        let failure = session.python(FETCH, &["https://example.com/"]);
        assert!(failure.contains("Name or service not known"), "{kind}: {failure}");
        session.log_lines(&["tools were refused example.com"]);
        assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
        assert!(
            session.log().contains("aifo-coder net allow example.com"),
            "{kind}: {}",
            session.log()
        );
    }
}

/// A registry of the test, at a loopback address, in place of the real one.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_connection_to_the_registry_arrives_there() {
    let Some(engine) = Engine::of_run("a_connection_to_the_registry_arrives_there") else { return };
    // Of this test alone, since the port is fixed.
    let Ok(listener) = TcpListener::bind(("127.0.0.78", 443)) else {
        eprintln!("skipped: only root binds port 443");
        return;
    };
    let accepted = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            counter.fetch_add(1, Ordering::SeqCst);
            let mut hello = [0; 4096];
            // Clear text in place of TLS, which the client reports.
            let _ = (client.read(&mut hello), client.write_all(b"HTTP/1.0 200 OK\r\n\r\n"));
        }
    });
    for (index, (kind, registry)) in REGISTRIES.into_iter().enumerate() {
        let rule = format!("{kind}={registry}:443 address=127.0.0.78");
        let session = setup(&engine, kind).flag("--allow-net", &rule).start();
        let failure = session.python(FETCH, &[&format!("https://{registry}/")]);
        assert!(failure.contains("WRONG_VERSION_NUMBER"), "{kind}: {failure}");
        assert_eq!(accepted.load(Ordering::SeqCst), index + 1, "{kind}");
        session.finish();
    }
}

/// A registry of the user's own, in a file below HOME, is reached by the tools that read the file.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_registry_in_the_users_settings_is_reached_and_one_of_the_project_is_not() {
    let test = "a_registry_in_the_users_settings_is_reached_and_one_of_the_project_is_not";
    let Some(engine) = Engine::of_run(test) else { return };
    for (kind, expected) in [("node", true), ("rust", false)] {
        let setup = setup(&engine, kind);
        let home = setup.setup().scratch().join("home");
        fs::write(home.join(".npmrc"), "registry=https://npm.own.test/\n").unwrap();
        let project = setup.setup().workspace().join(".npmrc");
        fs::write(project, "registry=https://npm.project.test/\n").unwrap();
        let mut why = setup.setup().coder();
        why.env("AIFO_BACKEND", engine.name()).args(["why", "--toolchain", kind, "--workspace"]);
        why.arg(setup.setup().workspace()).args(["--", "python3"]);
        let why = Outcome::of(&mut why).exited(0).text();
        let source = "npm.own.test:443 private (node, ~/.npmrc:1)";
        assert_eq!(why.contains(source), expected, "{why}");
        let session = setup.start();
        let names = ["npm.own.test", "npm.project.test"];
        assert_eq!(reached(&session, &names), [expected, false], "{kind}");
        session.finish();
    }
}

/// curl and git of a toolchain's image report a name without a rule as one that does not exist.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn programs_report_a_name_without_a_rule_clearly() {
    let test = "programs_report_a_name_without_a_rule_clearly";
    let Some(engine) = Engine::of_run(test) else { return };
    let image = "aifo-toolchain-c-cpp:latest";
    if !engine.command(["image", "inspect", image]).output().is_ok_and(|it| it.status.success()) {
        eprintln!("skipped: {test}: aifo-coder images build c-cpp");
        return;
    }
    let setup = ContainerSetup::of(&engine).kind_from("c-cpp", image);
    let makefile = "get:\n\tcurl -sS https://example.com\n\
                    clone:\n\tgit clone -q https://git.example.com/x.git\n\
                    commit:\n\tgit init -q made && cd made && git -c user.name=x -c user.email=x@y \
                    commit -q --allow-empty -m made && git log --format=%s\n";
    fs::write(setup.setup().workspace().join("Makefile"), makefile).unwrap();
    let session = setup.start();
    let rows = [
        ("get", "curl: (6) Could not resolve host: example.com"),
        ("clone", "Could not resolve host: git.example.com"),
    ];
    for (target, expected) in rows {
        let outcome = session.run("make", &[target]);
        let printed = format!("{}{}", String::from_utf8_lossy(&outcome.stdout), outcome.stderr);
        assert!(outcome.code() != Some(0) && printed.contains(expected), "{target}: {outcome:?}");
    }
    assert!(session.run("make", &["-s", "commit"]).exited(0).text().ends_with("made\n"));
    session.finish();
}

/// An agent container has the forges and, without a row of the table, no model; tools do not share its
/// rules.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_agent_reaches_what_its_variables_name() {
    let Some(engine) = Engine::of_run("the_agent_reaches_what_its_variables_name") else { return };
    let setup = setup(&engine, "python").env("AIFO_ENV_BASE_URL", "https://model.own.test/v1");
    let setup = setup.env("AIFO_ENV_LOCAL_URL", "http://localhost:11434/v1");
    fs::write(setup.setup().workspace().join("resolve.py"), RESOLVE).unwrap();
    let names = "model.own.test github.com pypi.org example.com";
    let script = format!("perl -e '{PERL}' {names}; echo tools; python3 resolve.py {names}");
    let mut run = setup.command("run");
    run.args(["--image", EVERY_TOOL, "--", "sh", "-c", &script]);
    let outcome = Outcome::of(&mut run);
    let expected = "model.own.test reached\ngithub.com reached\npypi.org unknown\n\
                    example.com unknown\ntools\nmodel.own.test unknown\ngithub.com reached\n\
                    pypi.org reached\nexample.com unknown\n";
    assert_eq!(outcome.exited(0).text(), expected, "{outcome:?}");
    for part in [
        "network: only @forges, @python (python), @agent-model (agent), ",
        "model.own.test:443 private (agent, AIFO_ENV_BASE_URL)",
        "relay the port with: --host-port 11434",
        "the agent was refused pypi.org",
        "tools were refused model.own.test",
    ] {
        assert!(outcome.stderr.contains(part), "{part}: {outcome:?}");
    }
}

/// [`RESOLVE`] for the agent container, where python3 is a shim.
const PERL: &str = "for (@ARGV) { my $a = gethostbyname($_); \
    print \"$_ \", $a ? \"reached\" : \"unknown\", \"\\n\"; }";
