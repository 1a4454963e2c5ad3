//! Questions about pushes to a forge (`spec/forges.md#questions`).

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use aifo_forge::{Oid, Push, RefChange, RefUpdate};
use aifo_policy::{Judgement, PUSH, Verdict};
use aifo_provider::{GateFuture, PushGate, PushedTo};
use aifo_proxy::CallApprovals;
use aifo_types::Refusal;

/// Asks about each push, as about a call.
pub(crate) struct PushQuestions {
    approvals: CallApprovals,
    workspace: PathBuf,
    /// The ids that refs got by pushes of this session.
    written: Arc<Mutex<HashMap<(PushedTo, String), Oid>>>,
}

impl PushQuestions {
    pub(crate) fn new(approvals: CallApprovals, workspace: &Path) -> Self {
        PushQuestions { approvals, workspace: workspace.to_owned(), written: Arc::default() }
    }

    /// Returns whether a ref has the id that this session gave it. The forge rejects an update whose old id is another.
    fn is_own(&self, to: &PushedTo, update: &RefUpdate) -> bool {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.get(&(to.clone(), update.name.clone())) == Some(&update.old)
    }

    /// Returns the words of the question, and the effects of the updates. An answer for the session covers pushes with the same words,
    /// so those that are asked each time have the ids.
    fn words(&self, to: &PushedTo, push: &Push) -> (Vec<String>, Vec<String>) {
        let mut words = vec![PUSH.to_owned(), format!("{}/{}", to.host, to.repository.as_str())];
        let mut effects = Vec::new();
        for update in push.updates() {
            let RefUpdate { old, new, name } = update;
            let (from, at) = (old.short(), new.short());
            let (is_covered, effect) = match update.change() {
                RefChange::Create => (true, format!("creates {name} at {at}")),
                RefChange::Update if self.is_own(to, update) => {
                    (true, format!("moves {name}, which this session wrote, to {at}"))
                }
                RefChange::Update => {
                    (false, format!("moves {name} from {from} to {at}, maybe by force"))
                }
                RefChange::Delete => (false, format!("DELETES {name}, at {from}")),
            };
            words.push(match is_covered && !to.is_public {
                true => name.clone(),
                false => format!("{}..{}:{name}", old.as_str(), new.as_str()),
            });
            effects.push(effect);
        }
        for option in push.options() {
            words.push(format!("--push-option={option}"));
            effects.push(format!("has the option '{option}'"));
        }
        if to.is_public {
            effects.push("the repository is PUBLIC".to_owned());
        }
        (words, effects)
    }
}

impl PushGate for PushQuestions {
    fn judge(&self, to: PushedTo, push: Push) -> GateFuture {
        if !self.approvals.has_judge() {
            return Box::pin(async { Err(NOBODY.to_owned()) });
        }
        let (words, effects) = self.words(&to, &push);
        let argv = words.into_iter().map(String::into_bytes).collect();
        let directory = self.workspace.as_os_str().as_bytes().to_vec();
        let call = self.approvals.asked(argv, directory);
        let Some(id) = call.files.as_ref().map(|files| files.directory) else {
            return Box::pin(async { Err("the workspace was replaced".to_owned()) });
        };
        let judgement = Judgement {
            verdict: Verdict::Ask,
            rule: "push (default)".to_owned(),
            reason: effects.join("; "),
            no_network: None,
        };
        let (line, wait) = self.approvals.ask((call, id), Vec::new(), &judgement);
        tracing::info!("a push waits for approval: {line}: {}", judgement.reason);
        let written = Arc::clone(&self.written);
        Box::pin(async move {
            let outcome = wait.await.map_err(|refusal| reason(&refusal));
            let verdict = if outcome.is_ok() { "allowed" } else { "refused" };
            tracing::info!("a push was {verdict}: {line}");
            outcome?;
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            for RefUpdate { new, name, .. } in push.updates() {
                if written.len() < MAX_WRITTEN {
                    written.insert((to.clone(), name.clone()), new.clone());
                }
            }
            Ok(())
        })
    }
}

/// Refs that are remembered.
const MAX_WRITTEN: usize = 4096;

const NOBODY: &str =
    "a push needs an answer of the user, and this session has no rules, so it asks nothing";

/// Returns the text of a refusal in one line.
fn reason(refusal: &Refusal) -> String {
    refusal.body().trim_end().replace('\n', "; ")
}
