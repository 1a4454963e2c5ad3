//! The places on this machine where a kind of sidecar keeps things between sessions.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use aifo_types::Kind;

use crate::caches::{CacheOwner, Caches, ProjectKey};
use crate::cargo_home;

/// Variables a kind's tools get, and where these let them write.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// Set unless the user has set them.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    /// Beside the workspace and the session's temporary directory.
    pub(crate) writable: Vec<PathBuf>,
}

/// The session that places are for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    pub(crate) caches: &'a Caches,
    /// A real path.
    pub(crate) workspace: &'a Path,
    /// A real path. Tools write anywhere in it, so nothing in it is followed or made by name.
    pub(crate) tmp: Option<&'a Path>,
}

/// A cache that a variable points to, below the directory of its owner.
struct Cache {
    variable: &'static str,
    directory: &'static str,
}

const fn cache(variable: &'static str, directory: &'static str) -> Cache {
    Cache { variable, directory }
}

/// Ours and not the user's: what a tool of the sandbox puts there is never executed outside of it.
/// A cache that lies in another stands behind it.
fn caches(kind: &str) -> &'static [Cache] {
    const NODE: &[Cache] = &[
        cache("NPM_CONFIG_CACHE", "npm"),
        cache("YARN_CACHE_FOLDER", "yarn"),
        cache("PNPM_STORE_PATH", "pnpm"),
        cache("DENO_DIR", "deno"),
    ];
    const PYTHON: &[Cache] = &[
        cache("PIP_CACHE_DIR", "pip"),
        cache("UV_CACHE_DIR", "uv"),
        // Where `pip install --user` goes.
        cache("PYTHONUSERBASE", "python-user"),
    ];
    const GO: &[Cache] =
        &[cache("GOPATH", "go"), cache("GOMODCACHE", "go/pkg/mod"), cache("GOCACHE", "go-build")];
    const C_CPP: &[Cache] = &[cache("CCACHE_DIR", "ccache")];
    match kind {
        "node" => NODE,
        "python" => PYTHON,
        "go" => GO,
        "c-cpp" => C_CPP,
        _ => &[],
    }
}

/// Where a project has cargo's home, below the directory of its caches.
const CARGO: &str = "cargo";
/// Where caches lie that go with the session, below its temporary directory.
const OF_SESSION: &str = ".aifo-caches";
/// Where the caches of projects lie, below our own cache directory.
const PROJECTS: &str = "projects";

/// Cargo writes these outside of a project. Its home itself is not writable: a tool that writes
/// `config.toml` or `bin` there runs whatever it likes at the next build.
const CARGO_HOME_WRITES: [&str; 2] = ["registry", "git"];
const CARGO_HOME_LOCKS: [&str; 3] = [".package-cache", ".package-cache-mutate", ".global-cache"];

impl Places {
    /// The places of a kind. Directories are made; what cannot be made is left out, and the tool says
    /// what it misses.
    pub(crate) fn of(
        kind: &Kind,
        site: Site<'_>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let mut places = Places::default();
        let base = site.base(&environment);
        for Cache { variable, directory } in caches(kind.as_str()) {
            match (environment(variable), &base) {
                (Some(theirs), _) => places.allow(theirs.into(), site),
                (None, Some(base)) => {
                    if places.add_own(base.join(directory), site) {
                        places.variables.push((variable, base.join(directory).into_os_string()));
                    }
                }
                (None, None) => {}
            }
        }
        if kind.as_str() == "rust" {
            places.variables.extend([("CC", "gcc".into()), ("CXX", "g++".into())]);
            places.add_rust(site, &environment);
        }
        places.variables.retain(|(name, _)| environment(name).is_none());
        places
    }

    /// Makes a directory of ours, unless tools write around it already and make it themselves: there
    /// its name may be a link that one of them has left. Returns whether it can be used.
    fn add_own(&mut self, path: PathBuf, site: Site<'_>) -> bool {
        if self.covers(&path, site) {
            return true;
        }
        let made = make_directory(&path);
        if made {
            self.writable.push(path);
        }
        made
    }

    fn allow(&mut self, path: PathBuf, site: Site<'_>) {
        if !self.covers(&path, site) {
            self.writable.push(path);
        }
    }

    /// Whether tools can write to a path without a rule of its own. A rule follows links, and a tool
    /// may have put one there, to be let in elsewhere by the next session.
    fn covers(&self, path: &Path, site: Site<'_>) -> bool {
        let mut places = self.writable.iter().map(PathBuf::as_path);
        let is_plain = path.components().all(|part| part != Component::ParentDir);
        is_plain
            && (path.starts_with(site.workspace)
                || site.tmp.is_some_and(|tmp| path.starts_with(tmp))
                || places.any(|place| path.starts_with(place)))
    }

    /// Adds what cargo writes: in a home of the project's, unless the user has chosen one.
    fn add_rust(&mut self, site: Site<'_>, environment: &impl Fn(&str) -> Option<OsString>) {
        let absolute = |name| environment(name).map(PathBuf::from).filter(|it| it.is_absolute());
        let users = absolute("HOME").map(|home| home.join(".cargo"));
        let chosen = match environment("CARGO_HOME") {
            None if *site.caches == Caches::Of(CacheOwner::User) => users.clone(),
            chosen => chosen.map(PathBuf::from).filter(|home| home.is_absolute()),
        };
        if let Some(home) = chosen {
            return self.add_cargo_home(&home);
        }
        let (Some(base), None) = (site.base(environment), environment("CARGO_HOME")) else {
            return;
        };
        let home = base.join(CARGO);
        let made = match (site.caches, site.tmp) {
            (Caches::None, Some(tmp)) => cargo_home::make(tmp, &[OF_SESSION, CARGO]),
            _ if make_directory(&base) => cargo_home::make(&base, &[CARGO]),
            _ => return,
        };
        let Ok(directory) = made else { return };
        if let Some(users) = users {
            // What it cannot link, cargo does without.
            let _ = cargo_home::link_settings(&directory, &users, site.workspace);
        }
        self.variables.push(("CARGO_HOME", home.clone().into_os_string()));
        if !self.covers(&home, site) {
            self.add_cargo_home(&home);
        }
    }

    fn add_cargo_home(&mut self, cargo_home: &Path) {
        for directory in CARGO_HOME_WRITES.map(|name| cargo_home.join(name)) {
            make_directory(&directory);
            self.writable.push(directory);
        }
        for lock in CARGO_HOME_LOCKS.map(|name| cargo_home.join(name)) {
            // A rule needs a file; an existing one is not touched.
            let _ = File::options().create(true).append(true).open(&lock);
            self.writable.push(lock);
        }
    }
}

impl Site<'_> {
    /// Where the caches of the session lie.
    fn base(&self, environment: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        match self.caches {
            Caches::Of(owner) => Some(directory_of(&base(environment)?, owner)),
            Caches::None => Some(self.tmp?.join(OF_SESSION)),
        }
    }
}

/// A directory of ours that tools of a kind fill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalCache {
    /// Whose it is.
    pub owner: CacheOwner,
    /// Where it is.
    pub path: PathBuf,
}

/// Our own directories that a kind's tools fill, of every owner, whether or not they are there. Those
/// of the user, such as cargo's home, are not among them.
pub fn local_caches(
    kind: &Kind,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Vec<LocalCache> {
    let Some(base) = base(&environment) else { return Vec::new() };
    let mut directories: Vec<&Path> = Vec::new();
    for cache in caches(kind.as_str()) {
        let directory = Path::new(cache.directory);
        // One may lie in another.
        if !directories.iter().any(|outer| directory.starts_with(outer)) {
            directories.push(directory);
        }
    }
    let entries = fs::read_dir(base.join(PROJECTS)).into_iter().flatten().flatten();
    let keys = entries.filter_map(|entry| ProjectKey::parse(entry.file_name().to_str()?));
    let mut owners: Vec<_> = keys.map(CacheOwner::Project).collect();
    owners.push(CacheOwner::User);
    owners.sort();
    let of = |owner: &CacheOwner| {
        let base = directory_of(&base, owner);
        let cargo =
            (kind.as_str() == "rust" && *owner != CacheOwner::User).then(|| Path::new(CARGO));
        let paths = directories.iter().copied().chain(cargo).map(move |it| base.join(it));
        paths.map(|path| LocalCache { owner: owner.clone(), path }).collect::<Vec<_>>()
    };
    owners.iter().flat_map(of).collect()
}

/// Where the caches of an owner lie, below our own cache directory.
fn directory_of(base: &Path, owner: &CacheOwner) -> PathBuf {
    match owner {
        CacheOwner::Project(key) => base.join(PROJECTS).join(key.as_str()),
        CacheOwner::User => base.to_owned(),
    }
}

/// Our own cache directory.
fn base(environment: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("aifo"))
}

fn make_directory(path: &Path) -> bool {
    // Private where it is ours to make; an existing one keeps its mode.
    DirBuilder::new().recursive(true).mode(0o700).create(path).is_ok() && fs::metadata(path).is_ok()
}

#[cfg(test)]
mod tests;
