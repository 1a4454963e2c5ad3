//! Runs the user's program when something waits and no browser shows the page
//! (`spec/web.md#attention`).

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use crate::hub::{Attention, Hub};

/// Runs a program of the user with a line of input. Dropping the future ends the program.
#[derive(Clone)]
pub struct AttentionProgram(Arc<Run>);

type Run =
    dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<ExitStatus>> + Send>> + Send + Sync;

impl AttentionProgram {
    /// Runs the program by this function.
    pub fn new<F>(run: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<ExitStatus>> + Send + 'static,
    {
        AttentionProgram(Arc::new(move |input| Box::pin(run(input))))
    }
}

impl fmt::Debug for AttentionProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttentionProgram").finish_non_exhaustive()
    }
}

/// Returns whether what waits is reported: no browser shows the page now or did so lately.
fn is_unseen(last_visible: Option<Instant>, now: Instant, unseen: Duration) -> bool {
    last_visible.is_none_or(|last| now.saturating_duration_since(last) >= unseen)
}

/// Reports until it is dropped.
pub(crate) async fn run(hub: Arc<Hub>, program: Option<AttentionProgram>, unseen: Duration) {
    let Some(program) = program else { return };
    loop {
        sleep(INTERVAL).await;
        let events = {
            let mut inner = hub.lock();
            let last = inner.last_visible();
            if is_unseen(last, Instant::now(), unseen) {
                inner.take_attention()
            } else {
                Vec::new()
            }
        };
        for event in events {
            if let Err(error) = report(&program, &event).await {
                tracing::warn!(%error, "on_attention failed");
            }
        }
    }
}

async fn report(program: &AttentionProgram, event: &Attention) -> io::Result<()> {
    let run = (program.0)(format!("{}\n", event.to_value()));
    let status = timeout(PROGRAM_TIMEOUT, run).await.map_err(|_| io::ErrorKind::TimedOut)??;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(status.to_string())),
    }
}

const INTERVAL: Duration = Duration::from_millis(500);
/// The longest run of the program.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_until_no_browser_has_shown_the_page_for_a_while() {
        let unseen = Duration::from_secs(30);
        let now = Instant::now() + unseen * 2;
        assert!(is_unseen(None, now, unseen));
        assert!(is_unseen(Some(now - unseen), now, unseen));
        assert!(!is_unseen(Some(now - unseen / 2), now, unseen));
        assert!(!is_unseen(Some(now), now, unseen));
    }
}
