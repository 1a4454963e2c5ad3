//! A program of the user that answers questions about calls (`spec/questions.md#program`).

use std::collections::BTreeMap;
use std::io;

use aifo_host::{UserProgram, control_socket::listed};
use aifo_policy::{Answer, AnswerEffect};
use aifo_proxy::CallApprovals;
use serde_json::json;
use tokio::task::{AbortHandle, JoinSet};

/// Programs at a time; further questions wait.
const MAX_RUNNING: usize = 4;
/// Bytes of a program's output.
const MAX_OUTPUT: usize = 256;

/// Runs the program for each question, until the future is dropped. A program is killed when its question
/// ends.
pub async fn run_ask_command(approvals: CallApprovals, session: String, program: UserProgram) {
    let mut changes = approvals.subscribe();
    let mut programs = JoinSet::new();
    // The questions of the session that a program was started for.
    let mut started: BTreeMap<String, AbortHandle> = BTreeMap::new();
    loop {
        changes.borrow_and_update();
        let open = approvals.open();
        started.retain(|id, program| {
            let is_open = open.iter().any(|open| open.id == *id);
            if !is_open {
                program.abort();
            }
            is_open
        });
        for question in open.iter().filter(|open| !open.left) {
            let id = &question.id;
            if programs.len() >= MAX_RUNNING || started.contains_key(id) {
                continue;
            }
            let line = json!({"session": session, "question": listed(&approvals, question)});
            let answered = ask(approvals.clone(), id.clone(), program.clone(), line.to_string());
            started.insert(id.clone(), programs.spawn(answered));
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            Some(_) = programs.join_next() => {}
        }
    }
}

async fn ask(approvals: CallApprovals, id: String, program: UserProgram, question: String) {
    match answer_of(&program, &question).await {
        Ok(Some(answer)) => match approvals.answer(&id, answer.id(), "command") {
            Ok(AnswerEffect::Decided | AnswerEffect::Repeated) => {}
            Err(error) => tracing::debug!(%error, "the answer of ask.command was late"),
        },
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "ask.command failed"),
    }
}

/// Returns the program's answer; `None` if it gives none.
async fn answer_of(program: &UserProgram, question: &str) -> io::Result<Option<Answer>> {
    let (status, output) = program.run(&format!("{question}\n"), MAX_OUTPUT).await?;
    if !status.success() {
        return Ok(None);
    }
    let output = String::from_utf8_lossy(&output);
    match output.trim() {
        "" => Ok(None),
        // It shows no difference of the user's file.
        word => match Answer::parse(word).filter(|answer| *answer != Answer::Always) {
            Some(answer) => Ok(Some(answer)),
            None => Err(io::Error::other(format!("'{word}' is not an answer"))),
        },
    }
}
