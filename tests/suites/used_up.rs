//! aifo works while another program of its user, such as one in a container, has used up the user's inotify
//! instances and descriptors in flight (`spec/containers.md#limits-of-a-user`).

use std::os::unix::fs::lchown;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use aifo_tests::{
    CONNECT, HelloServer, Mailbox, Outcome, Running, Session, SessionSetup, Signal, Terminal, Tool,
    binaries, can_run, host, is_alive, program,
};

/// Programs of a user of its own, whose limits no other test shares. The kernel exempts root.
struct User([String; 8]);

impl User {
    /// `None` if this process cannot become another user; `test` is then reported as skipped.
    fn new(test: &str) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = (2_000_000 + process::id() * 4 + count).to_string();
        let limit = "--nofile=4096:4096";
        let words = ["/usr/bin/prlimit", limit, "/usr/bin/setpriv", "--reuid", &id, "--regid", &id];
        let words = [&words[..], &["--clear-groups"]].concat();
        let coder = binaries().coder.to_str().unwrap();
        can_run(test, &[&words[..], &[coder, "--version"]].concat())
            .then(|| User(std::array::from_fn(|at| words[at].to_owned())))
    }

    fn words(&self) -> [&str; 8] {
        self.0.each_ref().map(String::as_str)
    }

    /// Lets the user own a setup, and start its programs.
    fn own(&self, setup: SessionSetup) -> SessionSetup {
        self.take(setup.scratch());
        setup.through(&self.words())
    }

    fn take(&self, path: &Path) {
        let id = self.0[4].parse().ok();
        lchown(path, id, id).unwrap();
        if path.is_dir() && !path.is_symlink() {
            std::fs::read_dir(path).unwrap().flatten().for_each(|entry| self.take(&entry.path()));
        }
    }

    /// The same command as this user.
    fn command(&self, command: &Command) -> Command {
        let words = self.words();
        let mut user = Command::new(words[0]);
        user.args(&words[1..]).arg(command.get_program()).args(command.get_args()).env_clear();
        user.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.get_current_dir().into_iter().for_each(|dir| _ = user.current_dir(dir));
        user.stdin(Stdio::null());
        user
    }

    /// Uses up all, until the result is dropped.
    fn use_up(&self) -> Vec<Running> {
        let mut holders: Vec<Running> = Vec::new();
        // Each process also has a limit on open files.
        while holders.last().is_none_or(|last| !last.has_printed("inotify=0 in_flight=0.")) {
            let mut holder = self.command(&Command::new(&binaries().tool));
            let holder = Running::start(holder.arg("use-up"));
            holder.expect("in_flight=").expect(".");
            holders.push(holder);
        }
        holders
    }
}

/// Calls by all versions, with relayed input, signals, exit codes and on a terminal.
fn calls_work(user: &User, session: &Session) {
    for version in ["1", "2", "3"] {
        let mut call = session.shim("make");
        let outcome = Outcome::of(
            &mut user.command(call.args(["both", "2"]).env("AIFO_SHIM_PROTO", version)),
        );
        assert!(outcome.exited(0).text().starts_with("out 0\n"), "{version}: {outcome:?}");
        let mut call = session.shim("make");
        let outcome = Outcome::of(
            &mut user.command(call.args(["exit", "7"]).env("AIFO_SHIM_PROTO", version)),
        );
        outcome.exited(7);
    }
    let mut call = session.shim("make");
    let mut call = user.command(call.args(["stdin"]));
    let input = vec![b'x'; 1 << 20];
    let path = session.scratch().join("input");
    std::fs::write(&path, &input).unwrap();
    let outcome = Running::start(call.stdin(std::fs::File::open(&path).unwrap())).finish();
    assert_eq!(outcome.exited(0).text(), format!("{}\n", input.len()));
    let mut call = session.shim("make");
    let call = Running::start(&mut user.command(call.arg("wait")));
    call.expect("ready").signal(Signal::SIGTERM);
    call.finish().died_of(Signal::SIGTERM);

    let terminal = Terminal::new();
    let mut call = session.shim("make");
    let on_terminal = terminal.start(&user.command(call.args(["say", "on a terminal"])));
    terminal.expect("on a terminal");
    assert_eq!(on_terminal.finish(), Ok(0));
}

#[test]
fn calls_go_on_and_new_sessions_start() {
    let Some(user) = User::new("used_up::calls_go_on_and_new_sessions_start") else { return };
    let session = user.own(SessionSetup::new()).start();
    let mut running = session.shim("make");
    let running = Running::start(&mut user.command(running.arg("wait")));
    running.expect("ready");
    let holders = user.use_up();
    calls_work(&user, &session);
    calls_work(&user, &user.own(SessionSetup::new()).start());
    assert!(is_alive(running.pid()));
    running.signal(Signal::SIGINT);
    running.finish().died_of(Signal::SIGINT);
    drop(holders);
    calls_work(&user, &session);
}

#[test]
fn a_mailbox_serves_and_its_clients_are_answered() {
    let Some(user) = User::new("used_up::a_mailbox_serves_and_its_clients_are_answered") else {
        return;
    };
    let setup = user.own(host());
    let holders = user.use_up();
    let mailbox = Mailbox::of(setup, &["fake"]);
    for count in 0..5 {
        let mut call = mailbox.client("fake");
        let outcome = Outcome::of(&mut user.command(call.args(["both", "3"])));
        assert!(outcome.exited(0).text().ends_with("out 2\n"), "{count}: {outcome:?}");
    }
    let mut call = mailbox.client("fake");
    let mut call = user.command(call.arg("stdin"));
    let input = mailbox.setup().scratch().join("input");
    std::fs::write(&input, [b'x'; 1 << 20]).unwrap();
    let outcome = Running::start(call.stdin(std::fs::File::open(input).unwrap())).finish();
    assert_eq!(outcome.exited(0).text(), "1048576\n");
    drop(holders);
}

#[test]
fn a_network_by_name_is_served() {
    let test = "used_up::a_network_by_name_is_served";
    let Some(user) = User::new(test) else { return };
    let trial = ["/usr/bin/unshare", "--user", "--map-root-user", "--net", "--mount", "true"];
    let Some(python) = program("python3") else { return };
    if !can_run(test, &[&user.words()[..], &trial].concat()) {
        return;
    }
    let server = HelloServer::new();
    let setup = SessionSetup::new().kinds(&["python"]).tool("python3", Tool::Link(python));
    let setup = user.own(setup);
    let holders = user.use_up();
    let rule = server.rule("allowed.test");
    let mut exec = setup.coder();
    exec.args(["exec", "--backend", "local", "--net", "names", "--allow-net", &rule]);
    exec.args(["--toolchain", "python", "--", "python3", "-c", CONNECT, "allowed.test"]);
    let outcome = Outcome::of(exec.arg(server.port.to_string()));
    assert_eq!(outcome.exited(0).text(), "hello\n");
    drop(holders);
}
