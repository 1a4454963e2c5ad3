//! Kinds whose tools run in the user's own containers.

use std::collections::BTreeMap;
use std::path::Path;

use aifo_engine::{Engine, EngineCommand};
use aifo_sidecar::{AttachBackend, AttachConfig, Backend};
use aifo_types::Kind;

/// Attached containers and their engine.
#[derive(Clone, Debug)]
pub struct Attachments {
    /// The engine that runs them.
    pub engine: Engine,
    /// The name of the container of each kind.
    pub containers: BTreeMap<Kind, String>,
}

impl Attachments {
    /// Returns a backend that attaches these kinds and passes the others to `others`.
    pub(crate) fn over(
        &self,
        others: Box<dyn Backend>,
        session: &str,
        directory: &Path,
        runner: &Path,
        workspace: &Path,
    ) -> Box<dyn Backend> {
        let config = self.config(session, directory, runner, workspace);
        Box::new(AttachBackend::new(config, others))
    }

    /// Returns the commands that attach them.
    pub(crate) fn plan(
        &self,
        session: &str,
        directory: &Path,
        runner: &Path,
        workspace: &Path,
    ) -> Vec<EngineCommand> {
        self.config(session, directory, runner, workspace).plan()
    }

    fn config(
        &self,
        session: &str,
        directory: &Path,
        runner: &Path,
        workspace: &Path,
    ) -> AttachConfig {
        AttachConfig {
            engine: self.engine.clone(),
            session: session.to_owned(),
            runner_program: runner.to_owned(),
            directory: directory.to_owned(),
            workspace: workspace.to_owned(),
            containers: self.containers.clone(),
        }
    }
}
