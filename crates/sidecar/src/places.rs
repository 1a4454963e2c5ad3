//! Caches of local sidecars, and the variables that point to them.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use aifo_policy::{KindCache, kind_spec};
use aifo_process::restore_private_mode;
use aifo_types::Kind;

use crate::caches::{CacheOwner, Caches, ProjectKey};
use crate::cargo_home;

/// Variables for a kind's tools, and the paths that they may write.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// Set unless the user has set them.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    /// In addition to the workspace and the session's temporary directory.
    pub(crate) writable: Vec<PathBuf>,
}

/// The session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    pub(crate) caches: &'a Caches,
    /// A real path.
    pub(crate) workspace: &'a Path,
    /// A real path. Tools can write in it, so names in it are neither followed nor created.
    pub(crate) tmp: Option<&'a Path>,
}

/// Separate from the user's own caches, so that nothing a confined tool writes runs outside of the
/// sandbox. A nested cache follows its parent.
fn caches(kind: &Kind) -> &'static [KindCache] {
    kind_spec(kind).map_or(&[], |spec| spec.caches)
}

/// A project's cargo home, below the directory of its caches.
const CARGO: &str = "cargo";
/// Caches of the session, below its temporary directory.
const OF_SESSION: &str = ".aifo-caches";
/// Caches of projects, below aifo's cache directory.
const PROJECTS: &str = "projects";

/// Paths that cargo writes outside of a project. The home itself is not writable: with `config.toml` or
/// `bin`, a tool could execute any program in the next build.
const CARGO_HOME_WRITES: [&str; 2] = ["registry", "git"];
const CARGO_HOME_LOCKS: [&str; 3] = [".package-cache", ".package-cache-mutate", ".global-cache"];

impl Places {
    /// Returns the caches of a kind and creates their directories. Omits those that cannot be created;
    /// the tool then reports the error.
    pub(crate) fn of(
        kind: &Kind,
        site: Site<'_>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let mut places = Places::default();
        let base = site.base(&environment);
        site.restore_modes(&environment);
        for KindCache { variable, local, .. } in caches(kind) {
            match (environment(variable), &base) {
                (Some(theirs), _) => places.allow(theirs.into(), site),
                (None, Some(base)) => {
                    if places.add_own(base.join(local), site) {
                        places.variables.push((variable, base.join(local).into_os_string()));
                    }
                }
                (None, None) => {}
            }
        }
        let variables = kind_spec(kind).map_or(&[][..], |spec| spec.variables);
        places.variables.extend(variables.iter().map(|(name, value)| (*name, value.into())));
        if kind.as_str() == "rust" {
            places.add_rust(site, &environment);
        }
        places.variables.retain(|(name, _)| environment(name).is_none());
        places
    }

    /// Creates a cache directory, unless tools can write to its parent and create it themselves: its name
    /// could be a link that a tool left. Returns whether it is usable.
    fn add_own(&mut self, path: PathBuf, site: Site<'_>) -> bool {
        if self.covers(&path, site) {
            return true;
        }
        let made = make_directory(&path);
        if made {
            restore_private_mode(&path);
            self.writable.push(path);
        }
        made
    }

    fn allow(&mut self, path: PathBuf, site: Site<'_>) {
        if !self.covers(&path, site) {
            self.writable.push(path);
        }
    }

    /// Returns whether tools can write to a path without a separate rule. Rules follow links, and a
    /// tool could place one to get access elsewhere in the next session.
    fn covers(&self, path: &Path, site: Site<'_>) -> bool {
        let mut places = self.writable.iter().map(PathBuf::as_path);
        let is_plain = path.components().all(|part| part != Component::ParentDir);
        is_plain
            && (path.starts_with(site.workspace)
                || site.tmp.is_some_and(|tmp| path.starts_with(tmp))
                || places.any(|place| path.starts_with(place)))
    }

    /// Adds cargo's paths: in the project home, unless the user has set `CARGO_HOME`.
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
        let is_separate = !self.covers(&home, site);
        if is_separate {
            restore_private_mode(&home);
            CARGO_HOME_WRITES.iter().for_each(|name| restore_private_mode(&home.join(name)));
        }
        let made = match (site.caches, site.tmp) {
            (Caches::None, Some(tmp)) => cargo_home::make(tmp, &[OF_SESSION, CARGO]),
            _ if make_directory(&base) => cargo_home::make(&base, &[CARGO]),
            _ => return,
        };
        let Ok(directory) = made else { return };
        if let Some(users) = users {
            // Cargo works without the links.
            let _ = cargo_home::link_settings(&directory, &users, site.workspace);
        }
        self.variables.push(("CARGO_HOME", home.clone().into_os_string()));
        if is_separate {
            self.add_cargo_home(&home);
        }
    }

    fn add_cargo_home(&mut self, cargo_home: &Path) {
        for directory in CARGO_HOME_WRITES.map(|name| cargo_home.join(name)) {
            make_directory(&directory);
            self.writable.push(directory);
        }
        for lock in CARGO_HOME_LOCKS.map(|name| cargo_home.join(name)) {
            // A rule needs an existing file.
            let _ = File::options().create(true).append(true).open(&lock);
            self.writable.push(lock);
        }
    }
}

impl Site<'_> {
    /// Restores the modes of the directories above the caches, unless tools can write to them.
    fn restore_modes(&self, environment: impl Fn(&str) -> Option<OsString>) {
        let (Caches::Of(owner), Some(base)) = (self.caches, cache_directory(environment)) else {
            return;
        };
        let is_plain = base.components().all(|part| part != Component::ParentDir);
        let within = |place: &Path| base.starts_with(place);
        if is_plain && !within(self.workspace) && !self.tmp.is_some_and(within) {
            let own = directory_of(&base, owner);
            [base.clone(), base.join(PROJECTS), own]
                .iter()
                .for_each(|path| restore_private_mode(path));
        }
    }

    /// The directory of the session caches.
    fn base(&self, environment: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        match self.caches {
            Caches::Of(owner) => Some(directory_of(&cache_directory(environment)?, owner)),
            Caches::None => Some(self.tmp?.join(OF_SESSION)),
        }
    }
}

/// A cache directory of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalCache {
    /// The owner.
    pub owner: CacheOwner,
    /// The path.
    pub path: PathBuf,
}

/// Returns the cache directories of a kind for all owners, existing or not. Excludes the user's own, such
/// as cargo's home.
pub fn local_caches(
    kind: &Kind,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Vec<LocalCache> {
    let Some(base) = cache_directory(&environment) else { return Vec::new() };
    let mut directories: Vec<&Path> = Vec::new();
    for cache in caches(kind) {
        let directory = Path::new(cache.local);
        // Directories may be nested.
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

/// The directory of an owner's caches, below aifo's cache directory.
fn directory_of(base: &Path, owner: &CacheOwner) -> PathBuf {
    match owner {
        CacheOwner::Project(key) => base.join(PROJECTS).join(key.as_str()),
        CacheOwner::User => base.to_owned(),
    }
}

/// Returns aifo's cache directory: `$XDG_CACHE_HOME/aifo`, else `~/.cache/aifo`.
pub fn cache_directory(environment: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("aifo"))
}

fn make_directory(path: &Path) -> bool {
    // New directories are private; the user's own keep their mode.
    DirBuilder::new().recursive(true).mode(0o700).create(path).is_ok() && fs::metadata(path).is_ok()
}

#[cfg(test)]
mod tests;
