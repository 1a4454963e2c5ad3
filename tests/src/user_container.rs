//! A user's own container.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{EVERY_TOOL, Engine};

/// A container of the user, such as a compose service or a devcontainer. Removed on drop.
#[derive(Debug)]
pub struct UserContainer {
    engine: Engine,
    name: String,
}

impl UserContainer {
    /// Starts an idle container of the default image with these engine options.
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

    /// Runs a shell script in it as root and returns the output.
    #[track_caller]
    pub fn shell(&self, script: &str) -> String {
        self.engine.text(["exec", "--user", "0", &self.name, "sh", "-c", script])
    }

    /// Runs an engine command on it: `stop`, `start`, `pause`.
    #[track_caller]
    pub fn engine_command(&self, words: &[&str]) {
        let (verb, options) = words.split_first().expect("a command has a verb");
        self.engine.text([&[*verb], options, &[self.name.as_str()]].concat());
    }

    /// The host's pids of the processes in it, without its own main process.
    #[track_caller]
    pub fn processes_inside(&self) -> Vec<i32> {
        let namespace = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = namespace(self.engine.pid(&self.name));
        let entries = std::fs::read_dir("/proc").expect("/proc is mounted");
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
