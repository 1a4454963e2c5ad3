//! An agent whose client runs its commands and writes its files: aifo does both in the agent's
//! container.

use std::fs;

use aifo_tests::model::{Agent, Script};
use serde_json::{Value, json};

use super::bridge::{editor, log, turn};
use super::{MADE, MAKE, configured, empty_fixtures, has_run, introduced, opened};

#[test]
#[ignore = "container: cargo xtask test agents"]
fn commands_and_files_of_an_agent_are_served_in_its_place() {
    let test = "commands_and_files_of_an_agent_are_served_in_its_place";
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
        let (fixture, model) = configured(fixture, &script).expect("it speaks ACP");
        let mut editor = editor(&fixture, "log");
        introduced(&mut editor);
        let session = opened(&mut editor, &fixture);
        let (why, text) = turn(&mut editor, &session);
        assert_eq!(why, "end_turn", "{text}");
        assert!(text.ends_with("It is written."), "{text}");
        assert_eq!(editor.finish().code(), Some(0));
        fixture.is_clean();

        let results = model.results();
        assert!(results[0].output.contains(MADE), "{results:?}");
        assert!(has_run(&fixture));
        assert_eq!(fs::read_to_string(&inside).unwrap(), "by kimi\n");
        assert!(results[2].output.contains("is outside the workspace"), "{results:?}");

        let lines = log(&fixture, "log");
        let last_id = |method: &str| -> Vec<&Value> {
            let frames = lines.iter().map(|line| &line["frame"]);
            frames.filter(|frame| frame["method"] == method).map(|frame| &frame["params"]).collect()
        };
        assert_eq!(last_id("terminal/create")[0]["command"], MAKE);
        assert_eq!(last_id("terminal/release").len(), 1);
        let written: Vec<_> =
            last_id("fs/write_text_file").into_iter().map(|params| &params["path"]).collect();
        assert_eq!(written, [inside.to_str().unwrap(), own]);
    }
}
