//! `aifo-coder prompt` with a very large answer.

use std::io::Read;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use aifo_tests::{AcpAgent, SessionSetup, Step, eventually_within};

use crate::acp_giants::{ENDLESS, FRAME, PATIENCE, PeakMemory, almost_a_million, long_chunk, turn};

/// The collected stdout.
#[derive(Clone, Debug, Default)]
struct Collected {
    bytes: u64,
    lines: u64,
    /// The last bytes.
    end: Vec<u8>,
}

impl Collected {
    /// Reads in a thread.
    fn collect(mut stdout: impl Read + Send + 'static) -> Arc<Mutex<Collected>> {
        let collected = Arc::new(Mutex::new(Collected::default()));
        let shared = Arc::clone(&collected);
        thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                let mut collected = shared.lock().unwrap_or_else(PoisonError::into_inner);
                collected.take(&buffer[..count]);
            }
        });
        collected
    }

    fn take(&mut self, new: &[u8]) {
        self.bytes += new.len() as u64;
        self.lines += new.split(|&byte| byte == b'\n').count() as u64 - 1;
        self.end.extend(&new[new.len().saturating_sub(256)..]);
        self.end.drain(..self.end.len().saturating_sub(256));
    }

    fn ends_in(&self, text: &str) -> bool {
        self.end.ends_with(text.as_bytes())
    }
}

/// Prompts an agent that sends this and then a dot, checks the memory until all output is printed,
/// and returns the output. The agent stays alive until then, or until it is killed.
#[track_caller]
fn check(format: &str, steps: Vec<Step>) -> Collected {
    let agent = AcpAgent::new(
        &turn([steps, vec![Step::say(".")]].concat())
            .at_end([Step::IgnoreSignals, Step::WaitForWord("measured".into())]),
    );
    let setup = SessionSetup::new();
    let (read, write) = std::io::pipe().unwrap();
    let mut prompt = setup.coder();
    prompt.args(["prompt", "--backend", "local", "--quiet", "--format", format]);
    prompt.args(["--agent-command", &agent.command_line(), "hello"]);
    let mut child = prompt.stdin(Stdio::null()).stdout(write).spawn().unwrap();
    drop(prompt);
    let collected = Collected::collect(read);
    let pid = child.id().cast_signed();
    let so_far = || collected.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // The last member of the last report, or the end of the answer.
    let end = if format == "json" { "\"dropped\":0}\n" } else { ".\n" };
    let mut peak = PeakMemory::default();
    eventually_within(PATIENCE, "all of it was printed", || {
        // On a loaded machine it may kill the agent and end before this is checked.
        let status = child.try_wait().unwrap();
        assert!(status.is_none_or(|status| status.success()), "{status:?}: {:?}", so_far());
        peak.sample(pid);
        so_far().ends_in(end)
    });
    peak.assert_small();
    agent.release("measured");
    let mut status = None;
    eventually_within(PATIENCE, "it has ended", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(0));
    assert_eq!(agent.alive(), [0; 0]);
    so_far()
}

#[test]
fn a_line_as_long_as_may_be_is_all_of_the_answer() {
    let text = check("text", long_chunk(FRAME));
    assert!(text.bytes > FRAME - 256 && text.ends_in("xxx.\n"), "{text:?}");
    // Once as a chunk and twice at the end.
    let json = check("json", long_chunk(FRAME));
    assert!(json.bytes > 3 * (FRAME - 256), "{json:?}");
}

#[test]
fn a_line_of_gigabytes_is_skipped() {
    let giant = || vec![Step::Fill(b'x', ENDLESS), Step::line("")];
    assert_eq!(check("text", giant()).bytes, 2);
    assert!(check("json", giant()).bytes < 1 << 20);
}

#[test]
fn a_million_updates_are_printed_one_by_one() {
    assert_eq!(check("text", almost_a_million()).bytes, 499_999 + 2);
    assert!(check("json", almost_a_million()).lines > 1_000_000);
}

#[test]
fn a_flood_on_stderr_is_drained() {
    assert_eq!(check("text", vec![Step::Stderr(64 << 20)]).bytes, 2);
    assert!(check("json", vec![Step::Stderr(64 << 20)]).bytes < 1 << 20);
}
