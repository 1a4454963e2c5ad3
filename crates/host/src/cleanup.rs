//! Finds and removes what killed sessions left.
//!
//! A session exists as long as its directory is locked. Its other parts name that directory or are
//! locked themselves, so nothing of a running or starting session counts as left over.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use aifo_engine::{Engine, EngineError};
use aifo_sidecar::{LinkedRepository, has_mount_points, remove_mount_points};
use aifo_types::Endpoint;
use nix::unistd::getuid;

use crate::held;
use crate::linked::linked_repository;
use crate::own_directories::session_parents;
use crate::remove_tree::remove_tree;
use crate::running::{SessionInfo, session_directories};
use crate::session_dir::{AbandonedDir, is_locked, is_own, session_of};

/// The remains of one session. Locked: no other process removes it meanwhile.
#[derive(Debug)]
pub struct Leftovers {
    /// The session id.
    pub session: String,
    /// In the order of removal.
    pub items: Vec<Leftover>,
    _locks: Vec<AbandonedDir>,
}

/// One thing that a session left.
#[derive(Clone, Debug)]
pub enum Leftover {
    /// A container, running or not.
    Container {
        /// Its engine.
        engine: Engine,
        /// Its name.
        name: String,
    },
    /// A network.
    Network {
        /// Its engine.
        engine: Engine,
        /// Its name.
        name: String,
    },
    /// A socket outside of the session directory, without a listener.
    Socket {
        /// Its path.
        path: PathBuf,
        /// The directory that the session created for it; removed if it is empty.
        directory: Option<PathBuf>,
    },
    /// The mount points in the repository of this workspace.
    MountPoints(PathBuf),
    /// The session directory.
    Directory(PathBuf),
}

/// Reasons for which something could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// The engine could not remove a container.
    #[error("{error}\nhint: try it with: {} rm --force {name}", engine.flavor())]
    Container {
        /// Its engine.
        engine: Box<Engine>,
        /// Its name.
        name: String,
        /// The engine's error.
        error: EngineError,
    },
    /// The engine could not remove a network.
    #[error("{error}\nhint: see what is still on it with: {} network inspect {name}", engine.flavor())]
    Network {
        /// Its engine.
        engine: Box<Engine>,
        /// Its name.
        name: String,
        /// The engine's error.
        error: EngineError,
    },
    /// A file or directory could not be removed.
    #[error("{source}\nhint: remove it as root, or see who has it open: {}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Result of a search.
#[derive(Debug, Default)]
pub struct CleanupReport {
    /// One entry per killed session.
    pub leftovers: Vec<Leftovers>,
    /// Engines whose lists are incomplete.
    pub errors: Vec<EngineError>,
}

/// Searches the session directories and these engines for what killed sessions of this user left.
/// `id` is a prefix of their ids.
pub async fn find_leftovers(engines: &[Engine], id: &str) -> CleanupReport {
    let mut report = CleanupReport::default();
    let mut found: BTreeMap<String, Leftovers> = BTreeMap::new();
    for engine in engines {
        if let Err(error) = scan_engine(engine, &mut found).await {
            report.errors.push(error);
        }
    }
    for place in session_parents() {
        for directory in session_directories(&place) {
            scan_directory(&directory, &mut found);
        }
    }
    report.leftovers = found.into_values().filter(|it| it.session.starts_with(id)).collect();
    report
}

async fn scan_engine(
    engine: &Engine,
    found: &mut BTreeMap<String, Leftovers>,
) -> Result<(), EngineError> {
    for container in engine.containers(None).await? {
        if !is_locked(&container.directory) {
            let item = Leftover::Container { engine: engine.clone(), name: container.name };
            Leftovers::entry(found, &container.session).items.push(item);
        }
    }
    for network in engine.networks(None).await? {
        if !is_locked(&network.directory) {
            let item = Leftover::Network { engine: engine.clone(), name: network.name };
            Leftovers::entry(found, &network.session).items.push(item);
        }
    }
    Ok(())
}

fn scan_directory(directory: &Path, found: &mut BTreeMap<String, Leftovers>) {
    let Some(session) = directory.file_name().and_then(|name| session_of(name.to_str()?)) else {
        return;
    };
    if !is_own(directory) || held::has_unread_end(directory) {
        return;
    }
    let Some(lock) = AbandonedDir::lock(directory) else { return };
    let leftovers = Leftovers::entry(found, session);
    leftovers.add_directory(lock, directory);
    let Some(record) = SessionInfo::read(directory) else { return };
    if has_mount_points(&record.workspace, linked(&record.workspace).as_ref()) {
        // Before the directory, whose record names the workspace.
        let at = leftovers.items.len().saturating_sub(1);
        leftovers.items.insert(at, Leftover::MountPoints(record.workspace.clone()));
    }
    if let Some(path) = abandoned_socket(&record, directory) {
        // Before the directory, whose record names it.
        let at = leftovers.items.len().saturating_sub(1);
        leftovers.items.insert(at, Leftover::Socket { path, directory: record.socket_directory });
    }
    // Its parent depended on the session environment.
    if record
        .tmp
        .parent()
        .is_some_and(|parent| !session_parents().iter().any(|place| place == parent))
        && is_own(&record.tmp)
        && let Some(lock) = AbandonedDir::lock(&record.tmp)
    {
        leftovers.add_directory(lock, &record.tmp);
    }
}

impl Leftovers {
    fn entry<'a>(found: &'a mut BTreeMap<String, Leftovers>, session: &str) -> &'a mut Self {
        found.entry(session.to_owned()).or_insert_with(|| Leftovers {
            session: session.to_owned(),
            items: Vec::new(),
            _locks: Vec::new(),
        })
    }

    fn add_directory(&mut self, lock: AbandonedDir, directory: &Path) {
        self._locks.push(lock);
        self.items.push(Leftover::Directory(directory.to_owned()));
    }
}

fn linked(workspace: &Path) -> Option<LinkedRepository> {
    linked_repository(workspace).ok().flatten()
}

/// Returns the session socket outside of its directory, if it has no listener.
fn abandoned_socket(record: &SessionInfo, directory: &Path) -> Option<PathBuf> {
    let Ok(Endpoint::Unix(path)) = record.url.parse() else { return None };
    let found = path.symlink_metadata().ok()?;
    let is_ours = found.file_type().is_socket() && found.uid() == getuid().as_raw();
    let is_dead =
        || UnixStream::connect(&path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
    (!path.starts_with(directory) && is_ours && is_dead()).then_some(path)
}

impl Leftover {
    /// Returns the kind of thing, in one word.
    pub fn what(&self) -> &'static str {
        match self {
            Leftover::Container { .. } => "container",
            Leftover::Network { .. } => "network",
            Leftover::Socket { .. } => "socket",
            Leftover::MountPoints(_) => "mount-points",
            Leftover::Directory(_) => "directory",
        }
    }

    /// Returns its name or path.
    pub fn name(&self) -> String {
        match self {
            Leftover::Container { name, .. } | Leftover::Network { name, .. } => name.clone(),
            Leftover::Socket { path, .. }
            | Leftover::MountPoints(path)
            | Leftover::Directory(path) => path.display().to_string(),
        }
    }

    /// Returns the engine of a container or network.
    pub fn engine(&self) -> Option<&Engine> {
        match self {
            Leftover::Container { engine, .. } | Leftover::Network { engine, .. } => Some(engine),
            Leftover::Socket { .. } | Leftover::MountPoints(_) | Leftover::Directory(_) => None,
        }
    }

    /// Removes it. Succeeds if it is gone already.
    pub async fn remove(&self) -> Result<(), RemoveError> {
        match self {
            Leftover::Container { engine, name } => {
                let removed = engine.remove_containers(std::slice::from_ref(name)).await;
                removed.map_err(|error| {
                    let (engine, name) = (Box::new(engine.clone()), name.clone());
                    RemoveError::Container { engine, name, error }
                })
            }
            Leftover::Network { engine, name } => {
                engine.remove_network(name).await.map_err(|error| {
                    let (engine, name) = (Box::new(engine.clone()), name.clone());
                    RemoveError::Network { engine, name, error }
                })
            }
            Leftover::Socket { path, directory } => {
                unless_gone(path, fs::remove_file(path))?;
                if let Some(directory) = directory {
                    // Fails if it contains anything else.
                    let _ = fs::remove_dir(directory);
                }
                Ok(())
            }
            Leftover::MountPoints(workspace) => {
                remove_mount_points(workspace, linked(workspace).as_ref());
                Ok(())
            }
            Leftover::Directory(path) => unless_gone(path, remove_tree(path)),
        }
    }
}

fn unless_gone(path: &Path, removed: io::Result<()>) -> Result<(), RemoveError> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|source| RemoveError::File { path: path.to_owned(), source }),
    }
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what(), self.name())?;
        match self.engine() {
            Some(engine) => write!(f, " ({})", engine.flavor()),
            None => Ok(()),
        }
    }
}
