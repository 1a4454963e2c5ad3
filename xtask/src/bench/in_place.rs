//! The cost of the rules: of a call that is judged where it runs, and of a call that a sidecar runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::call::{Calls, Side, Tool, Transport, expect_success};
use super::measure::{Bench, WARM_UP};
use super::report::Measured::{self, Added, Slowdown};
use super::stats::Pairs;
use crate::serve::{self, Backend, Options, Serve};
use crate::shell;

/// Time that the shim of `git status` adds. The program behind it is `true`.
pub(super) fn added(bench: &Bench<'_>) -> Result<Measured> {
    let scratch = aifo_engine::images::scratch()?;
    let root = scratch.path().canonicalize()?;
    let [shims, programs] = ["shims", "programs"].map(|name| root.join(name));
    fs::create_dir(&shims)?;
    fs::create_dir(&programs)?;
    symlink(&bench.dist.shim, shims.join("aifo-shim"))?;
    symlink("aifo-shim", shims.join("aifo-in-place"))?;
    symlink("aifo-in-place", shims.join("git"))?;
    let program = shell::find_in_path("true").context("'true' is not in PATH")?;
    symlink(program, programs.join("git"))?;
    let path = std::env::join_paths([&shims, &programs])?;
    let call = |side| {
        let directory = match side {
            Side::Native => &programs,
            Side::Proxied => &shims,
        };
        let mut command = Command::new(directory.join("git"));
        command.arg("status").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        bench.calls.set_environment(&mut command, Transport::Passed);
        command.env("PATH", &path);
        time(command)
    };
    let pass = |side| move || call(side);
    Pairs::measure(WARM_UP, pass(Side::Native), pass(Side::Proxied))?;
    let pairs = Pairs::measure(bench.depth.calls(), pass(Side::Native), pass(Side::Proxied))?;
    Ok(Added(pairs))
}

/// Time of a call in a session with the default rules, to the same in one without rules.
pub(super) fn with_rules(bench: &Bench<'_>) -> Result<Measured> {
    let scratch = aifo_engine::images::scratch()?;
    let Calls { tools, shims, .. } = &bench.calls;
    let serve = Serve::start(&Options {
        dist: bench.dist,
        workspace: &bench.workspace,
        kinds: &["c-cpp"],
        backend: Backend::Local,
        path: serve::path_with(tools)?,
        arguments: &["--no-rules".to_owned()],
        variables: &[],
        log: scratch.path().join("serve.log"),
    })?;
    let client_env = serve.client_env().to_vec();
    let without = Calls { tools: tools.clone(), shims: shims.clone(), client_env };
    let pass = |calls: &Calls| time(calls.command(Side::Proxied, Transport::Passed, Tool::True));
    let measure = |count| Pairs::measure(count, || pass(&without), || pass(&bench.calls));
    measure(WARM_UP)?;
    let pairs = measure(bench.depth.calls())?;
    serve.stop()?;
    Ok(Slowdown(pairs))
}

fn time(mut command: Command) -> Result<Duration> {
    let start = Instant::now();
    let output = command.output()?;
    let time = start.elapsed();
    expect_success(&output)?;
    Ok(time)
}
