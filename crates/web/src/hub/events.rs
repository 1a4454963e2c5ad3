//! Events of the agent, on their way to sessions.

use std::time::Instant;

use aifo_acp::{AgentInfo, Client, Image, Streaming, ToolCalls, TurnEnd, Update, UpdateScope};
use aifo_policy::{Question, QuestionSubject};

use super::{Hub, Inner, failed_turn};
use crate::block::{QuestionBlock, QuestionEnd};
use crate::clock::unix_ms;
use crate::session_state::{Activity, MIN_DELAY_MS};

/// The agent's session of one of the server's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    /// The server id.
    pub(crate) session: &'a str,
    pub(crate) tools: Option<&'a ToolCalls>,
}

impl<'a> Source<'a> {
    /// Returns the source for a session of a client.
    pub(crate) fn of(session: &'a str, client: &'a Client, agent_session: &str) -> Self {
        let tools = client.session(agent_session).map(|session| session.tools());
        Source { session, tools }
    }
}

impl Hub {
    /// Notes what the agent takes in prompts.
    pub(crate) fn agent_ready(&self, agent: &AgentInfo) {
        let mut inner = self.lock();
        let takes = |name: &str| {
            let capabilities = agent.raw.pointer("/agentCapabilities/promptCapabilities");
            capabilities.and_then(|all| all.get(name)?.as_bool()).unwrap_or_default()
        };
        inner.prompt_images = takes("image");
        inner.prompt_resources = takes("embeddedContext");
    }

    /// Sets the agent id of a session.
    pub(crate) fn opened(&self, session: &str, agent_session: &str) {
        if let Some(state) = self.lock().load(session) {
            state.set_facts(|facts| facts.agent_session = Some(agent_session.to_owned()));
        }
    }

    /// Returns the agent id of a session, and whether it is known from before.
    pub(crate) fn agent_session(&self, session: &str) -> Option<String> {
        self.lock().load(session)?.facts().agent_session.clone()
    }

    pub(crate) fn begin_turn(&self, session: &str, streaming: Streaming) {
        let mut inner = self.lock();
        if let Some(state) = inner.load(session) {
            state.begin_turn(streaming, unix_ms());
            inner.touch(0);
        }
    }

    pub(crate) fn update(
        &self,
        session: &str,
        update: &Update,
        scope: UpdateScope,
        call: Option<&str>,
    ) {
        let mut inner = self.lock();
        if let Some(state) = inner.load(session) {
            state.update(update, scope, call);
            let delay = state.flush_delay_ms();
            inner.touch(delay);
        }
    }

    /// Adds the text of a report to a session's typed stream, or to all loaded ones.
    pub(crate) fn report(&self, session: Option<&str>, report: &str) {
        let mut inner = self.lock();
        match session {
            Some(session) => {
                if let Some(loaded) = inner.loaded(session) {
                    loaded.reports.push(report);
                }
            }
            None => {
                for slot in inner.sessions.values_mut() {
                    if let Some(loaded) = &mut slot.loaded {
                        loaded.reports.push(report);
                    }
                }
            }
        }
        inner.touch(MIN_DELAY_MS);
    }

    /// Adds a permission request: pending, or decided by a rule.
    pub(crate) fn ask(&self, source: Source<'_>, question: Question, decided: Option<QuestionEnd>) {
        let mut inner = self.lock();
        let mut block = block_of(&question);
        match decided {
            Some(end) => block.state = end,
            None => {
                if !inner.questions.ask(question) {
                    return;
                }
            }
        }
        if block.state == QuestionEnd::Pending {
            let text = block.command.as_deref().unwrap_or(&block.title);
            inner.attend_to(source.session, Some(block.id.clone()), text);
        }
        if let Some((state, media)) = inner.parts(source.session) {
            state.add_question(block, source.tools, &mut |image: Image| media.store(&image));
        }
        self.flush(&mut inner, Some(source));
    }

    /// Withdraws a question.
    pub(crate) fn withdraw(&self, session: &str, question: &str, why: &str) {
        let mut inner = self.lock();
        if inner.questions.withdraw(question, why)
            && let Some(state) = inner.load(session)
        {
            state.end_question(question, QuestionEnd::Withdrawn { why: why.to_owned() });
            self.flush(&mut inner, None);
        }
    }

    pub(crate) fn end_turn(&self, source: Source<'_>, end: &TurnEnd) {
        let mut inner = self.lock();
        if let Some((state, media)) = inner.parts(source.session) {
            let store = &mut |image: Image| media.store(&image);
            state.end_turn(end, source.tools, unix_ms(), store);
        }
        inner.attend_to(source.session, None, &end.answer.text);
        self.flush(&mut inner, Some(source));
    }

    /// Ends a turn, or the attempt to begin one.
    pub(crate) fn fail_turn(&self, session: &str, error: &str) {
        let mut inner = self.lock();
        if let Some((state, media)) = inner.parts(session)
            && state.activity() != Activity::Idle
        {
            state.fail_turn(error, unix_ms(), &mut |image: Image| media.store(&image));
            let report = failed_turn(state.facts(), error);
            if let Some(loaded) = inner.loaded(session) {
                loaded.reports.push(&report);
            }
            inner.attend_to(session, None, error);
        }
        self.flush(&mut inner, None);
    }

    pub(crate) fn notice(&self, session: &str, text: String, is_error: bool) {
        let mut inner = self.lock();
        if let Some(state) = inner.load(session) {
            state.add_notice(text, is_error, unix_ms());
            self.flush(&mut inner, None);
        }
    }

    /// Brings all pages up to date, writes the journals and wakes the streams. `sources` are the
    /// sessions of the running agent.
    pub(crate) fn flush_all<'a>(&self, sources: impl IntoIterator<Item = Source<'a>>) {
        let mut inner = self.lock();
        for source in sources {
            inner.flush_session(source.session, source.tools);
        }
        self.flush(&mut inner, None);
        inner.due = None;
    }

    /// Brings a session of the agent, and all others, up to date.
    pub(super) fn flush(&self, inner: &mut Inner, source: Option<Source<'_>>) {
        if let Some(source) = source {
            inner.flush_session(source.session, source.tools);
        }
        let is_dirty =
            |slot: &super::Slot| slot.loaded.as_ref().is_some_and(|loaded| loaded.state.is_dirty());
        let dirty: Vec<String> = inner
            .sessions
            .iter()
            .filter(|(_, slot)| is_dirty(slot))
            .map(|(id, _)| id.clone())
            .collect();
        for session in dirty {
            inner.flush_session(&session, None);
        }
        inner.show_home();
        self.announce(inner.seq);
    }

    /// Returns the time of the next flush.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.lock().due()
    }
}

impl Inner {
    fn flush_session(&mut self, id: &str, tools: Option<&ToolCalls>) {
        let (media, seq) = (&mut self.media, &mut self.seq);
        let Some(slot) = self.sessions.get_mut(id) else { return };
        let Some(loaded) = slot.loaded.as_deref_mut() else { return };
        loaded.state.flush(seq, tools, &mut |image: Image| media.store(&image));
        let ops = loaded.state.take_ops();
        if slot.facts != *loaded.state.facts() {
            slot.facts = loaded.state.facts().clone();
        }
        let mut written = loaded.journal.append(&ops);
        if written.is_ok() && loaded.journal.is_long() {
            written = loaded.journal.rewrite(&loaded.state.snapshot_ops());
        }
        if let Err(error) = written {
            tracing::warn!(session = id, %error, "could not write the history");
        }
        // The typed stream is woken by the same number.
        match loaded.reports.write() {
            Ok(false) => {}
            Ok(true) => *seq = seq.saturating_add(1),
            Err(error) => tracing::warn!(session = id, %error, "could not write the reports"),
        }
    }
}

fn block_of(question: &Question) -> QuestionBlock {
    let options = question.options.iter();
    let mut block = QuestionBlock {
        id: question.id.clone(),
        title: String::new(),
        kind: String::new(),
        command: None,
        paths: Vec::new(),
        directory: question.directory.clone(),
        reason: question.reason.clone(),
        options: options
            .map(|option| (option.id.clone(), option.kind.clone(), option.name.clone()))
            .collect(),
        state: QuestionEnd::Pending,
        time: unix_ms(),
    };
    match &question.subject {
        QuestionSubject::Command(argv) => block.command = Some(argv.join(" ")),
        QuestionSubject::ToolCall { title, kind, command, paths } => {
            block.title.clone_from(title);
            block.kind.clone_from(kind);
            block.command.clone_from(command);
            block.paths.clone_from(paths);
        }
    }
    block
}
