//! `aifo-coder approve`: answers questions about calls of a running session (`spec/questions.md#approve`).

mod keys;
pub(crate) use std::collections::VecDeque;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use aifo_config::{CallRule, UsageError, UserFileError, add_call_rule};
use aifo_host::{ControlClient, ControlLine, ListedQuestion, SessionInfo};
use aifo_kube::client::{self, Cluster};
use aifo_policy::Answer;
use aifo_terminal::{console, paint};
use aifo_types::{escape_line, quote_word};
use anyhow::bail;
use tokio::sync::mpsc;

use crate::approve::keys::{Key, Keys};
use crate::cli::Approve;
use crate::sessions;

pub(crate) async fn approve(flags: &Approve) -> anyhow::Result<ExitCode> {
    if let Some(cluster) =
        Cluster::selected(&flags.of.cluster.flags(), flags.of.session.as_deref()).await?
    {
        return client::relay(&cluster, flags).await;
    }
    let session = sessions::asking(flags.of.session.as_deref()).await?;
    if let [id, option] = flags.answer.as_slice() {
        return answer_one(&session, id, option).await;
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let questions = ControlClient::connect(&session)?.list().await?;
        questions.iter().try_for_each(|question| paint::print(&shown(question)))?;
        if questions.is_empty() {
            console::say(NONE);
        }
        return Ok(ExitCode::SUCCESS);
    }
    interactive(&session, flags.watch).await
}

const NONE: &str = "no calls wait for approval";
/// Keys are ignored for this time after a question is shown.
const KEY_DELAY: Duration = Duration::from_millis(350);

async fn answer_one(session: &SessionInfo, id: &str, option: &str) -> anyhow::Result<ExitCode> {
    let Some(answer) = Answer::parse(option) else {
        let known = Answer::options().into_iter().map(|option| option.id).collect::<Vec<_>>();
        let known = known.join(", ");
        return Err(UsageError(format!("unknown answer '{option}'\nhint: one of {known}")).into());
    };
    let mut client = ControlClient::connect(session)?;
    let questions = client.list().await?;
    let question = questions.into_iter().find(|question| question.id == id);
    if let (Answer::Always, Some(question)) = (answer, &question) {
        match add_call_rule(&question.argv) {
            Ok(difference) => paint::print(&difference)?,
            Err(error) => {
                client.answer(id, Answer::Once.id()).await?;
                console::say(format_args!("answered {id} with 'once'"));
                return Err(error.into());
            }
        }
    }
    client.answer(id, option).await?;
    console::say(format_args!("answered {id} with '{option}'"));
    Ok(ExitCode::SUCCESS)
}

/// Shows open questions one after the other and reads a key for each.
async fn interactive(session: &SessionInfo, keeps_watching: bool) -> anyhow::Result<ExitCode> {
    let mut watcher = ControlClient::connect(session)?;
    watcher.watch().await?;
    // The watcher gets at least these questions.
    let is_idle = ControlClient::connect(session)?.list().await?.is_empty();
    if is_idle {
        console::say(NONE);
        if !keeps_watching {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let (sender, mut lines) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let line = watcher.next().await;
            let is_end = line.is_err();
            if sender.send(line).is_err() || is_end {
                return;
            }
        }
    });
    let mut keys = Keys::read()?;
    let mut open: VecDeque<ListedQuestion> = VecDeque::new();
    let mut shown_id = String::new();
    let mut shown_at = Instant::now();
    loop {
        if let Some(first) = first_of(&open).filter(|first| first.id != shown_id) {
            shown_id.clone_from(&first.id);
            shown_at = Instant::now();
            paint::print(&format!("{}{KEYS}\n", shown(first)))?;
        }
        tokio::select! {
            line = lines.recv() => match line {
                Some(Ok(ControlLine::Question(question))) => {
                    match open.iter_mut().find(|known| known.id == question.id) {
                        Some(known) => {
                            let is_shown = known.id == shown_id;
                            if is_shown && question.left && !known.left {
                                paint::print(&format!("{}: {LEFT}\n", known.id))?;
                            }
                            *known = question;
                        }
                        None => open.push_back(question),
                    }
                }
                Some(Ok(ControlLine::Ended(ended))) => {
                    open.retain(|question| question.id != ended.id);
                    let ending = match &ended.option {
                        Some(option) => format!("answered with '{option}' by {}", ended.by),
                        None => ended.by.clone(),
                    };
                    paint::print(&format!("{}: {ending}\n", ended.id))?;
                    if open.is_empty() && !keeps_watching {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    keys.restore();
                    bail!(error);
                }
                None => return Ok(ExitCode::SUCCESS),
            },
            key = keys.next() => match key {
                Key::Quit => return Ok(ExitCode::SUCCESS),
                // It was meant for the question before.
                Key::Answer(_) if shown_at.elapsed() < KEY_DELAY => {}
                Key::Answer(answer) => {
                    if let Some(question) = first_of(&open).filter(|open| open.id == shown_id) {
                        give(session, question, answer, &mut keys).await?;
                    }
                }
                Key::Other => {}
            },
        }
    }
}

/// Returns the question to show: one whose client waits, if there is any.
fn first_of(open: &VecDeque<ListedQuestion>) -> Option<&ListedQuestion> {
    open.iter().find(|question| !question.left).or_else(|| open.front())
}

fn chain(error: UserFileError) -> String {
    console::error_chain(&anyhow::Error::from(error))
}

/// Answers a question. A rejected answer is shown, and the question ends with another's answer.
async fn give(
    session: &SessionInfo,
    question: &ListedQuestion,
    mut answer: Answer,
    keys: &mut Keys,
) -> anyhow::Result<()> {
    if answer == Answer::Always {
        let rule = match CallRule::new(&question.argv) {
            Ok(rule) => rule,
            Err(error) => return Ok(paint::print(&format!("{}\n", chain(error)))?),
        };
        paint::print(&format!("{}write this rule? y once more to confirm\n", rule.difference()))?;
        // `y` is the key of an answer that allows one call.
        if !matches!(keys.next().await, Key::Answer(Answer::Once)) {
            return Ok(paint::print("not written, not answered\n")?);
        }
        // A call that has ended meanwhile gets no rule.
        let open = ControlClient::connect(session)?.list().await?;
        if !open.iter().any(|open| open.id == question.id) {
            return Ok(paint::print("not written: the question has ended\n")?);
        }
        match rule.write() {
            Ok(()) => {}
            Err(error @ UserFileError::Changed(_)) => {
                return Ok(paint::print(&format!("{error}\n"))?);
            }
            Err(error) => {
                paint::print(&format!("{}\nthe call is allowed once\n", chain(error)))?;
                answer = Answer::Once;
            }
        }
    }
    let answered = ControlClient::connect(session)?.answer(&question.id, answer.id()).await;
    match answered {
        Ok(()) => Ok(()),
        Err(error) => Ok(paint::print(&format!("{error}\n"))?),
    }
}

const KEYS: &str = "y once   s session   a always   n deny   e deny and end the turn   q quit";

const LEFT: &str = "its client has left; an answer covers a repetition";

/// Returns a question as lines.
fn shown(question: &ListedQuestion) -> String {
    let words: Vec<_> = question.argv.iter().map(|word| quote_word(word.as_bytes())).collect();
    let left = if question.left { format!("\n  {LEFT}") } else { String::new() };
    let ListedQuestion { id, directory, reason, .. } = question;
    let (directory, reason) = (quote_word(directory.as_bytes()), escape_line(reason));
    let command = words.join(" ");
    // The beginning may have left the screen.
    let long = match command.len() > LONG {
        true => {
            let begin: String = command.chars().take(LONG / 4).collect();
            format!("\n  {} bytes, which begin with: {begin}", command.len())
        }
        false => String::new(),
    };
    format!("{id}  {command}\n  in {directory}\n  {reason}{long}{left}\n")
}

/// Bytes of a command whose beginning is shown again below it.
const LONG: usize = 800;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_shown_exactly_and_in_its_own_lines() {
        let argv = ["git", "push", "a b", "\u{202e}x\n", "\u{1b}[2J"].map(str::to_owned).to_vec();
        let question = ListedQuestion {
            id: "q1".to_owned(),
            argv,
            directory: "/w".to_owned(),
            reason: "rule 'git push'".to_owned(),
            left: false,
        };
        let expected = "q1  git push \"a b\" \"\\xe2\\x80\\xaex\\n\" \"\\x1b[2J\"\n  in /w\n  rule 'git push'\n";
        assert_eq!(shown(&question), expected);
    }
}
