//! Lists the engine's commands of a session without running them.

use std::io;
use std::sync::Arc;

use aifo_agents::{INTERPRETERS_LABEL, StatePlace, agent_container, covered_interpreters};
use aifo_engine::EngineCommand;
use aifo_host::{CheckedWorkspace, PREFIX, TMP_SUFFIX, runtime_directory, temporary_directory};
use aifo_sidecar::StackServer;
use aifo_types::Kind;

use crate::backend::{SidecarBackend, check_workspace};
use crate::config::SessionConfig;
use crate::error::LaunchError;

/// Returns the commands that a session of this configuration would run, in order; empty if it needs
/// no engine. Errors: the workspace is refused, or cannot be mounted.
pub async fn plan(config: &SessionConfig) -> Result<Vec<EngineCommand>, LaunchError> {
    let workspace = CheckedWorkspace::new(&config.workspace)?.path().to_owned();
    let id = "SESSION";
    let session_dir = runtime_directory().join(format!("{PREFIX}{id}"));
    let tmp = temporary_directory().join(format!("{PREFIX}{id}{TMP_SUFFIX}"));
    let runner = config.shim.path();
    let attached = config.attached.as_ref();
    let commands = attached.map(|it| it.plan(id, &session_dir, runner, &workspace));
    let mut commands = commands.unwrap_or_default();
    let is_attached = |kind: &Kind| attached.is_some_and(|it| it.containers.contains_key(kind));
    let others: Vec<Kind> = config.initial_kinds().filter(|it| !is_attached(it)).cloned().collect();
    let SidecarBackend::Containers(containers) = &config.backend else { return Ok(commands) };
    if !others.is_empty() || config.agent.is_some() {
        check_workspace(&workspace)?;
        let runner = config.runner();
        let mut agent = None;
        if let Some(asked) = &config.agent {
            let own_home = StatePlace::of(asked, &workspace).map(|state| state.home());
            let own_home = own_home.as_deref();
            let label = containers.engine.image_label(&asked.image, INTERPRETERS_LABEL).await;
            let interpreters = covered_interpreters(label.as_deref());
            let uid = containers.uid();
            agent =
                Some(agent_container::container(asked, own_home, interpreters, &session_dir, uid));
        }
        let linked = containers.linked(&workspace).unwrap_or_default();
        let sockets = containers.covered_sockets(&workspace, linked.as_ref());
        let mounted = (workspace.as_path(), linked, sockets, config.caches.caches(&workspace));
        let network = containers.named_network(&config.kinds())?;
        let stacks = network.map(|network| Arc::new(network) as Arc<dyn StackServer>);
        let options = (agent, stacks);
        let backend = containers.backend(id, &session_dir, runner, mounted, &tmp, options);
        let plan = backend.plan(&others);
        commands.extend(plan.map_err(|error| LaunchError::System(io::Error::other(error)))?);
    }
    Ok(commands)
}
