//! The user's rights.

use std::sync::Arc;

use aifo_types::Finding;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::probe::{Probe, failure};
use crate::{Right, Role};

/// Questions about rights that run at the same time.
const PARALLEL: usize = 6;

/// Compares the user's rights with those of the role that `aifo-coder kube rbac` prints.
pub(super) async fn rights(probe: &Probe<'_>) -> Vec<Finding> {
    let limit = Arc::new(Semaphore::new(PARALLEL));
    let mut questions = JoinSet::new();
    for (index, right) in Role::rights().enumerate() {
        let (kubectl, limit) = (probe.kubectl.clone(), Arc::clone(&limit));
        questions.spawn(async move {
            let _permit = limit.acquire().await;
            (index, right, kubectl.may(right.verb, right.group, right.resource).await)
        });
    }
    let mut answers = questions.join_all().await;
    answers.sort_by_key(|(index, ..)| *index);
    let count = answers.len();
    let mut missing = Vec::new();
    for (_, right, answer) in answers {
        match answer {
            Ok(true) => {}
            Ok(false) => missing.push(right),
            Err(error) => return vec![failure("rights", &error)],
        }
    }
    vec![judge_rights(count, &missing, &probe.kube_context.namespace)]
}

fn judge_rights(count: usize, missing: &[Right], namespace: &str) -> Finding {
    let list = |rights: &[&Right]| {
        let words = rights.iter().map(|right| format!("{} {}", right.verb, right.resource));
        words.collect::<Vec<_>>().join(", ")
    };
    let fix = format!(
        "an administrator applies: aifo-coder kube rbac --namespace {namespace} --user USER | kubectl \
         apply -f -"
    );
    let (needed, useful): (Vec<_>, Vec<_>) = missing.iter().partition(|right| is_needed(right));
    match (needed.is_empty(), useful.is_empty()) {
        (true, true) => Finding::ok("rights", format!("all {count} that sessions need")),
        (true, false) => {
            let text = format!("missing, for reports and cleanup: {}", list(&useful));
            Finding::warn("rights", text, fix)
        }
        (false, _) => {
            let all: Vec<_> = missing.iter().collect();
            Finding::fail("rights", format!("missing: {}", list(&all)), fix)
        }
    }
}

/// Returns whether sessions cannot run without a right.
fn is_needed(right: &Right) -> bool {
    !matches!((right.verb, right.resource), (_, "events" | "pods/log") | ("patch", _))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_types::FindingStatus as Status;

    #[test]
    fn missing_rights_are_named() {
        let all: Vec<Right> = Role::rights().collect();
        let judge = |missing: &[Right]| judge_rights(all.len(), missing, "team");
        assert_eq!(judge(&[]), Finding::ok("rights", "all 18 that sessions need"));
        let of = |resource: &str| -> Vec<Right> {
            all.iter().filter(|right| right.resource == resource).copied().collect()
        };
        let warned = judge(&of("events"));
        assert_eq!(warned.status, Status::Warn);
        let failed = judge(&of("pods/exec"));
        assert_eq!(failed.status, Status::Fail);
        assert_eq!(failed.text, "missing: create pods/exec, get pods/exec");
        assert!(failed.fix.unwrap().contains("kube rbac --namespace team --user USER"));
    }
}
