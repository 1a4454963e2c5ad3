//! The container engine that a run of the suites is for.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Outcome, Scratch, Setup};

/// The engine that `AIFO_TEST_ENGINE` names: `docker` or `podman`.
#[derive(Clone, Debug)]
pub struct Engine {
    program: String,
}

/// Where the machine has its engines.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Engine {
    /// The engine of this run; `None` where the variable is not set, and then the story is named as
    /// skipped.
    pub fn of_run(test: &str) -> Option<Self> {
        match std::env::var("AIFO_TEST_ENGINE") {
            Ok(program) if !program.is_empty() => Some(Engine { program }),
            _ => {
                // Nobody is left to be told that stderr is gone.
                let _ = writeln!(std::io::stderr(), "skipped: {test}: AIFO_TEST_ENGINE is not set");
                None
            }
        }
    }

    /// `aifo-coder` in a setup, where it finds this engine and takes it.
    pub fn coder(&self, setup: &Setup, args: &[&str]) -> Command {
        let mut coder = setup.coder();
        coder.envs(self.settings()).env("PATH", PATH).env("AIFO_BACKEND", &self.program);
        coder.args(args);
        coder
    }

    /// What it is told instead of the machine's own settings.
    pub(crate) fn settings(&self) -> Option<(String, String)> {
        let name = "CONTAINERS_CONF";
        Some((name.to_owned(), std::env::var(name).ok()?))
    }

    /// Its name, which is its program's and the backend's.
    pub fn name(&self) -> &str {
        &self.program
    }

    /// Whether it is podman: it has its own words for some things.
    pub fn is_podman(&self) -> bool {
        self.program == "podman"
    }

    /// A command of it, without input.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs a command that has to succeed: what it printed.
    #[track_caller]
    pub fn text<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        Outcome::of(&mut self.command(args)).exited(0).text()
    }

    /// A field of a container, as a template tells it.
    #[track_caller]
    pub fn inspect(&self, container: &str, template: &str) -> String {
        self.text(["inspect", "--format", template, container]).trim_end().to_owned()
    }

    /// The process of the machine that is the first of a container.
    #[track_caller]
    pub fn pid(&self, container: &str) -> i32 {
        let pid = self.inspect(container, "{{.State.Pid}}");
        pid.parse().unwrap_or_else(|_| panic!("'{container}' has the pid '{pid}'"))
    }

    /// The names of all containers and networks that a session with this directory in its labels has.
    #[track_caller]
    pub fn all_of(&self, dir: &Path) -> Vec<String> {
        let lines =
            |args: &[&str]| -> Vec<String> { self.text(args).lines().map(str::to_owned).collect() };
        let inspected = r#"{{index .Labels "dev.aifo.dir"}}"#;
        let label = if self.is_podman() { inspected } else { r#"{{.Label "dev.aifo.dir"}}"# };
        let format = format!("{label}\t{{{{.Names}}}}");
        let containers = lines(&["ps", "--all", "--no-trunc", "--format", &format]);
        let filter = "label=dev.aifo.folder";
        let networks = lines(&["network", "ls", "--filter", filter, "--format", "{{.Name}}"]);
        let dir = dir.to_str().expect("the scratch path is text");
        let of = |line: &String| {
            let (of, name) = line.split_once('\t')?;
            Path::new(of).starts_with(dir).then(|| name.to_owned())
        };
        let mut names: Vec<_> = containers.iter().filter_map(of).collect();
        names.extend(networks.into_iter().filter(|network| {
            let inspect = ["network", "inspect", "--format", inspected, network];
            // It may be on its way out.
            let said = Outcome::of(&mut self.command(inspect)).text();
            Path::new(said.trim_end()).starts_with(dir)
        }));
        names
    }

    /// Builds an image for one test.
    #[track_caller]
    pub fn build(&self, dockerfile: &str) -> Image {
        let dir = Scratch::new();
        fs::write(dir.path().join("Dockerfile"), dockerfile).expect("the directory is writable");
        let image = self.image_of(&dir);
        let mut build = self.command(["build", "--quiet", "--tag", image.name()]);
        // The newer builder is not everywhere.
        Outcome::of(build.arg(dir.path()).env("DOCKER_BUILDKIT", "0")).exited(0);
        image
    }

    /// Makes an image for one test of what is in a directory, for machines of this architecture. Importing
    /// is not enough: it takes this machine's, whatever it is told.
    #[track_caller]
    pub fn load(&self, root: &Path, architecture: &str) -> Image {
        let dir = Scratch::new();
        let (image, at) = (self.image_of(&dir), dir.path());
        let run = |program: &str, from: &Path, args: &[&str]| {
            Outcome::of(Command::new(program).args(args).current_dir(from)).exited(0).text()
        };
        let layer = at.join("layer.tar");
        run("tar", root, &["--create", "--file", layer.to_str().expect("a plain path"), "."]);
        let digest = run("sha256sum", at, &["layer.tar"]);
        let digest = digest.split(' ').next().unwrap_or_default();
        let config = format!(
            r#"{{"architecture":"{architecture}","os":"linux","config":{{"Env":["PATH=/bin"]}},
            "rootfs":{{"type":"layers","diff_ids":["sha256:{digest}"]}}}}"#
        );
        let manifest = format!(
            r#"[{{"Config":"config.json","RepoTags":["{}"],"Layers":["layer.tar"]}}]"#,
            image.name()
        );
        for (name, json) in [("config.json", config), ("manifest.json", manifest)] {
            fs::write(at.join(name), json).expect("the directory is writable");
        }
        let parts = ["config.json", "manifest.json", "layer.tar"];
        run("tar", at, &[&["--create", "--file", "image.tar"], &parts[..]].concat());
        Outcome::of(self.command(["load", "--input"]).arg(at.join("image.tar"))).exited(0);
        image
    }

    /// Named as uniquely as the directory it is made in.
    fn image_of(&self, dir: &Scratch) -> Image {
        let own = dir.path().file_name().expect("it has a name").to_string_lossy();
        Image { engine: self.clone(), name: format!("aifo-test-own-{own}:latest") }
    }
}

/// An image that is gone when the test is.
#[derive(Debug)]
pub struct Image {
    engine: Engine,
    name: String,
}

impl Image {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let remove = ["rmi", "--force", &self.name];
        let _ = self.engine.command(remove).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
