//! Container benchmarks: a call against `docker exec`, a session's start against `docker run`.
//!
//! Each row has its own session, in an image of the suites in which an allowlisted name is `true`.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::call::{Calls, Side, Tool, Transport, expect_success};
use super::measure::{AT_ONCE, Bench, WARM_UP};
use super::report::Measured::{self, Absent, Slowdown, Throughput};
use super::stats::Pairs;
use crate::images::Engine;
use crate::serve::{Backend, Options, Serve};
use crate::shell;

/// The suites' image, built by `cargo xtask images test`.
pub(super) const BASE: &str = "aifo-test-base:latest";
/// The same with a tool that exits at once.
const IMAGE: &str = "aifo-bench:latest";
/// One sidecar of each kind.
const KINDS: [&str; 5] = ["rust", "node", "python", "go", "c-cpp"];
const ENGINE: &str = "docker";

/// A call into a container, relative to `docker exec` of the same program.
pub(super) fn against_exec(bench: &Bench<'_>) -> Result<Measured> {
    in_session(bench, |session| {
        let exec = || time(&mut session.exec());
        let call =
            || time(&mut session.calls.command(Side::Proxied, Transport::Passed, Tool::True));
        // An exec takes 100 ms and more.
        Pairs::measure(2, exec, call)?;
        Pairs::measure(bench.depth.long(), exec, call).map(Slowdown)
    })
}

/// A call into a container, relative to a native call.
pub(super) fn against_native(bench: &Bench<'_>) -> Result<Measured> {
    in_session(bench, |session| {
        let pass =
            |side| move || time(&mut session.calls.command(side, Transport::Passed, Tool::True));
        Pairs::measure(WARM_UP, pass(Side::Native), pass(Side::Proxied))?;
        Pairs::measure(bench.depth.calls(), pass(Side::Native), pass(Side::Proxied)).map(Slowdown)
    })
}

/// Concurrent calls into a container, relative to native ones.
pub(super) fn at_once(bench: &Bench<'_>) -> Result<Measured> {
    in_session(bench, |session| {
        let pass = |side| {
            move || {
                let commands = (0..AT_ONCE)
                    .map(|_| session.calls.command(side, Transport::Passed, Tool::True));
                time_all(commands.collect())
            }
        };
        Pairs::measure(bench.depth.long(), pass(Side::Native), pass(Side::Proxied)).map(Throughput)
    })
}

/// The start of a session with five sidecars, relative to five concurrent `docker run -d`.
pub(super) fn start_of_session(bench: &Bench<'_>) -> Result<Measured> {
    if let Some(reason) = unready()? {
        return Ok(Absent(reason));
    }
    let by_hand = || {
        let names = KINDS.map(|kind| format!("aifo-bench-{kind}-{}", std::process::id()));
        let time = time_all(names.iter().map(|name| run_detached(name)).collect());
        let remove = shell::read(engine(&["rm", "--force"]).args(&names));
        remove.and(time)
    };
    let session = || {
        let start = Instant::now();
        let session = Session::start(bench, &KINDS, &[])?;
        let time = start.elapsed();
        session.serve.stop()?;
        Ok(time)
    };
    Pairs::measure(1, by_hand, session)?;
    Pairs::measure(bench.depth.long(), by_hand, session).map(Slowdown)
}

/// A session with containers.
pub(super) struct Session {
    pub(super) serve: Serve,
    calls: Calls,
    pub(super) container: String,
    _scratch: TempDir,
}

impl Session {
    fn start(bench: &Bench<'_>, kinds: &[&str], arguments: &[String]) -> Result<Self> {
        let scratch = aifo_engine::images::scratch()?;
        let serve = Serve::start(&Options {
            dist: bench.dist,
            workspace: &bench.workspace,
            kinds,
            backend: Backend::Containers { engine: ENGINE, image: IMAGE },
            path: std::env::var_os("PATH").unwrap_or_default(),
            arguments,
            variables: &[],
            log: scratch.path().join("serve.log"),
        })?;
        // unix:///../aifo-ID/front/exec.sock
        let dir = serve.socket()?.ancestors().nth(2).and_then(|dir| dir.file_name());
        let dir = dir.context("the session has no directory")?.to_string_lossy();
        let id = dir.trim_start_matches("aifo-");
        let container = format!("aifo-tc-{}-{id}", kinds.first().context("no kind")?);
        let Calls { tools, shims, .. } = &bench.calls;
        let calls = Calls {
            tools: tools.clone(),
            shims: shims.clone(),
            client_env: serve.client_env().to_vec(),
        };
        Ok(Session { serve, calls, container, _scratch: scratch })
    }

    fn exec(&self) -> Command {
        let mut exec = engine(&["exec", &self.container, Tool::True.name()]);
        exec.stdout(Stdio::piped()).stderr(Stdio::piped());
        exec
    }
}

/// Measures in a session with one sidecar; `Absent` without an engine or an image.
fn in_session(
    bench: &Bench<'_>,
    measure: impl FnOnce(&Session) -> Result<Measured>,
) -> Result<Measured> {
    in_session_with(bench, &[], measure)
}

/// The same, with further arguments of the session.
pub(super) fn in_session_with(
    bench: &Bench<'_>,
    arguments: &[String],
    measure: impl FnOnce(&Session) -> Result<Measured>,
) -> Result<Measured> {
    if let Some(reason) = unready()? {
        return Ok(Absent(reason));
    }
    let session = Session::start(bench, &["c-cpp"], arguments)?;
    let measured = measure(&session);
    session.serve.stop()?;
    measured
}

/// Builds the benchmark's image. `Some` is the reason why it cannot: the engine is not available,
/// or the suites' image is missing.
pub(super) fn unready() -> Result<Option<String>> {
    if let Err(error) = Engine::Docker.check_available() {
        return Ok(Some(format!("{ENGINE} is not available: {error}")));
    }
    let mut inspect = engine(&["image", "inspect", BASE]);
    inspect.stdout(Stdio::null()).stderr(Stdio::null());
    if !inspect.status().is_ok_and(|status| status.success()) {
        return Ok(Some(format!("missing image {BASE}: cargo xtask images test")));
    }
    let dir = aifo_engine::images::scratch()?;
    let name = Tool::True.name();
    let steps = format!("FROM {BASE}\nRUN ln -sf /bin/true /usr/local/bin/{name}\n");
    fs::write(dir.path().join("Dockerfile"), steps)?;
    let mut build = engine(&["build", "--quiet", "--tag", IMAGE]);
    // Every daemon has this builder.
    shell::read(build.arg(dir.path()).env("DOCKER_BUILDKIT", "0"))?;
    Ok(None)
}

/// The same with the engine alone: its isolation, without aifo.
fn run_detached(name: &str) -> Command {
    let mut run = engine(&["run", "--detach", "--rm", "--name", name, "--cap-drop", "ALL"]);
    run.args(["--security-opt", "no-new-privileges", "--pids-limit", "4096"]);
    run.args(["--entrypoint", "/bin/sleep", IMAGE, "600"]);
    run.stdout(Stdio::piped()).stderr(Stdio::piped());
    run
}

pub(super) fn engine(args: &[&str]) -> Command {
    let mut command = Command::new(ENGINE);
    command.args(args).stdin(Stdio::null());
    command
}

fn time(command: &mut Command) -> Result<Duration> {
    let start = Instant::now();
    let output = command.output()?;
    let time = start.elapsed();
    expect_success(&output)?;
    Ok(time)
}

/// Returns the time from the first spawn to the last exit.
fn time_all(mut commands: Vec<Command>) -> Result<Duration> {
    let start = Instant::now();
    let children: Vec<Child> =
        commands.iter_mut().map(|command| Ok(command.spawn()?)).collect::<Result<_>>()?;
    let outputs: Vec<_> = children.into_iter().map(Child::wait_with_output).collect();
    let time = start.elapsed();
    for output in outputs {
        expect_success(&output?)?;
    }
    Ok(time)
}
