//! What a kind of sidecar keeps between sessions, on this machine, and where.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use aifo_types::Kind;

/// Variables a kind's tools get, and where these let them write.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// Set unless the user has set them.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    /// Beside the workspace and the session's temporary directory.
    pub(crate) writable: Vec<PathBuf>,
}

/// A cache that a variable points to, below our own cache folder.
struct Cache {
    variable: &'static str,
    folder: &'static str,
}

const fn cache(variable: &'static str, folder: &'static str) -> Cache {
    Cache { variable, folder }
}

/// Ours and not the user's: what a tool of the sandbox puts there is never executed outside of it.
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

/// What cargo writes outside of a project. Never its home itself: whoever writes `config.toml` or
/// `bin` there runs whatever it likes at the user's next build.
const CARGO_HOME_WRITES: [&str; 2] = ["registry", "git"];
const CARGO_HOME_LOCKS: [&str; 3] = [".package-cache", ".package-cache-mutate", ".global-cache"];

impl Places {
    /// The places of a kind. Folders are made; what cannot be made is left out, and the tool says
    /// what it misses.
    pub(crate) fn of(kind: &Kind, environment: impl Fn(&str) -> Option<OsString>) -> Self {
        let mut places = Places::default();
        let home = environment("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let base = base(&environment);
        for Cache { variable, folder } in caches(kind.as_str()) {
            let own = base.as_ref().map(|base| base.join(folder));
            match (environment(variable), own) {
                (Some(theirs), _) => places.writable.push(theirs.into()),
                // A rule follows links, and a tool may have put one there, to be let in elsewhere by the
                // next session. The rule for the outer one is enough, and tools make what they miss.
                (None, Some(own)) if places.writable.iter().any(|outer| own.starts_with(outer)) => {
                    places.variables.push((variable, own.into_os_string()));
                }
                (None, Some(own)) if make_folder(&own) => {
                    places.variables.push((variable, own.clone().into_os_string()));
                    places.writable.push(own);
                }
                (None, _) => {}
            }
        }
        if kind.as_str() == "rust" {
            places.variables.extend([("CC", "gcc".into()), ("CXX", "g++".into())]);
            let cargo_home = environment("CARGO_HOME").map(PathBuf::from);
            let cargo_home = cargo_home.or_else(|| Some(home?.join(".cargo")));
            if let Some(cargo_home) = cargo_home.filter(|home| home.is_absolute()) {
                places.add_cargo_home(&cargo_home);
            }
        }
        places.variables.retain(|(name, _)| environment(name).is_none());
        places
    }

    fn add_cargo_home(&mut self, cargo_home: &Path) {
        for folder in CARGO_HOME_WRITES.map(|name| cargo_home.join(name)) {
            make_folder(&folder);
            self.writable.push(folder);
        }
        for lock in CARGO_HOME_LOCKS.map(|name| cargo_home.join(name)) {
            // A rule needs a file; an existing one is not touched.
            let _ = File::options().create(true).append(true).open(&lock);
            self.writable.push(lock);
        }
    }
}

/// Our own folders that a kind's tools fill, whether or not they are there. What is the user's, such
/// as cargo's home, is not among them.
pub fn local_caches(kind: &Kind, environment: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let Some(base) = base(&environment) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = Vec::new();
    for cache in caches(kind.as_str()) {
        let folder = base.join(cache.folder);
        // One may lie in another.
        if !folders.iter().any(|outer| folder.starts_with(outer)) {
            folders.push(folder);
        }
    }
    folders
}

/// Our own cache folder.
fn base(environment: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("aifo"))
}

fn make_folder(path: &Path) -> bool {
    // Private where it is ours to make; an existing one keeps its mode.
    DirBuilder::new().recursive(true).mode(0o700).create(path).is_ok() && fs::metadata(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(kind: &str, environment: &[(&str, &str)]) -> Places {
        Places::of(&Kind::parse(kind).unwrap(), |name| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn ours_unless_the_user_says_otherwise() {
        let base = std::env::temp_dir().join(format!("aifo-places-{}", std::process::id()));
        let home = base.to_str().unwrap();
        let own = |folder: &str| base.join(".cache/aifo").join(folder);

        let python = places("python", &[("HOME", home), ("PIP_CACHE_DIR", "/theirs")]);
        let names: Vec<_> = python.variables.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["UV_CACHE_DIR", "PYTHONUSERBASE"]);
        assert_eq!(python.writable, [PathBuf::from("/theirs"), own("uv"), own("python-user")]);
        assert!(own("uv").is_dir());

        let rust = places("rust", &[("HOME", home), ("CC", "clang")]);
        assert_eq!(rust.variables, [("CXX", OsString::from("g++"))]);
        assert!(rust.writable.contains(&base.join(".cargo/registry")));
        assert!(!rust.writable.contains(&base.join(".cargo")), "never its home itself");

        assert_eq!(places("node", &[]), Places::default(), "no home, no caches");

        let go =
            local_caches(&Kind::parse("go").unwrap(), |name| (name == "HOME").then(|| home.into()));
        assert_eq!(go, [own("go"), own("go-build")], "what lies in another goes with it");
        assert_eq!(places("go", &[("HOME", home)]).writable, go, "and has no rule of its own");
        fs::remove_dir_all(&base).unwrap();
    }
}
