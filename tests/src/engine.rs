//! The container engine of a test run.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Outcome, Scratch, SessionSetup, fresh_id};

/// The engine in `AIFO_TEST_ENGINE`: `docker` or `podman`.
#[derive(Clone, Debug)]
pub struct Engine {
    program: String,
}

/// An agent image, which has git.
pub const WITH_GIT: &str = "aifo-agent-base:latest";

/// PATH of the engines.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Engine {
    /// The engine of this run. Without the variable, reports the test as skipped and returns
    /// `None`.
    pub fn of_run(test: &str) -> Option<Self> {
        match std::env::var("AIFO_TEST_ENGINE") {
            Ok(program) if !program.is_empty() => Some(Engine { program }),
            _ => {
                // A closed stderr does not matter.
                let _ = writeln!(std::io::stderr(), "skipped: {test}: AIFO_TEST_ENGINE is not set");
                None
            }
        }
    }

    /// The engine of this run, if it has `WITH_GIT`. Reports the test as skipped if not.
    pub fn with_git(test: &str) -> Option<Self> {
        let engine = Self::of_run(test)?;
        let inspect = ["image", "inspect", "--format", "there", WITH_GIT];
        if Outcome::of(&mut engine.command(inspect)).text().trim_end() == "there" {
            return Some(engine);
        }
        // A closed stderr does not matter.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: no {WITH_GIT}");
        None
    }

    /// `aifo-coder` in this setup with this engine.
    pub fn coder(&self, setup: &SessionSetup, args: &[&str]) -> Command {
        let mut coder = setup.coder();
        coder.envs(self.settings()).env("PATH", PATH).env("AIFO_BACKEND", &self.program);
        coder.args(args);
        coder
    }

    /// The variable that replaces the machine's configuration.
    pub(crate) fn settings(&self) -> Option<(String, String)> {
        let name = "CONTAINERS_CONF";
        Some((name.to_owned(), std::env::var(name).ok()?))
    }

    /// The engine name, its program and its backend.
    pub fn name(&self) -> &str {
        &self.program
    }

    /// Returns whether it is podman, which differs in some outputs.
    pub fn is_podman(&self) -> bool {
        self.program == "podman"
    }

    /// A command of the engine with empty stdin.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs a command, which must succeed; returns its output.
    #[track_caller]
    pub fn text<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        Outcome::of(&mut self.command(args)).exited(0).text()
    }

    /// A field of a container, by a Go template.
    #[track_caller]
    pub fn inspect(&self, container: &str, template: &str) -> String {
        self.text(["inspect", "--format", template, container]).trim_end().to_owned()
    }

    /// The host's pid of a container's first process.
    #[track_caller]
    pub fn pid(&self, container: &str) -> i32 {
        let pid = self.inspect(container, "{{.State.Pid}}");
        pid.parse().unwrap_or_else(|_| panic!("'{container}' has the pid '{pid}'"))
    }

    /// The names of all containers and networks whose label names this directory.
    #[track_caller]
    pub fn all_of(&self, dir: &Path) -> Vec<String> {
        let lines =
            |args: &[&str]| -> Vec<String> { self.text(args).lines().map(str::to_owned).collect() };
        let inspected = r#"{{index .Labels "dev.aifo.folder"}}"#;
        let label = if self.is_podman() { inspected } else { r#"{{.Label "dev.aifo.folder"}}"# };
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
            // It may be ending.
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
        self.build_in(dir.path())
    }

    /// Builds an image for one test from a directory with a Dockerfile.
    #[track_caller]
    pub fn build_in(&self, dir: &Path) -> Image {
        let image = self.new_image();
        let mut build = self.command(["build", "--quiet", "--tag", image.name()]);
        // BuildKit is not installed everywhere.
        Outcome::of(build.arg(dir).env("DOCKER_BUILDKIT", "0")).exited(0);
        image
    }

    /// Creates an image of a directory for this architecture. `import` would always use the
    /// machine's.
    #[track_caller]
    pub fn load(&self, root: &Path, architecture: &str) -> Image {
        let dir = Scratch::new();
        let (image, at) = (self.new_image(), dir.path());
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

    /// An image with a unique name.
    /// A name for an image of one test.
    pub fn new_image(&self) -> Image {
        Image { engine: self.clone(), name: format!("aifo-test-own-{}:latest", fresh_id()) }
    }
}

/// An image that is removed on drop.
#[derive(Debug)]
pub struct Image {
    engine: Engine,
    name: String,
}

impl Image {
    /// The image name.
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
