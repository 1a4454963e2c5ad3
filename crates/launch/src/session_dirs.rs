//! The directories of a session, made before anything is started.

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use aifo_agents::{OpenState, agent_container, link_tools};
use aifo_host::{
    CallLogRetention, CheckedWorkspace, DirectoryError, PREFIX, SessionDir, TMP_SUFFIX, Toolchain,
    VersionSource, check_shim, create_private_directory, new_id, record_session, runtime_directory,
    temporary_directory,
};
use aifo_sidecar::Caches;

use crate::backend::SidecarBackend;
use crate::config::SessionConfig;
use crate::error::LaunchError;
use crate::project_files::ProjectFiles;

/// Directories of a session, made before anything is started.
pub(crate) struct SessionDirs {
    pub(crate) id: String,
    pub(crate) workspace: PathBuf,
    pub(crate) directory: SessionDir,
    pub(crate) tmp: SessionDir,
    /// Real path of the temporary directory.
    pub(crate) shared_tmp: PathBuf,
    pub(crate) caches: Caches,
    /// Read while the sidecars start.
    pub(crate) project_files: JoinHandle<ProjectFiles>,
    /// The agent's own state, if it has one.
    pub(crate) state: Option<OpenState>,
}

impl SessionDirs {
    /// Checks the configuration, then creates directories and shims.
    pub(crate) fn create(config: &SessionConfig) -> Result<Self, LaunchError> {
        let workspace = CheckedWorkspace::new(&config.workspace)?.path().to_owned();
        check_shim(&workspace, config.shim.path())?;
        if let SidecarBackend::Local = config.backend {
            reject_pinned_versions(&config.toolchains)?;
        }
        if let Some(agent) = &config.agent {
            check_agent_container(config)?;
            agent_container::check_state(agent)?;
        }
        let id = match (&config.backend, &config.id) {
            (SidecarBackend::Pod(pod), _) => pod.id().to_owned(),
            (_, Some(id)) => id.clone(),
            (_, None) => new_id()?,
        };
        let directory = create_session_dir(&runtime_directory(), &id)?;
        let temporary = match config.backend {
            SidecarBackend::Local | SidecarBackend::Pod(_) => std::env::temp_dir(),
            SidecarBackend::Containers(_) => temporary_directory(),
        };
        let tmp = create_session_dir(&temporary, &format!("{id}{TMP_SUFFIX}"))?;
        let shims = directory.path().join("shims");
        create_private_directory(&shims)?;
        link_tools(&shims, config.shim.path(), config.shim_tools())?;
        let shared_tmp = match &config.backend {
            SidecarBackend::Pod(pod) => pod.tmp().canonicalize()?,
            _ => tmp.path().canonicalize()?,
        };
        if config.call_logs == CallLogRetention::Recent {
            record_session(&workspace);
        }
        let caches = config.caches.caches(&workspace);
        let of_project = workspace.clone();
        let project_files = thread::spawn(move || ProjectFiles::read(&of_project));
        let state = OpenState::of(config.agent.as_ref(), &workspace)?;
        Ok(SessionDirs { id, workspace, directory, tmp, shared_tmp, caches, project_files, state })
    }
}

impl SessionDirs {
    /// Returns the directory of the proxy socket.
    pub(crate) fn frontend(&self, backend: &SidecarBackend) -> PathBuf {
        match backend {
            SidecarBackend::Pod(pod) => pod.frontend(),
            _ => agent_container::frontend_dir(self.directory.path()),
        }
    }
}

/// Errors: there are no containers, or a container cannot reach the proxy.
fn check_agent_container(config: &SessionConfig) -> Result<(), LaunchError> {
    let shares_kernel = match &config.backend {
        SidecarBackend::Local => {
            return Err(LaunchError::AgentContainer(
                "tools run as processes of this machine\n\
                 hint: choose an engine with --backend docker or podman, or run the agent on this \
                 machine with --backend local",
            ));
        }
        SidecarBackend::Containers(containers) => containers.engine.facts().shares_host_kernel(),
        SidecarBackend::Pod(_) => true,
    };
    if config.listen.is_some() {
        return Err(LaunchError::AgentContainer(
            "it needs the session's own socket, but another address is configured\n\
             hint: leave out --listen and AIFO_TOOLEEXEC_USE_UNIX",
        ));
    }
    if !shares_kernel {
        return Err(LaunchError::AgentContainer(
            "the engine runs on another kernel, which unix sockets do not reach\n\
             hint: run aifo-coder where the engine is, or the agent on this machine: run -- AGENT",
        ));
    }
    Ok(())
}

/// Errors: the user set a version, but only the installed one can run.
fn reject_pinned_versions(toolchains: &[Toolchain]) -> Result<(), LaunchError> {
    let wanted = toolchains.iter().find_map(|Toolchain { kind, version }| {
        let version = version.as_ref().filter(|one| *one.source() == VersionSource::User)?;
        Some(LaunchError::PinnedVersion { kind: kind.clone(), version: version.clone() })
    });
    wanted.map_or(Ok(()), Err)
}

fn create_session_dir(parent: &Path, id: &str) -> Result<SessionDir, LaunchError> {
    let path = parent.join(format!("{PREFIX}{id}"));
    let made = SessionDir::create(path.clone());
    Ok(made.map_err(|source| DirectoryError::new(&path, source))?)
}
