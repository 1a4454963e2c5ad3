//! An agent whose client runs its commands and writes its files: aifo does both in the agent's
//! container.

use std::fs;

use aifo_tests::model::{Agent, Script};
use serde_json::{Value, json};

use super::bridge::{editor, log, turn};
use super::{
    MADE, MAKE, configured, empty_fixtures, initialize, new_session, ran_since_last_check,
};

#[test]
#[ignore = "container: cargo xtask test agents"]
fn commands_and_files_of_an_agent_are_served_in_its_container() {
    let test = "commands_and_files_of_an_agent_are_served_in_its_container";
    for fixture in empty_fixtures(test) {
        if fixture.agent != Agent::Kimi {
            continue;
        }
        let inside = fixture.workspace().join("inside.txt");
        // A file in its container, outside the workspace.
        let own = "/home/coder/own.txt";
        let script = Script::new()
            .shell(MAKE)
            .call("WriteFile", json!({"path": inside, "content": "by kimi\n"}))
            .call("WriteFile", json!({"path": own, "content": "by kimi\n"}))
            .say("It is written.");
        let (fixture, model) = configured(fixture, &script).expect("the agent supports ACP");
        let mut editor = editor(&fixture, "log");
        initialize(&mut editor);
        let session = new_session(&mut editor, &fixture);
        let (why, text) = turn(&mut editor, &session);
        assert_eq!(why, "end_turn", "{text}");
        assert!(text.ends_with("It is written."), "{text}");
        assert_eq!(editor.finish().code(), Some(0));
        fixture.assert_clean();

        let results = model.results();
        assert!(results[0].output.contains(MADE), "{results:?}");
        assert!(ran_since_last_check(&fixture));
        assert_eq!(fs::read_to_string(&inside).unwrap(), "by kimi\n");
        assert!(results[2].output.contains("is outside the workspace"), "{results:?}");

        let lines = log(&fixture, "log");
        let params_of = |method: &str| -> Vec<&Value> {
            let frames = lines.iter().map(|line| &line["frame"]);
            frames.filter(|frame| frame["method"] == method).map(|frame| &frame["params"]).collect()
        };
        assert_eq!(params_of("terminal/create")[0]["command"], MAKE);
        assert_eq!(params_of("terminal/release").len(), 1);
        let written: Vec<_> =
            params_of("fs/write_text_file").into_iter().map(|params| &params["path"]).collect();
        assert_eq!(written, [inside.to_str().unwrap(), own]);
    }
}
