//! Tools of a project are found where the tool runs.
//!
//! Proves `spec/runner.md#a-projects-own-tools`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use aifo_tests::{Answer, Outcome, Session, SessionSetup, write_script};

/// A script that prints its path, arguments, VIRTUAL_ENV and PATH.
const WHICH: &str = "echo \"$0\" \"$@\"; echo \"${VIRTUAL_ENV-none}\"; echo \"$PATH\"";

/// A minimal virtual environment: python and pip.
fn environment(path: &Path) {
    for tool in ["python3", "pip"] {
        write_script(path.join("bin").join(tool), WHICH);
    }
    symlink("python3", path.join("bin/python")).unwrap();
}

/// A session with these kinds, whose tools print their identity.
fn session(kinds: &[&str], tools: &[&str]) -> Session {
    let setup = SessionSetup::new().kinds(kinds);
    tools.iter().fold(setup, |setup, tool| setup.script(tool, WHICH)).start()
}

fn call(session: &Session, tool: &str, args: &[&str], cwd: &str) -> Answer {
    let dir = PathBuf::from(session.file(cwd));
    fs::create_dir_all(&dir).unwrap();
    let call = session.post("/exec").field("tool", tool).field("cwd", dir);
    session.answer(&args.iter().fold(call, |call, arg| call.field("arg", arg)))
}

/// The three lines of such a tool: its path, its environment, its PATH.
#[track_caller]
fn printed(session: &Session, tool: &str, cwd: &str) -> [String; 3] {
    let answer = call(session, tool, &[], cwd);
    assert_eq!(answer.exit_code(), Some("0"), "{}", answer.text());
    let text = answer.text();
    let mut lines = text.lines().map(str::to_owned);
    std::array::from_fn(|_| lines.next().unwrap_or_default().trim_end().to_owned())
}

fn tools(session: &Session) -> String {
    session.scratch().join("tools").display().to_string()
}

#[track_caller]
fn check_environment(session: &Session, tool: &str, cwd: &str, venv: &Path) {
    let bin = venv.join("bin");
    let path = format!("{}:{}", bin.display(), tools(session));
    let expected = [bin.join(tool).display().to_string(), venv.display().to_string(), path];
    assert_eq!(printed(session, tool, cwd), expected, "{tool} in {cwd:?}");
}

#[track_caller]
fn check_sidecars_own(session: &Session, tool: &str, cwd: &str) {
    let tools = tools(session);
    let expected = [format!("{tools}/{tool}"), "none".to_owned(), tools];
    assert_eq!(printed(session, tool, cwd), expected, "{tool} in {cwd:?}");
}

#[test]
fn the_nearest_environment_up_to_the_root_counts() {
    let session = session(&["python"], &["python3", "pip"]);
    let root = session.workspace();
    check_sidecars_own(&session, "python3", "");
    // An environment above the workspace does not belong to the project.
    environment(&session.scratch().join(".venv"));
    check_sidecars_own(&session, "python3", "a");
    environment(&root.join(".venv"));
    environment(&root.join("a/b/.venv"));
    for tool in ["python3", "python", "pip"] {
        check_environment(&session, tool, "", &root.join(".venv"));
        check_environment(&session, tool, "a", &root.join(".venv"));
        check_environment(&session, tool, "a/b", &root.join("a/b/.venv"));
        check_environment(&session, tool, "a/b/c/d", &root.join("a/b/.venv"));
    }
}

#[test]
fn an_environment_without_a_python_is_passed_over() {
    let session = session(&["python"], &["python3"]);
    let root = session.workspace();
    environment(&root.join(".venv"));
    fs::create_dir_all(root.join("empty/.venv/bin")).unwrap();
    let broken = root.join("broken/.venv/bin");
    fs::create_dir_all(&broken).unwrap();
    symlink("/nonexistent/python3", broken.join("python3")).unwrap();
    let plain = root.join("plain/.venv/bin");
    fs::create_dir_all(&plain).unwrap();
    fs::write(plain.join("python3"), "").unwrap();
    for dir in ["empty", "broken", "plain"] {
        check_environment(&session, "python3", dir, &root.join(".venv"));
    }
}

#[test]
fn only_a_python_sidecar_looks_for_environments() {
    let session = session(&["c-cpp", "node"], &["make", "node"]);
    environment(&session.workspace().join(".venv"));
    for tool in ["make", "node"] {
        write_script(session.workspace().join(".venv/bin").join(tool), "echo planted");
        check_sidecars_own(&session, tool, "");
    }
}

#[test]
fn children_of_a_tool_find_the_environment_too() {
    let setup = SessionSetup::new().kinds(&["python"]).script("python3", WHICH);
    let session = setup.script("make", "pip").start();
    let venv = session.workspace().join(".venv");
    environment(&venv);
    let [found, ..] = printed(&session, "make", "");
    assert_eq!(found, venv.join("bin/pip").display().to_string());
}

/// A virtual environment of the launcher's shell is ignored.
#[test]
fn the_launchers_environment_gives_way() {
    let setup = SessionSetup::new().kinds(&["python"]).script("python3", WHICH);
    let session = setup.env("VIRTUAL_ENV", "/launchers").start();
    environment(&session.workspace().join(".venv"));
    check_environment(&session, "python3", "", &session.workspace().join(".venv"));
}

#[test]
fn python_is_python3_where_that_is_all_there_is() {
    let session = session(&["python"], &["python3"]);
    let expected = format!("{}/python3", tools(&session));
    assert_eq!(printed(&session, "python", "")[0], expected);
    let both = self::session(&["python"], &["python3", "python"]);
    assert_eq!(printed(&both, "python", "")[0], format!("{}/python", tools(&both)));
}

#[test]
fn the_projects_own_tsc_comes_first() {
    let session = session(&["node"], &["tsc", "npx"]);
    let root = session.workspace();
    write_script(root.join("web/node_modules/.bin/tsc"), WHICH);
    write_script(session.scratch().join("node_modules/.bin/tsc"), WHICH);
    let own = root.join("web/node_modules/.bin/tsc").display().to_string();
    for cwd in ["web", "web/src/deep"] {
        assert_eq!(printed(&session, "tsc", cwd)[0], own, "{cwd}");
    }
    assert_eq!(printed(&session, "tsc", "")[0], format!("{}/tsc", tools(&session)));
    // As npm links it: to a file in a package.
    write_script(root.join("app/node_modules/typescript/bin/tsc"), WHICH);
    fs::create_dir_all(root.join("app/node_modules/.bin")).unwrap();
    let link = root.join("app/node_modules/.bin/tsc");
    symlink("../typescript/bin/tsc", &link).unwrap();
    assert_eq!(printed(&session, "tsc", "app")[0], link.display().to_string());
}

#[test]
fn without_a_tsc_npx_finds_one() {
    let session = session(&["node"], &["npx"]);
    let npx = format!("{}/npx", tools(&session));
    let text = call(&session, "tsc", &["--noEmit", "a b"], "").text();
    assert_eq!(text.lines().next(), Some(&*format!("{npx} tsc --noEmit a b")));
    let outcome = Outcome::of(session.shim("tsc").arg("-v"));
    assert_eq!(outcome.exited(0).text().lines().next(), Some(&*format!("{npx} tsc -v")));
}

#[test]
fn without_either_the_sidecar_is_named() {
    let session = session(&["node"], &["node"]);
    let answer = call(&session, "tsc", &[], "");
    assert_eq!(answer.status(), 409);
    let expected = "tool 'tsc' not available in running sidecars; \
                    it is not installed in the node sidecar\n";
    assert_eq!(answer.text(), expected);
}
