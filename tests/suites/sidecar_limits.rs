//! A tool that reaches a limit of its sidecar is reported, and the session continues.
//!
//! The sidecar is local, in its own cgroup, which only root can create.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use aifo_tests::{
    Outcome, Running, Session, SessionSetup, Signal, Tool, can_run, eventually, files_below,
    fresh_id, send_signal, tagged_processes,
};
use serde_json::Value;

/// A session whose sidecar has limits.
struct Limited {
    /// Dropped first: only an empty cgroup can be removed.
    session: Option<Session>,
    cgroup: Cgroup,
}

/// One directory per controller, or one for all.
struct Cgroup {
    dirs: Vec<PathBuf>,
}

/// More than a shell needs; a shell that doubles a string soon exceeds it.
const MEMORY: &str = "100663296";
/// More than the sidecar and one tool need.
const PROCESSES: &str = "40";
const HOG: &str = "x=12345678; while :; do x=$x$x; done";

impl Limited {
    /// Without the right to create cgroups, reports the test as skipped and returns `None`.
    fn start(test: &str) -> Option<Self> {
        let cgroup = Cgroup::new(test)?;
        let setup = SessionSetup::new()
            .kinds(&["c-cpp"])
            .tool("cmake", Tool::Fake)
            .script("gcc", HOG)
            .script("make", &format!("(/bin/sh -c '{HOG}'); exit ${{1-2}}"))
            .script(
                "ninja",
                "for _ in 1 2 3 4 5 6 7 8; do\n\
                 for _ in 1 2 3 4 5 6 7 8; do /bin/sleep 1000 > /dev/null 2>&1 & done; done",
            );
        let state = setup.scratch().join("state");
        let setup = setup.env_path("XDG_STATE_HOME", &state);
        let join: String = cgroup
            .dirs
            .iter()
            .map(|to| format!("echo $$ > {}/cgroup.procs; ", to.display()))
            .collect();
        let session = setup.through(&["/bin/sh", "-c", &(join + "exec \"$@\""), "sh"]).start();
        // New children stay in the cgroup; the proxy is outside.
        session.sidecars();
        for dir in &cgroup.dirs {
            let above = dir.parent().expect("it was made below another");
            fs::write(above.join("cgroup.procs"), session.pid().to_string()).unwrap();
        }
        Some(Limited { session: Some(session), cgroup })
    }

    fn session(&self) -> &Session {
        self.session.as_ref().expect("it is there until the end")
    }

    /// A call by the shim, and its line in the log.
    #[track_caller]
    fn call(&self, tool: &str, proto: &str, args: &[&str]) -> (Outcome, Value) {
        let id = fresh_id();
        let mut shim = self.session().shim(tool);
        shim.args(args).env("AIFO_EXEC_ID", &id).env("AIFO_SHIM_PROTO", proto);
        let outcome = Outcome::of(&mut shim);
        (outcome, self.record(&id))
    }

    #[track_caller]
    fn record(&self, id: &str) -> Value {
        let mut found = None;
        eventually("the call is recorded", || {
            let logs = files_below(&self.session().scratch().join("state/aifo/log"));
            let text = logs.iter().filter_map(|log| fs::read_to_string(log).ok());
            let lines: Vec<String> = text.flat_map(|text| lines_of(&text)).collect();
            found = lines.iter().find(|line| line.contains(id)).cloned();
            found.is_some()
        });
        serde_json::from_str(&found.unwrap_or_default()).expect("each line is a record")
    }
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

impl Drop for Limited {
    fn drop(&mut self) {
        drop(self.session.take());
        for dir in &self.cgroup.dirs {
            eventually("the cgroup is empty", || fs::remove_dir(dir).is_ok() || !dir.exists());
        }
    }
}

impl Cgroup {
    fn new(test: &str) -> Option<Self> {
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let above: &[&str] = if unified {
            &["/sys/fs/cgroup"]
        } else {
            &["/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"]
        };
        let name = format!("aifo-test-{}-{}", process::id(), fresh_id());
        let dirs: Vec<_> = above.iter().map(|above| Path::new(above).join(&name)).collect();
        let mut trial = vec!["/bin/mkdir"];
        trial.extend(dirs.iter().filter_map(|dir| dir.to_str()));
        if !can_run(&format!("sidecar_limits::{test}"), &trial) {
            return None;
        }
        let cgroup = Cgroup { dirs };
        cgroup.set(&["memory.max", "memory.limit_in_bytes"], MEMORY);
        // Swapped memory does not count.
        cgroup.set(&["memory.swap.max"], "0");
        cgroup.set(&["memory.memsw.limit_in_bytes"], MEMORY);
        cgroup.set(&["pids.max"], PROCESSES);
        Some(cgroup)
    }

    /// Sets those of these files that exist.
    fn set(&self, names: &[&str], value: &str) {
        let files = self.dirs.iter().flat_map(|dir| names.iter().map(|name| dir.join(name)));
        for file in files.filter(|file| file.exists()) {
            fs::write(file, value).unwrap();
        }
    }
}

const MEMORY_LINE: &str = "aifo-shim: the sidecar reached its memory limit, and a process was killed; \
                           raise it with --memory";
const PROCESSES_LINE: &str = "aifo-shim: the sidecar reached its limit on processes, and none could be \
                              made; raise it with --pids";

#[test]
fn a_tool_that_is_killed_for_its_memory_is_reported() {
    let Some(limited) = Limited::start("a_tool_that_is_killed_for_its_memory_is_reported") else {
        return;
    };
    let (outcome, record) = limited.call("gcc", "3", &[]);
    assert_eq!(outcome.died_of(Signal::SIGKILL).only_line(), MEMORY_LINE);
    assert_eq!((&record["limit"], &record["ending"]), (&"memory".into(), &"signaled".into()));

    let (outcome, record) = limited.call("gcc", "2", &[]);
    assert_eq!(outcome.exited(137).only_line(), MEMORY_LINE);
    assert_eq!((&record["limit"], &record["proto"]), (&"memory".into(), &2.into()));

    let session = limited.session();
    let streamed = session.answer(&session.exec("gcc", [""; 0]));
    assert_eq!(
        (streamed.trailer("X-Aifo-Limit"), streamed.exit_code()),
        (Some("memory"), Some("137"))
    );
    let buffered = session.answer(&session.exec("gcc", [""; 0]).proto("1"));
    assert_eq!(
        (buffered.header("X-Aifo-Limit"), buffered.exit_code()),
        (Some("memory"), Some("137"))
    );
    assert_eq!((streamed.text(), buffered.text()), (String::new(), String::new()));
}

/// The shell's child is killed, like a compiler's subprocess.
#[test]
fn a_killed_child_is_reported_if_its_tool_fails() {
    let Some(limited) = Limited::start("a_killed_child_is_reported_if_its_tool_fails") else {
        return;
    };
    let (outcome, record) = limited.call("make", "3", &[]);
    assert!(outcome.exited(2).stderr.contains(MEMORY_LINE), "{outcome:?}");
    assert_eq!((&record["limit"], &record["exit_code"]), (&"memory".into(), &2.into()));

    let (outcome, record) = limited.call("make", "3", &["0"]);
    assert!(!outcome.exited(0).stderr.contains("aifo-shim"), "it got over it: {outcome:?}");
    assert_eq!(record["limit"], Value::Null);
}

#[test]
fn a_tool_that_makes_too_many_processes_fails_and_the_session_lives() {
    let test = "a_tool_that_makes_too_many_processes_fails_and_the_session_lives";
    let Some(limited) = Limited::start(test) else { return };
    let session = limited.session();
    let id = fresh_id();
    let mut shim = session.shim("ninja");
    let outcome = Outcome::of(shim.env("AIFO_EXEC_ID", &id));
    assert!(outcome.exited(2).stderr.ends_with(&format!("{PROCESSES_LINE}\n")), "{outcome:?}");
    assert_eq!(limited.record(&id)["limit"], "processes");

    // The background processes take every pid except this tool's.
    let last = Running::start(session.shim("cmake").arg("wait"));
    last.expect("ready\n");
    let (outcome, record) = limited.call("make", "3", &["0"]);
    let line = outcome.exited(86).only_line();
    assert!(
        line.contains("the limit on processes is reached; end some processes, or raise"),
        "{line}"
    );
    assert_eq!((&record["ending"], &record["status"]), (&"refused".into(), &500.into()));

    last.signal(Signal::SIGTERM);
    last.finish();
    for left in tagged_processes(&id) {
        send_signal(left, Signal::SIGKILL);
    }
    eventually("there is room again", || {
        let (outcome, record) = limited.call("gcc", "3", &[]);
        outcome.signal() == Some(9) && record["limit"] == "memory"
    });
}
