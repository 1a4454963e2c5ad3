//! Real agents work with phantom keys (`spec/keys.md`): the model gets the user's key, and the agent has
//! another one.

use std::fs;
use std::io::Write;
use std::time::Duration;

use aifo_tests::model::{FakeModel, KEY, Script};
use aifo_tests::{AgentFixture, Running, eventually_within, is_alive, is_zombie};

/// The deadline of a task: some agents load for many seconds.
const PATIENCE: Duration = Duration::from_secs(240);

#[test]
#[ignore = "container: cargo xtask test agents"]
fn agents_do_their_task_without_the_key() {
    for fixture in AgentFixture::of_run("agents_do_their_task_without_the_key", &["c-cpp"]) {
        let name = fixture.name();
        fs::write(fixture.workspace().join("Makefile"), "where:\n\t@echo made\n").unwrap();
        let search = format!("env | grep -ci {KEY}; make where");
        let script = Script::new().shell(search).say("It is done.");
        let model = FakeModel::start(script);
        let Some(mut start) = fixture.agent.with_key(&model.url(), model.script()) else {
            continue;
        };
        start.command.retain(|word| word != "--no-daemon");
        let home = fixture.containers.setup().scratch().join("home");
        for (path, text) in &start.files {
            let file = home.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let mut run = fixture.command("run");
        run.args(&start.command).envs(start.environment.iter().map(|(name, value)| (name, value)));
        let (reader, mut writer) = std::io::pipe().unwrap();
        let running = Running::start(run.stdin(reader));
        // Some agents do not read it.
        let _ = writer.write_all(start.stdin.as_bytes());
        drop(writer);
        let pid = running.pid();
        eventually_within(PATIENCE, &format!("{name} has ended"), || {
            !is_alive(pid) || is_zombie(pid)
        });
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{name}: {outcome:?}");
        assert!(outcome.stderr.contains("aifo adds the key of"), "{name}: {outcome:?}");
        assert!(outcome.stderr.contains("to models, "), "{name}: {outcome:?}");
        let results = model.results();
        assert_eq!(results.len(), 1, "{name}: {outcome:?}");
        assert!(results[0].output.contains("0\nmade"), "{name} has the key: {results:?}");
        let requests = model.requests();
        let keys: Vec<_> = requests.iter().filter_map(|request| request.key.as_deref()).collect();
        assert!(!keys.is_empty() && keys.iter().all(|key| *key == KEY), "{name}: {keys:?}");
        assert_eq!(fixture.left(), [""; 0], "{name}");
    }
}
