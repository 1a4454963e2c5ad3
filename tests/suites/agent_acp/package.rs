//! A third-party client: the Python package `agent-client-protocol`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use aifo_tests::model::Script;
use aifo_tests::{Editor, Outcome, Running, Scratch};
use serde_json::Value;

use super::{MADE, MAKE, fixtures, ran_since_last_check};

const PACKAGE: &str = "agent-client-protocol==0.12.1";

/// A python with the package. Without one, reports the test as skipped and returns `None`.
fn python(test: &str, dir: &Path) -> Option<PathBuf> {
    let venv = dir.join("venv");
    let made = Outcome::of(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    let python = venv.join("bin/python");
    let install = ["-m", "pip", "install", "--quiet", "--no-input", PACKAGE];
    let installed = (made.code() == Some(0)).then(|| {
        let mut pip = Command::new(&python);
        Running::start(pip.args(install)).finish_within(Editor::PATIENCE)
    });
    let last = installed.as_ref().unwrap_or(&made);
    if last.code() == Some(0) {
        return Some(python);
    }
    let why = last.stderr.trim().lines().next_back().unwrap_or_default();
    // A closed stderr does not matter.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {PACKAGE} cannot be had: {why}");
    None
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn an_editor_that_others_have_made_goes_through_a_turn() {
    let test = "an_editor_that_others_have_made_goes_through_a_turn";
    let script = Script::new().shell(MAKE).say("It is made.");
    let fixtures = fixtures(test, &script);
    let scratch = Scratch::new();
    let Some(python) = (!fixtures.is_empty()).then(|| python(test, scratch.path())).flatten()
    else {
        return;
    };
    for (fixture, model) in fixtures {
        let name = fixture.name();
        let mut acp = fixture.command("acp");
        acp.arg(name);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/agent_acp/editor.py");
        let mut editor = Command::new(&python);
        editor.arg(script).arg(fixture.workspace()).arg(acp.get_program()).args(acp.get_args());
        editor.env_clear().envs(acp.get_envs().filter_map(|(name, value)| Some((name, value?))));
        editor.current_dir(fixture.workspace());
        let outcome = Running::start(&mut editor).finish_within(Editor::PATIENCE);
        assert_eq!(outcome.code(), Some(0), "{name}: {}", outcome.stderr);
        let seen: Value = serde_json::from_slice(&outcome.stdout).unwrap();
        assert_eq!(seen["version"], 1, "{name}: {seen}");
        assert_eq!(seen["stop_reason"], "end_turn", "{name}: {seen}");
        assert_eq!(seen["asked"], 1, "{name}: {seen}");
        assert_eq!(seen["exit_code"], 0, "{name}: {seen}");
        let text = seen["text"].as_str().unwrap_or_default();
        assert!(text.trim_end().ends_with("It is made."), "{name}: {seen}");
        let results = model.results();
        assert!(results.iter().any(|it| it.output.contains(MADE)), "{name}: {results:?}");
        assert!(ran_since_last_check(&fixture), "{name}");
        fixture.assert_clean();
    }
}
