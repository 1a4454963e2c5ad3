//! From flags and environment to a session's configuration.

use std::time::Duration;

use aifo_launch::{SessionConfig, ShimBinary, Verbosity, detect_kinds};
use aifo_types::{Endpoint, Kind, env};
use anyhow::{Context, bail};

use crate::cli::{Backend, Session};

/// What the user asked for. Flags win over the environment.
pub(crate) fn session_config(flags: &Session) -> anyhow::Result<SessionConfig> {
    let Backend::Local = flags.backend;
    let mut config = SessionConfig::new(&flags.workspace, ShimBinary::find()?);
    config.kinds = kinds(flags);
    config.listen = match &flags.listen {
        Some(endpoint) => Some(endpoint.clone()),
        None => listen_from_environment()?,
    };
    let max_secs = match flags.max_secs {
        Some(seconds) => Some(seconds),
        None => number(env::MAX_SECS)?.or(number(env::TIMEOUT_SECS)?),
    };
    config.max_runtime = max_secs.filter(|seconds| *seconds > 0).map(Duration::from_secs);
    if let Some(max) = number(env::MAX_CONNECTIONS)? {
        config.limits.max_executions = usize::try_from(max)?;
    }
    if flags.is_verbose() {
        config.verbosity = Verbosity::Verbose;
    }
    Ok(config)
}

fn kinds(flags: &Session) -> Vec<Kind> {
    if flags.toolchains.is_empty() {
        let found = detect_kinds(&flags.workspace);
        if found.is_empty() {
            tracing::warn!(
                "no toolchain fits the files of '{}', so every tool will be refused; \
                 name one with --toolchain",
                flags.workspace.display()
            );
        }
        return found;
    }
    let mut kinds: Vec<Kind> = Vec::new();
    for kind in &flags.toolchains {
        if !kinds.contains(kind) {
            kinds.push(kind.clone());
        }
    }
    kinds
}

/// A TCP address if the environment asks for one; else the default, a socket of the session's.
fn listen_from_environment() -> anyhow::Result<Option<Endpoint>> {
    let Some(use_unix) = text(env::USE_UNIX)? else { return Ok(None) };
    if env::is_truthy(&use_unix) {
        return Ok(None);
    }
    let host = text(env::BIND_HOST)?.unwrap_or_else(|| "127.0.0.1".to_owned());
    Ok(Some(Endpoint::Tcp { host, port: 0, prefix: String::new() }))
}

fn number(name: &str) -> anyhow::Result<Option<u64>> {
    let Some(text) = text(name)? else { return Ok(None) };
    let number = text.parse().with_context(|| format!("{name}='{text}' is not a whole number"))?;
    Ok(Some(number))
}

/// A variable that is set and not empty.
fn text(name: &str) -> anyhow::Result<Option<String>> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => bail!("{name} is not text"),
    }
}
