//! Reports of calls that wait for a user (`spec/questions.md#waiting`).

use std::collections::BTreeSet;
use std::convert::Infallible;

use aifo_policy::redact;
use aifo_proxy::CallApprovals;
use aifo_types::quote_word;

/// Logs each call that waits, with the command that answers, until the future is dropped. `show` is called with true
/// when calls begin to wait, and with false when none waits any more.
pub async fn report_waiting_calls(
    approvals: CallApprovals,
    command: String,
    mut show: impl FnMut(bool),
) -> Infallible {
    let mut changes = approvals.subscribe();
    let mut known = BTreeSet::new();
    let mut shown = false;
    loop {
        changes.borrow_and_update();
        let open = approvals.open();
        known.retain(|id| open.iter().any(|open| open.id == *id));
        for open in open.iter().filter(|open| !open.left) {
            let Some(call) = approvals.call(&open.id) else { continue };
            if known.insert(open.id.clone()) {
                let (tool, args) = call.argv.split_at(call.argv.len().min(1));
                let tool = tool.iter().map(|word| quote_word(word)).collect::<String>();
                let args = redact(args);
                tracing::warn!("waiting for approval: {tool} {args}; answer with: {command}");
            }
        }
        let waits = open.iter().any(|open| !open.left);
        if waits != shown {
            show(waits);
            shown = waits;
        }
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}
