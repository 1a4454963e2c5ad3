//! Runs the user's command when something waits and no browser shows the page
//! (`spec/web.md#attention`).

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::hub::{Attention, Hub};

/// Returns whether what waits is reported: no browser shows the page now or did so lately.
fn is_unseen(last_visible: Option<Instant>, now: Instant, unseen: Duration) -> bool {
    last_visible.is_none_or(|last| now.saturating_duration_since(last) >= unseen)
}

/// Reports until it is dropped.
pub(crate) async fn run(hub: Arc<Hub>, command: Vec<String>, unseen: Duration) {
    let Some((program, args)) = command.split_first() else { return };
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
            if let Err(error) = report(program, args, &event).await {
                tracing::warn!(%error, program, "on_attention failed");
            }
        }
    }
}

async fn report(program: &str, args: &[String], event: &Attention) -> std::io::Result<()> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let line = format!("{}\n", event.to_value());
    let run = async {
        if let Some(mut stdin) = child.stdin.take() {
            // A command that does not read it may still be right.
            let _ = stdin.write_all(line.as_bytes()).await;
        }
        child.wait().await
    };
    let status =
        timeout(COMMAND_TIMEOUT, run).await.map_err(|_| std::io::ErrorKind::TimedOut)??;
    match status.success() {
        true => Ok(()),
        false => Err(std::io::Error::other(status.to_string())),
    }
}

const INTERVAL: Duration = Duration::from_millis(500);
/// The longest run of the command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
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
