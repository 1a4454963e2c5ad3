//! Explains how a tool call would be handled, by the rules of shim and proxy, without running it
//! (`spec/cli.md#why`).

mod explanation;
mod facts;
mod interpreter;
mod judge;
mod path;
mod toolchains;
mod variables;
mod words;

use std::ffi::OsStr;
use std::path::Path;

use aifo_launch::{BackendChoice, Fallback, NoDialogue, SidecarBackend};
use aifo_types::{InvalidToolName, ToolName, env};

pub use self::explanation::Explanation;
use self::judge::{CallExplainer, SidecarLocation};
pub use self::toolchains::{ToolchainExplanation, explain_toolchains};
pub use self::words::Detail;
use crate::session_error::SessionError;
use crate::table::Config;

/// A call that is explained.
#[derive(Clone, Copy, Debug)]
pub struct ExplainedCall<'a> {
    /// The tool name, or the path of a program.
    pub tool: &'a OsStr,
    /// Its arguments.
    pub args: &'a [Vec<u8>],
    /// The real path of its directory.
    pub cwd: &'a Path,
    /// The name of the calling agent.
    pub agent: Option<&'a str>,
}

/// A call cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// No tool can have this name.
    #[error("'{name}' is not a valid tool name")]
    Tool {
        /// The name.
        name: String,
        /// The mistake in it.
        source: InvalidToolName,
    },
    /// The place of tools is not known.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl Config {
    /// Explains a call in a session with this configuration and workspace, a real path. Queries an engine only
    /// if the backend is `auto`.
    pub async fn explain(
        &self,
        workspace: &Path,
        call: &ExplainedCall<'_>,
    ) -> Result<Explanation, WhyError> {
        let ExplainedCall { tool, args, cwd, agent } = *call;
        let place = place(self, workspace).await?;
        let smart = self.smart_for(agent);
        let explainer = CallExplainer { config: self, workspace, smart, place };
        if tool.as_encoded_bytes().contains(&b'/') {
            return Ok(explainer.explain_path(Path::new(tool), args, cwd));
        }
        let tool = ToolName::parse(tool.as_encoded_bytes())
            .map_err(|source| WhyError::Tool { name: tool.display().to_string(), source })?;
        Ok(explainer.explain(&tool, args, cwd))
    }
}

/// Returns where a session's sidecars would run. Queries an engine only if the backend is `auto`.
async fn place(config: &Config, workspace: &Path) -> Result<SidecarLocation, SessionError> {
    let programs = config.trusted_programs(workspace);
    Ok(match config.backend.value {
        _ if std::env::var_os(env::POD_SESSION).is_some() => SidecarLocation::Containers,
        BackendChoice::Local => SidecarLocation::Machine,
        BackendChoice::Engine(_) | BackendChoice::Pod | BackendChoice::Kubernetes => {
            SidecarLocation::Containers
        }
        BackendChoice::Auto => {
            let fallback = Fallback::Local;
            match config.choose_backend(workspace, fallback, &programs, &mut NoDialogue).await?.0 {
                SidecarBackend::Local => SidecarLocation::Machine,
                SidecarBackend::Containers(_) | SidecarBackend::Pod(_) => {
                    SidecarLocation::Containers
                }
            }
        }
    })
}
