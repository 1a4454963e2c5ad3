//! The counts of a running session's requests to models, in its directory.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use aifo_host::SessionInfo;
use aifo_provider::{Tokens, Usage};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

#[derive(Serialize, Deserialize)]
struct UsageFile {
    requests: u64,
    sent_bytes: u64,
    received_bytes: u64,
    input_tokens: u64,
    output_tokens: u64,
    estimated_tokens: u64,
}

/// Name of the file.
const NAME: &str = "usage";

/// The interval at which changed counts are written.
const INTERVAL: Duration = Duration::from_secs(1);

/// Writes the counts whenever they have changed, until it is dropped.
pub(crate) async fn keep(counts: impl Fn() -> Usage, directory: &Path) {
    let mut ticks = tokio::time::interval(INTERVAL);
    let mut written = Usage::default();
    loop {
        ticks.tick().await;
        let usage = counts();
        if usage != written {
            match write(&usage, directory) {
                Ok(()) => written = usage,
                Err(error) => tracing::debug!("cannot write the counts of requests: {error}"),
            }
        }
    }
}

fn write(usage: &Usage, directory: &Path) -> io::Result<()> {
    let counts = UsageFile {
        requests: usage.requests,
        sent_bytes: usage.sent,
        received_bytes: usage.received,
        input_tokens: usage.tokens.input,
        output_tokens: usage.tokens.output,
        estimated_tokens: usage.estimated,
    };
    let mut new = NamedTempFile::new_in(directory)?;
    new.write_all(&serde_json::to_vec(&counts)?)?;
    new.persist(directory.join(NAME))?;
    Ok(())
}

/// Returns the counts of a running session's requests to models, at most a second old; `None` if there
/// was none with a key that the agent does not have.
pub fn model_usage(session: &SessionInfo) -> Option<Usage> {
    read(&session.directory)
}

/// Reads the counts; `None` if there was no request.
fn read(directory: &Path) -> Option<Usage> {
    let counts: UsageFile = serde_json::from_slice(&fs::read(directory.join(NAME)).ok()?).ok()?;
    Some(Usage {
        requests: counts.requests,
        sent: counts.sent_bytes,
        received: counts.received_bytes,
        tokens: Tokens { input: counts.input_tokens, output: counts.output_tokens },
        estimated: counts.estimated_tokens,
    })
}
