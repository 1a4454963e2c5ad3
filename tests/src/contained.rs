//! Sessions whose sidecars are containers, for the stories that only an engine can tell.

use std::env;
use std::io::Write;
use std::process::Command;

use crate::{Outcome, Setup};

/// The engine that `AIFO_TEST_ENGINE` names; `None` where it names none, and then the story is named
/// as skipped, also when the test's output is captured.
pub fn engine(story: &str) -> Option<String> {
    let engine = env::var("AIFO_TEST_ENGINE").ok().filter(|engine| !engine.is_empty());
    if engine.is_none() {
        // Nobody is left to be told that stderr is gone.
        let _ = writeln!(std::io::stderr(), "skipped: {story}: AIFO_TEST_ENGINE is not set");
    }
    engine
}

/// An image with a shell, python, node and make: `AIFO_TEST_IMAGE`.
pub fn image() -> String {
    env::var("AIFO_TEST_IMAGE").unwrap_or_else(|_| "aifo-test-base:latest".to_owned())
}

/// `aifo-coder` in a setup, where it finds the engine's own program.
pub fn contained(setup: &Setup, engine: &str, args: &[&str]) -> Command {
    let mut coder = setup.coder();
    coder.env("PATH", env::var_os("PATH").unwrap_or_default()).env("AIFO_BACKEND", engine);
    coder.args(args);
    coder
}

/// What a command of the engine's prints; panics if it fails.
#[track_caller]
pub fn ask(engine: &str, args: &[&str]) -> String {
    Outcome::of(Command::new(engine).args(args)).exited(0).text()
}
