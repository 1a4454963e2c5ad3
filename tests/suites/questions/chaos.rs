//! Many questions, while frontends and clients disconnect at random.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use aifo_tests::{Connection, Session};
use serde_json::{Value, json};

use super::{Control, session};

/// Questions in all.
const QUESTIONS: usize = 1000;
/// Calls at a time.
const CALLERS: usize = 16;
/// The whole test's time.
const TIME: Duration = Duration::from_secs(240);

/// What the frontends have answered, by question: the accepted option and the call name.
type Accepted = Arc<Mutex<BTreeMap<String, (String, String)>>>;

/// Answers questions and leaves at random, until `done`.
fn frontend(session: &Session, seed: u64, done: &AtomicBool, accepted: &Accepted) {
    let mut random = Random::new(seed);
    while !done.load(Ordering::Relaxed) {
        let mut control = Control::of(session);
        control.send(&json!({"list": true}));
        let mut open = Vec::new();
        loop {
            let line = control.next();
            match line.get("question") {
                Some(question) => open.push(question.clone()),
                None => break,
            }
            // It leaves within the list.
            if random.below(40) == 0 {
                break;
            }
        }
        if open.is_empty() {
            thread::yield_now();
            continue;
        }
        let mut control = Control::of(session);
        for question in open {
            let id = question["id"].as_str().unwrap().to_owned();
            let name = question["argv"][2].as_str().unwrap().to_owned();
            let option = ["once", "once", "deny"][random.below(3)];
            match random.below(8) {
                // It leaves before the answer.
                0 => break,
                // It leaves without reading whether the answer was accepted, and repeats it.
                1 => {
                    control.send(&json!({"answer": id, "option": option}));
                    control = Control::of(session);
                    let line = control.answer(&json!(id), option);
                    note(accepted, &id, option, &name, &line);
                }
                _ => {
                    let line = control.answer(&json!(id), option);
                    note(accepted, &id, option, &name, &line);
                }
            }
        }
    }
}

fn note(accepted: &Accepted, id: &str, option: &str, name: &str, line: &Value) {
    if line.get("answered").is_some() {
        let known = (option.to_owned(), name.to_owned());
        let before = accepted.lock().unwrap().insert(id.to_owned(), known.clone());
        // A repetition of the same answer is accepted, and has no effect.
        assert!(before.is_none_or(|before| before == known), "{id} was answered twice");
    } else {
        let text = line["error"].as_str().unwrap();
        assert!(text.contains("was already answered") || text.contains("no question"), "{text}");
    }
}

#[test]
fn a_thousand_questions_survive_disconnects_of_frontends_and_clients() {
    let session = session(300);
    let began = Instant::now();
    let (done, accepted) = (AtomicBool::new(false), Accepted::default());
    let next = AtomicUsize::new(0);
    let finished = AtomicUsize::new(0);
    thread::scope(|scope| {
        for seed in 0..3 {
            let (session, done, accepted) = (&session, &done, &accepted);
            scope.spawn(move || frontend(session, seed, done, accepted));
        }
        for seed in 0..CALLERS {
            let (session, next, finished) = (&session, &next, &finished);
            scope.spawn(move || {
                let mut random = Random::new(1000 + seed as u64);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= QUESTIONS {
                        break;
                    }
                    call(session, &format!("c{number}"), &mut random, began);
                    finished.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while finished.load(Ordering::Relaxed) < QUESTIONS {
            if began.elapsed() > TIME {
                done.store(true, Ordering::Relaxed);
                panic!("{} of {QUESTIONS} ended", finished.load(Ordering::Relaxed));
            }
            thread::sleep(Duration::from_millis(2));
        }
        done.store(true, Ordering::Relaxed);
    });
    let accepted = accepted.lock().unwrap();
    // A question is lost if no answer was accepted.
    for number in 1..=accepted.len() {
        assert!(accepted.contains_key(&format!("q{number}")), "q{number} of {}", accepted.len());
    }
    for number in 0..QUESTIONS {
        let name = format!("c{number}");
        let runs = fs::read_to_string(session.workspace().join(&name)).unwrap_or_default();
        let runs = runs.lines().count();
        let file = session.file(&name);
        let answers = accepted.values().filter(|(_, call)| *call == file);
        let allowed = answers.filter(|(option, _)| option == "once").count();
        assert!(runs <= allowed, "{name} ran {runs} times, and was allowed {allowed} times");
    }
    let mut control = Control::of(&session);
    control.send(&json!({"list": true}));
    assert_eq!(control.next(), json!({"end": true}), "no question is left over");
}

/// Makes a call until it has its result. Its client may leave; the same call then follows.
fn call(session: &Session, name: &str, random: &mut Random, began: Instant) {
    let file = session.file(name);
    let request = session.exec("make", ["count", &file, "ask"]);
    while random.below(3) == 0 {
        // It leaves at once, or after its question is open.
        let connection: Connection = session.send(&request);
        for _ in 0..random.below(4) {
            thread::yield_now();
        }
        drop(connection);
        assert!(began.elapsed() < TIME);
    }
    let answer = session.answer(&request);
    match answer.status() {
        200 => assert!(Path::new(&file).exists(), "{name} did not run"),
        403 => assert!(answer.text().starts_with("denied by the user"), "{}", answer.text()),
        other => panic!("{name}: {other} {}", answer.text()),
    }
}

/// Random numbers by xorshift.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed | 1 << 63)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        for shift in [-13, 7, -17_i32] {
            self.0 ^= if shift < 0 { self.0 << -shift } else { self.0 >> shift };
        }
        (self.0 >> 11) as usize % end
    }
}
