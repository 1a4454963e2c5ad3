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

use std::path::Path;

use aifo_launch::{BackendChoice, Fallback, NoDialogue, SidecarBackend};
use aifo_types::{ToolName, env};

pub use self::explanation::Explanation;
use self::judge::{CallExplainer, SidecarLocation};
pub use self::toolchains::{ToolchainExplanation, explain_toolchains};
pub use self::words::Detail;
use crate::session_error::SessionError;
use crate::table::Config;

/// A tool by its name, or a program by its path.
#[derive(Clone, Copy, Debug)]
pub enum CalledTool<'a> {
    /// A tool, which has a shim or not.
    Name(&'a ToolName),
    /// A program.
    Path(&'a Path),
}

/// A call that is explained.
#[derive(Clone, Copy, Debug)]
pub struct ExplainedCall<'a> {
    /// The tool or program.
    pub tool: CalledTool<'a>,
    /// Its arguments.
    pub args: &'a [Vec<u8>],
    /// The real path of its directory.
    pub cwd: &'a Path,
    /// The name of the calling agent.
    pub agent: Option<&'a str>,
}

impl Config {
    /// Explains a call in a session with this configuration and workspace, a real path. Queries an engine only
    /// if the backend is `auto`.
    pub async fn explain(
        &self,
        workspace: &Path,
        call: &ExplainedCall<'_>,
    ) -> Result<Explanation, SessionError> {
        let ExplainedCall { tool, args, cwd, agent } = *call;
        let place = place(self, workspace).await?;
        let smart = self.smart_for(agent);
        let explainer = CallExplainer { config: self, workspace, smart, place };
        Ok(match tool {
            CalledTool::Name(tool) => explainer.explain(tool, args, cwd),
            CalledTool::Path(path) => explainer.explain_path(path, args, cwd),
        })
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
            let chosen =
                config.choose_backend(workspace, fallback, &programs, &mut NoDialogue).await?;
            match chosen.0.backend {
                SidecarBackend::Local => SidecarLocation::Machine,
                SidecarBackend::Containers(_) | SidecarBackend::Pod(_) => {
                    SidecarLocation::Containers
                }
            }
        }
    })
}
