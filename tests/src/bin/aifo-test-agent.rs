//! A scripted ACP agent. Its argument is the directory of its script and its records, see
//! `tests/src/acp_agent.rs`.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Stdin, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio, exit};
use std::thread::sleep;
use std::time::Duration;

use aifo_tests::acp_agent::{Awaited, Group, PIDS, RECEIVED, SCRIPT, Script, Step, word_file};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal, raise};
use nix::unistd::{pause, setsid};
use serde_json::{Value, json};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let dir = PathBuf::from(args.next().unwrap_or_default());
    let played = match args.next() {
        None => Agent::new(dir).and_then(|mut agent| agent.play()),
        Some(group) => stay(&dir, group == "own"),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("aifo-test-agent: {e}");
            ExitCode::from(99)
        }
    }
}

struct Agent {
    dir: PathBuf,
    script: Script,
    stdin: BufReader<Stdin>,
    stdout: BufWriter<File>,
    received: File,
    /// Messages that arrived during a wait for another one.
    later: VecDeque<Value>,
    /// The number of messages of each method.
    times: HashMap<String, usize>,
    /// The responses to its own requests, by id as text.
    answers: HashMap<String, Value>,
}

impl Agent {
    fn new(dir: PathBuf) -> io::Result<Self> {
        let script = serde_json::from_slice(&fs::read(dir.join(SCRIPT))?)?;
        record_pid(&dir)?;
        Ok(Agent {
            script,
            stdin: BufReader::new(io::stdin()),
            // Not `io::stdout`, whose line buffer would be flushed at every line of a flood.
            stdout: BufWriter::new(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
            received: append(&dir.join(RECEIVED))?,
            dir,
            later: VecDeque::new(),
            times: HashMap::new(),
            answers: HashMap::new(),
        })
    }

    fn play(&mut self) -> io::Result<()> {
        let start = self.script.start.clone();
        self.act(&start, &Value::Null)?;
        loop {
            let next = match self.later.pop_front() {
                Some(message) => Some(message),
                None => self.read()?,
            };
            let Some(message) = next else {
                let end = self.script.end.clone();
                return self.act(&end, &Value::Null);
            };
            self.take(&message)?;
        }
    }

    fn take(&mut self, message: &Value) -> io::Result<()> {
        let Some(method) = message["method"].as_str() else { return Ok(()) };
        match self.script.on.get(method) {
            Some(rounds) => {
                let time = self.times.entry(method.to_owned()).or_default();
                let steps = rounds.get(*time).or(rounds.last()).cloned().unwrap_or_default();
                *time += 1;
                self.act(&steps, message)
            }
            None if message.get("id").is_some() => {
                self.act(&[Step::Error(-32601, format!("no '{method}'"))], message)
            }
            None => Ok(()),
        }
    }

    /// The next message, `None` at the end. A line that is not JSON is only recorded.
    fn read(&mut self) -> io::Result<Option<Value>> {
        loop {
            let mut line = Vec::new();
            if self.stdin.read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            self.received.write_all(&line)?;
            if let Ok(message) = serde_json::from_slice::<Value>(&line) {
                if message.get("method").is_none() {
                    self.answers.insert(message["id"].to_string(), message.clone());
                }
                return Ok(Some(message));
            }
        }
    }

    fn act(&mut self, steps: &[Step], on: &Value) -> io::Result<()> {
        for step in steps {
            self.step(step, on)?;
            self.stdout.flush()?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, on: &Value) -> io::Result<()> {
        match step {
            Step::Answer(result) => {
                self.send(&json!({"jsonrpc": "2.0", "id": "$id", "result": result}), on)
            }
            Step::Error(code, message) => {
                let error = json!({"code": code, "message": message});
                self.send(&json!({"jsonrpc": "2.0", "id": "$id", "error": error}), on)
            }
            Step::Send(value) => self.send(value, on),
            Step::Raw(bytes) => self.stdout.write_all(bytes),
            Step::Fill(byte, count) => fill(&mut self.stdout, *byte, *count),
            Step::Stderr(bytes) => {
                let line = [&[b'e'; 1023][..], b"\n"].concat();
                let mut left = *bytes;
                while left > 0 {
                    let part = left.min(1024) as usize;
                    io::stderr().write_all(&line[1024 - part..])?;
                    left -= part as u64;
                }
                Ok(())
            }
            Step::Repeat { times, steps } => {
                // Flushes once, so that floods are fast.
                (0..*times).try_for_each(|_| steps.iter().try_for_each(|step| self.step(step, on)))
            }
            Step::WaitFor(awaited) => self.wait_for(awaited),
            Step::WaitForWord(word) => {
                self.stdout.flush()?;
                while !word_file(&self.dir, word).exists() {
                    sleep(Duration::from_millis(2));
                }
                Ok(())
            }
            Step::Hang => {
                self.stdout.flush()?;
                pause_for_ever()
            }
            Step::IgnoreSignals => ignore_signals(),
            Step::Spawn(group) => self.spawn(*group),
            Step::Exit(code) => {
                self.stdout.flush()?;
                exit((*code).into())
            }
            Step::Die(signal) => {
                self.stdout.flush()?;
                setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
                raise(Signal::try_from(*signal)?)?;
                Ok(())
            }
        }
    }

    fn send(&mut self, value: &Value, on: &Value) -> io::Result<()> {
        let mut value = value.clone();
        self.put_in(&mut value, on);
        serde_json::to_writer(&mut self.stdout, &value)?;
        self.stdout.write_all(b"\n")
    }

    /// Replaces the placeholders of a script.
    fn put_in(&self, value: &mut Value, on: &Value) {
        match value {
            Value::String(text) if text == "$id" => *value = on["id"].clone(),
            Value::String(text) if text == "$session" => *value = on["params"]["sessionId"].clone(),
            Value::String(text) => {
                if let Some((id, pointer)) =
                    text.strip_prefix("$answer:").and_then(|rest| rest.split_once('/'))
                {
                    let answer = self.answers.get(&Value::from(id).to_string());
                    let part = answer.and_then(|answer| answer.pointer(&format!("/{pointer}")));
                    *value = part.cloned().unwrap_or_default();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.put_in(item, on)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.put_in(member, on));
            }
            _ => {}
        }
    }

    fn wait_for(&mut self, awaited: &Awaited) -> io::Result<()> {
        self.stdout.flush()?;
        loop {
            let Some(message) = self.read()? else {
                return match awaited {
                    Awaited::End => Ok(()),
                    other => Err(io::Error::other(format!("never received {other:?}"))),
                };
            };
            let is_it = match awaited {
                Awaited::Method(method) => message["method"] == **method,
                Awaited::Answer(id) => message.get("method").is_none() && message["id"] == *id,
                Awaited::End => false,
            };
            if is_it {
                return Ok(());
            }
            self.later.push_back(message);
        }
    }

    /// Returns after the process has recorded its pid.
    fn spawn(&self, group: Group) -> io::Result<()> {
        let before = pids(&self.dir);
        let group = if group == Group::Own { "own" } else { "agents" };
        let mut child = Command::new("/proc/self/exe");
        child.arg0("aifo-test-agent-child").arg(&self.dir).arg(group).stdin(Stdio::null());
        child.spawn()?;
        while pids(&self.dir) == before {
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// The body of a process that the agent has started.
fn stay(dir: &Path, is_on_its_own: bool) -> io::Result<()> {
    if is_on_its_own {
        setsid()?;
    }
    ignore_signals()?;
    record_pid(dir)?;
    pause_for_ever()
}

fn record_pid(dir: &Path) -> io::Result<()> {
    let line = format!("{}\n", std::process::id());
    append(&dir.join(PIDS))?.write_all(line.as_bytes())
}

fn pids(dir: &Path) -> usize {
    fs::read_to_string(dir.join(PIDS)).unwrap_or_default().lines().count()
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Blocks all signals, which is equivalent to ignoring them.
fn ignore_signals() -> io::Result<()> {
    use Signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let signals: SigSet = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().collect();
    Ok(signals.thread_block()?)
}

fn fill(out: &mut impl Write, byte: u8, mut count: u64) -> io::Result<()> {
    let block = [byte; 64 << 10];
    while count > 0 {
        let part = count.min(block.len() as u64);
        out.write_all(&block[..part as usize])?;
        count -= part;
    }
    Ok(())
}

fn pause_for_ever() -> ! {
    loop {
        pause();
    }
}
