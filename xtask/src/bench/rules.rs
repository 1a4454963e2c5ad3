//! Rules on arguments: the cost of a call that they allow, and of an answer.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::call::{Calls, Side, Tool, Transport, expect_success};
use super::measure::{Bench, WARM_UP};
use super::report::Measured::{self, Added, Slowdown};
use super::stats::Pairs;
use crate::serve::{self, Options, Serve};

/// Rules of the session with rules, besides the default ones.
const RULES: usize = 1000;
/// The argument of a call that must be asked about.
const ASKED: &str = "ask";

/// `true` in a session with rules, relative to one without.
pub(super) fn allowed(bench: &Bench<'_>) -> Result<Measured> {
    let mut rules = String::new();
    for number in 0..RULES {
        write!(rules, "[[rule]]\nrun = \"make rule{number}\"\nthen = \"deny\"\n\n")?;
    }
    let with = Session::start(bench, &rules, &[])?;
    let without = Session::start(bench, "", &["--no-rules".to_owned()])?;
    let call = |session: &Session, calls: &Calls| {
        let mut command = calls.command(Side::Proxied, Transport::Passed, Tool::True);
        command.current_dir(&session.workspace);
        let start = Instant::now();
        let output = command.output()?;
        let time = start.elapsed();
        expect_success(&output)?;
        Ok(time)
    };
    let (with_calls, without_calls) = (with.calls(bench), without.calls(bench));
    let pairs = |rounds| {
        Pairs::measure(rounds, || call(&without, &without_calls), || call(&with, &with_calls))
    };
    pairs(WARM_UP)?;
    pairs(bench.depth.calls()).map(Slowdown)
}

/// From an answer to the end of the call, whose tool exits at once.
pub(super) fn answered(bench: &Bench<'_>) -> Result<Measured> {
    let rule = format!("[[rule]]\nrun = \"make {ASKED}\"\nthen = \"ask\"\n");
    let session = Session::start(bench, &format!("{rule}\n[ask]\ntimeout_secs = 60\n"), &[])?;
    let calls = session.calls(bench);
    let mut watch = session.control()?;
    watch.send("{\"watch\": true}")?;
    let mut answers = session.control()?;
    let mut call = || {
        let mut command = calls.command(Side::Proxied, Transport::Passed, Tool::True);
        let child = command.arg(ASKED).current_dir(&session.workspace).spawn()?;
        let question = loop {
            let line = watch.line()?;
            if let Some(id) = line.split_once("{\"question\":{\"id\":\"").map(|(_, rest)| rest) {
                break id.split('"').next().unwrap_or_default().to_owned();
            }
        };
        let start = Instant::now();
        answers.send(&format!("{{\"answer\": \"{question}\", \"option\": \"once\"}}"))?;
        let output = child.wait_with_output()?;
        let time = start.elapsed();
        expect_success(&output)?;
        answers.line()?;
        Ok(time)
    };
    Pairs::measure(WARM_UP, || Ok(Duration::ZERO), &mut call)?;
    Pairs::measure(bench.depth.calls(), || Ok(Duration::ZERO), call).map(Added)
}

/// A session with its own file of the user.
pub(super) struct Session {
    serve: Serve,
    pub(super) workspace: PathBuf,
    runtime: PathBuf,
    _scratch: TempDir,
}

impl Session {
    pub(super) fn start(bench: &Bench<'_>, config: &str, arguments: &[String]) -> Result<Self> {
        let scratch = aifo_engine::images::scratch()?;
        let root = scratch.path().canonicalize()?;
        let [workspace, runtime, files] = ["work", "run", "config"].map(|name| root.join(name));
        fs::create_dir(&workspace)?;
        fs::create_dir(&runtime)?;
        fs::create_dir_all(files.join("aifo"))?;
        fs::write(files.join("aifo/config.toml"), config)?;
        let variables = [("XDG_RUNTIME_DIR", &*runtime), ("XDG_CONFIG_HOME", &*files)];
        let serve = Serve::start(&Options {
            dist: bench.dist,
            workspace: &workspace,
            kinds: &["c-cpp"],
            backend: serve::Backend::Local,
            path: serve::path_with(&bench.calls.tools)?,
            arguments,
            variables: &variables,
            log: root.join("serve.log"),
        })?;
        Ok(Session { serve, workspace, runtime, _scratch: scratch })
    }

    pub(super) fn calls(&self, bench: &Bench<'_>) -> Calls {
        let Calls { tools, shims, .. } = &bench.calls;
        let client_env = self.serve.client_env().to_vec();
        Calls { tools: tools.clone(), shims: shims.clone(), client_env }
    }

    fn control(&self) -> Result<Control> {
        let entries = fs::read_dir(&self.runtime)?.flatten().map(|entry| entry.path());
        let mut sockets = entries.map(|path| path.join("control.sock")).filter(|it| it.exists());
        Control::connect(&sockets.next().context("the session has no control socket")?)
    }
}

/// A connection to a control socket.
struct Control(BufReader<UnixStream>);

impl Control {
    fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Control(BufReader::new(stream)))
    }

    fn send(&mut self, line: &str) -> Result<()> {
        Ok(self.0.get_mut().write_all(format!("{line}\n").as_bytes())?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            bail!("the session closed its control socket");
        }
        Ok(line)
    }
}
