//! Environments that real tools create, in the images of an agent and of the toolchains: their programs
//! run in the sidecar by their own path (`spec/decide.md#programs-by-path`).

use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use aifo_tests::{ContainerSetup, Engine, Outcome, Running};

/// The deadline of a script: some install packages.
const PATIENCE: Duration = Duration::from_secs(300);

/// Where a program of python runs: its prefix, and a variable that only the sidecar has.
const WHERE: &str = "import os, sys\nprint(sys.prefix, os.environ.get('PIP_CACHE_DIR'))\n";
const SIDECAR: &str = "/var/cache/aifo/pip/pip";

/// Makes a wheel with a console script.
const WHEEL: &str = "import zipfile\n\
    info = 'demo-1.dist-info/'\n\
    with zipfile.ZipFile('demo-1-py3-none-any.whl', 'w') as wheel:\n\
    \x20   wheel.writestr('demo.py', 'def main():\\n    exec(open(\"where.py\").read())\\n')\n\
    \x20   wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1\\n')\n\
    \x20   wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\n\
    Tag: py3-none-any\\n')\n\
    \x20   wheel.writestr(info + 'entry_points.txt', '[console_scripts]\\ndemo = demo:main\\n')\n\
    \x20   wheel.writestr(info + 'RECORD', '')\n";

/// A session of codex's image with sidecars of the toolchains' images.
struct Fixture {
    containers: ContainerSetup,
    agent: String,
}

impl Fixture {
    /// Reports the test as skipped if an image is missing, or of an older recipe.
    fn of_run(test: &str) -> Option<Self> {
        let engine = Engine::of_run(test)?;
        let prefix = std::env::var("AIFO_CODER_IMAGE_PREFIX").unwrap_or_default();
        let image = |name: &str| format!("{prefix}aifo-{name}:latest");
        let inspect = |name: &str, format: &str| {
            let outcome = Outcome::of(&mut engine.command([
                "image",
                "inspect",
                "--format",
                format,
                &image(name),
            ]));
            (outcome.code() == Some(0)).then(|| outcome.text().trim().to_owned())
        };
        let label = r#"{{index .Config.Labels "dev.aifo.interpreters"}}"#;
        let has_label = inspect("agent-codex", label).is_some_and(|label| label.starts_with('/'));
        let is_there = |name| inspect(name, "{{.Id}}").is_some();
        if !has_label || !is_there("toolchain-python") || !is_there("toolchain-node") {
            skip(test, "build them with: aifo-coder images build codex python node");
            return None;
        }
        let containers = ContainerSetup::of(&engine)
            .kind_from("python", &image("toolchain-python"))
            .kind_from("node", &image("toolchain-node"));
        // A package index may be reached through a proxy with certificates of its own.
        let containers = match std::env::var("SSL_CERT_FILE") {
            Ok(file) => {
                let dir = containers.setup().scratch().join("home/.config/aifo");
                fs::create_dir_all(&dir).unwrap();
                let text = "[containers]\nadmit = ['ca-bundle']\n";
                fs::write(dir.join("config.toml"), text).unwrap();
                containers.env("SSL_CERT_FILE", &file)
            }
            Err(_) => containers,
        };
        let fixture = Fixture { containers, agent: image("agent-codex") };
        for (path, text) in [
            ("where.py", WHERE),
            ("wheel.py", WHEEL),
            ("web/package.json", r#"{"name": "web", "version": "1.0.0", "bin": "cli.js"}"#),
            ("web/cli.js", "#!/usr/bin/env node\nconsole.log(process.env.NPM_CONFIG_CACHE);\n"),
        ] {
            let path = containers_path(&fixture, path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Some(fixture)
    }

    fn command(&self, script: &str) -> Command {
        let mut run = self.containers.command("run");
        run.args(["--image", &self.agent, "--", "bash", "-c", script]);
        run
    }

    /// Runs a script as the agent, which must print these environments of the workspace.
    #[track_caller]
    fn check(&self, script: &str, environments: &[&str]) {
        let outcome = Running::start(&mut self.command(script)).finish_within(PATIENCE);
        let printed = outcome.exited(0).text();
        let printed: Vec<_> = printed.lines().collect();
        let root = self.containers.setup().workspace().display().to_string();
        let expected: Vec<_> =
            environments.iter().map(|name| format!("{root}/{name} {SIDECAR}")).collect();
        assert_eq!(printed, expected, "{outcome:?}");
    }
}

fn containers_path(fixture: &Fixture, path: &str) -> std::path::PathBuf {
    fixture.containers.setup().workspace().join(path)
}

fn skip(test: &str, why: &str) {
    // A closed stderr does not matter.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn pip_and_console_scripts_of_an_environment() {
    let Some(it) = Fixture::of_run("pip_and_console_scripts_of_an_environment") else { return };
    it.check(
        "set -e; python3 wheel.py; python3 -m venv env; . env/bin/activate
         pip install -q --no-index ./demo-1-py3-none-any.whl >&2
         demo; env/bin/demo; python where.py; deactivate; env/bin/demo; env/bin/python -m pip -V >&2
         python3 -m venv .venv; pip install -q --no-index ./*.whl >&2; .venv/bin/demo",
        &["env", "env", "env", "env", ".venv"],
    );
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn environments_of_uv() {
    let Some(it) = Fixture::of_run("environments_of_uv") else { return };
    it.check(
        "set -e; export UV_OFFLINE=1; uv venv -q; uv venv -q other
         .venv/bin/python where.py; uv run -q --no-project where.py
         uv run -q --no-project python where.py
         . other/bin/activate; python where.py; uv run -q --no-project --active where.py",
        &[".venv", ".venv", ".venv", "other", "other"],
    );
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn environments_of_tools_from_the_package_index() {
    let test = "environments_of_tools_from_the_package_index";
    let Some(it) = Fixture::of_run(test) else { return };
    let rows = [
        ("virtualenv", "tools/bin/virtualenv -q made; made/bin/python where.py", "made"),
        (
            "tox",
            "printf '[testenv]\\npackage=skip\\ncommands=python -V\\n' > tox.ini
             tools/bin/tox -q -e py >&2; .tox/py/bin/python where.py",
            ".tox/py",
        ),
        (
            "poetry",
            "mkdir -p po; cd po; printf '[tool.poetry]\\npackage-mode = false\\n\
             [tool.poetry.dependencies]\\npython = \">=3.9\"\\n' > pyproject.toml
             export POETRY_VIRTUALENVS_IN_PROJECT=1
             ../tools/bin/poetry config --local virtualenvs.in-project true >&2
             ../tools/bin/poetry install -q >&2; ../tools/bin/poetry run python ../where.py",
            "po/.venv",
        ),
        (
            "pytest",
            "printf 'def test():\\n    print(end=\"\")\\n' > test_it.py; . tools/bin/activate
             pytest -q test_it.py >&2; python where.py",
            "tools",
        ),
    ];
    for (tool, script, environment) in rows {
        let install = format!("python3 -m venv tools && tools/bin/pip install -q {tool} >&2");
        let installed = Running::start(&mut it.command(&install)).finish_within(PATIENCE);
        if installed.code() != Some(0) {
            skip(test, &format!("{tool} is not in the package index"));
            continue;
        }
        it.check(&format!("set -e; {script}"), &[environment]);
    }
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn programs_of_node_modules() {
    let Some(it) = Fixture::of_run("programs_of_node_modules") else { return };
    let script = "set -e; npm install --silent --offline --no-audit --install-links ./web >&2
                  node_modules/.bin/web; PATH=$PWD/node_modules/.bin:$PATH; web; npx --offline web";
    let outcome = Running::start(&mut it.command(script)).finish_within(PATIENCE);
    let line = "/var/cache/aifo/node/npm\n";
    assert_eq!(outcome.exited(0).text(), line.repeat(3), "{outcome:?}");
}
