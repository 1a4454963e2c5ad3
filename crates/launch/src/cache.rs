//! Persistent caches of sidecars, in engines and on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::{fs, io};

use aifo_agents::trusted_programs_here;
use aifo_engine::{Engine, EngineError, Flavor};
use aifo_host::{recorded_root, remove_tree};
use aifo_sidecar::{CacheOwner, cache_volume_owner, local_caches};
use aifo_types::Kind;

/// An existing cache.
#[derive(Clone, Debug)]
pub struct Cache {
    /// The kind whose tools fill it.
    pub kind: Kind,
    /// The sessions that share it.
    pub owner: CacheOwner,
    /// Where it is.
    pub location: CacheLocation,
}

/// Location of a cache.
#[derive(Clone, Debug)]
pub enum CacheLocation {
    /// An engine volume.
    Volume {
        /// The engine.
        engine: Engine,
        /// Its name.
        name: String,
    },
    /// A directory of this machine, for local sidecars.
    Directory(PathBuf),
}

/// Reasons for which a cache could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Containers have it mounted.
    #[error("it is in use by {}\nhint: end that session first", .0.join(", "))]
    InUse(Vec<String>),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Lists the caches of these kinds, on the engines and on this machine, together with the errors of
/// engines that failed.
pub async fn caches(engines: &[Engine], kinds: &[Kind]) -> (Vec<Cache>, Vec<EngineError>) {
    let mut found = Vec::new();
    let mut errors = Vec::new();
    for engine in engines {
        let volumes = match engine.volumes("aifo-").await {
            Ok(volumes) => volumes,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        for kind in kinds {
            found.extend(volumes.iter().filter_map(|name| {
                let owner = cache_volume_owner(kind, name)?;
                let location = CacheLocation::Volume { engine: engine.clone(), name: name.clone() };
                Some(Cache { kind: kind.clone(), owner, location })
            }));
        }
    }
    for kind in kinds {
        let local = local_caches(kind, |name| std::env::var_os(name));
        found.extend(local.into_iter().filter(|cache| cache.path.is_dir()).map(|cache| Cache {
            kind: kind.clone(),
            owner: cache.owner,
            location: CacheLocation::Directory(cache.path),
        }));
    }
    (found, errors)
}

impl Cache {
    /// Returns `local`, or the engine name.
    pub fn backend(&self) -> &'static str {
        match &self.location {
            CacheLocation::Volume { engine, .. } => engine.flavor().program(),
            CacheLocation::Directory(_) => "local",
        }
    }

    /// Returns the project root; `None` if the cache is the user's, or no session on this machine
    /// has recorded the project.
    pub fn project(&self) -> Option<PathBuf> {
        match &self.owner {
            CacheOwner::Project(key) => recorded_root(key),
            CacheOwner::User => None,
        }
    }

    /// Returns its name or path.
    pub fn name(&self) -> String {
        match &self.location {
            CacheLocation::Volume { name, .. } => name.clone(),
            CacheLocation::Directory(directory) => directory.display().to_string(),
        }
    }

    /// Removes it. Errors: a container uses it, or it cannot be removed.
    pub async fn remove(&self) -> Result<(), CacheError> {
        let (engine, name) = match &self.location {
            CacheLocation::Volume { engine, name } => (engine, name),
            CacheLocation::Directory(directory) => {
                remove_tree(directory)?;
                if let (CacheOwner::Project(_), Some(project)) = (&self.owner, directory.parent()) {
                    // Fails if it contains another cache.
                    let _ = fs::remove_dir(project);
                }
                return Ok(());
            }
        };
        let users = users(engine, name).await?;
        if !users.is_empty() {
            return Err(CacheError::InUse(users));
        }
        Ok(engine.remove_volume(name).await?)
    }
}

/// Lists the containers that mount a volume, running or not.
async fn users(engine: &Engine, volume: &str) -> Result<Vec<String>, EngineError> {
    let filter = format!("volume={volume}");
    let list = ["ps", "--all", "--filter", &filter, "--format", "{{.Names}}"];
    let output = engine.output(&engine.command().args(list)).await?;
    Ok(String::from_utf8_lossy(&output).lines().map(str::to_owned).collect())
}

/// Returns the size of each cache, formatted by docker or du; `None` if it is unknown. May take seconds.
pub async fn cache_sizes(caches: &[Cache]) -> Vec<Option<String>> {
    let (mut sizes, mut of_docker) = (Vec::new(), None);
    for cache in caches {
        sizes.push(match &cache.location {
            CacheLocation::Volume { engine, name } if engine.flavor() == Flavor::Docker => {
                if of_docker.is_none() {
                    of_docker = Some(docker_sizes(engine).await.unwrap_or_default());
                }
                of_docker.as_ref().and_then(|sizes: &BTreeMap<_, _>| sizes.get(name).cloned())
            }
            CacheLocation::Volume { engine, name } => {
                let format = ["volume", "inspect", "--format", "{{.Mountpoint}}", name];
                match engine.output(&engine.command().args(format)).await.map(String::from_utf8) {
                    Ok(Ok(path)) => size_of(Path::new(path.trim_end())).await,
                    _ => None,
                }
            }
            CacheLocation::Directory(directory) => size_of(directory).await,
        });
    }
    sizes
}

/// The sizes of all volumes. They belong to docker's daemon; no other program can read them.
async fn docker_sizes(engine: &Engine) -> Option<BTreeMap<String, String>> {
    let format = "{{range .Volumes}}{{.Name}}\t{{.Size}}\n{{end}}";
    let command = engine.command().args(["system", "df", "--verbose", "--format", format]);
    let output = String::from_utf8(engine.output(&command).await.ok()?).ok()?;
    let lines = output.lines().filter_map(|line| line.split_once('\t'));
    Some(lines.map(|(name, size)| (name.to_owned(), size.to_owned())).collect())
}

async fn size_of(directory: &Path) -> Option<String> {
    let du = trusted_programs_here().program("du").ok()?;
    let mut du = tokio::process::Command::new(du);
    du.arg("-sh").arg(directory).stdin(Stdio::null()).kill_on_drop(true);
    let output = String::from_utf8(du.output().await.ok()?.stdout).ok()?;
    output.split_whitespace().next().map(str::to_owned)
}
