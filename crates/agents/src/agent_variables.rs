//! Variables that the user passes to the agent as `AIFO_ENV_NAME`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use aifo_types::env;

/// Prefix of variables that the user passes to the agent.
pub const AGENT_VARIABLE_PREFIX: &str = "AIFO_ENV_";

/// Returns the names that the user passes to the agent, without the prefix.
pub fn agent_variables() -> Vec<String> {
    let variables = std::env::vars_os();
    let names =
        variables.filter_map(|(name, _)| Some(agent_variable_name(&name)?.to_str()?.into()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Returns `NAME` of a variable `AIFO_ENV_NAME`; `None` if the launcher sets that name itself.
pub fn agent_variable_name(variable: &OsStr) -> Option<&OsStr> {
    let name = variable.as_bytes().strip_prefix(AGENT_VARIABLE_PREFIX.as_bytes())?;
    let kept = [&b""[..], b"HOME", b"USER", b"SHELL", b"PATH", b"TERM", b"PWD"].contains(&name);
    let reserved = name.starts_with(env::PREFIX.as_bytes()) || name.starts_with(b"LD_");
    (!kept && !reserved).then(|| OsStr::from_bytes(name))
}
