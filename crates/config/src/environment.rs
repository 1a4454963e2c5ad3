//! Variables that are more than the text of a value.

use aifo_types::{Endpoint, env};

use crate::choices::SmartMode;
use crate::error::ConfigError;
use crate::key::{VariableLookup, variable};
use crate::source::Sourced;

/// Returns the proxy address: a unix socket, or any port of a host.
pub(crate) fn listen(
    lookup: VariableLookup<'_>,
) -> Result<Option<Sourced<Option<Endpoint>>>, ConfigError> {
    let Some(Sourced { value, source }) = variable(lookup, env::USE_UNIX)? else { return Ok(None) };
    if env::is_truthy(&value) {
        return Ok(Some(Sourced::new(None, source)));
    }
    let host = variable(lookup, env::BIND_HOST)?.map(|sourced| sourced.value);
    let host = host.unwrap_or_else(|| "127.0.0.1".to_owned());
    let endpoint = Endpoint::Tcp { host, port: 0, prefix: String::new() };
    Ok(Some(Sourced::new(Some(endpoint), source)))
}

/// Returns the switch for smart decisions.
pub(crate) fn smart(lookup: VariableLookup<'_>) -> Result<Option<Sourced<SmartMode>>, ConfigError> {
    let mode = |on| if on { SmartMode::On } else { SmartMode::Off };
    let main = variable(lookup, env::SMART)?;
    Ok(main.map(|main| Sourced::new(mode(env::is_truthy(&main.value)), main.source)))
}

/// Returns the switch of a runtime as a shim reads it: it only counts if the main one is on.
pub(crate) fn smart_runtime(
    lookup: VariableLookup<'_>,
    name: &'static str,
) -> Result<Option<Sourced<Option<bool>>>, ConfigError> {
    let Some(main) = variable(lookup, env::SMART)? else { return Ok(None) };
    let (is_on, source) = match variable(lookup, name)? {
        Some(Sourced { value, source }) => (env::is_truthy(&value), source),
        None => (false, main.source),
    };
    Ok(Some(Sourced::new(Some(env::is_truthy(&main.value) && is_on), source)))
}
