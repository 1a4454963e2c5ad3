//! README's table of trust is true for an agent in a container and its tools.

use std::fs;
use std::net::TcpListener;

use aifo_tests::{
    ContainerSetup, EVERY_TOOL, Engine, Outcome, REAL_KEY, Scratch, Trusted, differences,
    trust_probe, write_script,
};

const README: &str = include_str!("../../README.md");

#[test]
#[ignore = "container: cargo xtask test docker"]
fn each_row_is_as_a_running_session_has_it() {
    let Some(engine) = Engine::of_run("each_row_is_as_a_running_session_has_it") else { return };
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let containers = ContainerSetup::of(&engine).kind("c-cpp").caches();
    let containers = containers.env("OPENAI_API_KEY", REAL_KEY).env("AIFO_ENV_MINE", "mine");
    let scratch = containers.setup().scratch().to_owned();
    let home = scratch.join("home");
    fs::create_dir_all(home.join(".qwen")).unwrap();
    let settings = r#"{"ui": {"theme": "GitHub"}}"#;
    let login = r#"{"access_token": "x"}"#;
    for (file, text) in
        [("private", "x"), (".qwen/settings.json", settings), (".qwen/oauth_creds.json", login)]
    {
        fs::write(home.join(file), text).unwrap();
    }
    let probe = trust_probe(&home, &scratch.join("run"), &listener);
    let projects = [Scratch::new(), Scratch::new()];
    let [one, another] = projects.each_ref().map(Scratch::path);
    for project in [one, another] {
        write_script(project.join("qwen"), "bash ./probe.sh; echo; make --silent");
        fs::write(project.join("probe.sh"), &probe).unwrap();
        fs::write(project.join("Makefile"), "all:\n\t@bash ./probe.sh\n").unwrap();
    }
    let measured = [one, one, another].map(|project| {
        let mut run = containers.command_in("run", project);
        run.args(["--image", EVERY_TOOL, "--"]).arg(project.join("qwen")).current_dir(project);
        let text = Outcome::of(&mut run).exited(0).text();
        let (agent, tools) = text.split_once("\n\n").unwrap_or_else(|| panic!("{text}"));
        [agent, tools].map(str::to_owned)
    });
    for project in [one, another] {
        containers.clear_caches(project);
    }
    let (agent, tools) =
        (measured.each_ref().map(|it| &*it[0]), measured.each_ref().map(|it| &*it[1]));
    assert_eq!(differences(README, Trusted::Agent, agent), "");
    assert_eq!(differences(README, Trusted::Tools, tools), "");
    let wrong = README.replace("| **[names]", "| **open** [names]");
    let difference = "network: 'open names";
    assert!(differences(&wrong, Trusted::Agent, agent).starts_with(difference));
}
