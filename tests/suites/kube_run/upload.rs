//! The uploaded workspace of a session in a cluster (`spec/kubernetes.md#upload`).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use aifo_tests::{Outcome, Signal, Terminal, eventually, send_signal};

use super::{Cluster, LEAVE};

impl Cluster {
    /// A path of the workspace of this machine.
    fn here(&self, path: &str) -> PathBuf {
        self.setup.workspace().join(path)
    }

    /// A path of the pod workspace.
    fn there(&self, path: &str) -> PathBuf {
        self.directory.join("files").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.here(path).parent().unwrap()).unwrap();
        fs::write(self.here(path), text).unwrap();
    }

    fn content(&self, path: &str) -> String {
        fs::read_to_string(self.here(path)).unwrap_or_default()
    }

    /// The snapshots that this machine keeps.
    fn records(&self) -> usize {
        let state = self.setup.scratch().join("home/.local/state/aifo/pods");
        fs::read_dir(state).map_or(0, Iterator::count)
    }
}

#[test]
fn the_agent_gets_the_workspace_and_its_changes_come_back() {
    let cluster = Cluster::with_agent(
        "cat src/main; ls target; echo after > src/main; rm old; mkdir new; echo n > new/file; exit 4",
    );
    for path in ["src/main", "old", "target/x", "kept"] {
        cluster.write(path, "before");
    }
    cluster.write(".gitignore", "target");
    let terminal = Terminal::sized(120, 24);
    let run = terminal.start(&cluster.run_in(&[]));
    assert_eq!(run.finish(), Ok(4), "{}", terminal.shown());
    terminal.expect("2 files written, 1 removed");
    assert_eq!(
        (cluster.content("src/main"), cluster.content("new/file")),
        ("after\n".into(), "n\n".into())
    );
    assert!(!cluster.here("old").exists() && cluster.content("kept") == "before");
    assert!(!cluster.there("target").exists() && cluster.content("target/x") == "before");
    assert!(!cluster.read("deleted").is_empty());
    assert_eq!(cluster.records(), 0, "the snapshot goes with the pod");
}

#[test]
fn a_client_that_leaves_fetches_and_conflicts_are_shown() {
    let cluster = Cluster::with_agent("echo begin; read -r word; echo $word > both; exit 0");
    cluster.write("both", "before");
    let terminal = Terminal::sized(120, 24);
    let run = terminal.start(&cluster.run_in(&[]));
    terminal.expect("begin");
    fs::write(cluster.there("made"), "in the pod").unwrap();
    symlink("/etc/passwd", cluster.there("link")).unwrap();
    terminal.press(LEAVE);
    assert_eq!(run.finish(), Ok(0), "{}", terminal.shown());
    terminal
        .expect("1 file written, 0 removed")
        .expect("not fetched: 'link' is a link to '/etc/passwd'");
    assert_eq!(cluster.content("made"), "in the pod");
    assert!(!cluster.here("link").is_symlink());

    fs::write(cluster.there("made"), "by hand").unwrap();
    let fetched = Outcome::of(&mut cluster.coder(&["kube", "fetch"]));
    assert!(fetched.exited(0).stderr.contains("1 file written"), "{}", fetched.stderr);
    assert_eq!(cluster.content("made"), "by hand");

    cluster.write("both", "mine");
    let terminal = Terminal::sized(120, 24);
    let attach = terminal.start(&cluster.on_pods(&["attach"]));
    terminal.expect("begin");
    terminal.press("pods\r");
    assert_eq!(attach.finish(), Ok(0), "{}", terminal.shown());
    terminal.expect("conflict: 'both' was changed here and in the pod");
    assert_eq!(cluster.content("both"), "mine");
    let copies = fs::read_dir(cluster.here(".aifo-conflicts")).unwrap().flatten();
    let copy = copies.map(|it| it.path().join("both")).find(|it| it.exists()).unwrap();
    assert_eq!(fs::read_to_string(copy).unwrap(), "pods\n");
}

#[test]
fn a_pod_is_kept_until_its_files_are_fetched() {
    let cluster = Cluster::with_agent("echo made > made; exit 6");
    let no_fetch = "no-changes";
    cluster.put(no_fetch, "error: unable to upgrade connection: broken pipe");
    let terminal = Terminal::sized(160, 24);
    let run = terminal.start(&cluster.run_in(&[]));
    assert_eq!(run.finish(), Ok(6), "{}", terminal.shown());
    terminal.expect("its pod is kept, try again with: aifo-coder kube fetch --backend kubernetes ");
    assert!(cluster.read("deleted").is_empty() && cluster.content("made").is_empty());
    eventually("the pod waits", || cluster.directory.join("tmp/aifo-ended").exists());
    let failed = Outcome::of(&mut cluster.coder(&["kube", "fetch"]));
    assert!(failed.exited(1).stderr.contains("unable to upgrade connection"), "{}", failed.stderr);
    fs::remove_file(cluster.directory.join(no_fetch)).unwrap();
    Outcome::of(&mut cluster.coder(&["kube", "fetch"])).exited(0);
    assert_eq!(cluster.content("made"), "made\n");
    assert!(!cluster.read("deleted").is_empty(), "the session has ended");
    assert_eq!(cluster.records(), 0);
}

#[test]
fn a_deleted_pod_waits_neither_for_a_reader_nor_for_a_fetch() {
    let cluster = Cluster::with_agent("echo the end; exit 5");
    Outcome::of(&mut cluster.run_in(&["--detach"])).exited(0);
    eventually("the agent has ended", || cluster.has_unread_end());
    for pid in cluster.processes("_pod") {
        send_signal(pid, Signal::SIGTERM);
    }
    eventually("its container ends with the agent's code", || cluster.read("code") == "5\n");
}

#[test]
fn an_upload_that_fails_deletes_the_pod() {
    let cluster = Cluster::with_agent("exit 0");
    cluster.write("file", "text");
    cluster.put("no-receive", "error: unable to upgrade connection: Forbidden");
    let outcome = Outcome::of(&mut cluster.run_in(&["--detach"]));
    assert!(outcome.code().is_some_and(|code| code != 0));
    assert!(outcome.stderr.contains("cannot upload the workspace"), "{}", outcome.stderr);
    assert!(!cluster.read("deleted").is_empty());
    assert_eq!(cluster.records(), 0);
    let nothing = Outcome::of(&mut cluster.coder(&["kube", "fetch"]));
    assert!(nothing.exited(1).stderr.contains("no session in the cluster"), "{}", nothing.stderr);
}

#[test]
fn the_users_rules_hold_in_the_pod() {
    let cluster = Cluster::with_agent("\"$AIFO_CODER\" config show > shown; exit 0");
    let config = cluster.setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&config).unwrap();
    let users = "idle_stop_secs = 60\n[kind.rust]\ndeny = [\"make\"]\n[kind.zig]\ntools = [\"zig\"]\n\
                 [keys.openai]\nurl = \"https://llm.example:8443/v1\"\nfile = \"/private/key\"\n";
    fs::write(config.join("config.toml"), users).unwrap();
    let terminal = Terminal::sized(120, 24);
    let run = terminal.start(&cluster.run_in(&["--toolchain", "rust"]));
    assert_eq!(run.finish(), Ok(0), "{}", terminal.shown());
    let shown = cluster.content("shown");
    terminal.expect("without effect in a pod: idle_stop_secs");
    let openai = shown.lines().find(|line| line.starts_with("keys.openai")).unwrap_or_default();
    assert!(
        openai.contains("https://llm.example:8443/v1") && !openai.contains("private"),
        "{shown}"
    );
    for row in ["kind.rust.deny", "kind.zig.allow", "keys.openai"] {
        let line = shown.lines().find(|line| line.starts_with(row)).unwrap_or_default();
        assert!(line.contains("AIFO_POD_SETTINGS"), "{row}: {shown}");
    }
}
