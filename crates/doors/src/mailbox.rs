//! The daemon of a directory: from what is placed in it to who runs what, until it is told to end.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use aifo_mailbox::{
    Claim, ClaimError, CommandName, Directory, Part, PidFile, Queue, Seen, Stem, Watch, WatchId,
    served_commands,
};
use aifo_sidecar::on_reactor;
use aifo_types::exit;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, interval, sleep_until};

use crate::client::Client;
use crate::input::Input;
use crate::request::{Bell, Shared, attend};

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
    /// Over a directory that is watched and whose commands are taken.
    pub(crate) fn new(
        shared: Arc<Shared>,
        commands: Vec<CommandName>,
        pid_files: Vec<PidFile>,
        watch: Watch,
        grace: Duration,
    ) -> io::Result<Self> {
        let watched = on_reactor(watch.as_fd().try_clone_to_owned()?, Interest::READABLE)?;
        Ok(Mailbox {
            shared,
            commands,
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

/// Waits for that word, or one that says more.
async fn told(stop: &mut watch::Receiver<Stop>, word: Stop) {
    if stop.wait_for(|told| *told >= word).await.is_err() {
        // Nobody is left who could say it.
        std::future::pending::<()>().await;
    }
}
