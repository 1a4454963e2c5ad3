//! The log of calls: a JSON line each, see `spec/log.md`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use aifo_tests::{Request, Session, SessionSetup, Signal, eventually, files_below, fresh_id};
use serde_json::Value;

const FIELDS: [&str; 18] = [
    "time",
    "exec_id",
    "tool",
    "argv",
    "cwd",
    "kind",
    "rule",
    "proto",
    "status",
    "exit_code",
    "ending",
    "limit",
    "reason",
    "wall_ms",
    "user_ms",
    "system_ms",
    "max_rss_kib",
    "no_network",
];

fn state(setup: &SessionSetup) -> PathBuf {
    setup.scratch().join("state")
}

fn start(setup: SessionSetup) -> Session {
    let state = state(&setup);
    setup.env_path("XDG_STATE_HOME", &state).start()
}

/// A session's only log.
#[track_caller]
fn log(session: &Session) -> PathBuf {
    let logs = files_below(&session.scratch().join("state/aifo/log"));
    let [log] = &logs[..] else { panic!("{logs:?}") };
    log.clone()
}

/// A call record, which is written shortly after the response.
#[track_caller]
fn record(session: &Session, id: &str) -> Value {
    let mut found = Vec::new();
    eventually("the call is recorded", || {
        found = records(&log(session)).into_iter().filter(|r| r["exec_id"] == id).collect();
        !found.is_empty()
    });
    assert_eq!(found.len(), 1, "once: {found:?}");
    found.remove(0)
}

fn records(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    // A reader never sees a partial line.
    assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
    text.lines().map(|line| serde_json::from_str(line).expect("each line is a record")).collect()
}

/// Sends a call with a unique id; returns its record.
#[track_caller]
fn recorded(session: &Session, request: Request) -> Value {
    let id = fresh_id();
    session.answer(&request.id(&id));
    record(session, &id)
}

#[test]
fn a_call_has_every_field() {
    let session = start(SessionSetup::new());
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let record = recorded(&session, session.exec("make", ["both", "2"]));
    let fields = record.as_object().unwrap();
    let mut expected = FIELDS.to_vec();
    expected.push("bytes");
    assert_eq!(fields.len(), expected.len(), "{record}");
    for field in expected {
        assert!(fields.contains_key(field), "{field}: {record}");
    }
    let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let time = u128::from(record["time"].as_u64().unwrap());
    assert!((before..=after).contains(&time), "{before} {time} {after}");
    assert_eq!(record["tool"], "make");
    assert_eq!(record["argv"], "both 2");
    assert_eq!(record["cwd"], session.workspace().to_str().unwrap());
    assert_eq!(record["kind"], "c-cpp");
    assert!(record["rule"].is_string(), "{record}");
    assert_eq!(record["proto"], 2);
    assert_eq!((&record["status"], &record["exit_code"]), (&200.into(), &0.into()));
    assert_eq!(record["ending"], "exited");
    assert_eq!((&record["limit"], &record["reason"]), (&Value::Null, &Value::Null));
    assert_eq!(record["bytes"], "out 0\nerr 0\nout 1\nerr 1\n".len());
}

/// Version 3 bypasses the proxy; resource usage is recorded all the same.
#[test]
fn a_call_by_version_3_is_recorded_too() {
    let session = start(SessionSetup::new());
    let id = fresh_id();
    let mut shim = session.shim("make");
    assert!(shim.args(["both", "2"]).env("AIFO_EXEC_ID", &id).status().unwrap().success());
    let record = record(&session, &id);
    assert_eq!((&record["proto"], &record["status"]), (&3.into(), &101.into()));
    assert_eq!((&record["ending"], &record["bytes"]), (&"exited".into(), &0.into()));
    assert!(record["max_rss_kib"].as_u64().unwrap() > 0, "{record}");
    assert_eq!(record["argv"], "both 2");
}

#[test]
fn it_is_kept_private_and_after_the_session() {
    let mut session = start(SessionSetup::new());
    recorded(&session, session.exec("make", ["say", "hi"]));
    let log = log(&session);
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(log.extension().unwrap(), "jsonl");
    session.end(Signal::SIGTERM);
    assert_eq!(records(&log).len(), 1);
}

#[test]
fn every_ending_is_recorded() {
    let session = start(SessionSetup::new().max_secs(1));
    for (args, ending, code) in [
        (&["exit", "3"][..], "exited", 3),
        (&["die", "9"], "signaled", 137),
        (&["wait"], "timeout", 124),
    ] {
        for version in ["1", "2"] {
            let record = recorded(&session, session.exec("make", args).proto(version));
            assert_eq!(record["ending"], ending, "{args:?}");
            assert_eq!(record["exit_code"], code, "{args:?}");
            assert_eq!(record["proto"].to_string(), version);
        }
    }
}

#[test]
fn a_lost_runner_leaves_an_unknown_ending() {
    let session = start(SessionSetup::new());
    let id = fresh_id();
    let _call = session.send_ready(&session.exec("make", ["wait"]).id(&id));
    for sidecar in session.sidecars() {
        aifo_tests::send_signal(sidecar.runner, Signal::SIGKILL);
    }
    let record = record(&session, &id);
    assert_eq!((&record["ending"], &record["exit_code"]), (&"unknown".into(), &125.into()));
}

#[test]
fn a_client_that_left_has_its_call_recorded_too() {
    let session = start(SessionSetup::new());
    let id = fresh_id();
    let call = session.send_ready(&session.exec("make", ["wait"]).id(&id));
    drop(call);
    let record = record(&session, &id);
    assert_eq!((&record["ending"], &record["exit_code"]), (&"signaled".into(), &130.into()));
}

#[test]
fn refused_calls_are_recorded_with_their_reason() {
    let session = start(SessionSetup::new().without("ninja"));
    let outside = session.exec("make", ["x"]).body("").field("tool", "make").field("cwd", "/");
    for (request, status, exit_code, reason) in [
        (
            session.exec("ls", ["x"]),
            403,
            86,
            "forbidden: tool 'ls' is not allowed in the rust or c-cpp sidecar",
        ),
        (session.exec("go", ["x"]), 409, 86, "tool 'go' not available"),
        (session.exec("ninja", ["x"]), 409, 86, "tool 'ninja' not available"),
        (outside, 400, 86, "bad request: "),
    ] {
        let record = recorded(&session, request);
        assert_eq!(record["status"], status, "{record}");
        assert_eq!(record["exit_code"], exit_code, "{record}");
        assert_eq!(record["ending"], "refused", "{record}");
        let printed = record["reason"].as_str().unwrap();
        assert!(printed.starts_with(reason), "{record}");
        assert!(!printed.contains('\n'), "{record}");
        assert_eq!(record["bytes"], 0);
    }
    // An unparsable call has no record.
    let before = records(&log(&session)).len();
    session.answer(&session.post("/exec").field("tool", "a/b"));
    session.answer(&session.exec("make", ["x"]).with("Authorization", "Bearer nobody"));
    recorded(&session, session.exec("make", ["say", "hi"]));
    assert_eq!(records(&log(&session)).len(), before + 1);
}

#[test]
fn a_tool_that_does_not_start_is_recorded() {
    let session = start(
        SessionSetup::new()
            .script("gcc", "")
            .tool("cc", aifo_tests::Tool::File(b"#!/no/such/interpreter\n".to_vec(), 0o755)),
    );
    let record = recorded(&session, session.exec("cc", ["x"]));
    assert_eq!((&record["status"], &record["exit_code"]), (&500.into(), &127.into()));
    assert_eq!(record["ending"], "refused");
}

#[test]
fn secrets_are_left_out() {
    let session = start(SessionSetup::new());
    let args = ["args", "--token", "s3cret", "--api-key=s3cret", "--password", "s3cret", "shown"];
    let record = recorded(&session, session.exec("make", args));
    let argv = record["argv"].as_str().unwrap();
    assert!(!argv.contains("s3cret"), "{argv}");
    assert!(argv.contains("[redacted]") && argv.contains("shown"), "{argv}");
    let text = fs::read_to_string(log(&session)).unwrap();
    assert!(!text.contains(session.token()) && !text.contains("s3cret"), "{text}");
}

#[test]
fn odd_arguments_stay_on_one_line() {
    let session = start(SessionSetup::new());
    let record = recorded(&session, session.exec("make", ["args", "a\nb", "\x1b[2J", "\u{2028}"]));
    assert!(!record["argv"].as_str().unwrap().contains(['\n', '\x1b']), "{record}");
    assert_eq!(fs::read_to_string(log(&session)).unwrap().lines().count(), 1);
}

#[test]
fn a_tools_resource_usage_is_plausible() {
    let hungry = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; \
                  /usr/bin/head -c 64m /dev/zero | /usr/bin/tail -c 48m > /dev/null";
    let session = start(SessionSetup::new().script("make", hungry));
    let record = recorded(&session, session.exec("make", [""; 0]));
    let number = |field: &str| record[field].as_u64().unwrap();
    let (wall, cpu) = (number("wall_ms"), number("user_ms") + number("system_ms"));
    assert!(number("user_ms") > 0, "{record}");
    // On at most as many processors as it has processes.
    assert!(cpu <= 4 * wall + 20, "{record}");
    let mib = number("max_rss_kib") / 1024;
    assert!((40..1024).contains(&mib), "tail holds 48 MiB: {record}");
}

#[test]
fn where_there_is_no_home_the_log_lies_in_the_sessions_directory() {
    let setup = SessionSetup::new().env("HOME", "").env("XDG_STATE_HOME", "relative");
    let session = setup.start();
    session.answer(&session.exec("make", ["say", "hi"]));
    let logs = |session: &Session| {
        let files = files_below(&session.scratch().join("run"));
        files.into_iter().filter(|f| f.extension().is_some_and(|e| e == "jsonl")).count()
    };
    assert_eq!(logs(&session), 1);
    assert!(!session.workspace().join("relative").exists());
}

/// Old logs are removed before a new one is created.
#[test]
fn the_newest_twenty_logs_are_kept() {
    let setup = SessionSetup::new();
    let dir = state(&setup).join("aifo/log");
    fs::create_dir_all(&dir).unwrap();
    for number in 0..30 {
        fs::write(dir.join(format!("old{number}.jsonl")), "").unwrap();
    }
    fs::write(dir.join("unrelated"), "").unwrap();
    let session = start(setup);
    let logs = files_below(&session.scratch().join("state/aifo/log"));
    assert_eq!(logs.len(), 20 + 1, "{logs:?}");
    assert!(dir.join("unrelated").exists());
}
