//! `aifo-coder why`: explains how a tool call would be handled.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aifo_config::UsageError;
use aifo_config::why::{CalledTool, Detail, ExplainedCall, Explanation, explain_toolchains};
use aifo_host::ELSEWHERE;
use aifo_kube::client::{self, Cluster};
use aifo_policy::{AccessRequest, RequestedCommand};
use aifo_terminal::paint;
use aifo_types::{ToolName, env};
use anyhow::{Context, ensure};

use crate::cli::{Why, reject_option};
use crate::net::check::{Resolve, explain as explain_name};
use crate::policy;

pub(crate) async fn why(flags: &Why) -> anyhow::Result<ExitCode> {
    let session = flags.session.as_deref();
    if let Some(cluster) = Cluster::given(&flags.cluster.flags(), session).await? {
        return client::relay(&cluster, flags).await;
    }
    if session.is_some() {
        let hint = "omit --session: a session of this machine has the rules of its configuration";
        let error = format!("--session is for sessions in a cluster\nhint: {hint}; {ELSEWHERE}");
        return Err(UsageError(error).into());
    }
    if flags.toolchains {
        return toolchains(flags).await;
    }
    if let Some(name) = &flags.net {
        let workspace = aifo_config::real(flags.project.workspace.existing()?);
        let config = aifo_config::load(&workspace, &flags.project.flags())?;
        let of = (name.as_str(), flags.agent.as_deref());
        return explain_name(&config, &workspace, of, Resolve::Yes, flags.json);
    }
    if flags.kind.is_some() || !flags.path.is_empty() {
        return explain_request(flags);
    }
    let explanation = explain(flags).await?;
    if flags.json {
        paint::print_json(&explanation)?;
    } else {
        let detail = if flags.verbose { Detail::Variables } else { Detail::Summary };
        paint::print(&explanation.text(detail))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn toolchains(flags: &Why) -> anyhow::Result<ExitCode> {
    let given = flags.smart.add_to(flags.project.flags());
    let config = aifo_config::load(flags.project.workspace.existing()?, &given)?;
    let workspace = directory(&flags.project.workspace.path)?;
    let explanations = explain_toolchains(&config, &workspace).await?;
    if flags.json {
        paint::print_json(&explanations)?;
    } else {
        let texts: Vec<_> = explanations.iter().map(|one| one.text()).collect();
        paint::print(&texts.join("\n"))?;
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
    let cwd = cwd_of(flags)?;
    let agent = flags.agent.clone().or_else(|| std::env::var(env::AGENT_NAME).ok());
    let name;
    let tool = if tool.as_encoded_bytes().contains(&b'/') {
        CalledTool::Path(Path::new(tool))
    } else {
        name = ToolName::parse(tool.as_encoded_bytes())
            .with_context(|| format!("'{}' is not a valid tool name", tool.display()))?;
        CalledTool::Name(&name)
    };
    let call = ExplainedCall { tool, args: &args, cwd: &cwd, agent: agent.as_deref() };
    Ok(config.explain(&workspace, &call).await?)
}

/// Explains a request as an agent in the workspace makes it.
fn explain_request(flags: &Why) -> anyhow::Result<ExitCode> {
    let text = |word: &OsString| word.clone().into_string().ok().context("a command is text");
    let words = flags.words.iter().map(text).collect::<anyhow::Result<Vec<_>>>()?;
    let command = match &words[..] {
        [] => None,
        [text] => Some(RequestedCommand::Text(text.clone())),
        _ => Some(RequestedCommand::Words(words)),
    };
    let config = aifo_config::load(
        flags.project.workspace.existing()?,
        &flags.smart.add_to(flags.project.flags()),
    )?;
    let workspace = directory(&flags.project.workspace.path)?;
    let judge = config.judge(&workspace);
    let (kind, command) = (flags.kind.as_deref().unwrap_or_default(), command.as_ref());
    let paths: Vec<&str> = flags.path.iter().map(String::as_str).collect();
    let (names, cwd) = ([workspace], cwd_of(flags)?);
    let request = AccessRequest { kind, command, paths: &paths, workspace: &names, cwd: &cwd };
    policy::show(&judge.explain_request(&request), flags.json)?;
    Ok(ExitCode::SUCCESS)
}

fn cwd_of(flags: &Why) -> anyhow::Result<PathBuf> {
    match &flags.cwd {
        Some(cwd) => directory(cwd).map_err(|error| {
            UsageError(format!("{error:#}\nhint: --cwd names an existing directory")).into()
        }),
        None => std::env::current_dir().context("cannot determine the current directory"),
    }
}

/// Returns a directory's real path, as the shim sees it.
fn directory(path: &Path) -> anyhow::Result<PathBuf> {
    let real = path.canonicalize().with_context(|| format!("cannot open '{}'", path.display()))?;
    ensure!(real.is_dir(), "'{}' is not a directory", path.display());
    Ok(real)
}
