//! Resolves paths before the editor gets them.

use std::fmt;
use std::sync::Arc;

use crate::message::RpcError;

/// Resolves a host path in an agent request to the editor, or refuses it
/// (`spec/acp-relay.md#who-serves-what`). The default changes nothing.
#[derive(Clone)]
pub struct PathResolver(Arc<Resolve>);

type Resolve = dyn Fn(&str) -> Result<String, RpcError> + Send + Sync;

impl PathResolver {
    /// Returns a resolver that calls `resolve` with a path within the roots.
    pub fn new(resolve: impl Fn(&str) -> Result<String, RpcError> + Send + Sync + 'static) -> Self {
        PathResolver(Arc::new(resolve))
    }

    pub(super) fn resolve(&self, path: &str) -> Result<String, RpcError> {
        (self.0)(path)
    }
}

impl Default for PathResolver {
    fn default() -> Self {
        PathResolver::new(|path| Ok(path.to_owned()))
    }
}

impl fmt::Debug for PathResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PathResolver(..)")
    }
}
