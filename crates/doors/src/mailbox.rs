//! The daemon of a directory: from what is placed in it to who runs what, until it is told to end.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aifo_mailbox::{
    Claim, ClaimError, CommandName, Directory, OrphanRules, Part, PidFile, PidFileError, Queue,
    Seen, Stem, Watch, WatchId, remove_orphans, served_commands,
};
use aifo_policy::HostCommands;
use aifo_sidecar::{Fleet, SidecarError, on_reactor};
use aifo_types::exit;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, interval, sleep_until};

use crate::client::Client;
use crate::input::Input;
use crate::request::{Bell, Shared, attend};

/// What a mailbox is opened with.
#[derive(Debug)]
pub struct MailboxConfig {
    /// Where requests are placed.
    pub directory: Directory,
    /// Where commands run; a real path.
    pub workspace: PathBuf,
    /// The commands that are served, at least one.
    pub commands: Vec<Command>,
    /// The variables of a caller that pass to its command.
    pub variables: Vec<String>,
    /// What callers find in the directory.
    pub client: Client,
    /// How long a command may run, or `None` for as long as it likes.
    pub max_runtime: Option<Duration>,
    /// How long commands have to finish when the daemon is told to end.
    pub grace: Duration,
}

/// A command of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What it is called, in requests and in the directory.
    pub name: CommandName,
    /// What is executed; an absolute path.
    pub program: PathBuf,
}

/// What a daemon is told. Each word holds from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Serve.
    No,
    /// Take nothing more, and let what runs finish, for as long as the grace is.
    Gracefully,
    /// And end what runs now.
    AtOnce,
}

/// Why a mailbox cannot be opened. Nothing of it is left then.
#[derive(Debug, thiserror::Error)]
pub enum MailboxError {
    /// A command is served by somebody else, or its PID file cannot be made.
    #[error(transparent)]
    PidFile(#[from] PidFileError),
    /// The directory does not take what has to be put there.
    #[error("cannot put the client of '{command}' into the directory: {source}")]
    Client {
        /// Whose client.
        command: CommandName,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot be watched, or read.
    #[error("cannot watch the directory: {0}")]
    Watch(#[from] io::Error),
    /// Nothing is there to run commands.
    #[error(transparent)]
    Runner(#[from] Arc<SidecarError>),
}

/// An open mailbox.
#[derive(Debug)]
pub struct Mailbox {
    shared: Arc<Shared>,
    commands: Vec<CommandName>,
    pid_files: Vec<PidFile>,
    watch: Watch,
    /// The same watch, to wait for.
    watched: AsyncFd<OwnedFd>,
    queue: Queue,
    tasks: JoinSet<()>,
    /// Who runs, by task and by request, with the watch on its input.
    stems: HashMap<Id, Stem>,
    bells: HashMap<Stem, (Arc<Bell>, Option<WatchId>)>,
    grace: Duration,
}

impl Mailbox {
    /// Takes the commands, removes what was left, answers what a daemon before left unanswered, and puts
    /// the clients there. Then requests may come.
    pub async fn open(config: MailboxConfig, fleet: Arc<Fleet>) -> Result<Self, MailboxError> {
        let MailboxConfig { directory, workspace, commands, variables, client, max_runtime, grace } =
            config;
        let names: Vec<_> = commands.iter().map(|command| command.name.clone()).collect();
        let mut taken = Taken { directory: &directory, pid_files: Vec::new(), clients: Vec::new() };
        for name in &names {
            let pid_file = PidFile::claim(&directory, name)?;
            if let Some(pid) = &pid_file.stale {
                tracing::warn!("the PID file of '{name}' was stale (PID {pid}), replaced");
            }
            taken.pid_files.push(pid_file);
        }
        // So that the first command need not wait for it, and nobody is let in without.
        fleet.host().await?;
        let watch = Watch::new().map_err(io::Error::from)?;
        watch.directory(&directory).map_err(io::Error::from)?;
        let watched = on_reactor(watch.as_fd().try_clone_to_owned()?, Interest::READABLE)?;
        answer_lost(&directory, &names)?;
        for name in &names {
            taken.clients.push(name);
            let put = client.put(&directory, name, &workspace, &variables);
            put.map_err(|source| MailboxError::Client { command: name.clone(), source })?;
        }
        let mut allowed = HostCommands::new(variables);
        for command in commands {
            allowed.allow(command.name.tool().clone(), command.program);
        }
        let pid_files = taken.keep();
        let ending = watch::Sender::new(false);
        let shared = Shared { directory, workspace, commands: allowed, fleet, max_runtime, ending };
        Ok(Mailbox {
            shared: Arc::new(shared),
            commands: names,
            pid_files,
            watch,
            watched,
            queue: Queue::default(),
            tasks: JoinSet::new(),
            stems: HashMap::new(),
            bells: HashMap::new(),
            grace,
        })
    }

    /// Serves until it is told to stop, and returns when nothing runs and nothing of the daemon is left
    /// in the directory. The fleet is left to its owner.
    pub async fn serve(mut self, mut stop: watch::Receiver<Stop>) {
        self.scan();
        let mut look = interval(LOOK);
        let mut is_there = true;
        loop {
            self.start_waiting();
            tokio::select! {
                () = told(&mut stop, Stop::Gracefully) => break,
                () = self.wait() => {}
                _ = look.tick(), if is_there => {
                    is_there = !self.shared.directory.is_removed();
                    if !is_there {
                        tracing::warn!("the directory was removed, and nothing can be placed any more");
                    }
                }
            }
        }
        self.close(stop).await;
    }

    /// Refuses what comes, and waits for what runs.
    async fn close(mut self, mut stop: watch::Receiver<Stop>) {
        let end = Instant::now() + self.grace;
        let mut in_grace = true;
        self.scan();
        self.refuse_waiting();
        while !self.tasks.is_empty() {
            tokio::select! {
                () = told(&mut stop, Stop::AtOnce), if in_grace => in_grace = false,
                () = sleep_until(end), if in_grace => in_grace = false,
                () = self.wait() => self.refuse_waiting(),
            }
            if !in_grace {
                self.shared.ending.send_replace(true);
            }
        }
        for command in &self.commands {
            Client::remove(&self.shared.directory, command);
        }
        // From now on nobody finds a client; what the last ones placed is answered.
        self.scan();
        self.refuse_waiting();
        for pid_file in self.pid_files {
            pid_file.remove(&self.shared.directory);
        }
    }

    /// Waits until something has been placed, or a request is over, and remembers it.
    async fn wait(&mut self) {
        tokio::select! {
            ready = self.watched.readable() => {
                match ready {
                    Ok(mut ready) => ready.clear_ready(),
                    Err(error) => tracing::warn!(%error, "the directory is watched no more"),
                }
                self.see();
            }
            Some(ended) = self.tasks.join_next_with_id() => {
                let id = match ended {
                    Ok((id, ())) => id,
                    Err(error) => {
                        tracing::error!(%error, "a request failed");
                        error.id()
                    }
                };
                self.ended(id);
            }
        }
    }

    /// Looks at all that has happened.
    fn see(&mut self) {
        loop {
            let seen = self.watch.next().unwrap_or_default();
            if seen.is_empty() {
                return;
            }
            for seen in seen {
                match seen {
                    Seen::Placed(name) => self.placed(&name),
                    Seen::File(file) => {
                        let mut bells = self.bells.values();
                        if let Some((bell, _)) = bells.find(|(_, watched)| *watched == Some(file)) {
                            bell.input.notify_one();
                        }
                    }
                    Seen::Everything => self.look_at_everything(),
                }
            }
        }
    }

    fn placed(&mut self, name: &[u8]) {
        let Some((stem, part)) = Stem::of_file(name) else { return };
        match part {
            Part::Request if self.is_ours(&stem) => self.queue.offer(stem),
            Part::Signal => self.ring(&stem, |bell| &bell.signal),
            Part::Eof => self.ring(&stem, |bell| &bell.input),
            _ => {}
        }
    }

    fn ring(&self, stem: &Stem, which: impl Fn(&Bell) -> &tokio::sync::Notify) {
        if let Some((bell, _)) = self.bells.get(stem) {
            which(bell).notify_one();
        }
    }

    /// Events were lost, so every request looks for itself.
    fn look_at_everything(&mut self) {
        for (bell, _) in self.bells.values() {
            bell.signal.notify_one();
            bell.input.notify_one();
        }
        self.scan();
    }

    /// Finds the requests that are there.
    fn scan(&mut self) {
        let (mut found, shared) = (Vec::new(), Arc::clone(&self.shared));
        let scanned = shared.directory.each_name(|name| {
            let request = Stem::of_file(name).filter(|(_, part)| *part == Part::Request);
            if let Some((stem, _)) = request.filter(|(stem, _)| self.is_ours(stem)) {
                // No more than the queue remembers, and one, by which it knows that there are more.
                if found.len() <= aifo_mailbox::limits::WAITING {
                    found.push(stem);
                }
            }
        });
        if let Err(errno) = scanned {
            tracing::warn!(reason = errno.desc(), "the directory cannot be read");
        }
        found.into_iter().for_each(|stem| self.queue.offer(stem));
    }

    /// A plain request is everybody's until it is claimed.
    fn is_ours(&self, stem: &Stem) -> bool {
        stem.command().is_none_or(|command| self.commands.contains(command))
    }

    fn start_waiting(&mut self) {
        loop {
            while let Some(stem) = self.queue.next_to_run() {
                if !self.begin(&stem) {
                    self.queue.ended(&stem);
                }
            }
            if !self.queue.takes_a_look() {
                return;
            }
            self.scan();
        }
    }

    /// Claims a request and has it attended to; false if there is nothing to wait for.
    fn begin(&mut self, stem: &Stem) -> bool {
        let directory = &self.shared.directory;
        let Some(claim) = take(directory, stem) else { return false };
        let refuse = |claim: Claim, why: &str| {
            tracing::debug!(request = %stem, why, "refused");
            claim.refuse(directory, exit::UNKNOWN, why);
            false
        };
        let command = match stem.command() {
            Some(command) => command.clone(),
            None => match self.only_command() {
                Ok(command) => command,
                Err(why) => return refuse(claim, &why),
            },
        };
        let placed = match claim.read(directory) {
            Ok(mut placed) => {
                let input = placed.stdin.take().map(|file| Input::new(directory, stem, file));
                (placed, input.transpose())
            }
            Err(refused) => return refuse(claim, &refused.to_string()),
        };
        let (placed, input) = match placed {
            (placed, Ok(input)) => (placed, input),
            (_, Err(error)) => return refuse(claim, &format!("cannot make a pipe: {error}")),
        };
        let watched = input.as_ref().and_then(|(input, _)| {
            // Without a watch nobody would hear of more.
            self.watch.growth(input.file()).ok()
        });
        if input.is_some() && watched.is_none() {
            return refuse(claim, "its standard input cannot be watched");
        }
        let bell = Arc::new(Bell::default());
        self.bells.insert(stem.clone(), (Arc::clone(&bell), watched));
        let tool = command.tool().clone();
        // A signal may have been there before anybody would have been told.
        bell.signal.notify_one();
        let task = attend(Arc::clone(&self.shared), claim, tool, placed, bell, input);
        let task = self.tasks.spawn(task);
        self.stems.insert(task.id(), stem.clone());
        true
    }

    /// The one command that a request can mean that names none. An error is for its client.
    fn only_command(&self) -> Result<CommandName, String> {
        let served = served_commands(&self.shared.directory);
        match &served[..] {
            [command] if self.commands.contains(command) => Ok(command.clone()),
            served => {
                Err(format!("the request names no command, and {} are served here", served.len()))
            }
        }
    }

    fn ended(&mut self, id: Id) {
        let Some(stem) = self.stems.remove(&id) else { return };
        if let Some((_, Some(watched))) = self.bells.remove(&stem) {
            self.watch.forget(watched);
        }
        self.queue.ended(&stem);
    }

    /// Answers everything that waits with no.
    fn refuse_waiting(&mut self) {
        loop {
            let directory = &self.shared.directory;
            while let Some(stem) = self.queue.next_to_refuse() {
                if let Some(claim) = take(directory, &stem) {
                    let command = stem.command().or(self.commands.first());
                    let command = command.map(CommandName::as_str).unwrap_or_default();
                    let why = format!("'{command}' is shutting down");
                    claim.refuse(directory, exit::UNKNOWN, &why);
                }
            }
            if !self.queue.takes_a_look() {
                return;
            }
            self.scan();
        }
    }
}

/// How often it is looked whether the directory is there. As long as it is open, nothing tells.
const LOOK: Duration = Duration::from_secs(5);

/// What has to be taken back if the mailbox does not open.
struct Taken<'a> {
    directory: &'a Directory,
    pid_files: Vec<PidFile>,
    clients: Vec<&'a CommandName>,
}

impl Taken<'_> {
    fn keep(mut self) -> Vec<PidFile> {
        self.clients.clear();
        std::mem::take(&mut self.pid_files)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.clients.iter().for_each(|command| Client::remove(self.directory, command));
        self.pid_files.drain(..).for_each(|pid_file| pid_file.remove(self.directory));
    }
}

fn take(directory: &Directory, stem: &Stem) -> Option<Claim> {
    match Claim::take(directory, stem) {
        Ok(claim) => Some(claim),
        Err(ClaimError::Gone) => None,
        Err(error) => {
            tracing::warn!(request = %stem, %error, "a request is not served");
            None
        }
    }
}

/// Removes what is old, and tells the clients of a daemon that was killed that nobody knows.
fn answer_lost(directory: &Directory, names: &[CommandName]) -> io::Result<()> {
    let plain = names.len() == 1 && served_commands(directory) == names;
    let rules = OrphanRules { commands: names, plain, now: SystemTime::now() };
    for stem in remove_orphans(directory, &rules)? {
        if let Err(error) = Claim::answer_lost(directory, &stem) {
            tracing::warn!(request = %stem, %error, "a lost request is not answered");
        }
    }
    Ok(())
}

/// Waits for that word, or one that says more.
async fn told(stop: &mut watch::Receiver<Stop>, word: Stop) {
    if stop.wait_for(|told| *told >= word).await.is_err() {
        // Nobody is left who could say it.
        std::future::pending::<()>().await;
    }
}
