//! The calls of this user's sessions that wait for approval, for the web page
//! (`spec/web.md#waiting-calls`).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use aifo_config::{CallRule, UserFileError, user_file_path};
use aifo_host::{
    AnswerSender, ControlClient, ControlLine, EndedQuestion, ListedQuestion, SessionInfo,
    asking_sessions,
};
use aifo_policy::Answer;
use aifo_terminal::console;
use aifo_types::quote_word;
use aifo_web::{CallAnswer, CallEnd, WaitingCall, WaitingCalls};
use tokio::sync::mpsc;

/// The time between two reads of the sessions' records.
const INTERVAL: Duration = Duration::from_millis(500);

/// Follows the questions of all sessions and passes on the answers of browsers. Never returns.
pub(super) async fn run(calls: WaitingCalls, mut answers: mpsc::UnboundedReceiver<CallAnswer>) {
    let (sender, mut events) = mpsc::unbounded_channel();
    let mut state = State { calls, sessions: BTreeMap::new(), file: version_of_user_file() };
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        tokio::select! {
            _ = ticks.tick() => state.look(&sender),
            Some((session, event)) = events.recv() => state.take(&session, event),
            Some(answer) = answers.recv() => state.answer(answer),
        }
    }
}

/// What has happened in a session; `None` is its end.
type Event = Option<ControlLine>;

struct State {
    calls: WaitingCalls,
    /// The watched sessions.
    sessions: BTreeMap<String, Watched>,
    /// The version of the user's file that the shown changes are of.
    file: FileVersion,
}

struct Watched {
    info: SessionInfo,
    open: BTreeMap<String, ListedQuestion>,
}

type FileVersion = Option<(SystemTime, u64)>;

impl State {
    /// Watches sessions that have begun, and shows the changes of a new version of the user's file.
    fn look(&mut self, sender: &mpsc::UnboundedSender<(String, Event)>) {
        for info in asking_sessions() {
            if self.sessions.contains_key(&info.id) {
                continue;
            }
            // Without rules the session has no questions, and no socket.
            let Ok(client) = ControlClient::connect(&info) else { continue };
            tokio::spawn(watch(client, info.id.clone(), sender.clone()));
            self.sessions.insert(info.id.clone(), Watched { info, open: BTreeMap::new() });
        }
        let file = version_of_user_file();
        if file != self.file {
            self.file = file;
            self.show_all();
        }
    }

    fn take(&mut self, session: &str, event: Event) {
        match event {
            Some(ControlLine::Question(question)) => {
                let Some(watched) = self.sessions.get_mut(session) else { return };
                self.calls.show(shown(&watched.info, &question));
                watched.open.insert(question.id.clone(), question);
            }
            Some(ControlLine::Ended(ended)) => {
                let Some(watched) = self.sessions.get_mut(session) else { return };
                watched.open.remove(&ended.id);
                self.calls.end(session, &ended.id, end_of(&watched.info, &ended));
            }
            Some(_) => {}
            None => {
                self.sessions.remove(session);
                self.calls.end_session(session);
            }
        }
    }

    fn answer(&mut self, answer: CallAnswer) {
        let Some(watched) = self.sessions.get(&answer.session) else {
            // The browser has left if it is not received.
            let _ = answer.reply.send(Err("the session has ended".to_owned()));
            return;
        };
        let question = watched.open.get(&answer.question).cloned();
        tokio::spawn(give(watched.info.clone(), question, answer));
    }

    fn show_all(&self) {
        for watched in self.sessions.values() {
            for question in watched.open.values() {
                self.calls.show(shown(&watched.info, question));
            }
        }
    }
}

/// Reads a session's lines until it ends.
async fn watch(
    mut client: ControlClient,
    session: String,
    sender: mpsc::UnboundedSender<(String, Event)>,
) {
    if client.watch().await.is_ok() {
        while let Ok(line) = client.next().await {
            if sender.send((session.clone(), Some(line))).is_err() {
                return;
            }
        }
    }
    // Fails at the end of this server.
    let _ = sender.send((session, None));
}

/// Gives a browser answer, after the change of the user's file for *always*.
async fn give(session: SessionInfo, question: Option<ListedQuestion>, answer: CallAnswer) {
    let mut option = answer.option.as_str();
    let mut failed = None;
    // Another answer was first if the question is not open.
    if let (Some(change), Some(question)) = (&answer.change, &question) {
        match write(&question.argv, change) {
            Ok(()) => {}
            Err(changed @ UserFileError::Changed(_)) => {
                let _ = answer.reply.send(Err(changed.to_string()));
                return;
            }
            Err(error) => {
                option = Answer::Once.id();
                let why = console::error_chain(&anyhow::Error::from(error));
                failed = Some(format!("{why}; the call is allowed once"));
            }
        }
    }
    let answered = match ControlClient::connect(&session) {
        Ok(mut client) => client.answer_from(AnswerSender::Page, &answer.question, option).await,
        Err(error) => Err(error),
    };
    let answered = answered.map_err(|error| error.to_string());
    let _ = answer.reply.send(answered.and_then(|()| failed.map_or(Ok(()), Err)));
}

/// Makes exactly this change of the user's file.
fn write(argv: &[String], change: &str) -> Result<(), UserFileError> {
    let rule = CallRule::new(argv)?;
    if rule.difference() != change {
        return Err(UserFileError::Changed(user_file_path().unwrap_or_default()));
    }
    rule.write()
}

fn shown(session: &SessionInfo, question: &ListedQuestion) -> WaitingCall {
    let words: Vec<_> = question.argv.iter().map(|word| quote_word(word.as_bytes())).collect();
    let options = Answer::options().into_iter();
    let change = CallRule::new(&question.argv).map(|rule| rule.difference());
    WaitingCall {
        session: session.id.clone(),
        question: question.id.clone(),
        workspace: session.workspace.display().to_string(),
        command: words.join(" "),
        directory: question.directory.clone(),
        reason: question.reason.clone(),
        options: options.map(|option| (option.id, option.kind, option.name)).collect(),
        left: question.left,
        change: change
            .map_err(|error| first_line(&console::error_chain(&anyhow::Error::from(error)))),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn end_of(session: &SessionInfo, ended: &EndedQuestion) -> CallEnd {
    let ends_turn = ended.option.as_deref() == Some(Answer::DenyAndEnd.id());
    CallEnd {
        option: ended.option.clone(),
        by: ended.by.clone(),
        ends_turns: ends_turn && session.pid == std::process::id(),
    }
}

/// Returns a value that changes with the user's file.
fn version_of_user_file() -> FileVersion {
    let metadata = user_file_path().and_then(|path| Path::new(&path).metadata().ok())?;
    Some((metadata.modified().ok()?, metadata.len()))
}
