//! `cargo xtask demo`: an agent's tool calls on `examples/polyglot`.
//!
//! Its sidecars are containers if an engine has their images. Calls each tool by name, with the shims first
//! in PATH and without them. Both must give the same result; the table shows the difference in time.

mod calls;

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use aifo_engine::images::copy_tree;
use anyhow::{Context, Result, bail};
use calls::{CALLS, Call, KINDS, Outcome};
use nix::sys::signal::{Signal, killpg};

use crate::bench::stats::{Pairs, millis};
use crate::serve::{self, Options, Serve};
use crate::{dist, shell, table};

/// How often each call is timed on each side, in turns.
const ROUNDS: usize = 5;

/// Builds the binaries, makes the calls, prints the table, and fails if a call gave a wrong result.
pub(crate) fn run(_args: &[OsString]) -> Result<()> {
    let dist = dist::build(&shell::root().join("target/demo-bin"))?;
    let scratch = aifo_engine::images::scratch()?;
    let root = scratch.path().canonicalize()?;
    let project = root.join("polyglot");
    fs::create_dir(&project)?;
    let example = shell::root().join("examples/polyglot");
    copy_tree(&example, &project, &["target", "build", "__pycache__"])?;
    let kinds = kinds_of_this_host();
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
    let (backend, runs) = match engine_with_images(&names) {
        Some(engine) => {
            (serve::Backend::OwnImages { engine }, format!("tools run in containers of {engine}"))
        }
        None => {
            let why = "neither docker nor podman has the images, see 'aifo-coder images build'";
            (serve::Backend::Local, format!("tools run as processes of this machine: {why}"))
        }
    };
    let serve = Serve::start(&Options {
        dist: &dist,
        workspace: &project,
        kinds: &names,
        backend,
        path: std::env::var_os("PATH").unwrap_or_default(),
        arguments: &[],
        variables: &[],
        log: root.join("serve.log"),
    })?;
    eprintln!("session: {} with {}; {runs}", project.display(), names.join(", "));

    let shims = root.join("shims");
    dist.link_shims(&shims, &calls::tools())?;
    let agent = Agent { path: serve::path_with(&shims)?, project, serve: &serve };
    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    for call in CALLS.iter().filter(|call| call.needs.is_none_or(|kind| names.contains(&kind))) {
        eprintln!("$ {}", call.line());
        match agent.play(call) {
            Ok(row) => rows.push(row),
            Err(error) => wrong.push(format!("{}: {error:#}", call.line())),
        }
    }
    println!();
    print!("{}", table::layout(HEADER, &rows));
    if !wrong.is_empty() {
        bail!("{}\nthe session's log:\n{}", wrong.join("\n"), serve.log_tail());
    }
    serve.stop()?;
    println!("\nEvery call gave the expected result, the same as natively; {runs}.");
    Ok(())
}

const HEADER: [&str; 7] =
    ["call", "sidecar", "exit", "native ms", "proxied ms", "overhead ms", "ratio"];

/// Returns the first engine that has the images of these kinds.
fn engine_with_images(kinds: &[&str]) -> Option<&'static str> {
    let has = |engine: &str, kind: &str| {
        let image = format!("aifo-toolchain-{kind}:latest");
        let mut inspect = Command::new(engine);
        inspect.args(["image", "inspect", &image]).stdin(Stdio::null());
        let status = inspect.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    ["docker", "podman"].into_iter().find(|engine| kinds.iter().all(|kind| has(engine, kind)))
}

/// The kinds whose tools are in PATH; reports the others as skipped.
fn kinds_of_this_host() -> Vec<&'static calls::Kind> {
    let mut here = Vec::new();
    for kind in KINDS {
        match kind.tools.iter().find(|tool| shell::find_in_path(tool).is_none()) {
            None => here.push(kind),
            Some(tool) => eprintln!("skipped: {} (no {tool} in PATH)", kind.name),
        }
    }
    here
}

/// The caller of the tools.
struct Agent<'a> {
    /// PATH, shims first.
    path: OsString,
    project: PathBuf,
    serve: &'a Serve,
}

/// Selects whether a call uses the shims.
#[derive(Clone, Copy, Debug)]
enum Side {
    Native,
    Proxied,
}

impl Agent<'_> {
    /// Makes one call, natively too where that is possible, and returns its table row.
    fn play(&self, call: &Call) -> Result<[String; 7]> {
        let pairs = match call.outcome {
            Outcome::Refused { says } => {
                self.check(Side::Proxied, call, says)?;
                return Ok(call.row(["-"; 4].map(str::to_owned)));
            }
            Outcome::Ends { says } => {
                for side in [Side::Native, Side::Proxied] {
                    // Warms both sides before timing: caches, build directories, bytecode.
                    self.check(side, call, says)?;
                }
                let time = |side| self.check(side, call, says);
                Pairs::measure(ROUNDS, || time(Side::Native), || time(Side::Proxied))?
            }
            Outcome::Interrupted => {
                let time = |side| self.interrupt(side, call);
                Pairs::measure(ROUNDS, || time(Side::Native), || time(Side::Proxied))?
            }
        };
        let (native, proxied) = (pairs.native().median, pairs.proxied().median);
        let [direct, through] = [native, proxied].map(|time| time.as_secs_f64());
        Ok(call.row([
            millis(native),
            millis(proxied),
            format!("{:+.1}", (through - direct) * 1e3),
            format!("{:.2}", through / direct),
        ]))
    }

    /// Runs a call, checks exit code and output, and returns its duration.
    fn check(&self, side: Side, call: &Call, says: &str) -> Result<Duration> {
        let mut command = self.command(side, call);
        let start = Instant::now();
        let output = command.output().with_context(|| format!("{side:?}: cannot start"))?;
        let time = start.elapsed();
        let text = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
        let text = text.concat();
        call.check_exit(exit_code(output.status)).with_context(|| format!("{side:?}:\n{text}"))?;
        if !text.contains(says) {
            bail!("{side:?}: the output lacks '{says}':\n{text}");
        }
        Ok(time)
    }

    /// Starts a call that prints `ready`, interrupts it as a terminal does, and returns the time
    /// from the signal to its end.
    fn interrupt(&self, side: Side, call: &Call) -> Result<Duration> {
        let mut command = self.command(side, call);
        let mut child = command.process_group(0).stdout(Stdio::piped()).spawn()?;
        let group = serve::pid(&child);
        let stdout = child.stdout.take().context("no stdout")?;
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        let start = Instant::now();
        killpg(group, Signal::SIGINT)?;
        let status = child.wait()?;
        let time = start.elapsed();
        read?;
        if line.trim_end() != "ready" {
            bail!("{side:?}: expected 'ready', got {line:?}");
        }
        call.check_exit(exit_code(status)).with_context(|| format!("{side:?}"))?;
        Ok(time)
    }

    /// A call as an agent makes it: by name, in the project. The native one lacks the shims.
    fn command(&self, side: Side, call: &Call) -> Command {
        let mut command = Command::new(call.tool);
        command.args(call.args).current_dir(&self.project).stdin(Stdio::null());
        command.env_remove("CARGO_TARGET_DIR");
        if let Side::Proxied = side {
            command.env("PATH", &self.path);
            command.envs(self.serve.client_env().iter().map(|(name, value)| (name, value)));
        }
        command
    }
}

/// The exit code as a shell reports it.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
