//! The parts of the bench: what is run, natively and through the shim.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};

use super::Depth;
use super::stats::Pairs;
use crate::serve::{self, Serve};
use crate::shell;

/// Names under which the session offers our tools: names that an allowlist has.
pub(super) const TOOLS: &[&str] = &[TRUE, FIXTURE];
/// Ends at once.
const TRUE: &str = "make";
/// This binary: `pour N` and `wait`.
const FIXTURE: &str = "cmake";

/// Runs before the measuring, so that pages and caches are warm.
const WARM_UP: usize = 20;

/// Fills the folder that stands first in the session's PATH.
pub(super) fn make_tools(dir: &Path) -> Result<()> {
    let end_at_once = shell::find_in_path("true").context("no `true` in PATH")?;
    symlink(end_at_once, dir.join(TRUE))?;
    symlink(std::env::current_exe()?, dir.join(FIXTURE))?;
    Ok(())
}

/// A session, and the two folders that hold the same names: the tools, and their shims.
pub(super) struct Bench<'a> {
    pub(super) serve: &'a Serve,
    pub(super) tools: PathBuf,
    pub(super) shims: PathBuf,
    pub(super) workspace: PathBuf,
    pub(super) depth: Depth,
}

impl Bench<'_> {
    /// From spawn to exit of a tool that ends at once.
    pub(super) fn true_calls(&self, rounds: usize) -> Result<Pairs> {
        eprintln!("true, {rounds} pairs");
        let pass = |dir: &PathBuf| self.time_true(dir);
        Pairs::measure(WARM_UP, || pass(&self.tools), || pass(&self.shims))?;
        Pairs::measure(rounds, || pass(&self.tools), || pass(&self.shims))
    }

    /// From the first spawn to the last exit of many at once.
    pub(super) fn burst(&self, count: usize, rounds: usize) -> Result<Pairs> {
        eprintln!("{count} at once, {rounds} pairs");
        let pass = |dir: &PathBuf| {
            let start = Instant::now();
            let spawn = |_| Ok(self.command(dir, TRUE, &[]).stdout(Stdio::null()).spawn()?);
            let children = (0..count).map(spawn).collect::<Result<Vec<Child>>>()?;
            for child in children {
                expect_success(child)?;
            }
            Ok(start.elapsed())
        };
        Pairs::measure(rounds, || pass(&self.tools), || pass(&self.shims))
    }

    /// A native `true` against the time from SIGINT at the shim of a quiet tool to the shim's end.
    pub(super) fn interrupts(&self, rounds: usize) -> Result<Pairs> {
        eprintln!("Ctrl-C, {rounds} pairs");
        Pairs::measure(rounds, || self.time_true(&self.tools), || self.time_interrupt())
    }

    /// From spawn to exit of a tool whose output we read from a pipe.
    pub(super) fn pours(&self, rounds: usize) -> Result<Pairs> {
        let bytes = self.depth.pour();
        eprintln!("{} MiB of output, {rounds} pairs", bytes >> 20);
        let pass = |dir: &PathBuf| self.time_pour(dir, bytes);
        Pairs::measure(rounds, || pass(&self.tools), || pass(&self.shims))
    }

    /// Reads that much output through the shim, which speaks version 2.
    pub(super) fn transfer_v2(&self, bytes: u64) -> Result<()> {
        eprintln!("{} MiB through version 2", bytes >> 20);
        self.time_pour(&self.shims, bytes).map(drop)
    }

    /// Reads that much output from a version 1 answer, which no client of ours asks for.
    pub(super) fn transfer_v1(&self, bytes: u64) -> Result<()> {
        eprintln!("{} MiB through version 1", bytes >> 20);
        let body = format!(
            "tool={FIXTURE}&cwd={}&arg=pour&arg={bytes}",
            percent_encoded(self.workspace.to_str().context("a path of text")?)
        );
        let mut stream = UnixStream::connect(self.serve.socket()?)?;
        write!(
            stream,
            "POST /exec HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
             X-Aifo-Proto: 1\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.serve.token(),
            body.len()
        )?;
        let mut answer = BufReader::new(stream);
        let head = read_head(&mut answer)?;
        if !head.to_ascii_lowercase().contains("\r\nx-exit-code: 0\r\n") {
            bail!("version 1 answered:\n{head}");
        }
        expect_bytes(bytes, count(answer)?)
    }

    fn time_true(&self, dir: &Path) -> Result<Duration> {
        let mut command = self.command(dir, TRUE, &[]);
        let start = Instant::now();
        expect_success(command.stdout(Stdio::null()).spawn()?)?;
        Ok(start.elapsed())
    }

    fn time_pour(&self, dir: &Path, bytes: u64) -> Result<Duration> {
        let mut command = self.command(dir, FIXTURE, &["pour", &bytes.to_string()]);
        let start = Instant::now();
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let arrived = count(child.stdout.take().context("no stdout")?)?;
        expect_success(child)?;
        expect_bytes(bytes, arrived)?;
        Ok(start.elapsed())
    }

    fn time_interrupt(&self) -> Result<Duration> {
        let mut command = self.command(&self.shims, FIXTURE, &["wait"]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
        let start = Instant::now();
        kill(serve::pid(&child), Signal::SIGINT)?;
        let status = child.wait()?;
        let time = start.elapsed();
        if line != "ready\n" || status.success() {
            bail!("an interrupted tool said {line:?} and ended with {status}");
        }
        Ok(time)
    }

    /// A call of a tool or of its shim. Both get the same environment, so that only the path of
    /// the program tells them apart.
    fn command(&self, dir: &Path, name: &str, args: &[&str]) -> Command {
        let mut command = Command::new(dir.join(name));
        let contract = self.serve.contract().iter().map(|(name, value)| (name, value));
        command.args(args).envs(contract).stdin(Stdio::null());
        command
    }
}

fn expect_success(mut child: Child) -> Result<()> {
    match child.wait()? {
        status if status.success() => Ok(()),
        status => bail!("a call failed: {status}"),
    }
}

fn expect_bytes(expected: u64, arrived: u64) -> Result<()> {
    if arrived != expected {
        bail!("{arrived} of {expected} bytes arrived");
    }
    Ok(())
}

/// Reads to the end and counts, in blocks as large as a pipe.
fn count(mut from: impl Read) -> Result<u64> {
    let mut block = vec![0; 64 * 1024];
    let mut total = 0;
    loop {
        match from.read(&mut block)? {
            0 => return Ok(total),
            len => total += len as u64,
        }
    }
}

/// An answer's status line and headers, with the empty line that ends them.
fn read_head(answer: &mut impl BufRead) -> Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if answer.read_line(&mut head)? == 0 {
            bail!("the answer ended in its head:\n{head}");
        }
    }
    Ok(head)
}

fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
    let encode = |byte| match byte {
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_ends_where_the_body_begins() {
        let mut answer = &b"HTTP/1.1 200 OK\r\nX-Exit-Code: 0\r\n\r\n\0\0"[..];
        let head = read_head(&mut answer).unwrap();
        assert!(head.ends_with("X-Exit-Code: 0\r\n\r\n"));
        assert_eq!(count(answer).unwrap(), 2);
        assert!(read_head(&mut &b"HTTP/1.1 200 OK\r\n"[..]).is_err());
    }

    #[test]
    fn paths_survive_a_form() {
        assert_eq!(percent_encoded("/tmp/a b&c+ä"), "/tmp/a%20b%26c%2B%C3%A4");
    }
}
