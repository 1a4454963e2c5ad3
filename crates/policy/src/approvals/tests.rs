use std::sync::Arc;

use aifo_types::FileId;

use super::*;
use crate::asked_call::{CallFiles, Script};

fn call(words: &str) -> AskedCall {
    let argv = words.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    AskedCall::new(argv, b"/w".to_vec())
}

struct Session {
    approvals: Approvals,
    now: Instant,
}

impl Session {
    fn new(max_waiting: usize) -> Self {
        Session { approvals: Approvals::new(max_waiting), now: Instant::now() }
    }

    fn ask(&mut self, words: &str) -> AskOutcome {
        self.approvals.ask(call(words), "rule 'r'", self.now)
    }

    #[track_caller]
    fn wait(&mut self, words: &str) -> QuestionNumber {
        match self.ask(words) {
            AskOutcome::Waiting(number) => number,
            other => panic!("{words}: {other:?}"),
        }
    }

    fn answer(
        &mut self,
        number: QuestionNumber,
        option: &str,
    ) -> Result<AnswerEffect, AnswerError> {
        self.approvals.answer(&number.id(), option, "test", self.now)
    }

    fn pass(&mut self, secs: u64) {
        self.now += Duration::from_secs(secs);
    }

    fn open(&self) -> Vec<String> {
        self.approvals.open().map(|question| question.id.clone()).collect()
    }
}

#[test]
fn an_answer_runs_one_call() {
    let mut session = Session::new(8);
    let asked = session.wait("git push -f");
    assert_eq!(session.approvals.take(asked), None, "not answered yet");
    assert_eq!(session.answer(asked, "once"), Ok(AnswerEffect::Decided));
    assert_eq!(session.answer(asked, "once"), Ok(AnswerEffect::Repeated));
    assert!(matches!(session.answer(asked, "deny"), Err(AnswerError::Decided { .. })));
    assert_eq!(session.approvals.answered_by(&asked.id()), Some("test"));
    assert_eq!(session.approvals.take(asked), Some(Answer::Once));
    assert_eq!(session.approvals.take(asked), None);
    assert_ne!(session.wait("git push -f"), asked, "asked again");
}

#[test]
fn identical_calls_in_parallel_have_questions_of_their_own() {
    let mut session = Session::new(8);
    let (first, second) = (session.wait("git push -f"), session.wait("git push -f"));
    let _ = session.answer(first, "once");
    assert_eq!(session.approvals.take(first), Some(Answer::Once));
    assert_eq!(session.approvals.take(second), None, "once is one call");
    let _ = session.answer(second, "deny");
    assert_eq!(session.approvals.take(second), Some(Answer::Deny));
}

#[test]
fn an_answer_for_the_session_covers_identical_calls_only() {
    for option in ["session", "always"] {
        let mut session = Session::new(8);
        let (first, second) = (session.wait("git push -f"), session.wait("git push -f"));
        let other = session.wait("git push -f x");
        let _ = session.answer(first, option);
        assert!(session.approvals.take(second).is_some_and(Answer::allows));
        assert_eq!(session.open(), [other.id()]);
        assert_eq!(session.ask("git push -f"), AskOutcome::Answered(Answer::Session));
        let mut elsewhere = call("git push -f");
        elsewhere.directory = b"/w/sub".to_vec();
        let asked = session.approvals.ask(elsewhere, "", session.now);
        assert!(matches!(asked, AskOutcome::Waiting(_)), "{asked:?}");
    }
}

#[test]
fn arguments_are_compared_as_bytes() {
    let mut session = Session::new(8);
    let bytes = |argv: &[&[u8]]| {
        let argv = argv.iter().map(|word| word.to_vec()).collect();
        AskedCall::new(argv, b"/w".to_vec())
    };
    let asked = session.approvals.ask(bytes(&[b"rm", b"\xff"]), "", session.now);
    let AskOutcome::Waiting(number) = asked else { panic!("{asked:?}") };
    let _ = session.answer(number, "session");
    for other in [bytes(&[b"rm", b"\xfe"]), bytes(&[b"rm", b"\"\\xff\""]), bytes(&[b"rm \xff"])] {
        let asked = session.approvals.ask(other, "", session.now);
        assert!(matches!(asked, AskOutcome::Waiting(_)), "{asked:?}");
    }
}

#[test]
fn the_answer_for_a_client_that_left_covers_one_identical_call() {
    for (option, answer) in [("once", Answer::Once), ("deny", Answer::Deny)] {
        let mut session = Session::new(8);
        let asked = session.wait("git push -f");
        session.approvals.leave(asked, session.now);
        session.pass(599);
        assert_eq!(session.open(), [asked.id()]);
        assert!(session.approvals.has_left(&asked.id()));
        assert_eq!(session.answer(asked, option), Ok(AnswerEffect::Decided));
        assert!(matches!(session.ask("git push"), AskOutcome::Waiting(_)), "another call");
        assert_eq!(session.ask("git push -f"), AskOutcome::Answered(answer));
        assert!(matches!(session.ask("git push -f"), AskOutcome::Waiting(_)), "the second one");
    }
}

#[test]
fn a_retry_takes_over_an_open_question() {
    let mut session = Session::new(8);
    let asked = session.wait("git push -f");
    session.approvals.leave(asked, session.now);
    assert_eq!(session.wait("git push -f"), asked);
    assert!(!session.approvals.has_left(&asked.id()));
    session.pass(601);
    session.approvals.expire(session.now);
    assert_eq!(session.open(), [asked.id()], "a call that waits does not expire");
    let _ = session.answer(asked, "once");
    assert_eq!(session.approvals.take(asked), Some(Answer::Once));
}

#[test]
fn an_answer_that_was_not_taken_is_not_lost() {
    let mut session = Session::new(8);
    let asked = session.wait("git push -f");
    let _ = session.answer(asked, "once");
    session.approvals.leave(asked, session.now);
    assert_eq!(session.ask("git push -f"), AskOutcome::Answered(Answer::Once));
    assert!(matches!(session.ask("git push -f"), AskOutcome::Waiting(_)));
}

#[test]
fn questions_and_answers_of_clients_that_left_expire() {
    let mut session = Session::new(8);
    let (open, answered) = (session.wait("a"), session.wait("b"));
    for asked in [open, answered] {
        session.approvals.leave(asked, session.now);
    }
    let _ = session.answer(answered, "once");
    assert_eq!(session.approvals.next_expiry(), Some(session.now + RETRY_PERIOD));
    session.pass(600);
    assert!(matches!(session.answer(open, "once"), Err(AnswerError::Withdrawn { .. })));
    assert!(matches!(session.ask("b"), AskOutcome::Waiting(_)), "the answer is too old");
}

#[test]
fn waiting_calls_are_bounded_and_clients_that_left_do_not_count() {
    let mut session = Session::new(2);
    let first = session.wait("a");
    session.wait("b");
    assert_eq!(session.ask("c"), AskOutcome::Full);
    session.approvals.leave(first, session.now);
    session.wait("c");
    assert_eq!(session.ask("a"), AskOutcome::Full, "its retry waits as any call");
    for number in 0..MAX_LEFT * 2 {
        session.approvals.allow_once(call(&number.to_string()), Vec::new(), session.now);
    }
    assert!(session.approvals.calls.len() <= MAX_LEFT + 2);
}

#[test]
fn a_permission_covers_one_call() {
    let mut session = Session::new(2);
    session.approvals.allow_once(call("git push -f"), Vec::new(), session.now);
    assert_eq!(session.open(), [""; 0]);
    assert_eq!(session.ask("git push -f"), AskOutcome::Granted);
    assert!(matches!(session.ask("git push -f"), AskOutcome::Waiting(_)));
}

#[test]
fn a_permission_covers_one_run_of_a_call_and_of_those_that_it_runs() {
    let inner = || vec![call("git push -f"), call("git push -d")];
    // A terminal runs the outer call, which then runs the others.
    let mut session = Session::new(8);
    session.approvals.allow_once(call("sh -c X"), inner(), session.now);
    for words in ["sh -c X", "git push -f", "git push -d"] {
        assert_eq!(session.ask(words), AskOutcome::Granted, "{words}");
        assert!(matches!(session.ask(words), AskOutcome::Waiting(_)), "{words}");
    }
    // The agent's own shell runs them: a terminal does not run them again.
    let mut session = Session::new(8);
    session.approvals.allow_once(call("sh -c X"), inner(), session.now);
    for words in ["git push -d", "git push -f"] {
        assert_eq!(session.ask(words), AskOutcome::Granted, "{words}");
    }
    assert!(matches!(session.ask("sh -c X"), AskOutcome::Waiting(_)));
    // They expire.
    session.approvals.allow_inner(inner(), session.now);
    session.pass(RETRY_PERIOD.as_secs());
    assert!(matches!(session.ask("git push -f"), AskOutcome::Waiting(_)));
}

#[test]
fn denying_and_ending_the_turn_denies_every_waiting_call() {
    let mut session = Session::new(8);
    let (first, second) = (session.wait("a"), session.wait("b"));
    let left = session.wait("c");
    session.approvals.leave(left, session.now);
    let _ = session.answer(first, "end");
    assert_eq!(session.approvals.take(second), Some(Answer::DenyAndEnd));
    assert_eq!(session.open(), [left.id()]);
}

#[test]
fn a_withdrawn_question_takes_no_answer() {
    let mut session = Session::new(8);
    let asked = session.wait("a");
    session.approvals.withdraw(asked, "no answer");
    assert!(matches!(session.answer(asked, "once"), Err(AnswerError::Withdrawn { .. })));
    assert_eq!(session.approvals.take(asked), None);
}

#[test]
fn every_answer_has_an_option() {
    let options = Answer::options();
    for (answer, option) in Answer::ALL.into_iter().zip(&options) {
        assert_eq!(Answer::parse(&option.id), Some(answer));
        assert_eq!(answer.allows(), option.kind.starts_with("allow"), "{answer:?}");
    }
    assert_eq!(Answer::parse("yes"), None);
}

#[test]
fn a_flood_of_questions_keeps_bounded_memory_and_answers_none() {
    let mut session = Session::new(8);
    let waits = session.wait("git push -f");
    for number in 0..20_000_u32 {
        let asked = session.wait(&format!("flood {number}"));
        match number % 3 {
            0 => session.approvals.leave(asked, session.now),
            1 => session.approvals.withdraw(asked, "the client left"),
            _ => {
                let _ = session.answer(asked, "deny");
                assert_eq!(session.approvals.take(asked), Some(Answer::Deny));
            }
        }
    }
    assert!(session.approvals.calls.len() <= MAX_LEFT + 1);
    assert!(session.approvals.senders.len() <= MAX_SENDERS);
    assert_eq!(session.open().first(), Some(&waits.id()));
    assert!(session.answer(QuestionNumber(2), "once").is_err(), "it was dropped");
    let _ = session.answer(waits, "once");
    assert_eq!(session.approvals.take(waits), Some(Answer::Once));
}

/// A call whose names lead to this directory and to a script with this content.
fn call_of(inode: u64, content: u8) -> AskedCall {
    let script =
        Script { path: b"/w/x".to_vec(), real: b"/w/x".to_vec(), digest: Some([content; 32]) };
    let directory = FileId { device: 1, inode };
    let files = CallFiles { directory, scripts: vec![script], held: Box::new(()) };
    AskedCall { files: Some(Arc::new(files)), ..call("./x") }
}

#[test]
fn an_answer_covers_no_call_with_other_files() {
    let now = Instant::now();
    // The answer, and whether it covers the same call, one with another script, and one elsewhere.
    for (option, covered) in [("once", [true, false, false]), ("session", [true, true, false])] {
        for ((inode, content), covered) in [(1, 1), (1, 2), (2, 1)].into_iter().zip(covered) {
            let mut approvals = Approvals::new(8);
            let AskOutcome::Waiting(asked) = approvals.ask(call_of(1, 1), "", now) else {
                panic!()
            };
            let _ = approvals.answer(&asked.id(), option, "test", now);
            // The client has left.
            approvals.leave(asked, now);
            let outcome = approvals.ask(call_of(inode, content), "", now);
            let is_covered = matches!(outcome, AskOutcome::Answered(_));
            assert_eq!(is_covered, covered, "{option}: {inode} {content}");
        }
    }
    for (inode, content, covered) in [(1, 1, true), (1, 2, false), (2, 1, false)] {
        let mut approvals = Approvals::new(8);
        approvals.allow_once(call_of(1, 1), Vec::new(), now);
        let outcome = approvals.ask(call_of(inode, content), "", now);
        assert_eq!(outcome == AskOutcome::Granted, covered, "{inode} {content}");
        let mut approvals = Approvals::new(8);
        let AskOutcome::Waiting(asked) = approvals.ask(call_of(1, 1), "", now) else { panic!() };
        approvals.leave(asked, now);
        // An open question is taken over by the same call only.
        let outcome = approvals.ask(call_of(inode, content), "", now);
        assert_eq!(outcome == AskOutcome::Waiting(asked), covered, "{inode} {content}");
    }
}
