//! Agents push and open a pull request without the credential of the forge (`spec/forges.md`).

use std::fs;

use aifo_tests::model::Script;
use aifo_tests::{Outcome, eventually_within, write_executable};

use super::{PATIENCE, fixtures_with, is_over, run, start_with_stdin, without_the_rows_own};
use crate::container_forge::{Forge, TOKEN, git};

#[test]
#[ignore = "container: cargo xtask test agents"]
fn an_agent_pushes_and_opens_a_pull_request() {
    let Ok(gh) = fs::read("/usr/bin/gh") else {
        eprintln!("skipped: an_agent_pushes_and_opens_a_pull_request: no gh");
        return;
    };
    for fixture in fixtures_with("an_agent_pushes_and_opens_a_pull_request", &[]) {
        let (name, forge) = (fixture.name(), Forge::start());
        let create = "./gh pr create --title t --body b --head aifo/topic --base main";
        let lines = [
            "git fetch origin && git ls-remote origin",
            "git push origin HEAD:refs/heads/aifo/topic",
            create,
            "git push origin HEAD:main",
            "{ env; cat /proc/*/environ | tr '\\0' '\\n'; git config --list; } >seen; wc -c seen",
        ];
        let script = lines.iter().fold(Script::new(), |script, line| script.shell(*line));
        let (model, url) = fixture.model(script.say("It is done."));
        let mut start = without_the_rows_own(fixture.agent.headless(&url, model.script()));
        let text = format!(
            "[[rule]]\npush = 'refs/heads/aifo/*'\ncreate = true\nthen = 'allow'\n\
             [services.work]\nurl = '{}'\nenv = 'FORGE_TOKEN'\nform = 'github'\n",
            forge.url()
        );
        start.files.push((".config/aifo/config.toml", text));
        let workspace = fixture.workspace();
        git(&workspace, &["init", "-q", "-b", "main"]);
        git(&workspace, &["commit", "-qm", "first", "--allow-empty"]);
        let bare = forge.repository("o/r");
        git(&workspace, &["push", "-q", bare.to_str().unwrap(), "main"]);
        git(&workspace, &["commit", "-qm", "second", "--allow-empty"]);
        git(&workspace, &["remote", "add", "origin", &format!("{}/o/r.git", forge.url())]);
        write_executable(workspace.join("gh"), &gh, 0o755);
        let (mut command, stdin, fixture) = run(fixture, start);
        command.env("FORGE_TOKEN", TOKEN);
        let running = start_with_stdin(&mut command, &stdin);
        for (expected, option) in
            [("creates a pull request", "session"), ("refs/heads/main", "deny")]
        {
            let mut listed = String::new();
            eventually_within(PATIENCE, &format!("{name} asks: {expected}"), || {
                listed = Outcome::of(fixture.containers.setup().coder().arg("approve")).text();
                listed.contains(expected)
            });
            let id = listed.split(' ').next().unwrap();
            let mut approve = fixture.containers.setup().coder();
            Outcome::of(approve.args(["approve", "--answer", id, option])).exited(0);
        }
        eventually_within(PATIENCE, &format!("{name} has ended"), || is_over(running.pid()));
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{name}: {outcome:?}");
        let results = model.results();
        let [fetched, pushed, created, refused, seen] = results.as_slice() else {
            panic!("{name}: {results:?}");
        };
        assert!(fetched.output.contains("refs/heads/main"), "{name}: {fetched:?}");
        assert!(pushed.output.contains("aifo/topic"), "{name}: {pushed:?}");
        assert!(created.output.contains("/o/r/pull/1"), "{name}: {created:?}");
        assert!(refused.output.contains("remote: aifo: "), "{name}: {refused:?}");
        let seen = fs::read_to_string(workspace.join("seen")).expect(&seen.output);
        assert!(seen.contains("GIT_CONFIG_COUNT"), "{name}: {seen}");
        assert!(!format!("{results:?}{seen}").contains(TOKEN), "{name}: {results:?}");
        assert_eq!(forge.refs(), ["refs/heads/aifo/topic", "refs/heads/main"], "{name}");
    }
}
