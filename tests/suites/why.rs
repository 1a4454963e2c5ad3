//! `aifo-coder why`: explanations of calls without running them. Each output is a file in
//! `tests/snapshots/why`; `AIFO_WRITE_SNAPSHOTS=1` rewrites them for review.
//!
//! Proves `spec/cli.md#why`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aifo_tests::{Outcome, SessionSetup, Tool, binaries};

/// A question and its setup.
#[derive(Clone, Copy, Default)]
struct Question {
    /// The name of the snapshot.
    name: &'static str,
    /// The user's configuration, if any.
    user: &'static str,
    /// The workspace configuration.
    workspace: &'static str,
    /// The caller variables. `@` as in the arguments.
    env: &'static [(&'static str, &'static str)],
    /// The arguments of `aifo-coder why`. `@` is the parent of all other directories.
    words: &'static [&'static str],
}

fn setup() -> SessionSetup {
    let tools = ["node", "npm", "python3", "pip", "just", "javac", "ls"];
    let setup =
        tools.into_iter().fold(SessionSetup::new(), |setup, name| setup.tool(name, Tool::Fake));
    let say = Tool::File(b"#!/bin/sh\n".to_vec(), 0o755);
    let setup = setup.tool("say", say).tool("ninja", Tool::File(b"no program\n".to_vec(), 0o644));
    let scratch = scratch(&setup);
    for dir in ["workspace/src", "workspace/web/src", "agent", "home/.config/aifo"] {
        fs::create_dir_all(scratch.join(dir)).unwrap();
    }
    for own in ["web/.venv/bin/python3", "web/node_modules/.bin/tsc", "env/bin/python3"] {
        let own = scratch.join("workspace").join(own);
        fs::create_dir_all(own.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&binaries().tool, own).unwrap();
    }
    for file in ["workspace/app.js", "workspace/app.py", "agent/cli.py"] {
        fs::write(scratch.join(file), "").unwrap();
    }
    std::os::unix::fs::symlink("../workspace/app.py", scratch.join("agent/link.py")).unwrap();
    setup
}

/// `aifo-coder` without additional variables: each would count as the caller's.
fn coder(setup: &SessionSetup) -> Command {
    let mut coder = setup.coder();
    coder.env_remove("AIFO_BACKEND");
    coder
}

fn scratch(setup: &SessionSetup) -> PathBuf {
    setup.workspace().parent().expect("a setup has one parent directory").to_owned()
}

#[track_caller]
fn check(questions: &[Question]) {
    for question in questions {
        let setup = setup();
        let scratch = scratch(&setup);
        let at = |word: &str| word.replace('@', scratch.to_str().unwrap());
        if !question.user.is_empty() {
            let file = scratch.join("home/.config/aifo/config.toml");
            fs::write(file, at(question.user)).unwrap();
        }
        if !question.workspace.is_empty() {
            fs::write(setup.workspace().join(".aifo.toml"), question.workspace).unwrap();
        }
        let mut why = coder(&setup);
        why.envs(question.env.iter().map(|(name, value)| (name, at(value))));
        let outcome = Outcome::of(why.arg("why").args(question.words.iter().map(|word| at(word))));
        assert_eq!(outcome.stderr, "", "{}", question.name);
        let places = [
            ("workspace", "/project"),
            ("tools", "/usr/bin"),
            ("home", "/home/me"),
            ("agent", "/opt/agent"),
        ];
        let mut text = outcome.exited(0).text();
        for (dir, shown) in places {
            text = text.replace(scratch.join(dir).to_str().unwrap(), shown);
        }
        text = text.replace(scratch.to_str().unwrap(), "/elsewhere");
        let asked = format!("$ aifo-coder why {}\n", question.words.join(" "));
        let asked = asked.replace("@/agent", "/opt/agent").replace('@', "/elsewhere");
        compare(question.name, &(asked + &machine_independent(&text)));
    }
}

/// Removes kernel-dependent lines about confinement.
fn machine_independent(text: &str) -> String {
    let depends = |line: &str| line.trim_start().trim_start_matches('"').starts_with("confinement");
    text.lines().filter(|line| !depends(line)).map(|line| format!("{line}\n")).collect()
}

#[track_caller]
fn compare(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("snapshots/why/{name}.txt"));
    if std::env::var_os("AIFO_WRITE_SNAPSHOTS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, expected, "'{}' says otherwise", file.display());
}

const RUST: &str = "--toolchain=rust";
const NODE: &str = "--toolchain=node";
const PYTHON: &str = "--toolchain=python";
const OWN_PYTHON: &str = "local_python = '@/tools/python3'";

#[test]
fn which_sidecar_and_why() {
    let none = Question::default();
    check(&[
        Question { name: "own-kind", words: &[RUST, "cargo", "build"], ..none },
        Question {
            name: "first-that-has-it",
            words: &["--toolchain=rust,c-cpp,node", "make", "-j4"],
            ..none
        },
        Question { name: "only-one-runs", words: &[NODE, "make"], ..none },
        Question { name: "from-below", words: &[RUST, "--cwd=@/workspace/src", "cargo"], ..none },
        Question { name: "python-stands-for-python3", words: &[PYTHON, "python", "-V"], ..none },
        Question {
            name: "projects-own-python",
            words: &[PYTHON, "--cwd=@/workspace/web", "python", "app.py"],
            ..none
        },
        Question {
            name: "activated-python",
            env: &[("VIRTUAL_ENV", "@/workspace/env")],
            words: &[PYTHON, "--cwd=@/workspace/web", "python", "app.py"],
            ..none
        },
        Question {
            name: "projects-own-tsc",
            words: &[NODE, "--cwd=@/workspace/web/src", "tsc", "--noEmit"],
            ..none
        },
        Question { name: "versioned-python", words: &[PYTHON, "python3.99"], ..none },
        Question {
            name: "tool-of-your-own",
            user: "[kind.rust]\nallow = ['just']",
            words: &[RUST, "just", "test"],
            ..none
        },
        Question {
            name: "toolchain-of-your-own",
            user: "toolchains = ['java']\n[kind.java]\ntools = ['java', 'javac']",
            words: &["javac", "A.java"],
            ..none
        },
        Question {
            name: "time-limit",
            workspace: "max_secs = 600",
            words: &[RUST, "cargo", "test"],
            ..none
        },
        Question {
            name: "secrets-are-left-out",
            words: &[RUST, "cargo", "publish", "--token", "s3cret", "two words"],
            ..none
        },
    ]);
}

#[test]
fn refusals_are_explained_with_a_remedy() {
    let none = Question::default();
    check(&[
        Question { name: "not-running", words: &[NODE, "cargo", "build"], ..none },
        Question { name: "dev-tool-not-running", words: &["make"], ..none },
        Question { name: "not-installed", words: &[RUST, "rustfmt"], ..none },
        Question { name: "neither-running-nor-installed", words: &[RUST, "go", "build"], ..none },
        Question { name: "not-executable", words: &[RUST, "ninja"], ..none },
        Question { name: "outside", words: &[RUST, "--cwd=@/agent", "cargo", "build"], ..none },
        Question {
            name: "outside-for-the-version",
            words: &[RUST, "--cwd=@/agent", "cargo", "--version"],
            ..none
        },
        Question {
            name: "denied-by-the-workspace",
            workspace: "[kind.rust]\ndeny = ['rustup', 'cargo']",
            words: &[RUST, "cargo", "build"],
            ..none
        },
        Question {
            name: "denied-by-the-user",
            user: "\n\n[kind.python]\ndeny = ['pip']",
            words: &[PYTHON, "pip", "install", "x"],
            ..none
        },
        Question {
            name: "left-out-by-the-workspace",
            workspace: "toolchains = ['node']",
            words: &["--toolchain=rust,node", "cargo", "build"],
            ..none
        },
    ]);
}

#[test]
fn calls_that_never_reach_a_sidecar_are_explained() {
    let none = Question::default();
    let notify = "[notify]\ncommand = ['@/tools/say', '{args}']\nsafe_dirs = ['@/tools']";
    check(&[
        Question { name: "no-shim", words: &["ls", "-l"], ..none },
        Question { name: "no-such-command", words: &["frobnicate"], ..none },
        Question { name: "say", user: notify, words: &["say", "done"], ..none },
        Question { name: "say-option", user: notify, words: &["say", "-f", "/etc/passwd"], ..none },
        Question {
            name: "say-not-safe",
            user: "[notify]\nsafe_dirs = []",
            words: &["say"],
            ..none
        },
        Question {
            name: "say-switched-off",
            user: notify,
            workspace: "[notify]\nenabled = false",
            words: &["say", "done"],
            ..none
        },
    ]);
}

#[test]
fn a_path_is_executed_without_a_shim() {
    let setup = setup();
    let why = |words: &[&str]| Outcome::of(coder(&setup).arg("why").args(words)).exited(0).text();
    let text = why(&["/bin/sh", "-c", "true"]);
    assert!(text.contains("result:      /bin/sh would run next to the agent\n"), "{text}");
    assert!(text.contains("so no shim takes the call\n"), "{text}");
    let text = why(&["/nonexistent/cargo"]);
    assert!(text.contains("'cargo' alone would call the shim\n"), "{text}");
    assert!(text.contains("refused:     '/nonexistent/cargo' does not exist\n"), "{text}");
}

/// In the agent container a path may lead to a shim.
#[test]
fn a_path_to_an_interpreter_runs_in_a_sidecar() {
    let setup = setup();
    let venv = setup.workspace().join("venv");
    fs::create_dir_all(venv.join("bin")).unwrap();
    fs::write(venv.join("pyvenv.cfg"), "").unwrap();
    for (name, target) in [
        ("python", "/usr/bin/python3"),
        ("python3.12", "/opt/host/bin/python3.12"),
        ("node", "/usr/bin/node"),
    ] {
        std::os::unix::fs::symlink(target, venv.join("bin").join(name)).unwrap();
    }
    let shebang = format!("#!{}\n", venv.join("bin/python").display());
    fs::write(venv.join("bin/pip"), shebang).unwrap();
    let why = |backend: &str, words: &[&str]| {
        let mut why = coder(&setup);
        why.env("AIFO_BACKEND", backend).args(["why", "--toolchain=python"]).args(words);
        Outcome::of(why.current_dir(setup.workspace())).exited(0).text()
    };
    let python = venv.join("bin/python").display().to_string();
    let because = format!(
        "because:     {python} leads to an interpreter of a toolchain, so it runs in a sidecar\n"
    );
    for program in ["venv/bin/python", "venv/bin/pip"] {
        let text = why("docker", &[program, "x.py"]);
        let result = format!("result:      {program} would run in the python sidecar\n");
        assert!(text.contains(&result) && text.contains(&because), "{text}");
    }
    let text = why("docker", &["/usr/bin/python3", "x.py"]);
    assert!(text.contains("python3 would run in the python sidecar\n"), "{text}");
    let text = why("docker", &["venv/bin/node"]);
    assert!(text.contains("start the session with --toolchain node"), "{text}");
    let text = why("docker", &["venv/bin/python3.12"]);
    assert!(
        text.contains("refused:     containers do not have '/opt/host/bin/python3.12'\n"),
        "{text}"
    );
    let remedy = format!("python3 -m venv --clear '{}'\n", venv.display());
    assert!(text.contains(&remedy), "{text}");
    let text = why("local", &["venv/bin/python"]);
    assert!(text.contains("so no shim takes the call"), "{text}");
}

#[test]
fn whose_runtime() {
    let none = Question { user: OWN_PYTHON, ..Question::default() };
    check(&[
        Question { name: "smart-off", words: &[NODE, "node", "app.js"], ..none },
        Question {
            name: "node-inside",
            words: &[NODE, "--smart-node", "node", "--no-warnings", "app.js"],
            ..none
        },
        Question { name: "node-eval", words: &[NODE, "--agent=codex", "node", "-e", "1"], ..none },
        Question { name: "node-test", words: &[NODE, "--agent=qwen", "node", "--test"], ..none },
        Question {
            name: "python-module",
            words: &[PYTHON, "--agent=aider", "python3", "-m", "aider"],
            ..none
        },
        Question {
            name: "python-outside",
            words: &[PYTHON, "--smart-python", "python3", "-W", "ignore", "@/agent/cli.py", "-x"],
            ..none
        },
        Question {
            name: "python-inside",
            words: &[PYTHON, "--smart-python", "python3", "app.py"],
            ..none
        },
        Question {
            name: "python-link-into-the-workspace",
            words: &[PYTHON, "--smart-python", "python3", "@/agent/link.py"],
            ..none
        },
        Question {
            name: "python-stdin",
            words: &[PYTHON, "--smart-python", "python3", "-"],
            ..none
        },
        Question {
            name: "pip-is-never-local",
            words: &[PYTHON, "--smart-python", "pip", "list"],
            ..none
        },
        Question {
            name: "smart-by-configuration",
            user: "local_python = '@/tools/python3'\n[agent]\npython = true",
            words: &[PYTHON, "python3", "-m", "http.server"],
            ..none
        },
    ]);
}

#[test]
fn which_variables_pass() {
    let none = Question::default();
    let callers = &[
        ("CI", "1"),
        ("RUST_LOG", "debug"),
        ("RUSTC_WRAPPER", "sccache"),
        ("CARGO_TARGET_DIR", "/elsewhere/out"),
        ("CARGO_REGISTRY_TOKEN", "s3cret"),
        ("FOO", "1"),
        ("MY_MODE", "1"),
        ("MODE", "slow"),
    ];
    check(&[
        Question { name: "variables", env: callers, words: &[RUST, "cargo", "test"], ..none },
        Question {
            name: "variables-each",
            env: callers,
            words: &["-v", RUST, "cargo", "test"],
            ..none
        },
        Question {
            name: "variables-of-your-own",
            env: callers,
            user: "[env]\nallow = ['MY_*', 'RUSTC_WRAPPER']\nset = { MODE = 'fast' }",
            workspace: "[env]\ndeny = ['RUST_*']",
            words: &["-v", RUST, "--env=FOO", "--env=SPEED=warp", "cargo", "test"],
        },
        Question { name: "variables-of-no-sidecar", words: &["-v", "ls"], ..none },
    ]);
}

#[test]
fn in_json() {
    let none = Question::default();
    check(&[
        Question { name: "json", words: &["--json", RUST, "cargo", "build"], ..none },
        Question { name: "json-refused", words: &["--json", NODE, "cargo", "build"], ..none },
        Question { name: "json-not-installed", words: &["--json", RUST, "rustfmt"], ..none },
    ]);
}

#[test]
fn confinement_is_reported() {
    let setup = setup();
    let ask = |tool| Outcome::of(coder(&setup).args(["why", RUST, tool])).exited(0).text();
    assert!(ask("cargo").contains("\nconfinement: tools "), "{}", ask("cargo"));
    assert!(!ask("ls").contains("confinement"), "local programs are not confined");
    let file = scratch(&setup).join("home/.config/aifo/config.toml");
    fs::write(file, "confine = 'off'").unwrap();
    let as_asked = "confinement: tools are not confined, as asked";
    assert!(ask("cargo").contains(as_asked), "{}", ask("cargo"));
}

/// Sidecars in containers have the tools of their images, whatever this machine has.
#[test]
fn sidecars_in_containers() {
    let setup = setup();
    let image = scratch(&setup).join("image");
    // An engine with every image, or none.
    let info =
        r#"{"ServerVersion":"28.0.0","OperatingSystem":"x","KernelVersion":"6.1","MemTotal":1}"#;
    let setup = setup.script(
        "docker",
        &format!("case $1 in info) echo '{info}' ;; image) [ -e {} ] ;; esac", image.display()),
    );
    let ask = |backend: &str, words: &[&str]| {
        let mut why = coder(&setup);
        Outcome::of(why.env("AIFO_BACKEND", backend).arg("why").args(words)).exited(0).text()
    };
    let in_containers =
        |printed: &str| printed.contains("\nconfinement: tools run in containers: ");
    let rustfmt = "result:      rustfmt would run in the rust sidecar\n";

    let printed = ask("auto", &[RUST, "rustfmt"]);
    assert!(
        printed.contains("result:      nothing would run") && !in_containers(&printed),
        "{printed}"
    );
    fs::write(&image, "").unwrap();
    for backend in ["auto", "docker"] {
        let printed = ask(backend, &[RUST, "rustfmt"]);
        assert!(printed.contains(rustfmt) && in_containers(&printed), "{printed}");
    }
    let printed = ask("auto", &["--toolchain=rust,c-cpp", "make"]);
    assert!(printed.contains("chosen:      c-cpp, if its container has make\n"), "{printed}");
    assert!(printed.contains("\nnetwork:     names, stack tools:c-cpp: @forges\n"), "{printed}");
    let file = setup.workspace().join(".aifo.toml");
    fs::write(&file, "[containers]\nnet = 'none'\n").unwrap();
    let printed = ask("auto", &[RUST, "rustfmt"]);
    let network = format!("\nnetwork:     none ({}:2)\n", file.display());
    assert!(printed.contains(&network), "{printed}");
    let printed = ask("local", &[RUST, "rustfmt"]);
    assert!(!printed.contains("\nnetwork: "), "{printed}");
    assert!(!printed.contains(rustfmt) && !in_containers(&printed), "{printed}");
}

#[test]
fn a_question_that_makes_no_sense_has_no_answer() {
    let setup = setup();
    let rows: [(&[&str], i32, &str); 4] = [
        (&["--tolchain=rust", "cargo"], 2, "did you mean '--toolchain'?"),
        (&["--cwd=/nonexistent", "cargo"], 2, "'/nonexistent'"),
        (&["--toolchain=jva", "cargo"], 2, "there is no toolchain 'jva'"),
        (&[], 2, "required"),
    ];
    for (words, code, text) in rows {
        let outcome = Outcome::of(coder(&setup).arg("why").args(words));
        let stderr = &outcome.exited(code).stderr;
        assert!(stderr.contains(text), "{words:?}: {stderr}");
    }
}
