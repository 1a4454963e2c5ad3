//! All sessions of a server, shared by its connections and the agent's driver.

mod attention;
mod calls;
mod commands;
mod directory;
mod events;
mod home;
mod waiting_calls;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use aifo_acp::Image;
use aifo_policy::Questions;
use nix::fcntl::Flock;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, watch};

use crate::access::{Access, secret};
use crate::call_log::{CallLog, CallSource, RunningSession};
use crate::clock::unix_ms;
use crate::history::SessionFacts;
use crate::journal::Journal;
use crate::media::{self, MediaStore};
use crate::page_state::{PageState, Seq};
use crate::report_log::{self, ReportLog};
use crate::report_ring::{ReportLimits, ReportRing};
use crate::session_state::{Activity, SessionState};
use crate::waiting_call::CallAnswer;

use directory::{failed_turn, lock, private_directory, read_sessions, remove_files};

pub(crate) use attention::Attention;
pub(crate) use commands::{ApiError, NewPrompt};
pub(crate) use events::Source;
use waiting_calls::ShownCalls;

/// Where a server keeps its files, and how much.
#[derive(Clone, Debug)]
pub struct Storage {
    /// The directory, created with mode 0700.
    pub directory: PathBuf,
    /// Sessions that are kept; the oldest closed or idle ones are removed at the start.
    pub keep_sessions: usize,
    /// About how many bytes of one session history are kept.
    pub session_bytes: usize,
    /// Bytes of all images.
    pub media_bytes: u64,
    /// Reports of a session's typed stream.
    pub reports: usize,
    /// Bytes of these.
    pub report_bytes: usize,
    /// Removed keys that a session page remembers.
    pub removals: usize,
}

impl Storage {
    fn report_limits(&self) -> ReportLimits {
        ReportLimits { reports: self.reports, bytes: self.report_bytes }
    }

    fn history(&self, session: &str) -> PathBuf {
        self.directory.join(SESSIONS).join(format!("{session}.jsonl"))
    }
}

/// Returns the directory for the pages of one directory's agents.
pub fn storage_directory(state: &Path, cwd: &Path) -> PathBuf {
    let hash = Sha256::digest(cwd.as_os_str().as_bytes());
    let name: String = media::hex(&hash).chars().take(16).collect();
    state.join("web").join(name)
}

/// The shared state.
#[derive(Debug)]
pub(crate) struct Hub {
    inner: Mutex<Inner>,
    /// The number of the latest change.
    changed: watch::Sender<Seq>,
    commands: mpsc::UnboundedSender<Command>,
    /// A new one for each start of a server.
    pub(crate) instance: String,
}

/// What a browser asks of the agent's driver.
#[derive(Debug)]
pub(crate) enum Command {
    Prompt {
        session: String,
        blocks: Value,
    },
    Cancel {
        session: String,
    },
    /// Cancels the turns of all sessions.
    CancelAll,
    Close {
        session: String,
    },
    /// Answers a permission request with the option at this place.
    Answer {
        question: String,
        option: usize,
    },
}

#[derive(Debug)]
pub(crate) struct Inner {
    seq: Seq,
    pub(crate) home: PageState,
    sessions: BTreeMap<String, Slot>,
    pub(crate) questions: Questions,
    calls: ShownCalls,
    pub(crate) media: MediaStore,
    pub(crate) access: Access,
    storage: Storage,
    agent: String,
    cwd: String,
    /// Answers to requests by their idempotency key.
    answers: HashMap<String, (u16, String)>,
    answer_order: VecDeque<String>,
    /// Sessions with unflushed changes.
    due: Option<Instant>,
    viewers: HashMap<u64, bool>,
    next_viewer: u64,
    /// When a browser last showed the page.
    pub(crate) last_visible: Option<Instant>,
    /// True if the agent takes images and embedded resources.
    prompt_images: bool,
    prompt_resources: bool,
    running: Vec<RunningSession>,
    /// Timelines by session.
    timelines: BTreeMap<String, CallLog>,
    /// Calls of the log whose tool call the agent has not reported yet.
    early_runs: Vec<calls::EarlyRun>,
    open_log: fn(PathBuf) -> CallSource,
    /// The timeline of an agent that has not been started.
    no_calls: PageState,
    /// What waits for a user to look at it.
    attention: VecDeque<Attention>,
    /// Keeps other servers out of the directory.
    _lock: Flock<fs::File>,
}

/// A session; its state is loaded when it is first needed.
#[derive(Debug)]
struct Slot {
    facts: SessionFacts,
    loaded: Option<Box<Loaded>>,
}

#[derive(Debug)]
struct Loaded {
    state: SessionState,
    journal: Journal,
    reports: ReportLog,
}

/// The result of [`Hub::open`].
pub(crate) type OpenedHub =
    (Hub, mpsc::UnboundedReceiver<Command>, mpsc::UnboundedReceiver<CallAnswer>);

impl Hub {
    /// Opens the directory, and ends what a killed server has left open.
    pub(crate) fn open(
        storage: Storage,
        port: u16,
        origin: Option<&str>,
        agent: &str,
        cwd: &str,
        open_log: fn(PathBuf) -> CallSource,
    ) -> io::Result<OpenedHub> {
        let directory = storage.directory.clone();
        private_directory(&directory)?;
        let lock = lock(&directory)?;
        let (sessions_directory, media_directory) =
            (directory.join(SESSIONS), directory.join(MEDIA));
        private_directory(&sessions_directory)?;
        private_directory(&media_directory)?;
        let seq = first_seq();
        let (sessions, used) = read_sessions(&sessions_directory, &storage)?;
        let is_used = |name: &str| used.contains(name);
        let media = MediaStore::open(&media_directory, storage.media_bytes, is_used)?;
        let access = Access::open(&directory.join("access.json"), port, origin)?;
        let (commands, receiver) = mpsc::unbounded_channel();
        let (answers, call_answers) = mpsc::unbounded_channel();
        let inner = Inner {
            seq,
            home: PageState::new(seq),
            sessions,
            questions: Questions::default(),
            calls: ShownCalls::new(answers),
            media,
            access,
            storage,
            agent: agent.to_owned(),
            cwd: cwd.to_owned(),
            answers: HashMap::new(),
            answer_order: VecDeque::new(),
            due: Some(Instant::now()),
            viewers: HashMap::new(),
            next_viewer: 0,
            last_visible: None,
            prompt_images: false,
            prompt_resources: false,
            running: Vec::new(),
            timelines: BTreeMap::new(),
            early_runs: Vec::new(),
            open_log,
            no_calls: PageState::new(seq),
            attention: VecDeque::new(),
            _lock: lock,
        };
        let changed = watch::Sender::new(seq);
        let instance = secret()?.chars().take(16).collect();
        Ok((Hub { inner: Mutex::new(inner), changed, commands, instance }, receiver, call_answers))
    }

    /// Locks the state. Never held across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in one request leaves the state usable.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns a receiver of the latest change's number.
    pub(crate) fn watch(&self) -> watch::Receiver<Seq> {
        self.changed.subscribe()
    }

    /// Returns the number of streams.
    pub(crate) fn announce(&self, seq: Seq) {
        self.changed.send_if_modified(|last| std::mem::replace(last, seq) != seq);
    }

    pub(crate) fn send(&self, command: Command) {
        // Without a driver the server is about to end.
        let _ = self.commands.send(command);
    }
}

impl Inner {
    /// Loads a session.
    pub(crate) fn load(&mut self, id: &str) -> Option<&mut SessionState> {
        self.loaded(id).map(|loaded| &mut loaded.state)
    }

    fn loaded(&mut self, id: &str) -> Option<&mut Loaded> {
        let slot = self.sessions.get_mut(id)?;
        if slot.loaded.is_none() {
            let path = self.storage.history(id);
            let warn = |error: &io::Error| tracing::warn!(%error, "could not read the history");
            let (journal, ops) = Journal::open(&path).inspect_err(warn).ok()?;
            let reports = report_log::path_beside(&path);
            let reports = ReportLog::open(&reports, self.storage.report_limits());
            let reports = reports.inspect_err(warn).ok()?;
            let (most, now) = (self.storage.session_bytes, unix_ms());
            let mut state = SessionState::restore(ops, most, self.seq, now);
            state.limit_removals(self.storage.removals);
            let (media, seq) = (&mut self.media, &mut self.seq);
            state.flush(seq, None, &mut |image: Image| media.store(&image));
            slot.loaded = Some(Box::new(Loaded { state, journal, reports }));
        }
        slot.loaded.as_deref_mut()
    }

    /// Returns a session page.
    pub(crate) fn page(&mut self, id: &str) -> Option<&PageState> {
        self.load(id)?;
        let loaded = self.sessions.get(id)?.loaded.as_ref()?;
        Some(loaded.state.page())
    }

    /// Returns a session's reports.
    pub(crate) fn reports(&mut self, id: &str) -> Option<&ReportRing> {
        self.loaded(id).map(|loaded| loaded.reports.ring())
    }

    /// Returns the number of the latest change.
    pub(crate) fn seq(&self) -> Seq {
        self.seq
    }

    /// Returns a loaded session's state together with the store of images.
    fn parts(&mut self, id: &str) -> Option<(&mut SessionState, &mut MediaStore)> {
        self.load(id)?;
        let loaded = self.sessions.get_mut(id)?.loaded.as_mut()?;
        Some((&mut loaded.state, &mut self.media))
    }

    /// Returns whether the server has no agent.
    pub(crate) fn only_watches(&self) -> bool {
        self.agent.is_empty()
    }

    /// Returns when the next flush is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Has changes flushed after a session's delay.
    fn touch(&mut self, delay_ms: u64) {
        let at = Instant::now() + std::time::Duration::from_millis(delay_ms);
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Removes a session and its files.
    fn remove(&mut self, id: &str) {
        self.sessions.remove(id);
        if let Err(error) = remove_files(&self.storage.history(id)) {
            tracing::warn!(%error, "could not remove a history");
        }
    }
}

/// Returns whether a word has the form of a session id.
pub(crate) fn is_session_id(word: &str) -> bool {
    word.len() == 16 && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns a number above all of earlier servers, as none makes a million changes a second.
fn first_seq() -> Seq {
    unix_ms().saturating_mul(1000)
}

const SESSIONS: &str = "sessions";
const MEDIA: &str = "media";

/// Returns whether a session accepts a prompt.
fn is_busy(activity: Activity) -> bool {
    activity != Activity::Idle
}
