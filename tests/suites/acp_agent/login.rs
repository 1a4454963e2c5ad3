//! An agent's authentication in a terminal.
//!
//! Proves `spec/acp-commands.md#in-a-terminal`.

use std::fs;
use std::process::{Command, Stdio};

use aifo_tests::{
    AcpAgent, Editor, Outcome, Script, SessionSetup, Step, Terminal, write_executable,
};
use serde_json::{Value, json};

/// A workspace, and an agent with an ACP profile: `fake`, which speaks ACP unless it is given words.
struct PromptTest {
    setup: SessionSetup,
    _agent: AcpAgent,
}

impl PromptTest {
    fn new(methods: Value) -> Self {
        let result = json!({"protocolVersion": 1, "authMethods": methods});
        let agent = AcpAgent::new(&Script::conforming().on("initialize", [Step::Answer(result)]));
        let setup = SessionSetup::new();
        let program = setup.scratch().join("fake");
        let login = "test -t 0 && echo 'a terminal'; printf '<%s>' \"$@\"; echo \" A=$A SET=$SET\"; \
            pwd; read line; echo \"$line\"; exit 7";
        let text = format!(
            "#!/bin/sh\nif [ $# = 1 ] && ! [ -t 0 ]; then exec {}; fi\nshift\n{login}\n",
            agent.command_line()
        );
        write_executable(&program, text, 0o755);
        let dir = setup.scratch().join("home/.config/aifo");
        fs::create_dir_all(&dir).unwrap();
        let profile = format!(
            "[agents.fake]\ncommand = [\"false\"]\nimage = \"none:1\"\n\
             [agents.fake.acp]\ncommand = [{program:?}, \"--acp\"]\nset = {{ SET = \"s\" }}\n"
        );
        fs::write(dir.join("config.toml"), profile).unwrap();
        PromptTest { setup, _agent: agent }
    }

    /// What an editor starts.
    fn acp(&self) -> Command {
        let mut coder = self.setup.coder();
        coder.args(["acp", "--backend", "local", "fake"]);
        coder
    }

    /// The ways to authenticate, as the editor gets them. It stays connected.
    #[track_caller]
    fn methods(&self) -> (Editor, Value) {
        let mut editor = Editor::start(&mut self.acp());
        let introduced = editor.request("initialize", &json!({"protocolVersion": 1}));
        let methods = editor.response(introduced).unwrap()["authMethods"].clone();
        (editor, methods)
    }
}

/// Starts what an editor has configured, with what a method adds.
fn with(mut command: Command, method: &Value) -> Command {
    command.args(method["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()));
    let env = method["env"].as_object().unwrap().iter();
    command.envs(env.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())));
    command
}

#[test]
fn the_agents_own_program_runs_in_the_terminal_with_what_the_method_adds() {
    let terminal = |args: Value| {
        json!({"id": "t", "name": "Log in", "type": "terminal", "args": args,
            "env": {"A": "1", "PATH": "/evil", "AIFO_BACKEND": "nosuch", "LD_PRELOAD": "/evil.so"}})
    };
    let agent = json!({"id": "a", "name": "Ask", "args": ["-q"], "env": {"A": "1"}});
    let own = ["--backend", "nosuch", "-q"];
    let test = PromptTest::new(json!([
        terminal(json!(["--cli", "auth login"])),
        terminal(json!(own)),
        agent
    ]));
    let (editor, methods) = test.methods();
    assert_eq!(methods[2], agent, "it is none for a terminal");
    assert_eq!(methods[0]["args"], json!(["--cli", "auth login"]));
    for (method, words) in
        [(&methods[0], "<--cli><auth login>"), (&methods[1], "<--backend><nosuch><-q>")]
    {
        let screen = Terminal::new();
        let started = screen.start(&with(test.acp(), method));
        screen.expect("a terminal\r\n").expect(&format!("{words} A=1 SET=s\r\n"));
        screen.expect(&format!("{}\r\n", test.setup.workspace().display()));
        screen.press("secret\r");
        assert_eq!(started.finish(), Ok(7), "{}", screen.shown());
    }
    editor.finish().exited(0);
}

#[test]
fn without_arguments_a_terminal_has_the_agent_and_a_hint() {
    let test = PromptTest::new(json!([]));
    let screen = Terminal::new();
    let started = screen.start(&test.acp());
    screen.expect("hint: ").expect("aifo-coder run fake").expect("a terminal\r\n");
    screen.press("\r");
    assert_eq!(started.finish(), Ok(7), "{}", screen.shown());
}

#[test]
fn arguments_run_the_agent_without_a_terminal_too() {
    let test = PromptTest::new(json!([]));
    let mut login = test.acp();
    login.args(["login", "--files"]).stdin(Stdio::null());
    let outcome = Outcome::of(&mut login);
    assert!(outcome.exited(7).text().starts_with("<login><--files> A= SET=s\n"), "{outcome:?}");
    let mut any = test.setup.coder();
    any.args([
        "acp",
        "--backend",
        "local",
        "--agent-command",
        "/usr/bin/printf <%s>",
        "--",
        "-q",
        "x",
    ]);
    assert_eq!(Outcome::of(&mut any).exited(0).text(), "<-q><x>");
}
