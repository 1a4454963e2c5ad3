//! Agents that draw a screen, detached and attached in tmux (`spec/attach.md`).

use std::fs;
use std::process::Command;

use aifo_tests::eventually;
use aifo_tests::model::Script;

use super::terminal::{assert_modes_are_restored, in_tmux, terminal_keys, wait_for};
use super::{fixtures_with, run, without_the_rows_own};

/// Runs a held agent, then attaches to it whenever a line is typed.
const AROUND: &str = "stty -g >before; \"$@\"; code=$?; stty -g >after; echo left with $code
    while read -r line; do clear; \"$1\" attach; code=$?; stty -g >after; echo left with $code; done";

#[test]
#[ignore = "container: cargo xtask test agents"]
fn a_detached_agent_works_on_and_is_drawn_again() {
    for fixture in fixtures_with("a_detached_agent_works_on_and_is_drawn_again", &[]) {
        let Some((ready, _)) = terminal_keys(fixture.agent) else { continue };
        let name = fixture.name();
        let (model, url) = fixture.model(Script::new().shell("make where").say("The end of it."));
        let mut start = fixture.agent.interactive(&url);
        start.command.splice(0..0, ["--keep", "--toolchain", "auto"].map(Into::into));
        let (command, _, fixture) = run(fixture, without_the_rows_own(start));
        let workspace = fixture.workspace();
        let tmux = in_tmux(AROUND, &command, &workspace);
        let patient = |what: &str| wait_for(&tmux, name, what);
        patient(ready);
        tmux.press(&["w", "o", "r", "d"]);
        patient("word");
        tmux.press(&["C-\\", "C-d"]);
        patient("left with 0");
        tmux.press(&["Enter"]);
        tmux.until("the shell's lines no more", |screen| !screen.contains("left with"));
        patient("word");
        // In another size, and with a prompt before the terminal is left.
        tmux.press(&["Enter"]).press(&["C-\\", "C-d"]);
        patient("left with 0");
        model.finished();
        tmux.resize(100, 40);
        tmux.press(&["Enter"]);
        patient("The end of it.");
        let is_drawn = || tmux.screen().lines().any(|line| line.trim_end().chars().count() > 81);
        eventually("the screen has the new size", is_drawn);
        tmux.press(&["C-\\", "d"]);
        patient("left with 0");
        assert_modes_are_restored(&workspace, name);
        let mut end = Command::new(command.get_program());
        end.env_clear().envs(command.get_envs().filter_map(|(name, v)| Some((name, v?))));
        let sessions = String::from_utf8(end.arg("ps").output().unwrap().stdout).unwrap();
        assert!(sessions.contains(" detached "), "{sessions}");
        drop(tmux);
        let runtime = command.get_envs().find(|(name, _)| *name == "XDG_RUNTIME_DIR");
        end_holders(runtime.and_then(|(_, directory)| directory).unwrap().as_ref());
        assert_eq!(fixture.left(), [""; 0], "{name}");
    }
}

/// Ends the sessions whose holders have their directories here.
fn end_holders(runtime: &std::path::Path) {
    for directory in fs::read_dir(runtime).unwrap().flatten() {
        let Ok(record) = fs::read_to_string(directory.path().join("held.json")) else { continue };
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        let pid = i32::try_from(record["pid"].as_i64().unwrap()).unwrap();
        aifo_tests::send_signal(pid, aifo_tests::Signal::SIGTERM);
        eventually("the holder has ended", || !aifo_tests::is_alive(pid));
        fs::remove_dir_all(directory.path()).unwrap();
    }
}
