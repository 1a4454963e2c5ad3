//! Calls that name an interpreter of the workspace by its path (`spec/exec3.md#programs-by-path`).

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;

use aifo_tests::{
    Answer, Client, Invocation, Outcome, Session, SessionSetup, binaries, write_executable,
};

/// Prints its path, its arguments, the active environment and PATH.
const WHICH: &str = "#!/bin/sh\necho \"$0\" \"$@\"; echo \"${VIRTUAL_ENV-none}\"; echo \"$PATH\"\n";

fn script(path: &str) {
    write_executable(path, WHICH, 0o755);
}

/// A python and a rust sidecar, and environments whose python prints its view.
fn session() -> Session {
    let session = SessionSetup::new().kinds(&["python", "rust"]).start();
    for environment in ["env", "a b"] {
        script(&session.file(&format!("{environment}/bin/python3")));
        fs::write(session.file(&format!("{environment}/pyvenv.cfg")), "").unwrap();
        symlink("python3", session.file(&format!("{environment}/bin/python"))).unwrap();
    }
    script(&session.file("bin/cargo"));
    script(&session.file("bin/tool"));
    session
}

fn refused(session: &Session, program: &str) -> Answer {
    Client::call(session, Invocation::new(session, program, ["x"])).answer()
}

#[test]
fn the_very_path_is_executed_and_its_directory_comes_first() {
    let session = session();
    let tools = session.scratch().join("tools").display().to_string();
    for program in ["env/bin/python3", "env/bin/python", "a b/bin/python"] {
        let path = session.file(program);
        let finished = Client::run(&session, Invocation::new(&session, &path, ["one", "a b"]));
        let bin = Path::new(&path).parent().unwrap().display().to_string();
        assert_eq!(finished.text(), format!("{path} one a b\nnone\n{bin}:{tools}\n"));
    }
    // An activated environment stays the active one.
    let active = session.file("a b");
    let path = session.file("env/bin/python");
    let invocation =
        Invocation::new(&session, &path, [""; 0]).variable(format!("VIRTUAL_ENV={active}"));
    let finished = Client::run(&session, invocation);
    assert_eq!(finished.text(), format!("{path}\n{active}\n{active}/bin:{tools}\n"));
}

#[test]
fn the_proxy_judges_the_path() {
    let session = session();
    let outside = session.scratch().join("outside/python3").display().to_string();
    script(&outside);
    symlink(&binaries().shim, session.file("python")).unwrap();
    symlink("/nonexistent/python3.9", session.file("env/bin/python3.9")).unwrap();
    let root = session.file("");
    let root = root.trim_end_matches('/');
    let missing = session.file("env/bin/python3.9");
    let environment = session.file("env");
    let rows = [
        (
            outside.clone(),
            400,
            86,
            format!(
                "bad request: program '{outside}' is outside the workspace and the session's \
                 temporary directory"
            ),
        ),
        (
            format!("{root}/bin/cargo"),
            403,
            86,
            format!("forbidden: program '{root}/bin/cargo' is not an interpreter of a toolchain"),
        ),
        (
            format!("{root}/bin/tool"),
            403,
            86,
            format!("forbidden: program '{root}/bin/tool' is not an interpreter of a toolchain"),
        ),
        (
            format!("{root}/env/bin/node"),
            409,
            86,
            "tool 'node' not available in running sidecars; start an appropriate toolchain \
             (e.g., --toolchain node)"
                .to_owned(),
        ),
        (
            format!("{root}/../outside/python3"),
            400,
            86,
            "bad request: a tool is a plain name without '/'".to_owned(),
        ),
        (
            "env/bin/python3".to_owned(),
            400,
            86,
            "bad request: a tool is a plain name without '/'".to_owned(),
        ),
        (
            missing.clone(),
            500,
            127,
            format!(
                "aifo-coder mailbox error: cannot execute '{missing}': it leads to \
                 '/nonexistent/python3.9', which the python sidecar does not have\nhint: create the \
                 environment again: python3 -m venv --clear '{environment}'"
            ),
        ),
        (
            format!("{root}/python"),
            500,
            126,
            format!(
                "aifo-coder mailbox error: cannot execute '{root}/python': it runs aifo-shim again"
            ),
        ),
    ];
    for (program, status, code, text) in rows {
        let answer = refused(&session, &program);
        let code = code.to_string();
        assert_eq!((answer.status(), answer.exit_code()), (status, Some(&*code)), "{program}");
        assert_eq!(answer.text().trim_end(), text, "{program}");
    }
}

#[test]
fn an_interpreter_that_is_denied_is_denied_by_its_path() {
    let setup = SessionSetup::new().kinds(&["python"]);
    fs::write(setup.workspace().join(".aifo.toml"), "[kind.python]\ndeny = ['python3']\n").unwrap();
    let session = setup.start();
    script(&session.file("env/bin/python3"));
    let answer = refused(&session, &session.file("env/bin/python3"));
    assert_eq!(answer.status(), 403, "{}", answer.text());
    assert!(answer.text().contains("tool 'python3' is not allowed"), "{}", answer.text());
}

#[test]
fn other_versions_carry_no_path() {
    let session = session();
    for version in ["1", "2"] {
        let request = session.exec(&session.file("env/bin/python3"), ["x"]).proto(version);
        let answer = session.answer(&request);
        let text = "bad request: a tool is a plain name without '/'; a path needs protocol 3\n";
        assert_eq!((answer.status(), &*answer.text()), (400, text), "{version}");
    }
}

/// The shim is executed as the kernel does it for a script or a link that leads to it. On this machine
/// the link leads to the real python, which then runs in the sidecar.
#[test]
fn a_virtual_environment_through_the_shim() {
    let real = fs::canonicalize("/usr/bin/python3").unwrap_or_default();
    if real.parent() != Some(Path::new("/usr/bin")) {
        // A closed stderr does not matter.
        let _ = writeln!(std::io::stderr(), "skipped: no python3 in /usr/bin");
        return;
    }
    let session = SessionSetup::new().kinds(&["python"]).start();
    let bin = session.file("env/bin");
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(session.file("sub")).unwrap();
    symlink("/usr/bin/python3", format!("{bin}/python")).unwrap();
    fs::write(session.file("env/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    let program = "import os, sys; print(sys.executable, sys.prefix, 'AIFO_EXEC' in os.environ)";
    let environment = session.file("env");
    let expected = format!("{bin}/python {environment} True\n");
    let called = |first: &str, directory: &str| {
        let mut shim = session.shim("python");
        shim.arg0(first).args(["-c", program]).current_dir(session.file(directory));
        shim
    };
    for (first, directory) in [
        (format!("{bin}/python"), ""),
        ("env/bin/python".to_owned(), ""),
        ("./env/./bin/python".to_owned(), ""),
        ("../env/bin/python".to_owned(), "sub"),
    ] {
        let outcome = Outcome::of(&mut called(&first, directory));
        assert_eq!(outcome.exited(0).text(), expected, "{first}");
    }
    let outcome = Outcome::of(called("env/bin/python", "").env("AIFO_SHIM_PROTO", "2"));
    let line = format!(
        "aifo-shim: protocol 2 cannot carry the path of '{bin}/python'; hint: call python by its \
         name, or use protocol 3"
    );
    assert_eq!(outcome.exited(86).only_line(), line);
}
