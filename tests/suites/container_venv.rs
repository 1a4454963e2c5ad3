//! Programs of the workspace whose interpreter is a toolchain's: virtual environments and scripts run in
//! their sidecar, by their own path (`spec/decide.md#programs-by-path`).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use aifo_tests::{ContainerSetup, EVERY_TOOL, Engine, Image, Outcome, write_executable};

/// An agent image without interpreters in the usual places; python is its own.
const AGENT: &str = "FROM aifo-test-base:latest\n\
    RUN mkdir -p /opt/agent/bin && mv /usr/bin/python3.11 /opt/agent/bin/python3 \\\n \
    && rm /usr/bin/python3* /usr/bin/node*\n\
    LABEL dev.aifo.interpreters=\"/opt/agent/bin/python3\"\n";

/// Prints python's view of itself, and a variable that only the python sidecar has.
const WHERE: &str = "import os, sys\n\
    print(sys.executable, sys.prefix, os.environ.get('PIP_CACHE_DIR'), *sys.argv[1:])\n";

/// The value of that variable.
const SIDECAR: &str = "/var/cache/aifo/pip/pip";

/// A session of an agent in the image, with sidecars for python and node.
struct Fixture {
    containers: ContainerSetup,
    image: Image,
}

impl Fixture {
    fn of_run(test: &str) -> Option<Self> {
        let engine = Engine::of_run(test)?;
        let image = engine.build(AGENT);
        let containers = ContainerSetup::of(&engine).kind("python").kind("node");
        let fixture = Fixture { containers, image };
        fixture.write("where.py", WHERE);
        Some(fixture)
    }

    fn workspace(&self) -> std::path::PathBuf {
        self.containers.setup().workspace()
    }

    /// Writes an executable file.
    fn write(&self, path: &str, text: &str) {
        write_executable(self.workspace().join(path), text, 0o755);
    }

    fn link(&self, target: impl AsRef<Path>, path: &str) {
        let path = self.workspace().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// `aifo-coder run` of a shell script as the agent.
    fn command(&self, script: &str) -> Command {
        let mut run = self.containers.command("run");
        run.args(["--image", self.image.name(), "--", "bash", "-c", script]);
        run
    }

    fn run(&self, script: &str) -> Outcome {
        Outcome::of(&mut self.command(script))
    }

    /// Runs a script; each of its lines of output must be the expected one.
    #[track_caller]
    fn check(&self, script: &str, expected: &[String]) {
        let printed = self.run(script).exited(0).text();
        let printed: Vec<_> = printed.lines().collect();
        assert_eq!(printed, expected, "{script}");
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_virtual_environment_runs_by_its_own_path() {
    let Some(it) = Fixture::of_run("a_virtual_environment_runs_by_its_own_path") else { return };
    let root = it.workspace().display().to_string();
    let of = |venv: &str, python: &str, more: &str| {
        let venv = format!("{root}/{venv}");
        format!("{venv}/bin/{python} {venv} {SIDECAR}{more}")
    };
    it.write("sub/keep", "");
    it.link("a venv", "current");
    it.write("bin/script", &format!("#!{root}/env/bin/python\n{WHERE}"));
    it.write("bin/found", &format!("#!/usr/bin/env python3\n{WHERE}"));
    it.check(
        "set -e; python3 -m venv --without-pip env; python3 -m venv --without-pip 'a venv'
         env/bin/python where.py one 'two words'
         $PWD/env/bin/python3 where.py
         env/bin/python3.11 where.py
         'a venv'/bin/python where.py
         current/bin/python where.py
         (cd sub; ../env/bin/python ../where.py; ../env/../current/bin/python ../where.py)
         (exec -a other env/bin/python where.py)
         (PATH=env/bin:$PATH; python where.py)
         bin/script x
         . env/bin/activate; python where.py; bin/found; bin/script; /usr/bin/env python where.py
         env -i PATH=$PATH python where.py",
        &[
            of("env", "python", " one two words"),
            of("env", "python3", ""),
            of("env", "python3.11", ""),
            of("a venv", "python", ""),
            of("current", "python", ""),
            of("env", "python", ""),
            of("a venv", "python", ""),
            of("env", "python", ""),
            of("env", "python", ""),
            of("env", "python", " x"),
            of("env", "python", ""),
            of("env", "python3", ""),
            of("env", "python", ""),
            of("env", "python", ""),
            of("env", "python", ""),
        ],
    );
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_program_by_path_is_like_a_local_one() {
    let Some(it) = Fixture::of_run("a_program_by_path_is_like_a_local_one") else { return };
    it.write(
        "child.py",
        "import shutil, subprocess, sys\n\
         print(shutil.which('python') == sys.executable, flush=True)\n\
         subprocess.run(['python', '-c', 'import sys; print(sys.prefix.endswith(\"/env\"))'])\n",
    );
    let outcome = it.run(
        "set -e; python3 -m venv --without-pip env
         env/bin/python -c 'import os; print(os.environ[\"UV_PYTHON_PREFERENCE\"])'
         echo piped | env/bin/python -c 'print(input())' | cat
         env/bin/python -c 'import sys; sys.exit(7)' || echo $?
         sh -c 'env/bin/python -c \"import os; os.kill(os.getpid(), 15)\"; echo $?'
         env/bin/python child.py
         script -qec \"env/bin/python -c 'import sys; print(sys.stdout.isatty(), sys.executable)'\" /dev/null
         cd /tmp; python3 -m venv --without-pip other; other/bin/python -c 'import sys; print(sys.prefix)'",
    );
    let root = it.workspace().display().to_string();
    // The terminal echoes the end of stdin.
    let printed = outcome.exited(0).text().replace('\r', "").replace("^@", "");
    let terminal = format!("True {root}/env/bin/python");
    let expected = ["only-system", "piped", "7", "143", "True", "True", &terminal, "/tmp/other"];
    let lines: Vec<_> = printed.lines().filter(|line| !line.contains("Terminated")).collect();
    assert_eq!(lines, expected);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn scripts_with_an_absolute_interpreter_run_in_its_sidecar() {
    let test = "scripts_with_an_absolute_interpreter_run_in_its_sidecar";
    let Some(it) = Fixture::of_run(test) else { return };
    let js = "console.log(process.env.NPM_CONFIG_CACHE, ...process.argv.slice(2));\n";
    it.write("cli.js", &format!("#!/usr/bin/env node\n{js}"));
    it.link("../../cli.js", "node_modules/.bin/cli");
    it.write("absolute.js", &format!("#!/usr/bin/node --no-warnings\n{js}"));
    it.write("local.js", &format!("#!/usr/local/bin/node\n{js}"));
    it.link("/usr/bin/node", "tools/node");
    it.write("named.js", &format!("#!{}/tools/node\n{js}", it.workspace().display()));
    it.write("a.py", "#!/usr/bin/python3\nimport os\nprint(os.environ.get('PIP_CACHE_DIR'))\n");
    it.write("b.py", "#!/usr/bin/env python3\nimport os\nprint(os.environ.get('PIP_CACHE_DIR'))\n");
    let node = "/var/cache/aifo/node/npm";
    it.check(
        "set -e; node_modules/.bin/cli 1; PATH=node_modules/.bin:$PATH; cli 2; ./absolute.js 3
         ./local.js 4; tools/node cli.js 5; ./named.js 6; ./a.py; ./b.py",
        &[
            format!("{node} 1"),
            format!("{node} 2"),
            format!("{node} 3"),
            format!("{node} 4"),
            format!("{node} 5"),
            format!("{node} 6"),
            SIDECAR.to_owned(),
            SIDECAR.to_owned(),
        ],
    );
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn programs_that_cannot_run_are_explained() {
    let Some(it) = Fixture::of_run("programs_that_cannot_run_are_explained") else { return };
    let root = it.workspace().display().to_string();
    it.link("/usr/bin/python3.14", "host/bin/python");
    it.write("host/pyvenv.cfg", "home = /usr/bin\nversion = 3.14.0\n");
    let rows = [
        (
            "host/bin/python x.py",
            127,
            format!(
                "cannot execute '{root}/host/bin/python': it leads to '/usr/bin/python3.14', which \
                 the python sidecar does not have\nhint: create the environment again: \
                 python3 -m venv --clear '{root}/host'"
            ),
        ),
        (
            "mkdir -p ~/v/bin; ln -s /usr/bin/python3 ~/v/bin/python; ~/v/bin/python -V",
            86,
            "program '/home/coder/v/bin/python' is outside the workspace and the session's \
             temporary directory"
                .to_owned(),
        ),
        (
            "ln -sf /usr/bin/python3 python; AIFO_SHIM_PROTO=2 ./python -V",
            86,
            format!(
                "protocol 2 cannot carry the path of '{root}/python'\nhint: call python by its name, \
                 or use protocol 3"
            ),
        ),
        (
            "curl -s --unix-socket ${AIFO_TOOLEEXEC_URL#unix://} -H 'X-Aifo-Proto: 2' \
             -H \"Authorization: Bearer $AIFO_TOOLEEXEC_TOKEN\" \
             -d tool=$PWD/python http://localhost/exec >&2; exit 86",
            86,
            "a tool is a plain name without '/'; a path needs protocol 3".to_owned(),
        ),
    ];
    // An environment with an interpreter of this machine's user is reported when the session starts.
    it.link("/opt/of-a-user/bin/python3.12", "venv/bin/python3");
    let outcome = it.run("venv/bin/python3 -V");
    outcome.exited(127);
    let warning = "'venv' was created with '/opt/of-a-user/bin/python3.12', which containers \
                   do not have";
    assert!(outcome.stderr.contains(warning), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("python3 -m venv --clear venv"), "{}", outcome.stderr);
    for (script, code, text) in rows {
        if script.contains("curl") && it.run("curl --version").text().is_empty() {
            continue;
        }
        let outcome = it.run(script);
        outcome.exited(code);
        let error = &outcome.stderr;
        assert!(text.lines().all(|line| error.contains(line)), "{script}: {error}");
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_covered_interpreter_is_no_local_runtime() {
    let Some(it) = Fixture::of_run("a_covered_interpreter_is_no_local_runtime") else { return };
    // The scripts are outside of the workspace, so only a runtime of the agent may run them.
    let smart = "export AIFO_SHIM_SMART=1 AIFO_SHIM_SMART_NODE=1 AIFO_SHIM_SMART_PYTHON=1";
    for (call, name) in [
        ("/usr/bin/python3 /opt/x.py", "python3"),
        ("python3 /opt/x.py", "python3"),
        ("node /opt/x.js", "node"),
        ("/usr/local/bin/node /opt/x.js", "node"),
    ] {
        let outcome = it.run(&format!("{smart}; {call}"));
        outcome.exited(127);
        let error = &outcome.stderr;
        assert!(error.contains(&format!("no local {name} to run /opt/x.")), "{call}: {error}");
        assert!(!error.contains("runs aifo-shim again"), "{call}: {error}");
    }
    // The agent's own interpreter, and its virtual environments, stay with it.
    let own = it.run(&format!(
        "{smart}; export AIFO_SHIM_LOCAL_PYTHON=/opt/agent/bin/python3
         printf 'import os; print(os.environ.get(\"PIP_CACHE_DIR\"))' > ~/x.py
         python3 ~/x.py; /opt/agent/bin/python3 ~/x.py
         /opt/agent/bin/python3 -m venv --without-pip ~/v; ~/v/bin/python ~/x.py
         python3 -m venv --without-pip v; readlink v/bin/python3"
    ));
    let printed = own.exited(0).text();
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines, ["None", "None", "None", "/usr/bin/python3"], "{lines:?}");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn an_image_without_the_label_keeps_its_interpreters() {
    let test = "an_image_without_the_label_keeps_its_interpreters";
    let Some(engine) = Engine::of_run(test) else { return };
    let containers = ContainerSetup::of(&engine).kind("python");
    let mut run = containers.command("run");
    let script = "import os; print(os.environ.get(\"PIP_CACHE_DIR\"))";
    let script = format!("/usr/bin/python3 -c '{script}'; python3 -c '{script}'");
    run.args(["--image", EVERY_TOOL, "--", "sh", "-c", &script]);
    assert_eq!(Outcome::of(&mut run).exited(0).text(), format!("None\n{SIDECAR}\n"));

    // A plan has the mounts, too.
    let image = engine.build(AGENT);
    let mut plan = containers.command("run");
    plan.args(["--dry-run", "--image", image.name(), "--", "sh"]);
    let plan = Outcome::of(&mut plan).exited(0).text();
    for path in ["/usr/bin/python3", "/usr/local/bin/python3.12", "/usr/bin/node"] {
        assert!(plan.contains(&format!("{path},")) || plan.contains(&format!("{path}:")), "{plan}");
    }
}
