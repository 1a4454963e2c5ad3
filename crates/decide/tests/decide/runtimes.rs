//! Lookup of the local runtime.

use std::path::PathBuf;

use aifo_decide::{Decision, Settings};

use crate::fake_files::{FakeFiles, decide_line, smart};

/// Returns the runtime for a call, or the exit code if there is none.
fn runtime(call: &str, local_python: Option<&str>, files: &str) -> Result<String, u8> {
    let settings = Settings { local_python: local_python.map(PathBuf::from), ..smart() };
    match decide_line(call, &settings, &FakeFiles::parse(files)) {
        Ok(Decision::Local(local)) => Ok(local.runtime.display().to_string()),
        Ok(decision) => panic!("{call}: {}", decision.log_line(b"tool")),
        Err(error) => Err(error.exit_code()),
    }
}

const SCRIPT: &str = "python3 /opt/venv/bin/aider";
const MODULE: &str = "python3 -m aider";
const VENV: &str = "/opt/venv/pyvenv.cfg\n/opt/venv/bin/aider\n/opt/venv/bin/python3 *\n";
const FIXED: &str = "/usr/bin/python3 *\n/usr/local/bin/python3 *\n";
const SESSION: &str = "/opt/session/python3 *\n";

#[test]
fn candidates_are_tried_in_order() {
    let session = Some("/opt/session/python3");
    let all = [VENV, SESSION, FIXED].concat();
    let fixed = [SESSION, FIXED].concat();
    let rows = [
        (SCRIPT, session, all.as_str(), Ok("/opt/venv/bin/python3")),
        (SCRIPT, session, &fixed, Ok("/opt/session/python3")),
        (SCRIPT, None, &fixed, Ok("/usr/bin/python3")),
        (SCRIPT, None, "/usr/local/bin/python3 *", Ok("/usr/local/bin/python3")),
        (MODULE, session, &all, Ok("/opt/session/python3")),
        (MODULE, session, FIXED, Ok("/usr/bin/python3")),
        (MODULE, None, &all, Ok("/usr/bin/python3")),
        (MODULE, session, "/usr/bin/python3\n/usr/bin/python *", Err(127)),
        (SCRIPT, None, "", Err(127)),
        (
            "node /opt/x.js",
            None,
            "/usr/local/bin/node *\n/usr/bin/node *",
            Ok("/usr/local/bin/node"),
        ),
        ("node /opt/x.js", None, "/usr/bin/node *", Ok("/usr/bin/node")),
        ("node /opt/x.js", session, FIXED, Err(127)),
    ];
    for (call, local_python, files, expected) in rows {
        let expected = expected.map(str::to_owned);
        assert_eq!(runtime(call, local_python, files), expected, "{call} {local_python:?} {files}");
    }
}

#[test]
fn a_named_version_is_never_substituted() {
    let session = Some("/opt/session/python3");
    let versioned = "/opt/session/python3.12 *\n/usr/bin/python3.12 *\n";
    let in_venv = [VENV, "/opt/venv/bin/python3.12 *\n", versioned].concat();
    let rows = [
        ("python3.12 /opt/venv/bin/aider", in_venv.as_str(), Ok("/opt/venv/bin/python3.12")),
        ("python3.12 -m aider", &in_venv, Ok("/opt/session/python3.12")),
        ("python3.12 -m aider", "/usr/bin/python3.12 *", Ok("/usr/bin/python3.12")),
        ("python3.12 -m aider", "/usr/local/bin/python3.12 *", Ok("/usr/local/bin/python3.12")),
        ("python3.12 -m aider", "/opt/session/python3 *\n/usr/bin/python3 *", Err(127)),
        ("python3.12 /opt/venv/bin/aider", VENV, Err(127)),
    ];
    for (call, files, expected) in rows {
        assert_eq!(runtime(call, session, files), expected.map(str::to_owned), "{call} {files}");
    }
}

#[test]
fn the_workspace_never_supplies_the_runtime() {
    let files = "/workspace/.venv/bin/python3 *
                 /workspace/node *
                 /opt/python3 -> /workspace/.venv/bin/python3
                 /usr/bin/node -> /workspace/node
                 /usr/bin/python3 *";
    for session in
        ["/workspace/.venv/bin/python3", "/opt/python3", "opt/python3", "/opt/../workspace/node"]
    {
        let found = runtime(MODULE, Some(session), files);
        assert_eq!(found.as_deref(), Ok("/usr/bin/python3"), "{session}");
    }
    assert_eq!(runtime("node /opt/x.js", None, files), Err(127));
}

#[test]
fn the_nearest_virtual_environment_is_used() {
    let nested = "/opt/pyvenv.cfg
                  /opt/bin/python3 *
                  /opt/inner/pyvenv.cfg
                  /opt/inner/bin/python3 *
                  /opt/inner/lib/tool.py
                  /opt/inner/link.py -> /srv/tool.py
                  /srv/tool.py";
    let rows = [
        ("python3 /opt/inner/lib/tool.py", "/opt/inner/bin/python3"),
        ("python3 /opt/tool.py", "/opt/bin/python3"),
        ("python3 /opt/inner/link.py", "/opt/inner/bin/python3"),
    ];
    for (call, expected) in rows {
        assert_eq!(runtime(call, None, nested).as_deref(), Ok(expected), "{call}");
    }
}
