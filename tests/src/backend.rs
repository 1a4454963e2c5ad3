//! The backend of the suites: processes of this machine, or containers of an engine.
//!
//! The same tests run on both. A wrapper with the engine name comes first in PATH and adds mounts
//! to every `run`: with them a container has the tools of a [`SessionSetup`](crate::Setup) at the same
//! paths and in the same PATH.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::eventually;

/// The backend, from `AIFO_TEST_BACKEND` and `AIFO_TEST_IMAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Processes of this machine.
    Local,
    /// Containers.
    Engine {
        /// `docker` or `podman`.
        name: String,
        /// The image of every kind.
        image: String,
    },
}

impl Backend {
    /// The backend of this run.
    pub fn chosen() -> &'static Backend {
        static BACKEND: OnceLock<Backend> = OnceLock::new();
        BACKEND.get_or_init(|| match env::var("AIFO_TEST_BACKEND") {
            Ok(name) if !name.is_empty() => {
                let image = env::var("AIFO_TEST_IMAGE");
                let image = image.unwrap_or_else(|_| "aifo-test-base:latest".to_owned());
                Backend::Engine { name, image }
            }
            _ => Backend::Local,
        })
    }

    /// Returns whether sidecars run in containers.
    pub fn is_engine(&self) -> bool {
        matches!(self, Backend::Engine { .. })
    }

    /// The parent of the suites' directories. Not `/tmp`, which is private in a container.
    pub(crate) fn dirs(&self) -> PathBuf {
        match self {
            Backend::Local => env::temp_dir(),
            Backend::Engine { .. } => "/var/tmp".into(),
        }
    }

    /// The variables that select this backend in `aifo-coder`.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let Backend::Engine { name, image } = self else {
            return vec![("AIFO_BACKEND".to_owned(), "local".to_owned())];
        };
        let kinds = ["RUST", "NODE", "PYTHON", "GO", "C_CPP"];
        let images = kinds.map(|kind| (format!("AIFO_{kind}_TOOLCHAIN_IMAGE"), image.clone()));
        // Variables by which the engine's client finds its daemon or its settings.
        let settings = ["DOCKER_HOST", "CONTAINERS_CONF"];
        let settings =
            settings.iter().filter_map(|&name| Some((name.to_owned(), env::var(name).ok()?)));
        let backend = [("AIFO_BACKEND".to_owned(), name.clone())];
        backend.into_iter().chain(images).chain(settings).collect()
    }

    /// Removes the leftovers of a killed session: its containers end by themselves, but its network
    /// remains, and an engine has only some thirty.
    pub(crate) fn remove(&self, session: &str) {
        let Backend::Engine { name, .. } = self else { return };
        let id = session.trim_start_matches("aifo-");
        let label = format!("label=dev.aifo.session={id}");
        let engine = |args: &[&str]| {
            let output = Command::new(name).args(args).output().expect("the engine can be started");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let containers = || engine(&["ps", "--all", "--quiet", "--filter", &label]);
        for container in containers().lines() {
            engine(&["rm", "--force", container]);
        }
        eventually("no container is left", || containers().is_empty());
        let networks = || engine(&["network", "ls", "--quiet", "--filter", &label]);
        eventually("no network is left", || {
            networks().lines().for_each(|network| _ = engine(&["network", "rm", network]));
            networks().is_empty()
        });
        let _ = fs::remove_dir_all(self.dirs().join(format!("{session}-tmp")));
    }

    /// Writes the engine's wrapper into `dir`, with these tools and this PATH for every container.
    pub(crate) fn put_command(&self, dir: &Path, tools: &Path, path: &str) {
        let Backend::Engine { name, .. } = self else { return };
        // The engine needs PATH; the launcher's has only tools.
        let own = env::var("PATH").expect("there is a PATH");
        let real = crate::program(name).unwrap_or_else(|| panic!("'{name}' is not in PATH"));
        let mut run = format!("exec {} run --env PATH='{path}'", real.display());
        for (source, destination) in mounts(tools) {
            let (source, destination) = (source.display(), destination.display());
            run +=
                &format!(" --mount 'type=bind,source={source},destination={destination},readonly'");
        }
        let script = format!(
            "#!/bin/sh\nexport PATH='{own}'\n\
             if [ \"$1\" = run ]; then\n  shift\n  {run} \"$@\"\nfi\nexec {} \"$@\"\n",
            real.display()
        );
        let command = dir.join(name);
        crate::write_executable(&command, script, 0o755);
    }
}

/// The mounts that give a container these tools: their directory, and the targets of their links,
/// which are the programs of native calls, with their installation if that is outside `/usr`.
fn mounts(tools: &Path) -> BTreeSet<(PathBuf, PathBuf)> {
    let own = (tools.to_path_buf(), tools.to_path_buf());
    let files = fs::read_dir(tools).expect("the scratch directory is writable").flatten();
    let links = files.filter_map(|file| fs::read_link(file.path()).ok());
    let outside = links.filter(|link| !link.starts_with(tools) && link.exists());
    let seen = outside.map(|link| installation(&link).map_or(link.clone(), Path::to_path_buf));
    let both = seen.filter_map(|place| Some((fs::canonicalize(&place).ok()?, place)));
    [own].into_iter().chain(both).collect()
}

/// The installation directory of a program in a `bin` directory.
fn installation(program: &Path) -> Option<&Path> {
    let system = ["/usr", "/bin", "/sbin"].iter().any(|dir| program.starts_with(dir));
    let bin = program.parent().filter(|dir| !system && dir.ends_with("bin"))?;
    bin.parent()
}
