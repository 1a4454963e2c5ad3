//! An editor that has left, and then has no more time.

use aifo_tests::{AcpAgent, Editor, Group, Script, Setup, Signal, Step, eventually};
use serde_json::json;

#[test]
fn term_ends_an_agent_at_once_that_takes_its_time_to_end() {
    let stays = [Step::IgnoreSignals, Step::Spawn(Group::Agents), Step::Hang];
    let agent = AcpAgent::new(&Script::polite().at_end(stays));
    let setup = Setup::new();
    let mut coder = setup.coder();
    coder.args(["acp", "--backend", "local", "--agent-command", &agent.command_line()]);
    let mut editor = Editor::start(&mut coder);
    let introduced = editor.ask("initialize", &json!({"protocolVersion": 1}));
    editor.answered(introduced).unwrap();
    editor.say_no_more();
    eventually("the agent does not end", || agent.pids().len() == 2);
    // Without TERM it would be killed in the end, and the editor have gone.
    assert_eq!(editor.end_by(Signal::SIGTERM).code(), Some(128 + 15));
    assert_eq!(agent.alive(), [0; 0]);
}
