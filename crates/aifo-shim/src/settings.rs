//! What the environment tells a shim, read once.

use aifo_types::{Endpoint, ExecId, Token, env};

/// A shim's settings.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) endpoint: Endpoint,
    pub(crate) token: Token,
    /// An id that somebody else chose for this call.
    pub(crate) exec_id: Option<ExecId>,
    pub(crate) verbose: bool,
    pub(crate) habits: Habits,
}

/// Old habits that users may ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    pub(crate) exit_zero_on_sigint: bool,
    pub(crate) exit_zero_on_disconnect: bool,
    pub(crate) keep_parent_shell: bool,
}

impl Settings {
    /// Reads the environment. Errors are sentences for the user; nothing can be run then.
    pub(crate) fn from_environment() -> Result<Self, String> {
        let (Some(url), Some(token)) = (text(env::URL), token()?) else {
            return Err(NOT_CONFIGURED.to_owned());
        };
        let endpoint = url.parse().map_err(|error| format!("{}: {error}", env::URL))?;
        let token =
            Token::parse(&token).ok_or_else(|| format!("{} does not hold a token", env::TOKEN))?;
        let exec_id = match text(env::EXEC_ID) {
            Some(id) => Some(
                ExecId::parse(id.as_bytes()).map_err(|why| format!("{}: {why}", env::EXEC_ID))?,
            ),
            None => None,
        };
        Ok(Settings {
            endpoint,
            token,
            exec_id,
            verbose: is_on(env::VERBOSE),
            habits: Habits {
                exit_zero_on_sigint: is_on(env::EXIT_ZERO_ON_SIGINT),
                exit_zero_on_disconnect: is_on(env::EXIT_ZERO_ON_DISCONNECT),
                keep_parent_shell: text(env::KILL_PARENT_SHELL)
                    .is_some_and(|value| !env::is_truthy(&value)),
            },
        })
    }
}

/// Launchers and their users look for this very sentence.
const NOT_CONFIGURED: &str = "proxy not configured. Please launch agent with --toolchain.";

fn token() -> Result<Option<String>, String> {
    if let Some(token) = text(env::TOKEN) {
        return Ok(Some(token));
    }
    let Some(file) = text(env::TOKEN_FILE) else { return Ok(None) };
    match std::fs::read_to_string(&file) {
        Ok(token) => Ok(Some(token.trim_end().to_owned())),
        Err(error) => Err(format!("cannot read the token from '{file}': {error}")),
    }
}

fn is_on(name: &str) -> bool {
    text(name).is_some_and(|value| env::is_truthy(&value))
}

/// A variable that is set, not empty, and text.
fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
