//! An agent that has its client run its commands and write its files: we do, in its own place.

use std::fs;

use aifo_tests::model::{Agent, Script};
use serde_json::{Value, json};

use super::bridge::{editor, log, turn};
use super::{MADE, MAKE, empty_sites, furnished, has_run, introduced, opened};

#[test]
#[ignore = "container: cargo xtask test agents"]
fn commands_and_files_of_an_agent_are_served_in_its_place() {
    let story = "commands_and_files_of_an_agent_are_served_in_its_place";
    for site in empty_sites(story) {
        if site.agent != Agent::Kimi {
            continue;
        }
        let inside = site.workspace().join("inside.txt");
        // What is inside its container and not in the workspace.
        let own = "/home/coder/own.txt";
        let script = Script::new()
            .shell(MAKE)
            .call("WriteFile", json!({"path": inside, "content": "by kimi\n"}))
            .call("WriteFile", json!({"path": own, "content": "by kimi\n"}))
            .say("It is written.");
        let (site, model) = furnished(site, &script).expect("it speaks ACP");
        let mut editor = editor(&site, "log");
        introduced(&mut editor);
        let session = opened(&mut editor, &site);
        let (why, text) = turn(&mut editor, &session);
        assert_eq!(why, "end_turn", "{text}");
        assert!(text.ends_with("It is written."), "{text}");
        assert_eq!(editor.leave().code(), Some(0));
        site.is_clean();

        let results = model.results();
        assert!(results[0].output.contains(MADE), "{results:?}");
        assert!(has_run(&site));
        assert_eq!(fs::read_to_string(&inside).unwrap(), "by kimi\n");
        assert!(results[2].output.contains("is outside the workspace"), "{results:?}");

        let lines = log(&site, "log");
        let asked = |method: &str| -> Vec<&Value> {
            let frames = lines.iter().map(|line| &line["frame"]);
            frames.filter(|frame| frame["method"] == method).map(|frame| &frame["params"]).collect()
        };
        assert_eq!(asked("terminal/create")[0]["command"], MAKE);
        assert_eq!(asked("terminal/release").len(), 1);
        let written: Vec<_> =
            asked("fs/write_text_file").into_iter().map(|params| &params["path"]).collect();
        assert_eq!(written, [inside.to_str().unwrap(), own]);
    }
}
