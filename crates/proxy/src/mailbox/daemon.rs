//! The daemon of a mailbox: finds requests, starts their commands, and stops.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aifo_types::exit;
use tokio::{
    sync::watch,
    task::{Id, JoinSet},
    time::{Instant, interval, sleep_until},
};

use crate::mailbox::changes::Changes;
use crate::mailbox::client::remove_client;
use crate::mailbox::command_stdin::CommandStdin;
use crate::mailbox::files::{
    Claim, ClaimError, CommandName, Directory, FileKind, PidFile, RequestId, RequestQueue,
    WatchEvent, WatchId, served_commands,
};
use crate::mailbox::request::{MailboxState, Notifier, serve};

/// The stop request of a daemon; later values include earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Serve.
    No,
    /// Accept no requests, and wait for running commands within the grace period.
    Gracefully,
    /// End running commands now.
    AtOnce,
}

/// An open mailbox.
#[derive(Debug)]
pub struct Mailbox {
    shared: Arc<MailboxState>,
    commands: Vec<CommandName>,
    pid_files: Vec<PidFile>,
    changes: Changes,
    queue: RequestQueue,
    tasks: JoinSet<()>,
    /// Running requests by task and by id, with the watch on their input.
    ids: HashMap<Id, RequestId>,
    notifiers: HashMap<RequestId, (Arc<Notifier>, Option<WatchId>)>,
    grace: Duration,
}

impl Mailbox {
    /// Creates the daemon of a watched directory with locked commands.
    pub(crate) fn new(
        shared: Arc<MailboxState>,
        commands: Vec<CommandName>,
        pid_files: Vec<PidFile>,
        changes: Changes,
        grace: Duration,
    ) -> Self {
        Mailbox {
            shared,
            commands,
            pid_files,
            changes,
            queue: RequestQueue::default(),
            tasks: JoinSet::new(),
            ids: HashMap::new(),
            notifiers: HashMap::new(),
            grace,
        }
    }

    /// Serves until `stop` changes. Returns when no command runs and the daemon files are removed. The
    /// owner stops the fleet.
    pub async fn serve(mut self, mut stop: watch::Receiver<Stop>) {
        self.scan();
        let mut look = interval(REMOVAL_INTERVAL);
        let mut is_there = true;
        loop {
            self.start_waiting();
            tokio::select! {
                () = requested(&mut stop, Stop::Gracefully) => break,
                () = self.wait() => {}
                _ = look.tick(), if is_there => {
                    is_there = !self.shared.directory.is_removed();
                    if !is_there {
                        tracing::warn!("the mailbox's directory was removed; no requests can arrive");
                    }
                }
            }
        }
        self.close(stop).await;
    }

    /// Refuses new requests and waits for running ones.
    async fn close(mut self, mut stop: watch::Receiver<Stop>) {
        let end = Instant::now() + self.grace;
        let mut in_grace = true;
        self.scan();
        self.refuse_waiting();
        while !self.tasks.is_empty() {
            tokio::select! {
                () = requested(&mut stop, Stop::AtOnce), if in_grace => in_grace = false,
                () = sleep_until(end), if in_grace => in_grace = false,
                () = self.wait() => self.refuse_waiting(),
            }
            if !in_grace {
                self.shared.ending.send_replace(true);
            }
        }
        for command in &self.commands {
            remove_client(&self.shared.directory, command);
        }
        // No client starts from now on; requests of the last ones are answered.
        self.scan();
        self.refuse_waiting();
        for pid_file in self.pid_files {
            pid_file.remove(&self.shared.directory);
        }
    }

    /// Waits for new files or for the end of a request, and records them.
    async fn wait(&mut self) {
        tokio::select! {
            () = self.changes.wait() => self.handle_events(),
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

    /// Handles all recorded events.
    fn handle_events(&mut self) {
        loop {
            let events = self.changes.read_events();
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

    /// Wakes every request after lost events.
    fn rescan_all(&mut self) {
        for (notifier, _) in self.notifiers.values() {
            notifier.signal.notify_one();
            notifier.input.notify_one();
        }
        self.scan();
    }

    /// Scans the directory for requests.
    fn scan(&mut self) {
        let (mut found, shared) = (Vec::new(), Arc::clone(&self.shared));
        let scanned = shared.directory.for_each_name(|name| {
            let request = RequestId::of_file(name).filter(|(_, kind)| *kind == FileKind::Request);
            if let Some((request_id, _)) =
                request.filter(|(request_id, _)| self.is_served(request_id))
            {
                // The queue's size and one more, which shows that there are others.
                if found.len() <= crate::mailbox::files::limits::WAITING {
                    found.push(request_id);
                }
            }
        });
        if let Err(errno) = scanned {
            tracing::warn!(reason = errno.desc(), "cannot read the directory");
        }
        found.into_iter().for_each(|request_id| self.queue.offer(request_id));
    }

    /// A plain request has no command name, so any daemon may claim it.
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

    /// Claims a request and starts its task. Returns `false` if there is nothing to wait for.
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
                let input =
                    placed.stdin.take().map(|file| CommandStdin::new(directory, request_id, file));
                (placed, input.transpose())
            }
            Err(refused) => return refuse(claim, &refused.to_string()),
        };
        let (placed, input) = match placed {
            (placed, Ok(input)) => (placed, input),
            (_, Err(error)) => return refuse(claim, &format!("cannot create a pipe: {error}")),
        };
        let watched = input.as_ref().and_then(|(input, _)| self.changes.watch_growth(input.file()));
        let notifier = Arc::new(Notifier::default());
        self.notifiers.insert(request_id.clone(), (Arc::clone(&notifier), watched));
        let tool = command.tool().clone();
        // A signal may have been placed before the watch.
        notifier.signal.notify_one();
        let task = serve(Arc::clone(&self.shared), claim, tool, placed, notifier, input);
        let task = self.tasks.spawn(task);
        self.ids.insert(task.id(), request_id.clone());
        true
    }

    /// Returns the only served command, for a request that names none. The error is for its client.
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
            self.changes.unwatch(watched);
        }
        self.queue.ended(&request_id);
    }

    /// Refuses all waiting requests.
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

/// Interval of checks for the directory's removal, which causes no event while it is open.
const REMOVAL_INTERVAL: Duration = Duration::from_secs(5);

fn acquire(directory: &Directory, request_id: &RequestId) -> Option<Claim> {
    match Claim::acquire(directory, request_id) {
        Ok(claim) => Some(claim),
        Err(ClaimError::Gone) => None,
        Err(error) => {
            tracing::warn!(request = %request_id, %error, "cannot serve a request");
            None
        }
    }
}

/// Waits for this stop request or a later one.
async fn requested(stop: &mut watch::Receiver<Stop>, word: Stop) {
    if stop.wait_for(|current| *current >= word).await.is_err() {
        // The sender is gone.
        std::future::pending::<()>().await;
    }
}
