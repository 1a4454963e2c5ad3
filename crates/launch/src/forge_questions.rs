//! Questions about pushes and other changes at a forge (`spec/forges.md#questions`).

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use aifo_forge::{Oid, Push, RefChange, RefUpdate};
use aifo_policy::{FORGE, JudgedUpdate, Judgement, PUSH, PushChange, Verdict};
use aifo_provider::{ForgeChange, ForgeGate, GateFuture, PushedTo};
use aifo_proxy::CallApprovals;
use aifo_types::{Refusal, escape_line};
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use crate::examined_update::ExaminedUpdate;

/// Asks about each push, as about a call.
#[derive(Clone)]
pub(crate) struct ForgeQuestions {
    approvals: CallApprovals,
    workspace: PathBuf,
    /// The ids that refs got by pushes of this session.
    written: Arc<Mutex<HashMap<(PushedTo, String), Oid>>>,
}

/// A push, examined.
struct ExaminedPush {
    /// An answer for the session covers pushes with the same words, so those that are asked each time have the ids.
    words: Vec<String>,
    effects: Vec<String>,
    /// The strictest on its updates.
    judgement: Judgement,
}

impl ForgeQuestions {
    pub(crate) fn new(approvals: CallApprovals, workspace: &Path) -> Self {
        ForgeQuestions { approvals, workspace: workspace.to_owned(), written: Arc::default() }
    }

    /// Returns whether a ref has the id that this session gave it. The forge rejects an update whose old id is another.
    fn is_own(&self, to: &PushedTo, update: &RefUpdate) -> bool {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.get(&(to.clone(), update.name.clone())) == Some(&update.old)
    }

    /// Examines a push. Blocks.
    fn examine(&self, to: &PushedTo, push: &Push, known: &HashSet<Oid>) -> ExaminedPush {
        let mut words = vec![PUSH.to_owned(), format!("{}/{}", to.host, to.repository.as_str())];
        let (mut effects, mut judgement) = (Vec::new(), Judgement::default());
        let is_asked = to.is_public || !push.options().is_empty();
        for update in push.updates() {
            let RefUpdate { old, new, name } = update;
            let examined = ExaminedUpdate::of(update, known, &self.workspace);
            let (change, effect) = self.effect(to, update, &examined);
            let is_covered = matches!(change, PushChange::Create | PushChange::Update);
            let changes_ci = !examined.ci_files.is_empty();
            words.push(match is_covered && !changes_ci && !to.is_public {
                true => name.clone(),
                false => format!("{}..{}:{name}", old.as_str(), new.as_str()),
            });
            effects.push(effect);
            let repository = to.repository.as_str();
            let mut of_rules =
                self.approvals.judge_push(&JudgedUpdate { repository, name, change });
            if of_rules.verdict == Verdict::Allow && (is_asked || changes_ci) {
                of_rules = Judgement { verdict: Verdict::Ask, ..Judgement::default() };
            }
            judgement = judgement.or_stricter(of_rules);
        }
        for option in push.options() {
            words.push(format!("--push-option={option}"));
            effects.push(format!("has the option '{option}'"));
        }
        if to.is_public {
            effects.push("the repository is PUBLIC".to_owned());
        }
        ExaminedPush { words, effects, judgement }
    }

    /// Returns the change that an update is, and the same in words.
    fn effect(
        &self,
        to: &PushedTo,
        update: &RefUpdate,
        examined: &ExaminedUpdate,
    ) -> (PushChange, String) {
        let RefUpdate { old, new, name } = update;
        let (from, at) = (old.short(), new.short());
        let commits = examined.commits.map(|count| match count {
            1 => "1 commit".to_owned(),
            count => format!("{count} commits"),
        });
        let (change, effect) = match update.change() {
            RefChange::Create => {
                let commits = commits.map(|count| format!(" with {count}")).unwrap_or_default();
                (PushChange::Create, format!("creates {name}{commits} at {at}"))
            }
            RefChange::Delete => (PushChange::Delete, format!("DELETES {name}, at {from}")),
            RefChange::Update => {
                let (change, way) = match commits {
                    Some(count) => (PushChange::Update, format!(" forward by {count}")),
                    None if self.is_own(to, update) => {
                        (PushChange::Update, ", which this session wrote,".to_owned())
                    }
                    None => (PushChange::Force, " by FORCE, as far as is known,".to_owned()),
                };
                (change, format!("moves {name}{way} from {from} to {at}"))
            }
        };
        let ci = examined.ci_text();
        let ci = ci.map(|files| format!(", and CHANGES files of CI: {files}")).unwrap_or_default();
        let files = examined.files_text();
        let files = files.map(|files| format!(", changing {files}")).unwrap_or_default();
        (change, effect + &files + &ci)
    }

    async fn decide(
        self,
        to: PushedTo,
        push: Push,
        known: Arc<HashSet<Oid>>,
    ) -> Result<(), String> {
        let (own, of_push) = (self.clone(), (to.clone(), push.clone()));
        let examined = spawn_blocking(move || own.examine(&of_push.0, &of_push.1, &known)).await;
        let ExaminedPush { words, effects, judgement } =
            examined.map_err(|error| error.to_string())?;
        let effects = effects.join("; ");
        match judgement.verdict {
            Verdict::Allow => {
                tracing::info!("a push was allowed by '{}': {effects}", judgement.rule);
            }
            Verdict::Deny => {
                let Judgement { rule, reason, .. } = judgement;
                tracing::info!("a push was denied by '{rule}': {effects}");
                let refusal = Refusal::DeniedByRule { rule, reason };
                return Err(reason_of(&refusal));
            }
            Verdict::Ask => self.ask(words, &effects, judgement).await?,
        }
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for RefUpdate { new, name, .. } in push.updates() {
            if written.len() < MAX_WRITTEN {
                written.insert((to.clone(), name.clone()), new.clone());
            }
        }
        Ok(())
    }

    async fn ask(
        &self,
        words: Vec<String>,
        effects: &str,
        judgement: Judgement,
    ) -> Result<(), String> {
        if !self.approvals.has_judge() {
            return Err(NOBODY.to_owned());
        }
        let argv = words.into_iter().map(String::into_bytes).collect();
        let directory = self.workspace.as_os_str().as_bytes().to_vec();
        let call = self.approvals.asked(argv, directory);
        let id = call.files.as_ref().map(|files| files.directory);
        let id = id.ok_or("the workspace was replaced")?;
        let rule = match judgement.rule {
            rule if rule.is_empty() => "push (default)".to_owned(),
            rule => rule,
        };
        let reason = match judgement.reason.as_str() {
            "" => effects.to_owned(),
            because => format!("{because}: {effects}"),
        };
        let judgement = Judgement { rule, reason, ..judgement };
        let (line, wait) = self.approvals.ask((call, id), Vec::new(), &judgement);
        tracing::info!("{line} waits for approval: {}", judgement.reason);
        let outcome = wait.await.map_err(|refusal| reason_of(&refusal));
        let verdict = if outcome.is_ok() { "allowed" } else { "refused" };
        tracing::info!("{line} was {verdict}");
        outcome
    }
}

impl ForgeGate for ForgeQuestions {
    fn judge_push(&self, to: PushedTo, push: Push, known: Arc<HashSet<Oid>>) -> GateFuture {
        Box::pin(self.clone().decide(to, push, known))
    }

    fn judge_change(&self, to: PushedTo, change: ForgeChange) -> GateFuture {
        let own = self.clone();
        Box::pin(async move {
            let (words, effects) = asked_change(&to, &change);
            let rule = "forge (default)".to_owned();
            let asked = Judgement { verdict: Verdict::Ask, rule, ..Judgement::default() };
            own.ask(words, &effects, asked).await
        })
    }
}

/// Returns the words of a change, of which an answer for the session covers the same ones, and its effects in a line.
fn asked_change(to: &PushedTo, change: &ForgeChange) -> (Vec<String>, String) {
    let mut words = vec![
        FORGE.to_owned(),
        format!("{}/{}", to.host, to.repository.as_str()),
        change.effect.clone(),
    ];
    if change.is_each || to.is_public {
        let hash = Sha256::digest(change.content.as_bytes());
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        words.push(format!("sha256:{hash}"));
    }
    let content: String = change.content.chars().take(MAX_CONTENT).collect();
    let cut = if content.len() < change.content.len() { " .." } else { "" };
    let public = if to.is_public { "; the repository is PUBLIC" } else { "" };
    (words, format!("{}: {}{cut}{public}", change.effect, escape_line(&content)))
}

/// Characters that are shown.
const MAX_CONTENT: usize = 600;

/// Refs that are remembered.
const MAX_WRITTEN: usize = 4096;

const NOBODY: &str =
    "this needs an answer of the user, and this session has no rules, so it asks nothing";

/// Returns the text of a refusal in one line.
fn reason_of(refusal: &Refusal) -> String {
    refusal.body().trim_end().replace('\n', "; ")
}
