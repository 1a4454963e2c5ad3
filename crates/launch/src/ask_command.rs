//! A program of the user that answers questions about calls (`spec/questions.md#program`).

use std::collections::BTreeMap;
use std::io;
use std::process::Stdio;

use aifo_policy::{Answer, AnswerEffect};
use aifo_proxy::CallApprovals;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::task::{AbortHandle, JoinSet};

use crate::control_socket::listed;

/// Programs at a time; further questions wait.
const MAX_RUNNING: usize = 4;
/// Bytes of a program's output.
const MAX_OUTPUT: u64 = 256;

/// Runs the program for each question, until the future is dropped. A program is killed when its question
/// ends.
pub async fn run_ask_command(approvals: CallApprovals, session: String, command: Vec<String>) {
    let mut changes = approvals.subscribe();
    let mut programs = JoinSet::new();
    // The questions of the session that a program was started for.
    let mut started: BTreeMap<String, AbortHandle> = BTreeMap::new();
    loop {
        changes.borrow_and_update();
        let open = approvals.open();
        started.retain(|id, program| {
            let is_open = open.iter().any(|open| open.question.id == *id);
            if !is_open {
                program.abort();
            }
            is_open
        });
        for question in open.iter().filter(|open| !open.left) {
            let id = &question.question.id;
            if programs.len() >= MAX_RUNNING || started.contains_key(id) {
                continue;
            }
            let line = json!({"session": session, "question": listed(&approvals, question)});
            let answered = ask(approvals.clone(), id.clone(), command.clone(), line.to_string());
            started.insert(id.clone(), programs.spawn(answered));
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            Some(_) = programs.join_next() => {}
        }
    }
}

async fn ask(approvals: CallApprovals, id: String, command: Vec<String>, question: String) {
    match answer_of(&command, &question).await {
        Ok(Some(answer)) => match approvals.answer(&id, answer.id(), "command") {
            Ok(AnswerEffect::Decided | AnswerEffect::Repeated) => {}
            Err(error) => tracing::debug!(%error, "the answer of ask.command was late"),
        },
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "ask.command failed"),
    }
}

/// Returns the program's answer; `None` if it gives none.
async fn answer_of(command: &[String], question: &str) -> io::Result<Option<Answer>> {
    let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(program)
        .args(args)
        // Programs load code from their directory, and the agent may write to the workspace.
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read it may still answer.
        let _ = stdin.write_all(format!("{question}\n").as_bytes()).await;
    }
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_OUTPUT).read_to_end(&mut output).await?;
    }
    if !child.wait().await?.success() {
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
