//! Routing of tools to sidecars, and the errors when none allows it.
//!
//! Proves `spec/toolexec.md#routing`, `spec/exec3.md#request`.

use std::fs;

use aifo_tests::{Session, SessionSetup, Tool, binaries, copy_executable, fresh_id};

/// Every kind with the tools that the protocol assigns to it, in the order in which development
/// tools try them.
const OWN_TOOLS: [(&str, &[&str]); 5] = [
    ("c-cpp", &[]),
    ("rust", &["cargo", "rustc"]),
    ("go", &["go", "gofmt"]),
    ("node", &["node", "npm", "npx", "tsc", "ts-node"]),
    ("python", &["python", "python3", "pip", "pip3"]),
];

/// The development tools of the protocol.
const DEV_TOOLS: [&str; 10] =
    ["make", "cmake", "ninja", "pkg-config", "gcc", "g++", "clang", "clang++", "cc", "c++"];

/// A verbose session of these kinds with every tool.
fn session_with_every_tool(kinds: &[&str]) -> Session {
    let own = OWN_TOOLS.iter().flat_map(|(_, tools)| *tools);
    let setup = SessionSetup::new().kinds(kinds).verbose();
    own.chain(&DEV_TOOLS).fold(setup, |setup, tool| setup.tool(tool, Tool::Fake)).start()
}

/// The kind of a tool sidecar, from the log.
#[track_caller]
fn kind_of(session: &Session, tool: &str) -> String {
    let id = fresh_id();
    let answer = session.answer(&session.exec(tool, ["say"]).id(&id));
    assert_eq!((answer.status(), answer.exit_code()), (200, Some("0")), "{}", answer.text());
    let lines = session.log_lines(&["aifo-coder: exec tool=", &format!("exec_id={id} ")]);
    let [line] = &lines[..] else { panic!("one line for {id}: {lines:?}") };
    assert!(line.contains(&format!("tool={tool} ")), "{line}");
    let kind = line.split_whitespace().find_map(|word| word.strip_prefix("kind="));
    kind.unwrap_or_else(|| panic!("no kind: {line}")).to_owned()
}

#[test]
fn tools_go_to_their_kind_and_dev_tools_to_the_first_that_runs() {
    let session = SessionSetup::new().verbose().start();
    for (tool, kind) in [("cargo", "rust"), ("make", "c-cpp"), ("gcc", "c-cpp"), ("ninja", "c-cpp")]
    {
        assert_eq!(kind_of(&session, tool), kind, "{tool}");
    }
    let session = SessionSetup::new().kinds(&["python", "go", "rust"]).verbose().start();
    assert_eq!(kind_of(&session, "make"), "rust", "whatever the order of the flags");
    let session = SessionSetup::new().kinds(&["python"]).verbose().start();
    assert_eq!(kind_of(&session, "make"), "python");
}

#[test]
fn every_tool_of_a_kind_goes_to_its_kind_alone() {
    let session = session_with_every_tool(&OWN_TOOLS.map(|(kind, _)| kind));
    for (kind, tools) in OWN_TOOLS {
        for tool in tools {
            assert_eq!(kind_of(&session, tool), kind, "{tool}");
        }
    }
}

/// Each session lacks the first kind of the previous one.
#[test]
fn every_dev_tool_goes_to_the_first_kind_there_is() {
    let kinds = OWN_TOOLS.map(|(kind, _)| kind);
    for (place, first) in kinds.iter().enumerate() {
        let mut rest = kinds[place..].to_vec();
        rest.reverse();
        let session = session_with_every_tool(&rest);
        for tool in DEV_TOOLS {
            assert_eq!(kind_of(&session, tool), *first, "{tool} with {rest:?}");
        }
    }
}

/// The tool comes from a virtual environment, which only the python sidecar searches.
#[test]
fn a_dev_tool_goes_on_to_the_next_sidecar_that_has_it() {
    let setup = SessionSetup::new().kinds(&["c-cpp", "rust", "python"]).verbose();
    let bin = setup.workspace().join(".venv/bin");
    fs::create_dir_all(&bin).unwrap();
    for tool in ["python3", "cmake"] {
        copy_executable(&binaries().tool, bin.join(tool));
    }
    let session = setup.start();
    assert_eq!(kind_of(&session, "cmake"), "python");
    assert_eq!(kind_of(&session, "make"), "c-cpp", "which the first has");
}

#[test]
fn kinds_have_aliases() {
    for (alias, kind, tool) in [
        ("c", "c-cpp", "gcc"),
        ("cpp", "c-cpp", "gcc"),
        ("c++", "c-cpp", "gcc"),
        ("c_cpp", "c-cpp", "gcc"),
        ("py", "python", "python3"),
        ("ts", "node", "node"),
        ("golang", "go", "go"),
    ] {
        let setup = SessionSetup::new().kinds(&[alias]).tool(tool, Tool::Fake).verbose();
        assert_eq!(kind_of(&setup.start(), tool), kind, "{alias}");
    }
}

#[test]
fn python_means_python3_where_only_that_exists() {
    let setup = SessionSetup::new().kinds(&["python"]).tool("python3", Tool::Fake);
    let session = setup.start();
    assert_eq!(session.answer(&session.exec("python", ["say", "hi"])).text(), "hi\n");
}

#[test]
fn a_tool_whose_kind_does_not_run_names_the_toolchain() {
    let session = SessionSetup::new().kinds(&["c-cpp"]).start();
    let answer = session.answer(&session.exec("cargo", ["say"]));
    assert_eq!(answer.status_line, "HTTP/1.1 409 Conflict");
    assert_eq!(answer.exit_code(), Some("86"));
    let expected = "tool 'cargo' not available in running sidecars; \
        start an appropriate toolchain (e.g., --toolchain rust)\n";
    assert_eq!(answer.text(), expected);
}

#[test]
fn a_tool_that_no_running_sidecar_has_names_the_sidecars() {
    let session = SessionSetup::new().without("make").start();
    let answer = session.answer(&session.exec("make", ["say"]));
    assert_eq!((answer.status(), answer.exit_code()), (409, Some("86")));
    let expected = "tool 'make' not available in running sidecars; \
        it is not installed in the c-cpp or rust sidecar\n";
    assert_eq!(answer.text(), expected);
}

#[test]
fn a_tool_in_no_allowlist_is_forbidden() {
    let session = SessionSetup::new().kinds(&["c-cpp"]).tool("ls", Tool::Fake).start();
    let rows = ["ls", "sh", "Make", "make2", "aifo-runner"];
    for tool in rows {
        let answer = session.answer(&session.exec(tool, ["say"]));
        assert_eq!(answer.status_line, "HTTP/1.1 403 Forbidden", "{tool}");
        let expected = format!("forbidden: tool '{tool}' is not allowed in the c-cpp sidecar\n");
        assert_eq!(answer.text(), expected);
    }
}
