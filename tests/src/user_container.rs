//! A container that is no session's: a user's own.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{EVERY_TOOL, Engine};

/// A container that a user runs: a compose service, a devcontainer. Removed on drop.
#[derive(Debug)]
pub struct UserContainer {
    engine: Engine,
    name: String,
}

impl UserContainer {
    /// Starts one that does nothing, from the image that has every tool, with these options of the
    /// engine's.
    #[track_caller]
    pub fn start(engine: &Engine, options: &[&str]) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("aifo-test-box-{}-{count}", process::id());
        let container = UserContainer { engine: engine.clone(), name };
        let named = ["run", "--detach", "--init", "--name", &container.name];
        let rest = ["--entrypoint", "sleep", EVERY_TOOL, "86400"];
        engine.text([&named[..], options, &rest[..]].concat());
        container
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a shell in it prints, as root.
    #[track_caller]
    pub fn shell(&self, script: &str) -> String {
        self.engine.text(["exec", "--user", "0", &self.name, "sh", "-c", script])
    }

    /// Has the engine do something with it: `stop`, `start`, `pause`.
    #[track_caller]
    pub fn engine_command(&self, words: &[&str]) {
        let (verb, options) = words.split_first().expect("a command has a verb");
        self.engine.text([&[*verb], options, &[self.name.as_str()]].concat());
    }

    /// The host's pids of what runs in it, but for itself.
    #[track_caller]
    pub fn processes_inside(&self) -> Vec<i32> {
        let namespace = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = namespace(self.engine.pid(&self.name));
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
        let _ = self.engine.command(["rm", "--force", "--volumes", &self.name]).output();
    }
}
