//! What a shim is told, read once.

use std::path::PathBuf;

use aifo_decide::{SmartToggles, Toggle};
use aifo_types::{Endpoint, ExecId, Token, env};

use crate::variables::Variables;

/// A shim's settings.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Where to go, or the sentence that says why nobody knows. What runs here needs no proxy.
    pub(crate) proxy: Result<ProxyAddress, String>,
    pub(crate) decide: aifo_decide::Settings,
    /// An id that somebody else chose for this call.
    pub(crate) exec_id: Option<String>,
    pub(crate) protocol: Protocol,
    /// No descriptor is passed: all bytes go by the connection.
    pub(crate) relays: bool,
    /// What the user has tools get of the environment, beyond the table.
    pub(crate) forwarded: String,
    pub(crate) verbose: bool,
    pub(crate) notify_async: bool,
    pub(crate) habits: Habits,
}

/// The version that a call begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Merged output and nothing else.
    Two,
    /// Everything, or version 2 where the proxy does not speak it.
    Three,
}

/// Where the proxy is, and what it wants to see.
#[derive(Clone, Debug)]
pub(crate) struct ProxyAddress {
    pub(crate) endpoint: Endpoint,
    pub(crate) token: Token,
}

/// Old habits that users may ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    pub(crate) exit_zero_on_sigint: bool,
    pub(crate) exit_zero_on_disconnect: bool,
    pub(crate) keep_parent_shell: bool,
}

impl Settings {
    /// Reads the variables of a call of `tool`.
    pub(crate) fn read(tool: &[u8]) -> Self {
        let variables = Variables::read(tool);
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
        if let Some(names) = variables.text(env::NOTIFY_TOOLS) {
            decide.notify_tools = names.split(',').map(|name| name.trim().to_owned()).collect();
        }
        decide.local_python = variables.text(env::LOCAL_PYTHON).map(PathBuf::from);
        Settings {
            proxy: proxy_address(&variables),
            decide,
            exec_id: variables.text(env::EXEC_ID),
            protocol: match variables.text(env::PROTO).as_deref().map(str::trim) {
                Some("2") => Protocol::Two,
                _ => Protocol::Three,
            },
            relays: variables.is_on(env::RELAY),
            forwarded: variables.text(env::FORWARDED).unwrap_or_default(),
            verbose: variables.is_on(env::VERBOSE),
            notify_async: variables.is_on(env::NOTIFY_ASYNC),
            habits: Habits {
                exit_zero_on_sigint: variables.is_on(env::EXIT_ZERO_ON_SIGINT),
                exit_zero_on_disconnect: variables.is_on(env::EXIT_ZERO_ON_DISCONNECT),
                keep_parent_shell: variables
                    .text(env::KILL_PARENT_SHELL)
                    .is_some_and(|value| !env::is_truthy(&value)),
            },
        }
    }

    /// The id for this call: the one that was chosen, or a fresh one.
    pub(crate) fn exec_id(&self) -> Result<ExecId, String> {
        match &self.exec_id {
            Some(id) => {
                ExecId::parse(id.as_bytes()).map_err(|why| format!("{}: {why}", env::EXEC_ID))
            }
            None => aifo_process::random_bits()
                .map(ExecId::from_random)
                .map_err(|error| format!("cannot make an exec id: {error}")),
        }
    }
}

/// Launchers and their users look for this very sentence.
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
