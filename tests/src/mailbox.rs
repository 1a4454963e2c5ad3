//! A mailbox: the daemon, its directory, and those who call from the other side.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Outcome, Running, Setup, Signal, Tool, eventually};

/// Where the machine has its commands.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What the script needs of an image, apart from its shell.
const SCRIPT_NEEDS: [&str; 9] =
    ["cat", "date", "dd", "mv", "readlink", "rm", "sh", "sleep", "touch"];

/// A mailbox whose daemon runs. Dropped, the daemon is killed.
#[derive(Debug)]
pub struct Mailbox {
    setup: Setup,
    daemon: Running,
    directory: PathBuf,
}

/// What a request was answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxAnswer {
    /// The content of the file, digits.
    pub exit: String,
    /// What was printed.
    pub stdout: Vec<u8>,
    /// The same, for errors, as text.
    pub stderr: String,
    /// Why, if that was told.
    pub reason: Option<String>,
}

/// A setup whose PATH has the fake tools and what every machine has.
pub fn host() -> Setup {
    let setup = Setup::new();
    let path = format!("{}:{PATH}", setup.tools().display());
    setup.env("PATH", &path).tool("fake", Tool::Fake)
}

impl Mailbox {
    /// Serves these commands from the default directory.
    #[track_caller]
    pub fn start(commands: &[&str]) -> Self {
        Self::of(host(), commands)
    }

    /// Starts `aifo-coder proxy` with these arguments, in the default directory.
    #[track_caller]
    pub fn of(setup: Setup, args: &[&str]) -> Self {
        let daemon = Self::daemon(&setup, args);
        let directory = setup.workspace().join(".swe-swe/proxy");
        Mailbox { setup, daemon, directory }
    }

    /// A daemon that is ready.
    #[track_caller]
    pub fn daemon(setup: &Setup, args: &[&str]) -> Running {
        let daemon = Running::start(setup.coder().arg("proxy").args(args));
        daemon.expect("[proxy] Container script: ");
        daemon
    }

    /// The setup that it runs in.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The daemon.
    pub fn running(&self) -> &Running {
        &self.daemon
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The client of a command, called from the workspace as from a container, without input.
    pub fn client(&self, command: &str) -> Command {
        let mut client = Command::new(self.file(command));
        client.current_dir(self.setup.workspace()).env_clear().env("PATH", PATH);
        client.stdin(Stdio::null());
        client
    }

    /// Runs a command through its client, to its end.
    #[track_caller]
    pub fn run(&self, command: &str, args: &[&str]) -> Outcome {
        Running::start(self.client(command).args(args)).finish()
    }

    /// A PATH without inotify-tools: links to what the script needs.
    pub fn path_without_inotify(&self) -> PathBuf {
        let dir = self.setup.scratch().join("poor");
        fs::create_dir_all(&dir).expect("the scratch directory is writable");
        for name in SCRIPT_NEEDS {
            let places = PATH.split(':').map(|place| Path::new(place).join(name));
            let program = places.into_iter().find(|program| program.is_file());
            let program = program.unwrap_or_else(|| panic!("this machine has no {name}"));
            // Made by an earlier call.
            let _ = std::os::unix::fs::symlink(program, dir.join(name));
        }
        dir
    }

    /// Places a request as the documents say: whole, by a rename.
    pub fn place(&self, stem: &str, request: &[u8]) {
        let draft = self.file(&format!("{stem}.req.tmp"));
        fs::write(&draft, request).expect("the directory is writable");
        fs::rename(draft, self.file(&format!("{stem}.req"))).expect("the directory is writable");
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub fn answer(&self, stem: &str) -> MailboxAnswer {
        let exit = self.file(&format!("{stem}.exit"));
        eventually(&format!("'{stem}' is answered"), || exit.exists());
        let read = |part: &str| fs::read(self.file(&format!("{stem}.{part}"))).unwrap_or_default();
        let text = |part: &str| String::from_utf8_lossy(&read(part)).into_owned();
        MailboxAnswer {
            exit: text("exit"),
            stdout: read("stdout"),
            stderr: text("stderr"),
            reason: Some(text("reason")).filter(|reason| !reason.is_empty()),
        }
    }

    /// The names in the directory, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The names of what belongs to requests.
    pub fn leftovers(&self) -> Vec<String> {
        let mut names = self.names();
        let clients: Vec<String> = names
            .iter()
            .filter_map(|name| name.strip_suffix(".pid"))
            .flat_map(|command| ["", ".pid", ".mailbox"].map(|end| format!("{command}{end}")))
            .collect();
        names.retain(|name| !clients.contains(name));
        names
    }

    /// Waits until nothing of any request is left.
    #[track_caller]
    pub fn is_clean(&self) {
        eventually("the directory is clean", || self.leftovers().is_empty());
    }

    /// Tells the daemon to end, and waits until it has. The setup is given back.
    #[track_caller]
    pub fn stop(self) -> (Setup, Outcome) {
        self.daemon.signal(Signal::SIGTERM);
        (self.setup, self.daemon.finish())
    }

    /// Kills the daemon.
    #[track_caller]
    pub fn kill(self) -> Setup {
        self.daemon.signal(Signal::SIGKILL);
        let ended = self.daemon.finish();
        assert_eq!(ended.signal(), Some(Signal::SIGKILL as i32));
        self.setup
    }
}
