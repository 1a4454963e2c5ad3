//! The mailbox tests that the requirement lists, phase by phase, by their names. The last one of
//! phase 4, with a real container, is in `container_mailbox`.
//!
//! Proves `spec/mailbox.md#shutdown`.

mod phase_1 {
    use std::fs;

    use aifo_tests::{Mailbox, Running, eventually, host};

    #[test]
    fn pid_file_creation() {
        let mailbox = Mailbox::start(&["make"]);
        let pid = fs::read_to_string(mailbox.file("make.pid")).unwrap();
        assert_eq!(pid.trim(), mailbox.running().pid().to_string());
    }

    #[test]
    fn duplicate_proxy_detection() {
        let mailbox = Mailbox::start(&["make"]);
        let pid = mailbox.running().pid();
        let second = Running::start(mailbox.setup().coder().args(["proxy", "make"])).finish();
        let expected = format!("aifo-coder: proxy for 'make' already running (PID {pid})");
        assert_eq!(second.exited(86).only_line(), expected);
        assert_eq!(mailbox.run("make", &["say", "still there"]).exited(0).text(), "still there\n");

        let both =
            Running::start(mailbox.setup().coder().args(["proxy", "ninja", "make"])).finish();
        assert!(both.exited(86).stderr.contains("already running"));
        assert!(!mailbox.file("ninja.pid").exists(), "what was taken is given back");
    }

    #[test]
    fn stale_pid_cleanup() {
        let setup = host();
        let directory = setup.workspace().join(".swe-swe/proxy");
        fs::create_dir_all(&directory).unwrap();
        // Larger than any pid of Linux.
        fs::write(directory.join("make.pid"), "4194305").unwrap();
        let mailbox = Mailbox::of(setup, &["make"]);
        assert_eq!(mailbox.run("make", &["say", "hello"]).exited(0).text(), "hello\n");
    }

    #[test]
    fn request_processing() {
        let mailbox = Mailbox::start(&["make"]);
        mailbox.place("5c1d0a7e-1", b"args\0a b\0\0c=d\0");
        let answer = mailbox.answer("5c1d0a7e-1");
        assert_eq!(answer.stdout, b"a b\0\0c=d\0");
        assert_eq!((answer.exit.as_str(), answer.stderr.as_str()), ("0", ""));
        assert_eq!(answer.reason, None);
        let answered = ["5c1d0a7e-1.exit", "5c1d0a7e-1.stderr", "5c1d0a7e-1.stdout"];
        // The answer is there before the request is removed.
        eventually("the request is gone", || mailbox.leftovers() == answered);
    }

    #[test]
    fn exit_code_propagation() {
        let mailbox = Mailbox::start(&["make"]);
        for code in ["0", "1", "42", "255"] {
            let stem = format!("make.code{code}");
            mailbox.place(&stem, format!("exit\0{code}\0").as_bytes());
            assert_eq!(mailbox.answer(&stem).exit, code);
        }
    }
}

mod phase_2 {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use aifo_tests::{Mailbox, host};

    #[test]
    fn script_is_generated_on_startup() {
        let mailbox = Mailbox::start(&["make"]);
        let script = fs::metadata(mailbox.file("make")).unwrap();
        assert!(script.is_file());
        assert_eq!(script.permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn script_is_deleted_on_shutdown() {
        let mailbox = Mailbox::start(&["make"]);
        let directory = mailbox.directory().to_owned();
        let (_setup, ended) = mailbox.stop();
        ended.exited(0);
        assert!(!directory.join("make").exists());
    }

    #[test]
    fn script_content_correctness() {
        let mailbox = Mailbox::start(&["make"]);
        let script = fs::read_to_string(mailbox.file("make")).unwrap();
        let parts = [
            "#!/bin/sh\n",
            "/proc/sys/kernel/random/uuid",
            r#"printf '%s\0' "$@""#,
            r#"mv "$prefix.req.tmp" "$prefix.req""#,
            "inotifywait",
            "PROXY_TIMEOUT",
            "timeout waiting for host to execute command",
            r#"exit "$code""#,
        ];
        for part in parts {
            assert!(script.contains(part), "{part}\n{script}");
        }
        let directory = mailbox.directory().to_str().unwrap();
        assert!(script.contains(&format!("made_in={directory}\n")), "{script}");
    }

    #[test]
    fn end_to_end_request_response() {
        let mailbox = Mailbox::start(&["echo"]);
        let outcome = mailbox.run("echo", &["hello", "world"]);
        assert_eq!(outcome.exited(0).text(), "hello world\n");
        mailbox.assert_clean();
    }

    #[test]
    fn special_characters_in_args() {
        let mailbox = Mailbox::of(host(), &["fake"]);
        let args = ["args", "a b", "it's", "\"quoted\"", "A=B", "$HOME", "`x`", "*", "\\0", "-n"];
        let printed = mailbox.run("fake", &args).exited(0).text();
        assert_eq!(printed.split_terminator('\0').collect::<Vec<_>>(), args[1..]);
    }
}

mod phase_3 {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use aifo_tests::{Mailbox, Running, Signal, eventually, host};

    #[test]
    fn stale_pid_cleanup() {
        let setup = host();
        let directory = setup.workspace().join(".swe-swe/proxy");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("make.pid"), "4194305\n").unwrap();
        let mailbox = Mailbox::of(setup, &["make"]);
        let pid = fs::read_to_string(mailbox.file("make.pid")).unwrap();
        assert_eq!(pid.trim(), mailbox.running().pid().to_string());
        let (_setup, ended) = mailbox.stop();
        let warned = "aifo-coder: the PID file of 'make' was stale (PID 4194305), replaced";
        assert_eq!(ended.exited(0).only_line(), warned);
    }

    #[test]
    fn graceful_shutdown_cleans_up_files() {
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            let mailbox = Mailbox::start(&["make", "ninja"]);
            assert_eq!(mailbox.names().len(), 6, "{:?}", mailbox.names());
            mailbox.running().signal(signal);
            eventually("the directory is empty", || mailbox.names().is_empty());
            let (_setup, ended) = mailbox.stop();
            ended.exited(0);
        }
    }

    #[test]
    fn in_flight_request_completes_on_shutdown() {
        let mailbox = Mailbox::start(&["fake"]);
        let go = mailbox.setup().workspace().join("go");
        let mut client = mailbox.client("fake");
        let client = Running::start(client.arg("hold").arg(&go));
        client.expect("first\n");
        mailbox.running().signal(Signal::SIGTERM);
        // Later requests are refused; a refusal shows that the daemon has handled the signal.
        let mut late = 0;
        eventually("requests are refused", || {
            late += 1;
            let stem = format!("fake.late{late}");
            mailbox.place(&stem, b"exit\x000\0");
            let answer = mailbox.answer(&stem);
            answer.exit == "125" && answer.stderr == "proxy: 'fake' is shutting down\n"
        });
        fs::write(&go, "").unwrap();
        assert_eq!(client.finish().exited(0).text(), "first\nsecond\n");
        let (_setup, ended) = mailbox.stop();
        ended.exited(0);
    }

    #[test]
    fn container_timeout() {
        let mailbox = Mailbox::start(&["make"]);
        let directory = mailbox.directory().to_owned();
        let mut client = mailbox.client("make");
        let _setup = mailbox.kill();
        let outcome = Running::start(client.env("PROXY_TIMEOUT", "1")).finish();
        let message = "timeout waiting for host to execute command";
        assert_eq!(outcome.exited(124).only_line(), message);
        let left = fs::read_dir(directory).unwrap().flatten().map(|it| it.file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["make", "make.mailbox", "make.pid"], "the request is taken back");
    }

    #[test]
    fn orphan_cleanup() {
        let setup = host();
        let directory = setup.workspace().join(".swe-swe/proxy");
        fs::create_dir_all(&directory).unwrap();
        let age = |name: &str, minutes: u64| {
            let file = File::create(directory.join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(60 * minutes)).unwrap();
        };
        for name in ["4f1c-8.stdout", "4f1c-8.exit", "make.9.stderr", "make.9.req"] {
            age(name, 6);
        }
        for name in ["5f1c-8.stdout", "ninja.1.exit", "notes.txt"] {
            age(name, if name.starts_with('5') { 4 } else { 6 });
        }
        let mailbox = Mailbox::of(setup, &["make"]);
        assert_eq!(mailbox.leftovers(), ["5f1c-8.stdout", "ninja.1.exit", "notes.txt"]);
    }
}

mod phase_4 {
    use std::thread;

    use aifo_tests::{Mailbox, host};

    #[test]
    fn basic_flow() {
        let mailbox = Mailbox::start(&["echo"]);
        let outcome = mailbox.run("echo", &["a", "b c"]);
        assert_eq!((outcome.exited(0).text().as_str(), outcome.stderr.as_str()), ("a b c\n", ""));
    }

    #[test]
    fn exit_code_propagation() {
        let mailbox = Mailbox::start(&["sh"]);
        mailbox.run("sh", &["-c", "exit 42"]).exited(42);
        mailbox.assert_clean();
    }

    #[test]
    fn stdout_stderr_separation() {
        let mailbox = Mailbox::start(&["sh"]);
        let outcome = mailbox.run("sh", &["-c", "echo out; echo err >&2; printf more"]);
        let (stdout, stderr) = (outcome.exited(0).text(), outcome.stderr.clone());
        assert_eq!((stdout.as_str(), stderr.as_str()), ("out\nmore", "err\n"));
    }

    #[test]
    fn concurrent_requests() {
        let mailbox = Mailbox::start(&["fake"]);
        thread::scope(|scope| {
            for number in 0..5 {
                let mailbox = &mailbox;
                scope.spawn(move || {
                    let word = format!("number {number}");
                    let outcome = mailbox.run("fake", &["say", &word]);
                    assert_eq!(outcome.exited(0).text(), format!("{word}\n"));
                });
            }
        });
        mailbox.assert_clean();
    }

    #[test]
    fn special_characters() {
        let mailbox = Mailbox::of(host(), &["fake"]);
        let args =
            ["args", "a b", "'\"", "two\nlines\n", "größe 漢字 🦀", "\t", "%s%n", "\u{1b}[2J"];
        let printed = mailbox.run("fake", &args).exited(0).text();
        assert_eq!(printed.split_terminator('\0').collect::<Vec<_>>(), args[1..]);
    }
}
