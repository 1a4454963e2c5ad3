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
use tokio::task::spawn_blocking;

use crate::examined_update::ExaminedUpdate;

/// Asks about each push, as about a call.
#[derive(Clone)]
pub(crate) struct PushQuestions {
    approvals: CallApprovals,
    workspace: PathBuf,
    /// The ids that refs got by pushes of this session.
    written: Arc<Mutex<HashMap<(PushedTo, String), Oid>>>,
}

/// A question about a push.
struct PushQuestion {
    /// An answer for the session covers pushes with the same words, so those that are asked each time have the ids.
    words: Vec<String>,
    effects: Vec<String>,
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

    /// Examines a push. Blocks.
    fn question(&self, to: &PushedTo, push: &Push) -> PushQuestion {
        let mut words = vec![PUSH.to_owned(), format!("{}/{}", to.host, to.repository.as_str())];
        let mut effects = Vec::new();
        for update in push.updates() {
            let RefUpdate { old, new, name } = update;
            let (is_covered, effect) = self.effect(to, update);
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
        PushQuestion { words, effects }
    }

    /// Returns whether an answer for the session covers an update, and its effect in words.
    fn effect(&self, to: &PushedTo, update: &RefUpdate) -> (bool, String) {
        let RefUpdate { old, new, name } = update;
        let (from, at) = (old.short(), new.short());
        let examined = ExaminedUpdate::of(update, &self.workspace);
        let ci = examined.ci_text();
        match update.change() {
            RefChange::Create => {
                let ci = ci.map(|files| format!(", with files of CI: {files}"));
                (true, format!("creates {name} at {at}{}", ci.unwrap_or_default()))
            }
            RefChange::Update => {
                let way = match examined.commits {
                    _ if self.is_own(to, update) => Some(", which this session wrote,".to_owned()),
                    Some(1) => Some(" forward by 1 commit".to_owned()),
                    Some(count) => Some(format!(" forward by {count} commits")),
                    None => None,
                };
                let is_covered = way.is_some() && ci.is_none();
                let way = way.unwrap_or_else(|| " by FORCE, as far as is known,".to_owned());
                let ci = ci.map(|files| format!(", and CHANGES files of CI: {files}"));
                let ci = ci.unwrap_or_default();
                (is_covered, format!("moves {name}{way} from {from} to {at}{ci}"))
            }
            RefChange::Delete => (false, format!("DELETES {name}, at {from}")),
        }
    }

    async fn ask(self, to: PushedTo, push: Push) -> Result<(), String> {
        if !self.approvals.has_judge() {
            return Err(NOBODY.to_owned());
        }
        let (own, question_of) = (self.clone(), (to.clone(), push.clone()));
        let examined = spawn_blocking(move || own.question(&question_of.0, &question_of.1)).await;
        let PushQuestion { words, effects } = examined.map_err(|error| error.to_string())?;
        let argv = words.into_iter().map(String::into_bytes).collect();
        let directory = self.workspace.as_os_str().as_bytes().to_vec();
        let call = self.approvals.asked(argv, directory);
        let id = call.files.as_ref().map(|files| files.directory);
        let id = id.ok_or("the workspace was replaced")?;
        let judgement = Judgement {
            verdict: Verdict::Ask,
            rule: "push (default)".to_owned(),
            reason: effects.join("; "),
            no_network: None,
        };
        let (line, wait) = self.approvals.ask((call, id), Vec::new(), &judgement);
        tracing::info!("a push waits for approval: {line}: {}", judgement.reason);
        let outcome = wait.await.map_err(|refusal| reason(&refusal));
        let verdict = if outcome.is_ok() { "allowed" } else { "refused" };
        tracing::info!("a push was {verdict}: {line}");
        outcome?;
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for RefUpdate { new, name, .. } in push.updates() {
            if written.len() < MAX_WRITTEN {
                written.insert((to.clone(), name.clone()), new.clone());
            }
        }
        Ok(())
    }
}

impl PushGate for PushQuestions {
    fn judge(&self, to: PushedTo, push: Push) -> GateFuture {
        Box::pin(self.clone().ask(to, push))
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
