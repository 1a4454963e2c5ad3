//! Sessions whose sidecars are containers, for the stories that only an engine can tell.

use std::env;
use std::io::Write;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Outcome, Setup};

/// The engine that `AIFO_TEST_ENGINE` names; `None` where it names none, and then the story is named
/// as skipped, also when the test's output is captured.
pub fn engine(story: &str) -> Option<String> {
    let engine = env::var("AIFO_TEST_ENGINE").ok().filter(|engine| !engine.is_empty());
    if engine.is_none() {
        // Nobody is left to be told that stderr is gone.
        let _ = writeln!(std::io::stderr(), "skipped: {story}: AIFO_TEST_ENGINE is not set");
    }
    engine
}

/// An image with a shell, python, node and make: `AIFO_TEST_IMAGE`.
pub fn image() -> String {
    env::var("AIFO_TEST_IMAGE").unwrap_or_else(|_| "aifo-test-base:latest".to_owned())
}

/// `aifo-coder` in a setup, where it finds the engine's own program.
pub fn contained(setup: &Setup, engine: &str, args: &[&str]) -> Command {
    let mut coder = setup.coder();
    coder.env("PATH", env::var_os("PATH").unwrap_or_default()).env("AIFO_BACKEND", engine);
    if let Some(settings) = env::var_os(PODMAN_SETTINGS) {
        coder.env(PODMAN_SETTINGS, settings);
    }
    coder.args(args);
    coder
}

/// What podman reads in place of the machine's own settings.
const PODMAN_SETTINGS: &str = "CONTAINERS_CONF";

/// What a command of the engine's prints; panics if it fails.
#[track_caller]
pub fn ask(engine: &str, args: &[&str]) -> String {
    Outcome::of(Command::new(engine).args(args)).exited(0).text()
}

/// A container that a user runs: a compose service, a devcontainer. Removed on drop.
#[derive(Debug)]
pub struct UserContainer {
    engine: String,
    name: String,
}

impl UserContainer {
    /// Starts one that does nothing, from our image, with these options of the engine's.
    #[track_caller]
    pub fn start(engine: &str, options: &[&str]) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("aifo-test-box-{}-{count}", process::id());
        let container = UserContainer { engine: engine.to_owned(), name };
        let image = image();
        let named = ["run", "--detach", "--init", "--name", &container.name];
        let rest = ["--entrypoint", "sleep", &image, "86400"];
        ask(engine, &[&named[..], options, &rest[..]].concat());
        container
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a shell in it prints, as root.
    #[track_caller]
    pub fn shell(&self, script: &str) -> String {
        ask(&self.engine, &["exec", "--user", "0", &self.name, "sh", "-c", script])
    }

    /// Has the engine do something with it: `stop`, `start`, `pause`.
    #[track_caller]
    pub fn told_to(&self, words: &[&str]) {
        let (verb, options) = words.split_first().expect("a command has a verb");
        ask(&self.engine, &[&[*verb], options, &[self.name.as_str()]].concat());
    }

    /// The host's pids of what runs in it, but for itself.
    #[track_caller]
    pub fn guests(&self) -> Vec<i32> {
        let first = ask(&self.engine, &["inspect", "--format", "{{.State.Pid}}", &self.name]);
        let first: i32 = first.trim().parse().expect("a pid");
        let namespace = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = namespace(first);
        let entries = std::fs::read_dir("/proc").expect("it is there");
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|&pid| {
            let words = crate::argv(pid);
            namespace(pid) == own && !words.iter().any(|word| word == "86400")
        })
        .collect()
    }
}

impl Drop for UserContainer {
    fn drop(&mut self) {
        let mut remove = Command::new(&self.engine);
        let _ = remove.args(["rm", "--force", "--volumes", &self.name]).output();
    }
}
