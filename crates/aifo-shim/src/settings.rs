//! The settings of one call, read once from the environment (`spec/shim.md#settings`).

use std::path::{Path, PathBuf};

use aifo_decide::{SmartToggles, Toggle};
use aifo_process::kernel;
use aifo_types::{Endpoint, ExecId, Token, env};

use crate::variables::Variables;

#[derive(Debug)]
pub(crate) struct Settings {
    /// The proxy address, or the error to print if a call needs it.
    pub(crate) proxy: Result<ProxyAddress, String>,
    pub(crate) decide: aifo_decide::Settings,
    /// The exec id that the caller chose.
    pub(crate) exec_id: Option<String>,
    pub(crate) protocol: Protocol,
    /// Pass no descriptor; relay all bytes.
    pub(crate) relay_only: bool,
    /// Variables to forward beyond the table.
    pub(crate) extra_variables: String,
    pub(crate) verbose: bool,
    /// True to return unread keys to the terminal. False for an agent in a container, whose program
    /// would decide which keys the user's shell reads.
    pub(crate) returns_keys: bool,
    /// True to show on a terminal that a call waits for its sidecar.
    pub(crate) shows_progress: bool,
    pub(crate) notify_async: bool,
    pub(crate) compat: CompatFlags,
}

/// The protocol version that a call starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Merged output only.
    V2,
    /// Version 3, with version 2 as fallback if the proxy does not support it.
    V3,
}

#[derive(Clone, Debug)]
pub(crate) struct ProxyAddress {
    pub(crate) endpoint: Endpoint,
    pub(crate) token: Token,
}

/// Opt-in behaviour of former shims (`spec/shim.md#compatibility-flags`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompatFlags {
    pub(crate) exit_zero_on_sigint: bool,
    pub(crate) exit_zero_on_disconnect: bool,
    pub(crate) keep_parent_shell: bool,
}

impl Settings {
    /// Reads the settings of a call, by the path of a program in the workspace if there is one.
    pub(crate) fn read(tool: &[u8], program: Option<&Path>) -> Self {
        Settings::from_variables(tool, &Variables::read(tool, program))
    }

    /// Reads the settings of a call of `tool` from its variables.
    pub(crate) fn from_variables(tool: &[u8], variables: &Variables) -> Self {
        let toggle = |name| Toggle::from(variables.is_on(name));
        let smart = SmartToggles::from_toggles(
            toggle(env::SMART),
            toggle(env::SMART_NODE),
            toggle(env::SMART_PYTHON),
        );
        let mut decide = aifo_decide::Settings { smart, ..aifo_decide::Settings::default() };
        if let Some(workspace) = variables.text(env::WORKSPACE) {
            decide.workspace = PathBuf::from(workspace);
        }
        decide.workspace_alias = variables.text(env::WORKSPACE_ALIAS).map(PathBuf::from);
        if let Some(names) = variables.text(env::NOTIFY_TOOLS) {
            decide.notify_tools = names.split(',').map(|name| name.trim().to_owned()).collect();
        }
        decide.local_python = variables.text(env::LOCAL_PYTHON).map(PathBuf::from);
        Settings {
            proxy: proxy_address(variables),
            decide,
            exec_id: variables.text(env::EXEC_ID),
            protocol: match variables.text(env::PROTO).as_deref().map(str::trim) {
                Some("2") => Protocol::V2,
                _ => Protocol::V3,
            },
            relay_only: variables.is_on(env::RELAY),
            extra_variables: variables.text(env::FORWARDED).unwrap_or_default(),
            verbose: variables.is_on(env::VERBOSE),
            returns_keys: tool != AGENT_PROGRAM,
            shows_progress: variables
                .text(env::PROGRESS)
                .is_none_or(|value| env::is_truthy(&value)),
            notify_async: variables.is_on(env::NOTIFY_ASYNC),
            compat: CompatFlags {
                exit_zero_on_sigint: variables.is_on(env::EXIT_ZERO_ON_SIGINT),
                exit_zero_on_disconnect: variables.is_on(env::EXIT_ZERO_ON_DISCONNECT),
                keep_parent_shell: variables
                    .text(env::KILL_PARENT_SHELL)
                    .is_some_and(|value| !env::is_truthy(&value)),
            },
        }
    }

    /// Returns the chosen exec id, or a random one.
    pub(crate) fn exec_id(&self) -> Result<ExecId, String> {
        match &self.exec_id {
            Some(id) => {
                ExecId::parse(id.as_bytes()).map_err(|why| format!("{}: {why}", env::EXEC_ID))
            }
            None => kernel::random_bits()
                .map(ExecId::from_random)
                .map_err(|errno| format!("cannot make an exec id: {}", errno.desc())),
        }
    }
}

/// The call that executes an agent in its container.
const AGENT_PROGRAM: &[u8] = b"aifo-agent";

/// A fixed text: launchers and users search for it.
const NOT_CONFIGURED: &str = "proxy not configured. Please launch agent with --toolchain.";

fn proxy_address(variables: &Variables) -> Result<ProxyAddress, String> {
    let (Some(url), Some(token)) = (variables.text(env::URL), token(variables)?) else {
        return Err(NOT_CONFIGURED.to_owned());
    };
    let endpoint = url.parse().map_err(|error| format!("{}: {error}", env::URL))?;
    let token =
        Token::parse(&token).ok_or_else(|| format!("{} does not hold a token", env::TOKEN))?;
    Ok(ProxyAddress { endpoint, token })
}

fn token(variables: &Variables) -> Result<Option<String>, String> {
    if let Some(token) = variables.text(env::TOKEN) {
        return Ok(Some(token));
    }
    let Some(file) = variables.text(env::TOKEN_FILE) else { return Ok(None) };
    match std::fs::read_to_string(&file) {
        Ok(token) => Ok(Some(token.trim_end().to_owned())),
        Err(error) => Err(format!("cannot read the token from '{file}': {error}")),
    }
}
