//! A real agent on the web page: in its container, with a scripted model and tools in sidecars, and
//! the page in headless Chromium (`spec/web.md`).

use std::fs;
use std::process::Command;

use aifo_tests::model::{Agent, Script};
use aifo_tests::{AgentFixture, Chromium, Signal, WebServer, keys};

/// The command that the agent runs; its output proves where it ran.
const MAKE: &str = "make where";
const MAKEFILE: &str = "where:\n\t@echo made for $${CCACHE_DIR:-none}\n\t@touch ran\n";
const MADE: &str = "made for /var/cache/aifo/ccache";

#[test]
#[ignore = "container: cargo xtask test agents"]
fn a_turn_in_the_browser_runs_its_allowed_call_in_a_sidecar() {
    let test = "a_turn_in_the_browser_runs_its_allowed_call_in_a_sidecar";
    for fixture in AgentFixture::of_run(test, &["c-cpp"]) {
        let script = Script::new().shell(MAKE).say("It is **made**.");
        let (model, url) = fixture.model(script);
        let Some(start) = fixture.agent.asking(&url) else { continue };
        let fixture = fixture.configured(&start);
        fs::write(fixture.workspace().join("Makefile"), MAKEFILE).unwrap();
        let name = fixture.name();
        let Some(page) = Chromium::start(&format!("agent_web::{test}: {name}")) else { return };

        let mut web = fixture.command("web");
        let listen = format!("127.0.0.1:{}", aifo_tests::free_port());
        web.args(["--quiet", "--listen", &listen, name]);
        let server = WebServer::start(&mut web);
        page.open(&format!("http://{}/#{}", server.host, server.secret));
        page.wait("the page", "document.querySelector('#empty').checkVisibility()");
        page.write("#text", "Please do as the script says.");
        page.press(&[keys::ENTER]);

        // Its container starts, and the agent asks.
        page.wait_for(PATIENCE, "a question", "document.querySelector('#asks .option.allow')");
        // As the command or title; openhands sends it only with the call.
        let place = if name == "openhands" { "#log" } else { "#asks" };
        page.wait_text(place, MAKE);
        assert!(!fixture.workspace().join("ran").exists(), "{name}: not before the answer");
        page.wait(
            "it takes answers",
            "performance.now() - document.querySelector('#asks .block').dataset.since > 400",
        );
        page.screenshot(&format!("{name}-question"));
        page.click("#asks .option.allow");
        page.wait_for(PATIENCE, "the turn ends", "document.querySelector('.turn-end')");
        page.wait_text(".decision summary", "(you)");
        page.wait_text("#log .md", "It is made.");
        page.wait_text(".tool.done", MAKE);
        // A call that has ended is folded.
        page.click(".tool.done summary");
        // gemini reports no output of its shell, and kimi's is that of the client terminal.
        if !["gemini", "kimi"].contains(&name) {
            page.wait_text(".tool.done pre.output", MADE);
        }
        // The call of the sidecar is shown with the agent's.
        page.wait_text(".tool.done .run", "c-cpp");
        page.screenshot(&format!("{name}-answer"));
        assert!(fixture.workspace().join("ran").exists(), "{name}");
        assert!(model.results()[0].output.contains(MADE), "{name}: {:?}", model.results());

        page.click("#show-timeline");
        page.wait_text("#lanes .lane-name", "c-cpp");
        page.wait("a bar", "document.querySelector('#lanes .bar.done')");
        page.wait_text("#calls .call", MAKE);
        page.screenshot(&format!("{name}-timeline"));

        assert_eq!(server.end_by(Signal::SIGTERM).code(), Some(0), "{name}");
        fixture.assert_clean();
    }
}

/// A force push is answered on the page, once: by the agent's own permission request, or about the call
/// of an agent that asks for nothing.
#[test]
#[ignore = "container: cargo xtask test agents"]
fn force_pushes_are_answered_on_the_page_and_the_agent_goes_on() {
    let test = "force_pushes_are_answered_on_the_page_and_the_agent_goes_on";
    for fixture in AgentFixture::of_run(test, &[]) {
        let push = |branch: &str| format!("git push --force ./origin.git main:{branch}");
        let script = Script::new().shell(push("denied")).shell(push("once")).shell("git --version");
        let (model, url) = fixture.model(script.say("It goes on."));
        // The others ask for permission, and end their turn after a denial.
        let start = match fixture.agent {
            Agent::Opencode => fixture.agent.interactive(&url),
            Agent::Gemini | Agent::Claude => fixture.agent.asking(&url).unwrap(),
            _ => continue,
        };
        let fixture = fixture.configured(&start);
        for line in [
            "init -q -b main",
            "-c user.name=a -c user.email=a@b.example commit -q --allow-empty -m first",
            "init -q --bare origin.git",
        ] {
            let mut git = Command::new("git");
            assert!(
                git.current_dir(fixture.workspace())
                    .args(line.split(' '))
                    .status()
                    .unwrap()
                    .success()
            );
        }
        let name = fixture.name();
        let Some(page) = Chromium::start(&format!("agent_web::{test}: {name}")) else { return };
        let mut web = fixture.command("web");
        let listen = format!("127.0.0.1:{}", aifo_tests::free_port());
        web.args(["--quiet", "--listen", &listen, name]);
        let server = WebServer::start(&mut web);
        page.open(&format!("http://{}/#{}", server.host, server.secret));
        page.wait("the page", "document.querySelector('#empty').checkVisibility()");
        page.write("#text", "Please do as the script says.");
        page.press(&[keys::ENTER]);

        // The questions; the last is one of the agent about a call that no rule is about.
        for (command, button) in [
            (push("denied"), "reject"),
            (push("once"), "allow"),
            ("git --version".to_owned(), "allow"),
        ] {
            let ends = "document.querySelector('.turn-end')";
            let asked = format!(
                "document.querySelector('#asks')?.textContent.includes('{command}') && performance.now() - \
                 document.querySelector('#asks .block')?.dataset.since > 400"
            );
            page.wait_for(PATIENCE, "a question or the end", &format!("({asked}) || {ends}"));
            if page.run(&format!("return Boolean({ends})")) == true {
                assert_eq!(command, "git --version", "{name}: it was not asked");
                break;
            }
            page.screenshot(&format!("{name}-{button}"));
            page.click(&format!("#asks .option.{button}"));
            page.wait_for(
                PATIENCE,
                "the question is gone",
                &format!("!document.querySelector('#asks').textContent.includes('{command}')"),
            );
        }
        page.wait_for(PATIENCE, "the turn ends", "document.querySelector('.turn-end')");
        page.wait_text("#log .md", "It goes on.");
        let results = model.results();
        assert!(results[2].output.contains("git version "), "{name}: {results:?}");
        let ran = ["denied", "once"].map(|branch| {
            let runs = fixture.calls();
            let words = format!("main:{branch}");
            let is_run = |call: &&serde_json::Value| {
                call["rule"] == "in-place" && call["argv"].to_string().contains(&words)
            };
            let count = runs.iter().filter(is_run).count();
            let file = fixture.workspace().join("origin.git/refs/heads").join(branch);
            assert_eq!(file.exists(), count > 0, "{name}: {branch}");
            count
        });
        assert_eq!(ran, [0, 1], "{name}: {results:?}");
        assert_eq!(server.end_by(Signal::SIGTERM).code(), Some(0), "{name}");
        fixture.assert_clean();
    }
}

/// Generous: a container starts, and an agent in it.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);
