//! The container engines that build and hold images.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell;

/// A container engine's command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Docker,
    Podman,
}

impl Engine {
    /// In order of preference.
    pub(crate) const ALL: [Engine; 2] = [Engine::Docker, Engine::Podman];

    /// The program's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Docker => "docker",
            Engine::Podman => "podman",
        }
    }

    pub(crate) fn parse(name: &str) -> Result<Self> {
        let engine = Self::ALL.into_iter().find(|engine| engine.name() == name);
        engine.with_context(|| format!("unknown engine '{name}'\nhint: use docker or podman"))
    }

    /// Fails with a one-line reason if the engine is not installed or its daemon is not running.
    pub(crate) fn check_available(self) -> Result<()> {
        if shell::find_in_path(self.name()).is_none() {
            bail!("'{}' is not in PATH", self.name());
        }
        let probe: &[&str] = match self {
            // `docker info` hides the reason or prints it to stdout.
            Engine::Docker => &["version", "--format", "{{.Server.Version}}"],
            // Podman has no daemon; this checks storage and runtime.
            Engine::Podman => &["info"],
        };
        let output = self.command(probe.iter().copied()).stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("cannot run {}", self.name()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty());
            bail!("{}", last.unwrap_or("it gave no reason").trim());
        }
        Ok(())
    }

    /// The available engines.
    pub(crate) fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|engine| engine.check_available().is_ok()).collect()
    }

    pub(crate) fn first_available() -> Result<Self> {
        let first = Self::ALL.into_iter().find(|engine| engine.check_available().is_ok());
        first.context(
            "neither docker nor podman is available\nhint: run 'docker info' for the reason",
        )
    }

    pub(crate) fn command<'a>(self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(self.name());
        command.args(args);
        command
    }

    /// Returns whether it has this image, built from these inputs.
    pub(super) fn has(self, image: &str, inputs: &str) -> bool {
        let format = format!("{{{{index .Config.Labels \"{INPUTS}\"}}}}");
        let mut command = self.command(["image", "inspect", "--format", &format, image]);
        let output = command.stderr(Stdio::null()).output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == inputs)
    }

    /// Imports a root file system from a tar file as an image.
    pub(super) fn import(self, tar: &Path, image: &str, labels: &[String]) -> Result<()> {
        let mut command = self.command(["import"]);
        for label in labels {
            command.args(["--change", &format!("LABEL {label}")]);
        }
        shell::run(command.arg(tar).arg(image).stdout(Stdio::null()))
    }

    /// Returns the `build` command without its context and further options.
    pub(super) fn build(self, image: &str, base: &str, labels: &[String]) -> Command {
        let mut command = self.command(["build", "--tag", image]);
        command.args(["--build-arg", &format!("BASE={base}")]);
        if self == Engine::Podman {
            // The OCI format has no HEALTHCHECK.
            command.args(["--format", "docker"]);
        }
        for label in labels {
            command.args(["--label", label]);
        }
        for name in PASSED.iter().filter(|name| std::env::var_os(name).is_some()) {
            // Name only: the engine's program reads the value, so it is not printed.
            command.args(["--build-arg", name]);
        }
        command
    }
}

/// The label with the digest of an image's inputs.
pub(super) const INPUTS: &str = "dev.aifo.inputs";

/// Proxy variables. Both engines pass them without a Dockerfile's ARG and keep them out of the
/// image's history.
const PASSED: [&str; 6] =
    ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_names() {
        for engine in Engine::ALL {
            assert_eq!(Engine::parse(engine.name()).unwrap(), engine);
        }
        assert!(Engine::parse("").is_err());
    }

    #[test]
    fn a_build_can_be_pasted() {
        let labels = ["a=b".to_owned()];
        let line = shell::line(&Engine::Podman.build("x:1", "debian", &labels));
        assert!(line.starts_with(
            "podman build --tag x:1 --build-arg 'BASE=debian' --format docker --label 'a=b'"
        ));
    }
}
