//! Questions to the user: what would run, where, and the offered answers (`spec/web.md#questions`).

use std::collections::BTreeMap;

/// A question that a user must answer before something runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Unique among the questions of one [`Questions`].
    pub id: String,
    /// The action in question.
    pub subject: QuestionSubject,
    /// The directory in which it would run.
    pub directory: String,
    /// The offered answers, in order. No other answer is accepted.
    pub options: Vec<QuestionOption>,
    /// Why the user is asked, for example the rule.
    pub reason: String,
    /// The question state.
    pub state: QuestionState,
    /// True if its client has left: an answer covers the next identical call.
    pub left: bool,
}

/// The action that a question is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionSubject {
    /// A command, by its exact arguments.
    Command(Vec<String>),
    /// An agent's tool call. All of it is the agent's own description.
    ToolCall {
        /// The title, which may be anything.
        title: String,
        /// The kind, `""` if the agent sent none.
        kind: String,
        /// The command, if the agent sends it exactly.
        command: Option<String>,
        /// The paths that the call names.
        paths: Vec<String>,
    },
}

/// One offered answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionOption {
    /// Its id, unique within the question.
    pub id: String,
    /// The label for users.
    pub name: String,
    /// The meaning, in the protocol's words: `allow_once`, `reject_always`, ..
    pub kind: String,
}

/// A question state. It leaves `Pending` once and never changes again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum QuestionState {
    /// No answer yet.
    #[default]
    Pending,
    /// The option with this id was selected.
    Answered(String),
    /// The question needs no answer any more, for this reason.
    Withdrawn(String),
}

/// All questions of a program: the pending ones, and the last ended ones.
#[derive(Debug, Default)]
pub struct Questions {
    questions: BTreeMap<String, Question>,
    /// Ids of ended questions, the oldest first.
    ended: std::collections::VecDeque<String>,
}

/// The effect of an accepted answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum AnswerEffect {
    /// It was the first: the caller must act on it.
    Decided,
    /// It repeats the answer that was given: there is nothing to do.
    Repeated,
}

/// Why an answer was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// No such question, or one that ended long ago.
    #[error("no question '{0}'")]
    Unknown(String),
    /// The question does not offer this option.
    #[error("question '{question}' has no option '{option}'")]
    NotOffered {
        /// The question.
        question: String,
        /// The rejected option.
        option: String,
    },
    /// Another answer was first.
    #[error("question '{question}' was already answered with '{option}'")]
    Decided {
        /// The question.
        question: String,
        /// The option that was selected.
        option: String,
    },
    /// The question was withdrawn.
    #[error("question '{question}' was withdrawn: {why}")]
    Withdrawn {
        /// The question.
        question: String,
        /// The reason.
        why: String,
    },
}

/// Ended questions that are remembered, to answer repeated answers alike.
const REMEMBERED: usize = 1000;

impl Questions {
    /// Adds a pending question. Returns false, and changes nothing, if its id is in use.
    pub fn ask(&mut self, question: Question) -> bool {
        if self.questions.contains_key(&question.id) {
            return false;
        }
        let question = Question { state: QuestionState::Pending, ..question };
        self.questions.insert(question.id.clone(), question);
        true
    }

    /// Answers a question with one of its options. The first answer counts; the same answer again
    /// has no effect.
    pub fn answer(&mut self, id: &str, option: &str) -> Result<AnswerEffect, AnswerError> {
        let unknown = || AnswerError::Unknown(id.to_owned());
        let question = self.questions.get_mut(id).ok_or_else(unknown)?;
        let name = || id.to_owned();
        match &question.state {
            QuestionState::Answered(given) if given == option => Ok(AnswerEffect::Repeated),
            QuestionState::Answered(given) => {
                Err(AnswerError::Decided { question: name(), option: given.clone() })
            }
            QuestionState::Withdrawn(why) => {
                Err(AnswerError::Withdrawn { question: name(), why: why.clone() })
            }
            QuestionState::Pending => {
                if !question.options.iter().any(|offered| offered.id == option) {
                    let option = option.to_owned();
                    return Err(AnswerError::NotOffered { question: name(), option });
                }
                question.state = QuestionState::Answered(option.to_owned());
                self.note_end(id);
                Ok(AnswerEffect::Decided)
            }
        }
    }

    /// Withdraws a pending question. Returns false if it is not pending.
    pub fn withdraw(&mut self, id: &str, why: &str) -> bool {
        let Some(question) = self.questions.get_mut(id) else { return false };
        if question.state != QuestionState::Pending {
            return false;
        }
        question.state = QuestionState::Withdrawn(why.to_owned());
        self.note_end(id);
        true
    }

    /// Returns a question, pending or ended.
    pub fn get(&self, id: &str) -> Option<&Question> {
        self.questions.get(id)
    }

    /// Returns the pending questions.
    pub fn pending(&self) -> impl Iterator<Item = &Question> {
        self.questions.values().filter(|question| question.state == QuestionState::Pending)
    }

    fn note_end(&mut self, id: &str) {
        self.ended.push_back(id.to_owned());
        if self.ended.len() > REMEMBERED
            && let Some(oldest) = self.ended.pop_front()
        {
            self.questions.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(id: &str) -> Question {
        let option = |id: &str, kind: &str| QuestionOption {
            id: id.to_owned(),
            name: id.to_owned(),
            kind: kind.to_owned(),
        };
        Question {
            id: id.to_owned(),
            subject: QuestionSubject::Command(vec!["rm".to_owned(), "-r".to_owned()]),
            directory: "/w".to_owned(),
            options: vec![option("once", "allow_once"), option("no", "reject_once")],
            reason: "no rule".to_owned(),
            state: QuestionState::Pending,
            left: false,
        }
    }

    #[test]
    fn the_first_answer_counts_and_repeating_it_has_no_effect() {
        let mut questions = Questions::default();
        assert!(questions.ask(question("q")));
        assert_eq!(questions.pending().count(), 1);
        assert_eq!(questions.answer("q", "once"), Ok(AnswerEffect::Decided));
        assert_eq!(questions.answer("q", "once"), Ok(AnswerEffect::Repeated));
        let decided = AnswerError::Decided { question: "q".to_owned(), option: "once".to_owned() };
        assert_eq!(questions.answer("q", "no"), Err(decided));
        assert_eq!(questions.pending().count(), 0);
        assert!(!questions.withdraw("q", "late"), "an answer is not taken back");
        assert_eq!(questions.get("q").unwrap().state, QuestionState::Answered("once".to_owned()));
    }

    #[test]
    fn only_offered_options_answer() {
        let mut questions = Questions::default();
        questions.ask(question("q"));
        assert!(matches!(questions.answer("q", "yes"), Err(AnswerError::NotOffered { .. })));
        assert!(matches!(questions.answer("x", "once"), Err(AnswerError::Unknown(_))));
        assert_eq!(questions.pending().count(), 1, "still pending");
    }

    #[test]
    fn a_withdrawn_question_takes_no_answer() {
        let mut questions = Questions::default();
        questions.ask(question("q"));
        assert!(questions.withdraw("q", "cancelled"));
        assert!(!questions.withdraw("q", "again"));
        assert!(matches!(questions.answer("q", "once"), Err(AnswerError::Withdrawn { .. })));
    }

    #[test]
    fn an_id_in_use_is_not_asked_again() {
        let mut questions = Questions::default();
        assert!(questions.ask(question("q")));
        let _ = questions.answer("q", "no");
        assert!(!questions.ask(question("q")), "an answer would count for another question");
        assert_eq!(questions.pending().count(), 0);
    }

    #[test]
    fn memory_of_ended_questions_is_bounded() {
        let mut questions = Questions::default();
        for number in 0..REMEMBERED * 2 {
            let id = number.to_string();
            assert!(questions.ask(question(&id)));
            assert_eq!(questions.answer(&id, "no"), Ok(AnswerEffect::Decided));
        }
        questions.ask(question("pending"));
        assert_eq!(questions.questions.len(), REMEMBERED + 1);
        assert!(matches!(questions.answer("0", "no"), Err(AnswerError::Unknown(_))));
    }
}
