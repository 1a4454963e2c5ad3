//! Waits for an optional deadline.

use tokio::time::{Instant, sleep_until};

/// Waits until the deadline; for ever without one. Cancel-safe.
pub async fn deadline_reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
