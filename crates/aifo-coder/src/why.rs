//! `aifo-coder why`: explains how a tool call would be handled, by the rules of shim and proxy, without
//! running it.

mod explanation;
mod facts;
mod interpreter;
mod judge;
mod path;
mod toolchains;
mod variables;
mod words;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aifo_config::{Config, UsageError};
use aifo_host::ELSEWHERE;
use aifo_launch::{BackendChoice, Fallback, NoDialogue, SidecarBackend};
use aifo_terminal::paint;
use aifo_types::{ToolName, env};
use anyhow::{Context, ensure};

use self::explanation::Explanation;
use self::judge::{CallExplainer, SidecarLocation};
use self::words::Detail;
use crate::cli::{Why, reject_option};
use crate::kube::{self, Cluster};

pub(crate) async fn why(flags: &Why) -> anyhow::Result<ExitCode> {
    let session = flags.session.as_deref();
    if let Some(cluster) = Cluster::given(&flags.cluster, session).await? {
        return kube::relay(&cluster, flags).await;
    }
    if session.is_some() {
        let hint = "omit --session: a session of this machine has the rules of its configuration";
        let error = format!("--session is for sessions in a cluster\nhint: {hint}; {ELSEWHERE}");
        return Err(UsageError(error).into());
    }
    if flags.toolchains {
        return toolchains::explain(flags).await;
    }
    let explanation = explain(flags).await?;
    if flags.json {
        paint::print_json(&explanation)?;
    } else {
        let detail = if flags.verbose { Detail::Variables } else { Detail::Summary };
        paint::print(&words::render(&explanation, detail))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn explain(flags: &Why) -> anyhow::Result<Explanation> {
    reject_option("why", flags.words.first().map(OsString::as_os_str))?;
    let (tool, args) = flags.words.split_first().context("no tool is named")?;
    let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.clone().into_vec()).collect();
    let config = aifo_config::load(
        flags.project.workspace.existing()?,
        &flags.smart.add_to(flags.project.flags()),
    )?;
    let workspace = directory(&flags.project.workspace.path)?;
    if let Some(agent) = &flags.agent {
        config.agents.named(agent)?;
    }
    let cwd = match &flags.cwd {
        Some(cwd) => directory(cwd).map_err(|error| {
            UsageError(format!("{error:#}\nhint: --cwd names an existing directory"))
        })?,
        None => std::env::current_dir().context("cannot determine the current directory")?,
    };
    let agent = flags.agent.clone().or_else(|| std::env::var(env::AGENT_NAME).ok());
    let smart = config.smart_for(agent.as_deref());
    let place = place(&config, &workspace).await?;
    let explainer = CallExplainer { config: &config, workspace: &workspace, smart, place };
    if tool.as_encoded_bytes().contains(&b'/') {
        return Ok(explainer.explain_path(Path::new(tool), &args, &cwd));
    }
    let tool = ToolName::parse(tool.as_encoded_bytes())
        .with_context(|| format!("'{}' is not a valid tool name", tool.display()))?;
    Ok(explainer.explain(&tool, &args, &cwd))
}

/// Returns where a session's sidecars would run. Queries an engine only if the backend is `auto`.
async fn place(config: &Config, workspace: &Path) -> anyhow::Result<SidecarLocation> {
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

/// Returns a directory's real path, as the shim sees it.
fn directory(path: &Path) -> anyhow::Result<PathBuf> {
    let real = path.canonicalize().with_context(|| format!("cannot open '{}'", path.display()))?;
    ensure!(real.is_dir(), "'{}' is not a directory", path.display());
    Ok(real)
}
