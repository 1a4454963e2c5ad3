//! Proves `spec/confinement.md#caches`.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

const KINDS: [&str; 5] = ["rust", "node", "python", "go", "c-cpp"];

fn project(digit: char) -> Caches {
    let key = ProjectKey::parse(&digit.to_string().repeat(16)).unwrap();
    Caches::Of(CacheOwner::Project(key))
}

/// A home, a workspace and a temporary directory of its own.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Machine(tempfile::tempdir().unwrap());
        for directory in ["home", "work", "tmp"] {
            fs::create_dir(machine.path().join(directory)).unwrap();
        }
        machine
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    fn own(&self, path: &str) -> PathBuf {
        self.home().join(".cache/aifo").join(path)
    }

    fn places(&self, kind: &str, caches: &Caches, environment: &[(&str, &str)]) -> Places {
        let (workspace, tmp) = (self.path().join("work"), self.path().join("tmp"));
        let site = Site { caches, workspace: &workspace, tmp: Some(&tmp) };
        Places::of(&Kind::parse(kind).unwrap(), site, |name| {
            let given = environment.iter().find(|(known, _)| *known == name);
            let home = (name == "HOME").then(|| self.home().into_os_string());
            given.map(|(_, value)| (*value).into()).or(home)
        })
    }

    fn local_caches(&self, kind: &str) -> Vec<LocalCache> {
        let home = |name: &str| (name == "HOME").then(|| self.home().into_os_string());
        local_caches(&Kind::parse(kind).unwrap(), home)
    }
}

#[test]
fn ours_unless_the_user_says_otherwise() {
    let machine = Machine::new();
    let user = Caches::Of(CacheOwner::User);
    let python = machine.places("python", &user, &[("PIP_CACHE_DIR", "/theirs")]);
    let names: Vec<_> = python.variables.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["UV_CACHE_DIR", "PYTHONUSERBASE"]);
    let own = [machine.own("uv"), machine.own("python-user")];
    assert_eq!(python.writable, [&[PathBuf::from("/theirs")][..], &own].concat());
    assert!(own[0].is_dir());

    let rust = machine.places("rust", &user, &[("CC", "clang")]);
    assert_eq!(rust.variables, [("CXX", OsString::from("g++"))]);
    assert!(rust.writable.contains(&machine.home().join(".cargo/registry")));
    assert!(!rust.writable.contains(&machine.home().join(".cargo")), "never its home itself");

    let caches = project('a');
    let site = Site { caches: &caches, workspace: Path::new("/w"), tmp: None };
    let homeless = Places::of(&Kind::parse("node").unwrap(), site, |_| None);
    assert_eq!(homeless, Places::default(), "no home, no caches");
}

/// For each cache there is, and each that is added.
#[test]
fn a_projects_tools_write_to_the_projects_caches_alone() {
    let machine = Machine::new();
    for kind in KINDS {
        let [one, other] = ['a', 'b'].map(|digit| machine.places(kind, &project(digit), &[]));
        for (places, key) in [(&one, "a"), (&other, "b")] {
            let own = machine.own(PROJECTS).join(key.repeat(16));
            assert!(!places.writable.is_empty(), "{kind}");
            assert!(places.writable.iter().all(|path| path.starts_with(&own)), "{kind}");
            assert!(!places.writable.contains(&own), "{kind}: never around its caches");
            let elsewhere = |value: &OsString| {
                let path = Path::new(value);
                path.is_absolute() && !path.starts_with(&own)
            };
            assert!(!places.variables.iter().any(|(_, value)| elsewhere(value)), "{kind}");
        }
        assert_eq!(one.variables.len(), other.variables.len());
    }
    let rust = machine.places("rust", &project('a'), &[("CARGO_HOME", "/theirs")]);
    assert!(rust.writable.contains(&"/theirs/registry".into()), "the user's own decision");
    assert!(!rust.variables.iter().any(|(name, _)| *name == "CARGO_HOME"));
}

#[test]
fn cargo_reads_the_users_settings_in_a_home_of_the_projects() {
    let machine = Machine::new();
    let users = machine.home().join(".cargo");
    let home = machine.own(PROJECTS).join("a".repeat(16)).join(CARGO);
    for _ in 0..2 {
        let rust = machine.places("rust", &project('a'), &[]);
        assert!(rust.variables.contains(&("CARGO_HOME", home.clone().into_os_string())));
        for name in ["config.toml", "credentials.toml", "bin"] {
            assert_eq!(fs::read_link(home.join(name)).unwrap(), users.join(name));
            assert!(!rust.writable.contains(&home.join(name)), "{name}");
        }
    }

    let caches = project('a');
    let below = machine.home().join("work");
    let site = Site { caches: &caches, workspace: &below, tmp: None };
    let environment = |name: &str| (name == "HOME").then(|| machine.home().into_os_string());
    Places::of(&Kind::parse("rust").unwrap(), site, environment);
    assert!(fs::read_link(home.join("config.toml")).is_err(), "cargo would read it twice");
    assert!(fs::read_link(home.join("credentials.toml")).is_ok());
}

/// Tools may change the mode of a directory in which they may write.
#[test]
fn the_modes_of_caches_are_restored() {
    let machine = Machine::new();
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let caches = project('a');
    for kind in KINDS {
        let places = machine.places(kind, &caches, &[]);
        let mut directories: Vec<_> =
            places.writable.into_iter().filter(|path| path.is_dir()).collect();
        assert!(!directories.is_empty());
        directories.extend(["", "projects"].map(|name| machine.own(name)));
        for changed in [0o000, 0o777, 0o1733] {
            directories.iter().for_each(|path| set(path, changed));
            machine.places(kind, &caches, &[]);
            for path in &directories {
                assert_eq!(mode(path), 0o700, "{}", path.display());
            }
        }
    }
    // The user's own keep theirs.
    let users = machine.home().join(".cargo/registry");
    fs::create_dir_all(&users).unwrap();
    set(&users, 0o755);
    machine.places("rust", &Caches::Of(CacheOwner::User), &[]);
    assert_eq!(mode(&users), 0o755);
}

#[test]
fn without_caches_all_goes_with_the_session() {
    let machine = Machine::new();
    let tmp = machine.path().join("tmp");
    for kind in KINDS {
        let places = machine.places(kind, &Caches::None, &[]);
        assert!(places.writable.is_empty(), "{kind}: its temporary directory covers it");
        let mut paths = places.variables.iter().map(|(_, value)| Path::new(value));
        assert!(paths.all(|path| path.is_relative() || path.starts_with(&tmp)), "{kind}");
        assert!(places.variables.iter().any(|(_, value)| Path::new(value).is_absolute()), "{kind}");
    }
    assert!(tmp.join(OF_SESSION).join("cargo/credentials.toml").is_symlink());
    assert!(!machine.home().join(".cache").exists());
}

/// A rule of confinement follows links, so there is none for a path that a tool can replace.
#[test]
fn a_link_that_a_tool_has_left_lets_the_next_session_in_nowhere() {
    let machine = Machine::new();
    let target = machine.home().join("private");
    fs::create_dir(&target).unwrap();
    for (caches, go) in [
        (project('a'), machine.own(PROJECTS).join("a".repeat(16)).join("go")),
        (Caches::Of(CacheOwner::User), machine.own("go")),
    ] {
        fs::create_dir_all(go.join("pkg")).unwrap();
        symlink(&target, go.join("pkg/mod")).unwrap();
        let places = machine.places("go", &caches, &[]);
        let names: Vec<_> = places.variables.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["GOPATH", "GOMODCACHE", "GOCACHE"]);
        let real: Vec<_> =
            places.writable.iter().map(|path| path.canonicalize().unwrap()).collect();
        assert_eq!(real.len(), 2);
        assert!(real.iter().all(|path| !path.starts_with(&target)), "{real:?}");
    }

    let theirs = machine.path().join("work/cache");
    symlink(&target, &theirs).unwrap();
    let theirs = theirs.to_str().unwrap();
    let places = machine.places("c-cpp", &project('a'), &[("CCACHE_DIR", theirs)]);
    assert!(places.writable.is_empty(), "the workspace covers it");

    let session = machine.path().join("tmp").join(OF_SESSION);
    symlink(&target, &session).unwrap();
    let places = machine.places("rust", &Caches::None, &[]);
    assert!(!places.variables.iter().any(|(name, _)| *name == "CARGO_HOME"));
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "nothing is made through a link");
}

#[test]
fn caches_are_found_by_their_owners() {
    let machine = Machine::new();
    for key in ["b".repeat(16), "a".repeat(16), "other".to_owned()] {
        fs::create_dir_all(machine.own(PROJECTS).join(key)).unwrap();
    }
    let found = machine.local_caches("go");
    let paths: Vec<_> = found.iter().map(|cache| cache.path.clone()).collect();
    let of = |key: &str, name: &str| machine.own(PROJECTS).join(key.repeat(16)).join(name);
    let go = ["go", "go-build"];
    let expected = [go.map(|name| of("a", name)), go.map(|name| of("b", name))].concat();
    let users = ["go", "go-build"].map(|name| machine.own(name));
    assert_eq!(paths, [expected, users.to_vec()].concat(), "what lies in another goes with it");
    assert_eq!(found[4].owner, CacheOwner::User);

    let paths: Vec<_> = machine.local_caches("rust").into_iter().map(|it| it.path).collect();
    assert_eq!(paths, [of("a", "cargo"), of("b", "cargo")], "the user's own home is not ours");
}
