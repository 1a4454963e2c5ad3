//! The client of a mailbox: each test runs with the script with inotify-tools, and the script without.
//!
//! Proves `spec/mailbox.md#a-request`, `spec/mailbox.md#exit-codes`, `spec/mailbox.md#liveness`.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use aifo_tests::{
    BLOCK, Mailbox, Outcome, RandomBytes, Running, Signal, argv, can_run, eventually,
    eventually_within, host, is_alive, send_signal,
};
use nix::sys::signal::killpg;
use nix::unistd::Pid;

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    ScriptWithInotify,
    ScriptWithout,
}

/// The clients that work on this machine.
fn callers() -> Vec<Caller> {
    let inotify = ["/usr/bin/inotifywait", "/bin/inotifywait", "/usr/local/bin/inotifywait"];
    let mut callers = vec![Caller::ScriptWithout];
    if inotify.iter().any(|path| Path::new(path).is_file()) {
        callers.push(Caller::ScriptWithInotify);
    } else {
        // A closed stderr does not matter.
        let _ =
            writeln!(std::io::stderr(), "skipped: the script with inotify-tools: not installed");
    }
    callers
}

/// A mailbox for one client.
struct ClientTest {
    caller: Caller,
    mailbox: Mailbox,
}

impl ClientTest {
    fn new(caller: Caller, args: &[&str]) -> Self {
        ClientTest { caller, mailbox: Mailbox::of(host(), args) }
    }

    fn client(&self, command: &str) -> Command {
        let mut client = self.mailbox.client(command);
        if self.caller == Caller::ScriptWithout {
            client.env("PATH", self.mailbox.path_without_inotify());
        }
        client
    }

    /// The commands `fake wait` that the daemon runs.
    fn waiting(&self) -> Vec<i32> {
        let tools = aifo_tests::descendants(self.mailbox.running().pid()).into_iter();
        tools.filter(|pid| argv(*pid).get(1).is_some_and(|word| word == "wait")).collect()
    }

    fn run(&self, command: &str, args: &[&str]) -> Outcome {
        Running::start(self.client(command).args(args)).finish()
    }
}

/// Runs a scenario with every client and these commands.
#[track_caller]
fn with_each_client(args: &[&str], test: impl Fn(&ClientTest)) {
    for caller in callers() {
        let message = ClientTest::new(caller, args);
        eprintln!("by {caller:?}");
        test(&message);
        message.mailbox.assert_clean();
    }
}

#[test]
fn arguments_are_what_was_typed_empty_ones_too() {
    with_each_client(&["fake"], |test| {
        let args = ["args", "", "a b", "", "it's", "two\nlines", "-n", "\\0", "größe", ""];
        let printed = test.run("fake", &args).exited(0).text();
        assert_eq!(printed.split_terminator('\0').collect::<Vec<_>>(), args[1..]);
        // Without arguments the fake tool fails.
        assert!(!test.run("fake", &[]).status.success());
    });
    with_each_client(&["sh"], |test| {
        let count = ["-c", "echo $#", "x"];
        assert_eq!(test.run("sh", &count).text(), "0\n");
        assert_eq!(test.run("sh", &[&count[..], &[""]].concat()).text(), "1\n");
    });
}

#[test]
fn endings_are_the_commands_own() {
    with_each_client(&["fake"], |test| {
        for code in [0, 1, 42, 124, 125, 255] {
            test.run("fake", &["exit", &code.to_string()]).exited(code);
        }
        test.run("fake", &["die", "9"]).exited(137);
    });
}

#[test]
fn streams_are_apart_and_a_program_may_open_them_anew() {
    with_each_client(&["sh"], |test| {
        let script = "echo 1; echo a >&2; echo 2 >/dev/stdout; echo b >/dev/stderr; echo 3";
        let outcome = test.run("sh", &["-c", script]);
        let streams = (outcome.exited(0).text(), outcome.stderr.clone());
        assert_eq!(streams, ("1\n2\n3\n".to_owned(), "a\nb\n".to_owned()));
    });
}

#[test]
fn output_is_shown_as_it_comes() {
    with_each_client(&["fake"], |test| {
        let go = test.mailbox.setup().workspace().join("go");
        let _ = fs::remove_file(&go);
        let client = Running::start(test.client("fake").arg("hold").arg(&go));
        client.expect("first\n");
        fs::write(&go, "").unwrap();
        assert_eq!(client.finish().exited(0).text(), "first\nsecond\n");
    });
}

#[test]
fn input_goes_along_while_it_grows() {
    with_each_client(&["cat"], |test| {
        let mut client = test.client("cat");
        let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (client.stdin.take().unwrap(), client.stdout.take().unwrap());
        // A byte comes back before the input ends.
        for byte in [b"a", b"\0", b"\xff"] {
            input.write_all(byte).unwrap();
            let mut echo = [0];
            output.read_exact(&mut echo).unwrap();
            assert_eq!(&echo, byte);
        }
        drop(input);
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
        assert!(client.wait().unwrap().success());
    });
}

#[test]
fn binary_input_and_output_are_exact() {
    with_each_client(&["cat"], |test| {
        let input = test.mailbox.setup().scratch().join("input");
        let mut noise = RandomBytes::new(7);
        let mut file = File::create(&input).unwrap();
        for _ in 0..48 {
            file.write_all(noise.next(BLOCK)).unwrap();
        }
        let client = Running::start(test.client("cat").stdin(File::open(&input).unwrap()));
        let outcome = client.finish();
        assert_eq!(outcome.exited(0).stdout.len(), 48 * BLOCK);
        assert!(outcome.stdout == fs::read(&input).unwrap(), "the bytes are the same");
    });
}

#[test]
fn unread_input_is_not_read_far_ahead() {
    with_each_client(&["fake"], |test| {
        let go = test.mailbox.setup().workspace().join("go");
        let _ = fs::remove_file(&go);
        let endless = File::open("/dev/zero").unwrap();
        let client = Running::start(test.client("fake").arg("hold").arg(&go).stdin(endless));
        client.expect("first\n");
        let input = || {
            let mut names = test.mailbox.leftovers().into_iter();
            let name = names.find(|name| name.ends_with(".stdin"))?;
            Some(fs::metadata(test.mailbox.file(&name)).ok()?.len())
        };
        eventually("the client reads ahead", || input() >= Some(1024 * 1024));
        fs::write(&go, "").unwrap();
        let longest = std::iter::from_fn(input).max();
        client.finish().exited(0);
        assert!(longest <= Some(2 * 1024 * 1024), "{longest:?}");
    });
}

#[test]
fn much_output_is_complete() {
    const BYTES: u64 = 256 << 20;
    with_each_client(&["fake"], |test| {
        let output = test.mailbox.setup().scratch().join("output");
        let mut client = test.client("fake");
        client.args(["emit", &BYTES.to_string(), "11"]).stdout(File::create(&output).unwrap());
        assert!(client.status().unwrap().success());
        let mut file = File::open(&output).unwrap();
        assert_eq!(file.metadata().unwrap().len(), BYTES);
        let mut noise = RandomBytes::new(11);
        let mut block = vec![0; BLOCK];
        for _ in 0..BYTES / BLOCK as u64 {
            file.read_exact(&mut block).unwrap();
            noise.check(&block);
        }
        fs::remove_file(&output).unwrap();
    });
}

#[test]
fn the_callers_directory_is_honoured_below_the_workspace() {
    with_each_client(&["fake"], |test| {
        let workspace = test.mailbox.setup().workspace();
        let inner = workspace.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        for (from, expected) in
            [(&inner, &inner), (&workspace, &workspace), (&"/".into(), &workspace)]
        {
            let outcome = Running::start(test.client("fake").arg("cwd").current_dir(from)).finish();
            assert_eq!(outcome.exited(0).text(), format!("{}\n", expected.display()));
        }
        // By a relative path, and through a link.
        let mut relative = Command::new("../../.swe-swe/proxy/fake");
        relative.arg("cwd").current_dir(&inner).stdin(Stdio::null());
        let expected = format!("{}\n", inner.display());
        assert_eq!(Running::start(&mut relative).finish().exited(0).text(), expected);
    });
}

#[test]
fn only_the_variables_that_were_named_pass() {
    with_each_client(&["fake", "--env", "CI", "--env", "ODD", "--env", "UNSET"], |test| {
        let mut client = test.client("fake");
        client.arg("env").env("CI", "1").env("ODD", "a 'b'\n\"$c\" %s").env("SECRET", "x");
        let variables = Running::start(&mut client).finish().exited(0).text();
        assert!(variables.contains("CI=1\n"), "{variables}");
        assert!(variables.contains("ODD=a 'b'\n\"$c\" %s\n"), "{variables}");
        assert!(!variables.contains("SECRET=") && !variables.contains("UNSET="), "{variables}");
    });
}

#[test]
fn ctrl_c_reaches_the_command() {
    with_each_client(&["fake"], |test| {
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            let client = Running::start(test.client("fake").arg("wait"));
            client.expect("ready\n");
            client.signal(signal);
            client.finish().exited(128 + signal as i32);
        }
    });
}

#[test]
fn ctrl_c_of_a_terminal_reaches_the_command_from_every_process_of_the_client() {
    with_each_client(&["fake"], |test| {
        // Each meets the client's processes in another moment.
        for _ in 0..20 {
            let client = Running::start(test.client("fake").arg("wait").process_group(0));
            client.expect("ready\n");
            killpg(Pid::from_raw(client.pid()), Signal::SIGINT).unwrap();
            client.finish().exited(128 + Signal::SIGINT as i32);
        }
    });
}

#[test]
fn a_client_that_vanishes_takes_its_command_with_it() {
    with_each_client(&["fake"], |test| {
        let client = Running::start(test.client("fake").arg("wait"));
        client.expect("ready\n");
        let tools = test.waiting();
        assert_eq!(tools.len(), 1);
        // As when its container is killed: all processes at once.
        let family = aifo_tests::descendants(client.pid());
        client.signal(Signal::SIGKILL);
        family
            .into_iter()
            .filter(|pid| is_alive(*pid))
            .for_each(|pid| send_signal(pid, Signal::SIGKILL));
        eventually("the command has ended", || !is_alive(tools[0]));
    });
}

#[test]
fn a_client_that_is_killed_without_its_children_takes_its_command_with_it() {
    with_each_client(&["fake"], |test| {
        let mut client = test.client("fake");
        let mut client = client.arg("wait").stdout(Stdio::piped()).spawn().unwrap();
        client.stdout.take().unwrap().read_exact(&mut [0; 6]).unwrap();
        assert_eq!(test.waiting().len(), 1);
        client.kill().unwrap();
        client.wait().unwrap();
        eventually("the command has ended", || test.waiting().is_empty());
    });
}

#[test]
fn a_client_that_releases_its_lock_ends_its_command() {
    let mailbox = Mailbox::start(&["fake"]);
    let alive = mailbox.locked_liveness_file("fake.1");
    mailbox.place("fake.1", b"wait\0");
    eventually("the command runs", || {
        fs::read(mailbox.file("fake.1.stdout")).is_ok_and(|out| out == b"ready\n")
    });
    drop(alive);
    // A client without a lock has 10 s.
    eventually_within(Duration::from_secs(8), "the command has ended", || {
        mailbox.leftovers().is_empty()
    });
}

#[test]
fn a_client_that_gives_up_ends_its_command() {
    with_each_client(&["fake"], |test| {
        let mut client = test.client("fake");
        let outcome = Running::start(client.arg("wait").env("PROXY_TIMEOUT", "1")).finish();
        assert_eq!(outcome.exited(124).text(), "ready\n");
        assert_eq!(outcome.stderr, "timeout waiting for host to execute command\n");
        eventually("the command has ended", || test.waiting().is_empty());
    });
}

#[test]
fn the_time_limit_ends_a_command() {
    with_each_client(&["fake", "--max-secs", "1"], |test| {
        let outcome = test.run("fake", &["wait"]);
        assert_eq!(outcome.exited(124).text(), "ready\n");
    });
}

#[test]
fn a_reader_that_leaves_ends_the_command() {
    with_each_client(&["fake"], |test| {
        let mut client = test.client("fake");
        client.args(["emit", &u32::MAX.to_string(), "3"]).stdin(Stdio::null());
        let mut client = client.stdout(Stdio::piped()).spawn().unwrap();
        let mut some = [0; 1024];
        client.stdout.take().unwrap().read_exact(&mut some).unwrap();
        assert!(!client.wait().unwrap().success());
    });
}

#[test]
fn shutdown_ends_what_outlives_its_grace() {
    for caller in callers() {
        let ClientTest { mailbox, .. } = ClientTest::new(caller, &["fake", "--grace", "0"]);
        let client = Running::start(mailbox.client("fake").arg("wait"));
        client.expect("ready\n");
        let directory = mailbox.directory().to_owned();
        let (_setup, ended) = mailbox.stop();
        ended.exited(0);
        let outcome = client.finish();
        assert_eq!(outcome.code(), Some(130), "{outcome:?}");
        eventually("nothing is left", || fs::read_dir(&directory).unwrap().next().is_none());
    }
}

#[test]
fn the_script_is_clean_by_shellchecks_standards() {
    let mailbox = Mailbox::start(&["make", "--env", "CI"]);
    for shell in ["sh", "dash", "bash"] {
        let check =
            Command::new("shellcheck").args(["--shell", shell]).arg(mailbox.file("make")).output();
        let Ok(output) = check else {
            // A closed stderr does not matter.
            let _ = writeln!(std::io::stderr(), "skipped: shellcheck is not installed");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn the_script_leaves_no_process_behind() {
    for caller in callers() {
        let test = ClientTest::new(caller, &["fake"]);
        // They are identified by the mailbox path in their arguments.
        let mark = format!("{}", test.mailbox.directory().display());
        assert_eq!(test.run("fake", &["say", "x"]).exited(0).text(), "x\n");
        let pids = || {
            let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
            entries.filter_map(|it| it.file_name().to_string_lossy().parse::<i32>().ok())
        };
        eventually("nothing of the script is left", || {
            !pids().any(|pid| argv(pid).iter().any(|word| word.starts_with(&mark)))
        });
    }
}

/// Other programs of the user can use up the inotify instances, or the watches.
#[test]
fn without_inotify_requests_are_served_and_streams_copied_as_they_grow() {
    let test =
        "mailbox_clients::without_inotify_requests_are_served_and_streams_copied_as_they_grow";
    let limited = |limit: &str| {
        let script = format!("echo {limit} && exec \"$@\"");
        let unshare = ["/usr/bin/unshare", "--user", "--map-root-user", "/bin/sh", "-c"];
        unshare.map(str::to_owned).into_iter().chain([script, "sh".to_owned()]).collect::<Vec<_>>()
    };
    let (instances, watches) = (
        limited("0 > /proc/sys/user/max_inotify_instances"),
        limited("1 > /proc/sys/user/max_inotify_watches"),
    );
    let trial = [instances.iter().map(String::as_str).collect(), vec!["/bin/true"]].concat();
    if !can_run(test, &trial) {
        return;
    }
    for wrapper in [&instances, &watches] {
        let words: Vec<_> = wrapper.iter().map(String::as_str).collect();
        let mailbox = Mailbox::of(host().through(&words), &["cat", "fake"]);
        let mut client = Command::new(&wrapper[0]);
        client
            .args(&wrapper[1..])
            .arg(mailbox.file("cat"))
            .current_dir(mailbox.setup().workspace());
        let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (client.stdin.take().unwrap(), client.stdout.take().unwrap());
        for byte in [b"a", b"b"] {
            input.write_all(byte).unwrap();
            let mut echo = [0];
            output.read_exact(&mut echo).unwrap();
            assert_eq!(&echo, byte);
        }
        drop(input);
        assert!(client.wait().unwrap().success());
        mailbox.run("fake", &["exit", "42"]).exited(42);
        let (_setup, daemon) = mailbox.stop();
        let line = daemon.exited(0).only_line();
        assert!(line.starts_with("aifo-coder: cannot watch the mailbox's directory: "), "{line}");
        assert!(line.ends_with(" fs.inotify.max_user_watches)"), "{line}");
    }
}
