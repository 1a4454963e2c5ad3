//! What is left of sessions that were killed, and removing it.
//!
//! A session lives as long as somebody holds its folder. Everything else of it names that folder, or
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

use crate::folder::{
    Abandoned, TMP_SUFFIX, is_held, is_own, remove_tree, runtime_directory, session_of,
};
use crate::own_directories::session_parents;
use crate::running::{SessionInfo, session_folders};

/// What is left of one session. As long as this lives nobody else removes it.
#[derive(Debug)]
pub struct Remains {
    /// The session's id.
    pub session: String,
    /// In the order in which they can be removed.
    pub parts: Vec<Part>,
    _taken: Vec<Abandoned>,
}

/// One thing that is left.
#[derive(Clone, Debug)]
pub enum Part {
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
    /// A socket outside of the session's folder, at which nobody listens any more.
    Socket {
        /// Where it is.
        path: PathBuf,
        /// The folder that was made for it; removed if nothing else is in it.
        folder: Option<PathBuf>,
    },
    /// A folder of the session's.
    Folder(PathBuf),
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
pub struct Survey {
    /// Of each session that is dead.
    pub remains: Vec<Remains>,
    /// Engines that did not answer in full.
    pub silent: Vec<EngineError>,
}

/// Looks for what is left of this user's sessions whose ids begin so: in the places for folders, and
/// on these engines.
pub async fn survey(engines: &[Engine], id: &str) -> Survey {
    let mut survey = Survey::default();
    let mut found: BTreeMap<String, Remains> = BTreeMap::new();
    for engine in engines {
        if let Err(error) = on_engine(engine, &mut found).await {
            survey.silent.push(error);
        }
    }
    for place in session_parents() {
        for folder in session_folders(&place) {
            in_folder(&folder, &mut found);
        }
    }
    survey.remains = found.into_values().filter(|it| it.session.starts_with(id)).collect();
    survey
}

/// The sessions of this user that were killed, as their folders tell. It costs one look at the
/// runtime folder.
pub fn killed_sessions() -> Vec<String> {
    let folders = session_folders(&runtime_directory()).filter(|path| is_own(path));
    let dead = folders.filter(|path| !is_held(path)).filter_map(|path| {
        let name = path.file_name()?.to_str()?;
        // A temporary directory may outlive its session in good order, if a tool has locked it up.
        Some(session_of(name)?.to_owned()).filter(|_| !name.ends_with(TMP_SUFFIX))
    });
    dead.collect()
}

async fn on_engine(
    engine: &Engine,
    found: &mut BTreeMap<String, Remains>,
) -> Result<(), EngineError> {
    for container in engine.containers(None).await? {
        if !is_held(&container.directory) {
            let part = Part::Container { engine: engine.clone(), name: container.name };
            Remains::of(found, &container.session).parts.push(part);
        }
    }
    for network in engine.networks(None).await? {
        if !is_held(&network.directory) {
            let part = Part::Network { engine: engine.clone(), name: network.name };
            Remains::of(found, &network.session).parts.push(part);
        }
    }
    Ok(())
}

fn in_folder(folder: &Path, found: &mut BTreeMap<String, Remains>) {
    let Some(session) = folder.file_name().and_then(|name| session_of(name.to_str()?)) else {
        return;
    };
    if !is_own(folder) {
        return;
    }
    let Some(taken) = Abandoned::take(folder) else { return };
    let remains = Remains::of(found, session);
    remains.hold(taken, folder);
    let Some(card) = SessionInfo::read(folder) else { return };
    if let Some(path) = abandoned_socket(&card, folder) {
        // Before the folder, which tells of it.
        let at = remains.parts.len().saturating_sub(1);
        remains.parts.insert(at, Part::Socket { path, folder: card.socket_folder });
    }
    // Where a temporary directory lies depends on the environment of that time.
    if card
        .tmp
        .parent()
        .is_some_and(|parent| !session_parents().iter().any(|place| place == parent))
        && is_own(&card.tmp)
        && let Some(taken) = Abandoned::take(&card.tmp)
    {
        remains.hold(taken, &card.tmp);
    }
}

impl Remains {
    fn of<'a>(found: &'a mut BTreeMap<String, Remains>, session: &str) -> &'a mut Self {
        found.entry(session.to_owned()).or_insert_with(|| Remains {
            session: session.to_owned(),
            parts: Vec::new(),
            _taken: Vec::new(),
        })
    }

    fn hold(&mut self, taken: Abandoned, folder: &Path) {
        self._taken.push(taken);
        self.parts.push(Part::Folder(folder.to_owned()));
    }
}

/// A socket that the session made where it was told to, and that nobody serves any more.
fn abandoned_socket(card: &SessionInfo, folder: &Path) -> Option<PathBuf> {
    let Ok(Endpoint::Unix(path)) = card.url.parse() else { return None };
    let found = path.symlink_metadata().ok()?;
    let is_ours = found.file_type().is_socket() && found.uid() == getuid().as_raw();
    let is_dead =
        || UnixStream::connect(&path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
    (!path.starts_with(folder) && is_ours && is_dead()).then_some(path)
}

impl Part {
    /// What it is, in a word.
    pub fn what(&self) -> &'static str {
        match self {
            Part::Container { .. } => "container",
            Part::Network { .. } => "network",
            Part::Socket { .. } => "socket",
            Part::Folder(_) => "folder",
        }
    }

    /// Its name, or where it is.
    pub fn name(&self) -> String {
        match self {
            Part::Container { name, .. } | Part::Network { name, .. } => name.clone(),
            Part::Socket { path, .. } | Part::Folder(path) => path.display().to_string(),
        }
    }

    /// The engine that has it, if one has.
    pub fn engine(&self) -> Option<&Engine> {
        match self {
            Part::Container { engine, .. } | Part::Network { engine, .. } => Some(engine),
            Part::Socket { .. } | Part::Folder(_) => None,
        }
    }

    /// Removes it. That it is gone already is no failure.
    pub async fn remove(&self) -> Result<(), RemoveError> {
        match self {
            Part::Container { engine, name } => {
                let removed = engine.remove_containers(std::slice::from_ref(name)).await;
                removed.map_err(|error| {
                    let (engine, name) = (Box::new(engine.clone()), name.clone());
                    RemoveError::Container { engine, name, error }
                })
            }
            Part::Network { engine, name } => engine.remove_network(name).await.map_err(|error| {
                let (engine, name) = (Box::new(engine.clone()), name.clone());
                RemoveError::Network { engine, name, error }
            }),
            Part::Socket { path, folder } => {
                unless_gone(path, fs::remove_file(path))?;
                if let Some(folder) = folder {
                    // Something else of the user's may lie there by now.
                    let _ = fs::remove_dir(folder);
                }
                Ok(())
            }
            Part::Folder(path) => unless_gone(path, remove_tree(path)),
        }
    }
}

fn unless_gone(path: &Path, removed: io::Result<()>) -> Result<(), RemoveError> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|source| RemoveError::File { path: path.to_owned(), source }),
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what(), self.name())?;
        match self.engine() {
            Some(engine) => write!(f, " ({})", engine.flavor()),
            None => Ok(()),
        }
    }
}
