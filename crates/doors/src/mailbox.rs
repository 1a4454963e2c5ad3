//! The daemon of a directory: from what is placed in it to who runs what, until it is told to end.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use aifo_mailbox::{
    Claim, ClaimError, CommandName, Directory, FileKind, PidFile, RequestId, RequestQueue, Watch,
    WatchEvent, WatchId, served_commands,
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
use crate::request::{Notifier, Shared, attend};

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
    queue: RequestQueue,
    tasks: JoinSet<()>,
    /// Who runs, by task and by request, with the watch on its input.
    ids: HashMap<Id, RequestId>,
    notifiers: HashMap<RequestId, (Arc<Notifier>, Option<WatchId>)>,
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
            queue: RequestQueue::default(),
            tasks: JoinSet::new(),
            ids: HashMap::new(),
            notifiers: HashMap::new(),
            grace,
        })
    }

    /// Serves until it is told to stop, and returns when nothing runs and nothing of the daemon is left
    /// in the directory. The fleet is left to its owner.
    pub async fn serve(mut self, mut stop: watch::Receiver<Stop>) {
        self.scan();
        let mut look = interval(REMOVAL_INTERVAL);
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
                self.handle_events();
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
    fn handle_events(&mut self) {
        loop {
            let events = self.watch.read_events().unwrap_or_default();
            if events.is_empty() {
                return;
            }
            for event in events {
                match event {
                    WatchEvent::Placed(name) => self.placed(&name),
                    WatchEvent::Changed(file) => {
                        let mut notifiers = self.notifiers.values();
                        if let Some((notifier, _)) =
                            notifiers.find(|(_, watched)| *watched == Some(file))
                        {
                            notifier.input.notify_one();
                        }
                    }
                    WatchEvent::Overflow => self.rescan_all(),
                }
            }
        }
    }

    fn placed(&mut self, name: &[u8]) {
        let Some((request_id, kind)) = RequestId::of_file(name) else { return };
        match kind {
            FileKind::Request if self.is_served(&request_id) => self.queue.offer(request_id),
            FileKind::Signal => self.notify(&request_id, |notifier| &notifier.signal),
            FileKind::Eof => self.notify(&request_id, |notifier| &notifier.input),
            _ => {}
        }
    }

    fn notify(&self, request_id: &RequestId, which: impl Fn(&Notifier) -> &tokio::sync::Notify) {
        if let Some((notifier, _)) = self.notifiers.get(request_id) {
            which(notifier).notify_one();
        }
    }

    /// Events were lost, so every request looks for itself.
    fn rescan_all(&mut self) {
        for (notifier, _) in self.notifiers.values() {
            notifier.signal.notify_one();
            notifier.input.notify_one();
        }
        self.scan();
    }

    /// Finds the requests that are there.
    fn scan(&mut self) {
        let (mut found, shared) = (Vec::new(), Arc::clone(&self.shared));
        let scanned = shared.directory.for_each_name(|name| {
            let request = RequestId::of_file(name).filter(|(_, kind)| *kind == FileKind::Request);
            if let Some((request_id, _)) =
                request.filter(|(request_id, _)| self.is_served(request_id))
            {
                // No more than the queue remembers, and one, by which it knows that there are more.
                if found.len() <= aifo_mailbox::limits::WAITING {
                    found.push(request_id);
                }
            }
        });
        if let Err(errno) = scanned {
            tracing::warn!(reason = errno.desc(), "the directory cannot be read");
        }
        found.into_iter().for_each(|request_id| self.queue.offer(request_id));
    }

    /// A plain request is everybody's until it is claimed.
    fn is_served(&self, request_id: &RequestId) -> bool {
        request_id.command().is_none_or(|command| self.commands.contains(command))
    }

    fn start_waiting(&mut self) {
        loop {
            while let Some(request_id) = self.queue.next_to_run() {
                if !self.begin(&request_id) {
                    self.queue.ended(&request_id);
                }
            }
            if !self.queue.needs_rescan() {
                return;
            }
            self.scan();
        }
    }

    /// Claims a request and has it attended to; false if there is nothing to wait for.
    fn begin(&mut self, request_id: &RequestId) -> bool {
        let directory = &self.shared.directory;
        let Some(claim) = acquire(directory, request_id) else { return false };
        let refuse = |claim: Claim, why: &str| {
            tracing::debug!(request = %request_id, why, "refused");
            claim.refuse(directory, exit::UNKNOWN, why);
            false
        };
        let command = match request_id.command() {
            Some(command) => command.clone(),
            None => match self.only_command() {
                Ok(command) => command,
                Err(why) => return refuse(claim, &why),
            },
        };
        let placed = match claim.read(directory) {
            Ok(mut placed) => {
                let input = placed.stdin.take().map(|file| Input::new(directory, request_id, file));
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
            self.watch.watch_growth(input.file()).ok()
        });
        if input.is_some() && watched.is_none() {
            return refuse(claim, "its standard input cannot be watched");
        }
        let notifier = Arc::new(Notifier::default());
        self.notifiers.insert(request_id.clone(), (Arc::clone(&notifier), watched));
        let tool = command.tool().clone();
        // A signal may have been there before anybody would have been told.
        notifier.signal.notify_one();
        let task = attend(Arc::clone(&self.shared), claim, tool, placed, notifier, input);
        let task = self.tasks.spawn(task);
        self.ids.insert(task.id(), request_id.clone());
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
        let Some(request_id) = self.ids.remove(&id) else { return };
        if let Some((_, Some(watched))) = self.notifiers.remove(&request_id) {
            self.watch.unwatch(watched);
        }
        self.queue.ended(&request_id);
    }

    /// Answers everything that waits with no.
    fn refuse_waiting(&mut self) {
        loop {
            let directory = &self.shared.directory;
            while let Some(request_id) = self.queue.next_to_refuse() {
                if let Some(claim) = acquire(directory, &request_id) {
                    let command = request_id.command().or(self.commands.first());
                    let command = command.map(CommandName::as_str).unwrap_or_default();
                    let why = format!("'{command}' is shutting down");
                    claim.refuse(directory, exit::UNKNOWN, &why);
                }
            }
            if !self.queue.needs_rescan() {
                return;
            }
            self.scan();
        }
    }
}

/// How often it is looked whether the directory is there. As long as it is open, nothing tells.
const REMOVAL_INTERVAL: Duration = Duration::from_secs(5);

fn acquire(directory: &Directory, request_id: &RequestId) -> Option<Claim> {
    match Claim::acquire(directory, request_id) {
        Ok(claim) => Some(claim),
        Err(ClaimError::Gone) => None,
        Err(error) => {
            tracing::warn!(request = %request_id, %error, "a request is not served");
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
