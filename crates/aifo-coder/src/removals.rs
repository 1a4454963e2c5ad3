//! Removals by `cleanup`, `cache clear` and `state clear`.

use aifo_terminal::{console, paint};
use aifo_types::escape_line;

/// The result for one thing.
pub(crate) enum Removal<E> {
    /// Found by a dry run.
    Found,
    Removed,
    Failed(E),
}

impl<E: std::error::Error + Send + Sync + 'static> Removal<E> {
    /// Removes a thing, except in a dry run.
    pub(crate) async fn run(dry_run: bool, remove: impl Future<Output = Result<(), E>>) -> Self {
        match dry_run {
            true => Removal::Found,
            false => remove.await.map_or_else(Removal::Failed, |()| Removal::Removed),
        }
    }

    /// Returns the text of a failure.
    pub(crate) fn error(&self) -> Option<String> {
        match self {
            Removal::Failed(error) => Some(error.to_string()),
            Removal::Found | Removal::Removed => None,
        }
    }

    /// Prints a line; for a failure on stderr. Returns whether the removal failed.
    pub(crate) fn print(self, name: &str) -> anyhow::Result<bool> {
        let name = escape_line(name);
        match self {
            Removal::Found => paint::print(&format!("would remove {name}\n"))?,
            Removal::Removed => paint::print(&format!("removed {name}\n"))?,
            Removal::Failed(error) => {
                console::fail(&anyhow::Error::from(error).context(format!("cannot remove {name}")));
                return Ok(true);
            }
        }
        Ok(false)
    }
}
