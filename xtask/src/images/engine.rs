//! The container engines that build and hold images.

use std::process::{Command, Stdio};

use aifo_engine::{Flavor, Program, images::Host};
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

    /// Returns the programs with which `aifo-engine` builds.
    pub(crate) fn host(self) -> Result<Host> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = |name| {
            let file = shell::find_in_path(name)?;
            Some(Program { file, path: path.clone() })
        };
        let engine =
            program(self.name()).with_context(|| format!("'{}' is not in PATH", self.name()))?;
        let flavor = match self {
            Engine::Docker => Flavor::Docker,
            Engine::Podman => Flavor::Podman,
        };
        Ok(Host { flavor, engine, mmdebstrap: program("mmdebstrap") })
    }
}

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
}
