//! What is left of sessions that were killed, and removing it.
//!
//! A session lives as long as somebody holds its directory. Everything else of it names that directory, or
//! is held alike, so nothing of a session that runs, or is just starting, is ever taken for left.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use aifo_engine::{Engine, EngineError};
use aifo_types::Endpoint;
use nix::unistd::getuid;

use crate::own_directories::session_parents;
use crate::running::{SessionInfo, session_directories};
use crate::session_dir::{
    AbandonedDir, TMP_SUFFIX, is_locked, is_own, remove_tree, runtime_directory, session_of,
};

/// What is left of one session. As long as this lives nobody else removes it.
#[derive(Debug)]
pub struct Leftovers {
    /// The session's id.
    pub session: String,
    /// In the order in which they can be removed.
    pub items: Vec<Leftover>,
    _locks: Vec<AbandonedDir>,
}

/// One thing that is left.
#[derive(Clone, Debug)]
pub enum Leftover {
    /// A container, running or not.
    Container {
        /// Whose it is.
        engine: Engine,
        /// Its name.
        name: String,
    },
    /// A network.
    Network {
        /// Whose it is.
        engine: Engine,
        /// Its name.
        name: String,
    },
    /// A socket outside of the session's directory, at which nobody listens any more.
    Socket {
        /// Where it is.
        path: PathBuf,
        /// The folder that was made for it; removed if nothing else is in it.
        directory: Option<PathBuf>,
    },
    /// A folder of the session's.
    Directory(PathBuf),
}

/// Why something could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// The engine did not do it.
    #[error("{error}\nhint: try it with: {} rm --force {name}", engine.flavor())]
    Container {
        /// Whose it is.
        engine: Box<Engine>,
        /// Its name.
        name: String,
        /// What the engine said.
        error: EngineError,
    },
    /// The engine did not do it.
    #[error("{error}\nhint: see what is still on it with: {} network inspect {name}", engine.flavor())]
    Network {
        /// Whose it is.
        engine: Box<Engine>,
        /// Its name.
        name: String,
        /// What the engine said.
        error: EngineError,
    },
    /// The system did not.
    #[error("{source}\nhint: remove it as root, or see who has it open: {}", path.display())]
    File {
        /// Where it is.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// What was found, and who could not be asked.
#[derive(Debug, Default)]
pub struct CleanupReport {
    /// Of each session that is dead.
    pub leftovers: Vec<Leftovers>,
    /// Engines that did not answer in full.
    pub errors: Vec<EngineError>,
}

/// Looks for what is left of this user's sessions whose ids begin so: in the places for folders, and
/// on these engines.
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

/// The sessions of this user that were killed, as their folders tell. It costs one look at the
/// runtime directory.
pub fn killed_sessions() -> Vec<String> {
    let directories = session_directories(&runtime_directory()).filter(|path| is_own(path));
    let dead = directories.filter(|path| !is_locked(path)).filter_map(|path| {
        let name = path.file_name()?.to_str()?;
        // A temporary directory may outlive its session in good order, if a tool has locked it up.
        Some(session_of(name)?.to_owned()).filter(|_| !name.ends_with(TMP_SUFFIX))
    });
    dead.collect()
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
    if !is_own(directory) {
        return;
    }
    let Some(lock) = AbandonedDir::lock(directory) else { return };
    let leftovers = Leftovers::entry(found, session);
    leftovers.add_directory(lock, directory);
    let Some(record) = SessionInfo::read(directory) else { return };
    if let Some(path) = abandoned_socket(&record, directory) {
        // Before the directory, which tells of it.
        let at = leftovers.items.len().saturating_sub(1);
        leftovers.items.insert(at, Leftover::Socket { path, directory: record.socket_directory });
    }
    // Where a temporary directory lies depends on the environment of that time.
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

/// A socket that the session made where it was told to, and that nobody serves any more.
fn abandoned_socket(record: &SessionInfo, directory: &Path) -> Option<PathBuf> {
    let Ok(Endpoint::Unix(path)) = record.url.parse() else { return None };
    let found = path.symlink_metadata().ok()?;
    let is_ours = found.file_type().is_socket() && found.uid() == getuid().as_raw();
    let is_dead =
        || UnixStream::connect(&path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
    (!path.starts_with(directory) && is_ours && is_dead()).then_some(path)
}

impl Leftover {
    /// What it is, in a word.
    pub fn what(&self) -> &'static str {
        match self {
            Leftover::Container { .. } => "container",
            Leftover::Network { .. } => "network",
            Leftover::Socket { .. } => "socket",
            Leftover::Directory(_) => "folder",
        }
    }

    /// Its name, or where it is.
    pub fn name(&self) -> String {
        match self {
            Leftover::Container { name, .. } | Leftover::Network { name, .. } => name.clone(),
            Leftover::Socket { path, .. } | Leftover::Directory(path) => path.display().to_string(),
        }
    }

    /// The engine that has it, if one has.
    pub fn engine(&self) -> Option<&Engine> {
        match self {
            Leftover::Container { engine, .. } | Leftover::Network { engine, .. } => Some(engine),
            Leftover::Socket { .. } | Leftover::Directory(_) => None,
        }
    }

    /// Removes it. That it is gone already is no failure.
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
                    // Something else of the user's may lie there by now.
                    let _ = fs::remove_dir(directory);
                }
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
