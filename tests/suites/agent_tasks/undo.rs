//! Undo of what the shell of a real agent has done (`spec/history.md`).

use std::fs;
use std::path::Path;
use std::process::Command;

use aifo_tests::model::Script;
use aifo_tests::{AgentFixture, Outcome};

use super::{fixtures_with, run_to_end};

const CLEAN: &str = "git clean -fdx";
const REFACTORING: &str = "python3 -c \"import pathlib
for file in pathlib.Path('src').iterdir():
    file.write_text(file.read_text().replace('keep', 'lose'))
pathlib.Path('src/b.txt').rename('src/c.txt')\"";

/// Files with their contents, committed or not.
const FILES: [(&str, &str); 5] = [
    ("src/a.txt", "keep a\n"),
    ("src/b.txt", "keep b\n"),
    (".gitignore", "ignored/\n"),
    ("ignored/data.csv", "1;2\n"),
    ("notes/plan.txt", "a week of work\n"),
];

fn read(project: &Path) -> Vec<Option<String>> {
    FILES.iter().map(|(name, _)| fs::read_to_string(project.join(name)).ok()).collect()
}

/// The id of the call whose first words are these.
fn call(fixture: &AgentFixture, words: &str) -> String {
    let calls = fixture.calls();
    let word =
        |call: &serde_json::Value, key: &str| call[key].as_str().unwrap_or_default().to_owned();
    let is_meant = |call: &&serde_json::Value| {
        format!("{} {}", word(call, "tool"), word(call, "argv")).starts_with(words)
    };
    let found = calls.iter().find(is_meant).unwrap_or_else(|| panic!("no {words}: {calls:?}"));
    found["exec_id"].as_str().expect("a call has an id").to_owned()
}

fn undo(fixture: &AgentFixture, id: &str) {
    let mut undo = fixture.containers.setup().coder();
    undo.args(["undo", "--yes", id]).current_dir(fixture.workspace());
    Outcome::of(&mut undo).exited(0);
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn a_cleaned_project_and_a_bad_refactoring_come_back() {
    let test = "a_cleaned_project_and_a_bad_refactoring_come_back";
    for fixture in fixtures_with(test, &["python"]) {
        let (name, project) = (fixture.name(), fixture.workspace());
        for (file, text) in FILES {
            let path = project.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        for words in ["init -q", "add src .gitignore", "commit -q -m first"] {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b.example"]);
            git.args(words.split(' ')).env("GIT_CONFIG_GLOBAL", "/dev/null");
            Outcome::of(git.current_dir(&project)).exited(0);
        }
        let before = read(&project);
        let script = Script::new().shell(CLEAN).shell(REFACTORING).say("It is tidy now.");
        let (model, url) = fixture.model(script);
        let start = fixture.agent.headless(&url, model.script());
        let (outcome, fixture) = run_to_end(fixture, start);
        model.finished();
        assert!(!project.join("notes").exists() && !project.join("ignored").exists(), "{name}");
        assert!(project.join("src/c.txt").exists(), "{name}: {outcome:?}");

        undo(&fixture, &call(&fixture, "git clean"));
        let cleaned = read(&project);
        assert_eq!(cleaned[3..], before[3..], "{name}");
        assert_eq!(cleaned[0].as_deref(), Some("lose a\n"), "{name}: the later call stays");
        undo(&fixture, &call(&fixture, "python3 -c"));
        assert_eq!(read(&project), before, "{name}");
        assert!(!project.join("src/c.txt").exists(), "{name}");
    }
}
