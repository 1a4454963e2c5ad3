//! Calls that wait for a user's answer, and the calls that an answer covers (`spec/questions.md`).

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::asked_call::AskedCall;
use crate::question::{
    AnswerEffect, AnswerError, Question, QuestionOption, QuestionState, QuestionSubject, Questions,
};

/// The calls of a session that wait for an answer, or have one.
///
/// A question is about one call. Its answer is taken once: by the call that waits, or by an identical
/// one if its client has left.
#[derive(Debug)]
pub struct Approvals {
    max_waiting: usize,
    questions: Questions,
    calls: BTreeMap<u64, Asked>,
    /// The calls that are allowed until the session ends, the oldest first.
    session: VecDeque<AskedCall>,
    last: u64,
    /// The senders of the latest answers, the oldest first.
    senders: VecDeque<(String, String)>,
}

/// A user's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This call runs.
    Once,
    /// This call and identical ones run until the session ends.
    Session,
    /// As [`Answer::Session`]; the user also has a rule for it.
    Always,
    /// This call does not run.
    Deny,
    /// No waiting call runs, and the agent's turn ends.
    DenyAndEnd,
}

/// The result of [`Approvals::ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum AskOutcome {
    /// An earlier answer covers the call.
    Answered(Answer),
    /// A user has allowed it elsewhere, with the calls that it runs.
    Granted,
    /// The call waits for the answer to this question.
    Waiting(QuestionNumber),
    /// Too many calls wait.
    Full,
}

/// The number of a question; its id is `q` and the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuestionNumber(u64);

/// An open question, or an answer that was not taken yet.
#[derive(Debug)]
struct Asked {
    call: AskedCall,
    answer: Option<Answer>,
    /// When it expires; `None` while its call waits.
    expires: Option<Instant>,
    source: AskedSource,
}

/// Where an [`Asked`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskedSource {
    Question,
    /// A user has allowed it elsewhere.
    Grant {
        /// The grant of the call that runs this one, which ends when this one has run.
        outer: Option<u64>,
    },
}

/// How long an answer covers an identical call after its client has left.
pub const RETRY_PERIOD: Duration = Duration::from_secs(600);
/// Calls that are allowed until the session ends; the oldest are dropped.
const MAX_SESSION: usize = 1000;
/// Questions and answers without a waiting call; the oldest are dropped.
const MAX_LEFT: usize = 64;
/// Senders that are remembered.
const MAX_SENDERS: usize = 1000;

impl Answer {
    const ALL: [Answer; 5] =
        [Answer::Once, Answer::Session, Answer::Always, Answer::Deny, Answer::DenyAndEnd];

    /// Returns the answer with this option's id.
    pub fn parse(id: &str) -> Option<Self> {
        Answer::ALL.into_iter().find(|answer| answer.id() == id)
    }

    /// Returns the option's id.
    pub fn id(self) -> &'static str {
        self.row().0
    }

    /// Returns whether the call may run.
    pub fn allows(self) -> bool {
        !matches!(self, Answer::Deny | Answer::DenyAndEnd)
    }

    /// Returns the options of a question.
    pub fn options() -> Vec<QuestionOption> {
        let option = |answer: Answer| {
            let (id, name, kind) = answer.row();
            QuestionOption { id: id.to_owned(), name: name.to_owned(), kind: kind.to_owned() }
        };
        Answer::ALL.into_iter().map(option).collect()
    }

    fn row(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Answer::Once => ("once", "Allow once", "allow_once"),
            Answer::Session => ("session", "Allow for this session", "allow_always"),
            Answer::Always => ("always", "Always allow", "allow_always"),
            Answer::Deny => ("deny", "Deny", "reject_once"),
            Answer::DenyAndEnd => ("end", "Deny and end the turn", "reject_once"),
        }
    }

    /// Returns the answer for other calls that it covers.
    fn for_others(self) -> Option<Self> {
        match self {
            Answer::Once | Answer::Deny => None,
            covering => Some(covering),
        }
    }
}

impl Approvals {
    /// Returns a session's approvals; at most `max_waiting` calls wait at a time.
    pub fn new(max_waiting: usize) -> Self {
        Approvals {
            max_waiting,
            questions: Questions::default(),
            calls: BTreeMap::new(),
            session: VecDeque::new(),
            last: 0,
            senders: VecDeque::new(),
        }
    }

    /// Asks about a call. `reason` describes the rule and its reason.
    pub fn ask(&mut self, call: AskedCall, reason: &str, now: Instant) -> AskOutcome {
        self.expire(now);
        if self.session.iter().any(|allowed| call.repeats(allowed)) {
            return AskOutcome::Answered(Answer::Session);
        }
        let left = self.calls.iter().filter(|(_, asked)| asked.expires.is_some());
        let left = left.filter(|(_, asked)| asked.call == call);
        // Answers first.
        let same = left.min_by_key(|(number, asked)| (asked.answer.is_none(), **number));
        let same = same.map(|(number, asked)| (*number, asked.answer));
        if let Some((number, Some(answer))) = same {
            return match self.calls.remove(&number).map(|asked| asked.source) {
                Some(AskedSource::Grant { outer }) => {
                    // The user has allowed one run.
                    outer.map(|outer| self.calls.remove(&outer));
                    AskOutcome::Granted
                }
                _ => AskOutcome::Answered(answer),
            };
        }
        if self.waiting() >= self.max_waiting {
            return AskOutcome::Full;
        }
        if let Some((number, None)) = same {
            if let Some(asked) = self.calls.get_mut(&number) {
                asked.expires = None;
            }
            return AskOutcome::Waiting(QuestionNumber(number));
        }
        let number = self.next_number();
        let question = Question {
            id: QuestionNumber(number).id(),
            subject: QuestionSubject::Command(call.words()),
            directory: String::from_utf8_lossy(&call.directory).into_owned(),
            options: Answer::options(),
            reason: reason.to_owned(),
            state: QuestionState::Pending,
            left: false,
        };
        self.questions.ask(question);
        self.calls.insert(
            number,
            Asked { call, answer: None, expires: None, source: AskedSource::Question },
        );
        AskOutcome::Waiting(QuestionNumber(number))
    }

    /// Covers one call, as an answer of a user who has allowed it elsewhere, and once each of the calls
    /// that it runs.
    pub fn allow_once(&mut self, call: AskedCall, inner: Vec<AskedCall>, now: Instant) {
        self.expire(now);
        let outer = self.grant(call, None, now);
        for call in inner {
            self.grant(call, Some(outer), now);
        }
        self.drop_oldest_left();
    }

    /// Covers once each of the calls that an allowed one runs.
    pub fn allow_inner(&mut self, inner: Vec<AskedCall>, now: Instant) {
        self.expire(now);
        for call in inner {
            self.grant(call, None, now);
        }
        self.drop_oldest_left();
    }

    fn grant(&mut self, call: AskedCall, outer: Option<u64>, now: Instant) -> u64 {
        let number = self.next_number();
        let expires = now.checked_add(RETRY_PERIOD);
        let source = AskedSource::Grant { outer };
        self.calls.insert(number, Asked { call, answer: Some(Answer::Once), expires, source });
        number
    }

    /// Answers an open question. The first answer counts. [`AnswerEffect::Decided`] wakes its call, and
    /// those of other questions that the answer covers.
    pub fn answer(
        &mut self,
        id: &str,
        option: &str,
        by: &str,
        now: Instant,
    ) -> Result<AnswerEffect, AnswerError> {
        self.expire(now);
        let effect = self.questions.answer(id, option)?;
        if let (AnswerEffect::Decided, Some(answer)) = (effect, Answer::parse(option)) {
            self.note_sender(id, by);
            self.decide(id, answer, by);
        }
        Ok(effect)
    }

    fn decide(&mut self, id: &str, answer: Answer, by: &str) {
        let Some(number) = QuestionNumber::parse(id) else { return };
        let Some(asked) = self.calls.get_mut(&number.0) else { return };
        asked.answer = Some(answer);
        let call = asked.call.clone();
        if matches!(answer, Answer::Session | Answer::Always) {
            if self.session.len() >= MAX_SESSION {
                self.session.pop_front();
            }
            self.session.push_back(call.clone());
        }
        let Some(for_others) = answer.for_others() else { return };
        let is_open = |asked: &Asked| asked.answer.is_none();
        let covers = |asked: &Asked| {
            asked.call.repeats(&call) || (answer == Answer::DenyAndEnd && asked.expires.is_none())
        };
        let others = self.calls.iter().filter(|(_, asked)| is_open(asked) && covers(asked));
        let others: Vec<u64> = others.map(|(number, _)| *number).collect();
        for other in others {
            let id = QuestionNumber(other).id();
            if self.questions.answer(&id, for_others.id()) == Ok(AnswerEffect::Decided) {
                self.note_sender(&id, by);
                if let Some(asked) = self.calls.get_mut(&other) {
                    asked.answer = Some(for_others);
                }
            }
        }
    }

    /// Takes the answer for the call that waits. The question is gone then: an answer runs one call.
    pub fn take(&mut self, number: QuestionNumber) -> Option<Answer> {
        let answer = self.calls.get(&number.0)?.answer?;
        self.calls.remove(&number.0);
        Some(answer)
    }

    /// Notes that the client of a waiting call has left. The question stays open, and its answer covers
    /// an identical call, for [`RETRY_PERIOD`].
    pub fn leave(&mut self, number: QuestionNumber, now: Instant) {
        if let Some(asked) = self.calls.get_mut(&number.0) {
            asked.expires = now.checked_add(RETRY_PERIOD);
            self.drop_oldest_left();
        }
        self.expire(now);
    }

    /// Withdraws what has expired.
    pub fn expire(&mut self, now: Instant) {
        let is_over = |asked: &Asked| asked.expires.is_some_and(|at| at <= now);
        let over = self.calls.iter().filter(|(_, asked)| is_over(asked)).map(|(number, _)| *number);
        for number in over.collect::<Vec<_>>() {
            self.withdraw(QuestionNumber(number), "the client left");
        }
    }

    /// Returns when the next question or answer expires.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.calls.values().filter_map(|asked| asked.expires).min()
    }

    /// Withdraws a question, and drops an answer that was not taken.
    pub fn withdraw(&mut self, number: QuestionNumber, why: &str) {
        self.calls.remove(&number.0);
        self.questions.withdraw(&number.id(), why);
    }

    /// Returns the open questions, the oldest first.
    pub fn open(&self) -> impl Iterator<Item = &Question> {
        let open = self.calls.iter().filter(|(_, asked)| asked.answer.is_none());
        open.filter_map(|(number, _)| self.questions.get(&QuestionNumber(*number).id()))
    }

    /// Returns a question, open or ended.
    pub fn get(&self, id: &str) -> Option<&Question> {
        self.questions.get(id)
    }

    /// Returns the call of an open question.
    pub fn call(&self, id: &str) -> Option<&AskedCall> {
        let number = QuestionNumber::parse(id)?;
        self.calls.get(&number.0).map(|asked| &asked.call)
    }

    /// Returns whether the client of an open question has left.
    pub fn has_left(&self, id: &str) -> bool {
        let asked = QuestionNumber::parse(id).and_then(|number| self.calls.get(&number.0));
        asked.is_some_and(|asked| asked.expires.is_some())
    }

    /// Returns the sender of the answer to a question.
    pub fn answered_by(&self, id: &str) -> Option<&str> {
        let mut senders = self.senders.iter().rev();
        senders.find(|(question, _)| question == id).map(|(_, by)| by.as_str())
    }

    fn waiting(&self) -> usize {
        self.calls.values().filter(|asked| asked.expires.is_none()).count()
    }

    fn next_number(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }

    fn note_sender(&mut self, id: &str, by: &str) {
        if self.senders.len() >= MAX_SENDERS {
            self.senders.pop_front();
        }
        self.senders.push_back((id.to_owned(), by.to_owned()));
    }

    fn drop_oldest_left(&mut self) {
        let left = self.calls.iter().filter(|(_, asked)| asked.expires.is_some());
        let left: Vec<u64> = left.map(|(number, _)| *number).collect();
        let surplus = left.len().saturating_sub(MAX_LEFT);
        for number in left.into_iter().take(surplus) {
            self.withdraw(QuestionNumber(number), "too many clients have left");
        }
    }
}

impl QuestionNumber {
    /// Returns the question id.
    pub fn id(self) -> String {
        format!("q{}", self.0)
    }

    fn parse(id: &str) -> Option<Self> {
        id.strip_prefix('q')?.parse().ok().map(QuestionNumber)
    }
}

#[cfg(test)]
mod tests;
