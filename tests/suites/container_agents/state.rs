//! The state that an agent in a container keeps, and the user's (`spec/agents.md#state`).

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use aifo_tests::{ContainerSetup, EVERY_TOOL, Engine, Outcome, Running, eventually};

use super::user_file;

/// `aifo-coder run NAME`, with these options before it.
fn agent(containers: &ContainerSetup, options: &[&str], name: &str) -> Command {
    let mut run = containers.command("run");
    run.args(["--image", EVERY_TOOL]).args(options).arg(name);
    run
}

/// `aifo-coder run codex` in another workspace.
fn codex_in(containers: &ContainerSetup, workspace: &Path) -> Command {
    let mut run = containers.command_in("run", workspace);
    run.args(["--image", EVERY_TOOL, "codex"]).current_dir(workspace);
    run
}

/// The user's home.
fn home(containers: &ContainerSetup) -> PathBuf {
    containers.setup().scratch().join("home")
}

/// The directories of an agent's states, one per project.
fn states(containers: &ContainerSetup, name: &str) -> Vec<PathBuf> {
    let states = home(containers).join(".local/share/aifo/state").join(name);
    let entries = fs::read_dir(states).into_iter().flatten().flatten();
    let mut states: Vec<_> = entries.map(|entry| entry.path()).filter(|it| it.is_dir()).collect();
    states.sort();
    states
}

/// The only state's directory in place of the user's home.
#[track_caller]
fn own(containers: &ContainerSetup, name: &str) -> PathBuf {
    let states = states(containers, name);
    let [state] = states.as_slice() else { panic!("{states:?}") };
    state.join("home")
}

/// Makes codex run this script in the workspace.
fn codex(containers: &ContainerSetup, script: &str) {
    fs::write(containers.setup().workspace().join("agent.sh"), script).unwrap();
    user_file(containers, "[agents.codex]\ncommand = ['sh', 'agent.sh']\n");
}

/// Writes a file with its parents.
fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A login of codex with this token.
fn login(token: &str) -> String {
    format!(r#"{{"OPENAI_API_KEY": null, "tokens": {{"access_token": "{token}"}}}}"#)
}

/// The token in a login of codex.
fn token(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let login: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    login["tokens"]["access_token"].as_str().unwrap_or_default().to_owned()
}

/// A script that replaces codex's login by a rename.
fn refresh(token: &str) -> String {
    format!("echo '{}' >~/.codex/new && mv ~/.codex/new ~/.codex/auth.json\n", login(token))
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn it_keeps_the_directories_of_its_row() {
    let Some(engine) = Engine::of_run("it_keeps_the_directories_of_its_row") else { return };
    for options in [&[][..], &["--state", "host"]] {
        let containers = ContainerSetup::of(&engine);
        user_file(
            &containers,
            "[agents.mine]\ncommand = ['sh', '-c', 'cd && cat .mine/a .config/mine/b 2>/dev/null; \
             echo \"$0 $MODE\"; \
             echo one >.mine/a && echo two >.config/mine/b && echo three >.config/c && echo four >d']\n\
             state = ['.mine', '.config/mine']\nset = { MODE = 'fast' }\n",
        );
        let run = || {
            let mut run = agent(&containers, options, "mine");
            Outcome::of(run.arg("--an-argument")).exited(0).text()
        };
        assert_eq!(run(), "--an-argument fast\n");
        assert_eq!(run(), "one\ntwo\n--an-argument fast\n");
        let users = home(&containers);
        let home = if options.is_empty() { own(&containers, "mine") } else { users.clone() };
        assert_eq!(fs::read_to_string(home.join(".mine/a")).unwrap(), "one\n");
        assert_eq!(fs::read_to_string(home.join(".config/mine/b")).unwrap(), "two\n");
        assert!(!home.join(".config/c").exists() && !home.join("d").exists(), "that went with it");
        assert_eq!(fs::metadata(home.join(".mine")).unwrap().mode() & 0o777, 0o700);
        assert_eq!(users.join(".mine").exists(), !options.is_empty());
    }
}

/// A socket in a state directory could lead to a program of this machine.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn it_reaches_no_program_of_this_machine_by_its_state() {
    let test = "it_reaches_no_program_of_this_machine_by_its_state";
    let Some(engine) = Engine::of_run(test) else { return };
    let containers = ContainerSetup::of(&engine).kind("c-cpp");
    user_file(
        &containers,
        "[agents.mine]\ncommand = ['/usr/bin/python3', 'reach.py']\nstate = ['.mine']\n\
         conversations = ['.mine/deep']\n",
    );
    let deep = home(&containers).join(".mine/deep");
    fs::create_dir_all(&deep).unwrap();
    let _listening = UnixListener::bind(deep.join("sock")).unwrap();
    let reach = "import os, socket\n\
                 path = os.path.expanduser('~/.mine/deep/sock')\n\
                 print(os.path.exists(path), socket.socket(socket.AF_UNIX).connect_ex(path) != 0)\n";
    fs::write(containers.setup().workspace().join("reach.py"), reach).unwrap();
    let run = |options: &[&str]| Outcome::of(&mut agent(&containers, options, "mine"));
    assert_eq!(run(&["--state-import", "conversations"]).exited(0).text(), "False True\n");
    let outcome = run(&["--state", "host"]);
    assert_eq!(outcome.exited(0).text(), "True True\n");
    let warning =
        "WARNING: the agent can write to your ~/.mine; mine on this machine runs commands";
    assert!(outcome.stderr.contains(warning), "{outcome:?}");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn what_an_agent_configures_does_not_reach_the_user() {
    let test = "what_an_agent_configures_does_not_reach_the_user";
    let Some(engine) = Engine::of_run(test) else { return };
    let containers = ContainerSetup::of(&engine);
    let users = home(&containers).join(".codex");
    let config =
        "model = \"m\"\nnotify = [\"notify-me\"]\n[mcp_servers.mine]\ncommand = \"server\"\n";
    write(&users.join("config.toml"), config);
    write(&users.join("prompts/unknown.md"), "unknown");
    write(&users.join("auth.json"), &login("first"));
    // A link is not followed, not even to a file of the same directory.
    write(&home(&containers).join("secret"), "secret");
    symlink(home(&containers).join("secret"), users.join("AGENTS.md")).unwrap();
    codex(
        &containers,
        "cd ~/.codex && cat config.toml && ls -A | xargs && cat AGENTS.md 2>/dev/null\n\
         printf '[mcp_servers.evil]\\ncommand = \"evil\"\\n' >>config.toml\n\
         mkdir -p prompts && echo evil >prompts/unknown.md && echo evil >hooks.json\n\
         echo '{\"tokens\": {\"access_token\": \"second\"}, \"mcp_servers\": {\"x\": \"evil\"}}' >auth.json\n",
    );
    let outcome = Outcome::of(&mut agent(&containers, &[], "codex"));
    let private = "app-server-control app-server-daemon auth.json config.toml";
    assert_eq!(outcome.exited(0).text(), format!("\"model\" = \"m\"\n{private}\n"));
    let line = outcome.stderr.lines().find(|line| line.contains("a state of its own"));
    let line = line.unwrap_or_else(|| panic!("{outcome:?}"));
    assert!(
        line.contains("imported: ~/.codex/config.toml (without mcp_servers.mine, notify);"),
        "{line}"
    );
    assert!(line.contains("--state host"), "{line}");
    let link = "'~/.codex/AGENTS.md' is not imported: it is a link";
    assert!(outcome.stderr.contains(link), "{outcome:?}");
    for word in ["copies of ~/.codex for this project", "the login in ~/.codex/auth.json"] {
        assert!(outcome.stderr.contains(word), "{word}: {outcome:?}");
    }

    assert_eq!(fs::read_to_string(users.join("config.toml")).unwrap(), config);
    assert_eq!(fs::read_to_string(users.join("prompts/unknown.md")).unwrap(), "unknown");
    assert!(!users.join("hooks.json").exists());
    assert_eq!(token(&users.join("auth.json")), "second", "only the login");
    assert!(!fs::read_to_string(users.join("auth.json")).unwrap().contains("evil"));

    // The next session of this project has it, that of another project has not.
    let outcome = Outcome::of(&mut agent(&containers, &[], "codex"));
    assert!(outcome.exited(0).text().contains("evil"), "{outcome:?}");
    assert!(!outcome.stderr.contains("a state of its own"), "{outcome:?}");
    let other = containers.setup().scratch().join("other");
    fs::create_dir(&other).unwrap();
    fs::copy(containers.setup().workspace().join("agent.sh"), other.join("agent.sh")).unwrap();
    let outcome = Outcome::of(&mut codex_in(&containers, &other));
    assert!(!outcome.exited(0).text().contains("evil"), "{outcome:?}");
    assert_eq!(states(&containers, "codex").len(), 2);

    // Listed, and removed.
    let state = |args: &[&str]| {
        let mut coder = containers.setup().coder();
        Outcome::of(coder.arg("state").args(args)).exited(0).text()
    };
    let list = state(&["list"]);
    assert_eq!(list.matches("\ncodex  ").count(), 2, "{list}");
    assert!(list.contains(&other.display().to_string()), "{list}");
    fs::remove_dir_all(&other).unwrap();
    assert_eq!(state(&["clear", "--gone"]).lines().count(), 1);
    assert_eq!(state(&["clear", "codex"]).lines().count(), 1);
    assert_eq!(states(&containers, "codex"), [""; 0].map(PathBuf::from));
    assert!(users.join("auth.json").exists());
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_login_is_refreshed_in_both_directions() {
    let test = "a_login_is_refreshed_in_both_directions";
    let Some(engine) = Engine::of_run(test) else { return };
    let containers = ContainerSetup::of(&engine);
    let users = home(&containers).join(".codex/auth.json");
    write(&users, &login("first"));
    let wait = "until grep -q third ~/.codex/auth.json; do sleep 0.1; done\n";
    codex(&containers, &[&refresh("second"), wait, &refresh("fourth")].concat());
    let run = Running::start(&mut agent(&containers, &[], "codex"));
    eventually("the agent's login is the user's", || token(&users) == "second");
    // The user's agent refreshes it while the session runs.
    let draft = users.with_extension("new");
    fs::write(&draft, login("third")).unwrap();
    fs::rename(&draft, &users).unwrap();
    run.finish().exited(0);
    assert_eq!(token(&users), "fourth");

    // The user refreshes it between sessions.
    fs::write(&users, login("fifth")).unwrap();
    codex(&containers, "cat ~/.codex/auth.json\n");
    let outcome = Outcome::of(&mut agent(&containers, &[], "codex"));
    assert!(outcome.exited(0).text().contains("fifth"), "{outcome:?}");

    // A damaged login, and one behind a link, are not copied.
    let secret = home(&containers).join("secret.json");
    fs::write(&secret, login("secret")).unwrap();
    let damage = "echo '{\"tokens\": ' >~/.codex/auth.json\n";
    let link = "ln -sf ../../../secret.json ~/.codex/auth.json; cat ~/.codex/auth.json 2>&1\n";
    for script in [damage, link] {
        codex(&containers, script);
        let outcome = Outcome::of(&mut agent(&containers, &[], "codex"));
        assert!(!outcome.text().contains("secret\"}"), "{outcome:?}");
        assert!(outcome.stderr.contains("is not copied: it is "), "{outcome:?}");
        assert_eq!(token(&users), "fifth");
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn two_sessions_at_once_have_the_newest_login() {
    let test = "two_sessions_at_once_have_the_newest_login";
    let Some(engine) = Engine::of_run(test) else { return };
    let containers = ContainerSetup::of(&engine);
    let users = home(&containers).join(".codex/auth.json");
    write(&users, &login("first"));
    let other = containers.setup().scratch().join("other");
    fs::create_dir(&other).unwrap();
    let wait = |token: &str| {
        format!("touch ready; until grep -q {token} ~/.codex/auth.json; do sleep 0.1; done\n")
    };
    codex(&containers, &[wait("second"), refresh("third")].concat());
    let first = Running::start(&mut agent(&containers, &[], "codex"));
    let ready = containers.setup().workspace().join("ready");
    eventually("the first session runs", || ready.exists());
    fs::write(other.join("agent.sh"), [refresh("second"), wait("third")].concat()).unwrap();
    let second = Running::start(&mut codex_in(&containers, &other));
    first.finish().exited(0);
    second.finish().exited(0);
    assert_eq!(token(&users), "third");
    let states = states(&containers, "codex");
    let tokens = states.iter().map(|state| token(&state.join("home/.codex/auth.json")));
    assert_eq!(tokens.collect::<Vec<_>>(), ["third", "third"]);
}
