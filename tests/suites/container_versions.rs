//! Versions that a project's files request, and the image of its devcontainer, decide the images of
//! sidecars (`spec/cli.md#versions`).

use std::fs;
use std::io::Write;
use std::process::Command;

use aifo_tests::{ContainerSetup, EVERY_TOOL, Engine, Outcome, Terminal};

/// The image with node that the test tags.
const OURS: &str = "aifo-toolchain-node:latest";

/// A tag of the official image. Removed at the end, unless it was there before.
struct OfficialTag(Engine, Option<String>);

impl OfficialTag {
    /// Tags the image of aifo with the name of an official one. `None` if the engine has no image of aifo,
    /// or has the official one.
    fn new(test: &str, version: &str) -> Option<Self> {
        let engine = Engine::of_run(test)?;
        let name = match engine.is_podman() {
            true => format!("docker.io/library/node:{version}"),
            false => format!("node:{version}"),
        };
        let has = |image: &str| {
            let inspect = ["image", "inspect", "--format", "there", image];
            Outcome::of(&mut engine.command(inspect)).text().trim_end() == "there"
        };
        if !has(OURS) || has(&name) {
            // A closed stderr does not matter.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: no {OURS}, or there is {name}");
            return None;
        }
        engine.text(["tag", OURS, &name]);
        Some(OfficialTag(engine, Some(name)))
    }

    fn name(&self) -> &str {
        self.1.as_deref().unwrap_or_default()
    }
}

impl Drop for OfficialTag {
    fn drop(&mut self) {
        if let Some(name) = &self.1 {
            let _ = self.0.command(["rmi", "--no-prune", name]).status();
        }
    }
}

/// `aifo-coder why --toolchains` in a setup's workspace.
fn why(containers: &ContainerSetup, engine: &Engine) -> String {
    let mut why = containers.setup().coder();
    why.args(["why", "--toolchains", "--workspace"]).env("AIFO_BACKEND", engine.name());
    Outcome::of(why.arg(containers.setup().workspace())).exited(0).text()
}

/// Runs `node --version` in a session of its own.
fn node(containers: &ContainerSetup) -> Outcome {
    let mut exec = containers.command("exec");
    exec.args(["--toolchain", "node", "--", "node", "--version"]);
    Outcome::of(&mut exec)
}

fn write(containers: &ContainerSetup, file: &str, text: &str) {
    fs::write(containers.setup().workspace().join(file), text).unwrap();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_official_image_of_a_requested_version_is_used() {
    let test = "the_official_image_of_a_requested_version_is_used";
    let Some(official) = OfficialTag::new(test, "7777") else { return };
    let containers = ContainerSetup::of(&official.0);
    write(&containers, "package.json", r#"{"engines": {"node": ">=20"}}"#);
    let text = why(&containers, &official.0);
    assert!(text.contains("image:      aifo-toolchain-node:latest\n"), "{text}");
    assert!(text.contains("no file of the project requests a version"), "{text}");

    write(&containers, ".nvmrc", "7777\n");
    let expected = format!(
        "toolchain:  node\nimage:      {}\n\
         because:    '.nvmrc' requests node 7777; the official image is on this machine\n",
        official.name()
    );
    assert_eq!(why(&containers, &official.0), expected);
    let flags = ["--toolchain", "node", "--dry-run", "--", "true"];
    let plan = Outcome::of(containers.command("run").args(flags)).exited(0).text();
    assert!(plan.contains(&format!(" {} ", official.name())), "{plan}");
    let outcome = node(&containers);
    assert!(outcome.exited(0).text().starts_with('v'));
    assert!(!outcome.stderr.contains("7777"), "{}", outcome.stderr);

    // A user's choice comes first.
    let image = format!("node={OURS}");
    let mut run = containers.command("run");
    run.args(flags.map(|flag| if flag == "true" { "false" } else { flag }));
    let mut args: Vec<_> = run.get_args().map(ToOwned::to_owned).collect();
    args.splice(1..1, ["--toolchain-image".into(), image.into()]);
    let mut run = containers.setup().coder();
    let plan = Outcome::of(run.args(args)).exited(0).text();
    assert!(plan.contains(OURS) && !plan.contains("7777"), "{plan}");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_version_without_an_image_is_reported_in_one_line() {
    let test = "a_version_without_an_image_is_reported_in_one_line";
    // Only to learn whether there is an image of aifo.
    let Some(official) = OfficialTag::new(test, "7778") else { return };
    let containers = ContainerSetup::of(&official.0);
    write(&containers, ".node-version", "9999\n");
    let text = why(&containers, &official.0);
    assert!(text.contains("requests node 9999; a session pulls the official image\n"), "{text}");
    let outcome = node(&containers);
    assert!(outcome.exited(0).text().starts_with('v'));
    let lines = outcome.stderr.lines().filter(|line| line.contains("cannot be pulled: "));
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), 1, "{}", outcome.stderr);
    assert!(lines[0].contains("'.node-version' requests node 9999, but "), "{lines:?}");
    assert!(lines[0].ends_with("or name an image with --toolchain-image node=IMAGE"), "{lines:?}");
    assert!(outcome.stderr.contains("node: pulling "), "never silent: {}", outcome.stderr);

    // No text of the workspace becomes another image.
    for text in ["22@sha256:0", "../x", "-v", "22 --privileged", "evil/node"] {
        write(&containers, ".node-version", text);
        assert!(why(&containers, &official.0).contains(OURS), "{text}");
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_version_of_the_user_has_an_image_or_the_session_does_not_start() {
    let test = "a_version_of_the_user_has_an_image_or_the_session_does_not_start";
    let Some(official) = OfficialTag::new(test, "7779") else { return };
    let engine = &official.0;
    let containers = ContainerSetup::of(engine);
    // `auto` does not fall back to the local backend, which has one version.
    let node = |version: &str| {
        let mut exec = containers.setup().coder();
        exec.args(["exec", "--backend", "auto", "--no-toolchain-cache", "--workspace"]);
        exec.arg(containers.setup().workspace()).args(["--toolchain", &format!("node@{version}")]);
        exec.args(["--", "node", "--version"]);
        if engine.is_podman() {
            exec.env("DOCKER_HOST", "unix:///run/nothing.sock");
        }
        Outcome::of(&mut exec)
    };
    assert!(node("7779").exited(0).text().starts_with('v'), "the official image");
    let contained =
        ["image", "inspect", "--format", "{{index .Config.Labels \"dev.aifo.versions\"}}", OURS];
    let contained = Outcome::of(&mut engine.command(contained)).text();
    if let Some(major) = contained.split(['.', '\n']).next().filter(|it| !it.is_empty()) {
        let printed = node(major).exited(0).text();
        assert!(printed.starts_with(&format!("v{major}.")), "the usual image: {printed}");
    }
    let outcome = node("9998");
    let error = &outcome.exited(86).stderr;
    let hint = "hint: omit the version, load '";
    assert!(error.contains("aifo-coder: you request node 9998, but "), "{error}");
    assert!(error.contains("node:9998' cannot be pulled: ") && error.contains(hint), "{error}");
    assert!(error.contains("or name an image with --toolchain-image node=IMAGE\n"), "{error}");
    assert!(!error.contains("processes of this machine"), "{error}");
    let outcome = node("nightly");
    let expected = "aifo-coder: you request node nightly, but no image of that version is on this machine\n\
         hint: omit the version, or name an image with --toolchain-image node=IMAGE\n";
    assert_eq!(outcome.exited(86).stderr, expected);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_image_of_a_devcontainer_is_used_after_a_question_on_a_terminal() {
    let test = "the_image_of_a_devcontainer_is_used_after_a_question_on_a_terminal";
    let Some(engine) = Engine::of_run(test) else { return };
    let containers = ContainerSetup::of(&engine);
    let workspace = containers.setup().workspace();
    fs::create_dir(workspace.join(".devcontainer")).unwrap();
    let text =
        format!("{{ // ours\n \"image\": \"{EVERY_TOOL}\", \"runArgs\": [\"--privileged\"], }}");
    write(&containers, ".devcontainer/devcontainer.json", &text);
    write(&containers, "app.py", "");
    let session = || {
        let mut run = containers.setup().coder();
        run.args(["run", "--backend", engine.name(), "--no-toolchain-cache", "--workspace"]);
        run.arg(&workspace).args(["--", "python3", "-c", "print('it', 'ran')"]);
        run
    };
    let plan = |mut run: Command| {
        let position = run.get_args().position(|arg| arg == "--").unwrap();
        let mut args: Vec<_> = run.get_args().map(ToOwned::to_owned).collect();
        args.insert(position, "--dry-run".into());
        run = containers.setup().coder();
        Outcome::of(run.args(args)).exited(0).text()
    };
    assert!(!plan(session()).contains(EVERY_TOOL), "not without the answer");
    assert!(why(&containers, &engine).contains("a session on a terminal asks"));

    let terminal = Terminal::new();
    let process = terminal.start(&session());
    terminal.expect("run the project's tools in it? The answer is remembered. [y/N] ").press("y\n");
    terminal.expect("it ran");
    assert_eq!(process.finish(), Ok(0));
    assert!(plan(session()).contains(EVERY_TOOL), "it is remembered");
    assert!(!plan(session()).contains("--privileged"), "nothing but the image is read");
    assert!(why(&containers, &engine).contains("devcontainer names it, as you agreed"));

    let terminal = Terminal::new();
    assert_eq!(terminal.start(&session()).finish(), Ok(0));
    assert!(!terminal.shown().contains("[y/N]"), "{}", terminal.shown());

    // The answer is for this image only.
    write(&containers, ".devcontainer/devcontainer.json", "{\"image\": \"evil:latest\"}");
    assert!(!plan(session()).contains("evil"));
}
