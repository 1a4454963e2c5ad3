//! A mailbox with a hostile container: it cannot read or write outside its directory or stop the
//! daemon, and the daemon's memory stays bounded.
//!
//! Proves `spec/mailbox.md#trust`.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;

use aifo_tests::{Mailbox, Running, Scratch, SessionSetup, eventually, host, status_kib};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::mkfifo;

/// Files that the container must neither read nor change.
struct Outside {
    scratch: Scratch,
}

const SECRET: &str = "the host's own";

impl Outside {
    fn new() -> Self {
        let scratch = Scratch::new();
        fs::write(scratch.path().join("file"), SECRET).unwrap();
        fs::create_dir(scratch.path().join("directory")).unwrap();
        Outside { scratch }
    }

    fn file(&self) -> PathBuf {
        self.scratch.path().join("file")
    }

    fn dir(&self) -> PathBuf {
        self.scratch.path().join("directory")
    }

    #[track_caller]
    fn is_untouched(&self) {
        assert_eq!(fs::read_to_string(self.file()).unwrap(), SECRET);
        assert_eq!(fs::read_dir(self.dir()).unwrap().count(), 0);
        assert_eq!(fs::read_dir(self.scratch.path()).unwrap().count(), 2);
    }
}

#[track_caller]
fn still_serves(mailbox: &Mailbox) {
    assert_eq!(mailbox.run("fake", &["say", "still here"]).exited(0).text(), "still here\n");
}

/// Creates something other than a plain file under a name.
fn put(kind: &str, path: &std::path::Path, outside: &Outside) {
    match kind {
        "a link" => symlink(outside.file(), path).unwrap(),
        "a link to a directory" => symlink(outside.dir(), path).unwrap(),
        "a link to nothing" => symlink(outside.scratch.path().join("new"), path).unwrap(),
        "a link to itself" => symlink(path.file_name().unwrap(), path).unwrap(),
        "a second name" => fs::hard_link(outside.file(), path).unwrap(),
        "a FIFO" => mkfifo(path, Mode::S_IRWXU).unwrap(),
        "a directory" => fs::create_dir(path).unwrap(),
        "a full directory" => {
            fs::create_dir(path).unwrap();
            fs::write(path.join("x"), "").unwrap();
        }
        "a socket" => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
        "a device" => {
            // Only root can create one; others use a link to one.
            if mknod(path, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 5)).is_err() {
                symlink("/dev/zero", path).unwrap();
            }
        }
        other => panic!("{other} is not known"),
    }
}

const KINDS: [&str; 10] = [
    "a link",
    "a link to a directory",
    "a link to nothing",
    "a link to itself",
    "a second name",
    "a FIFO",
    "a directory",
    "a full directory",
    "a socket",
    "a device",
];

#[test]
fn requests_that_are_no_plain_files_are_refused() {
    let (mailbox, outside) = (Mailbox::start(&["fake"]), Outside::new());
    for (number, kind) in KINDS.into_iter().enumerate() {
        let stem = format!("fake.{number}");
        let draft = mailbox.file("draft");
        put(kind, &draft, &outside);
        fs::rename(&draft, mailbox.file(&format!("{stem}.req"))).unwrap();
        let answer = mailbox.answer(&stem);
        assert_eq!(answer.exit, "125", "{kind}");
        assert_eq!(answer.stderr, "proxy: the request is not a regular file\n", "{kind}");
        assert!(answer.stdout.is_empty(), "{kind}");
    }
    outside.is_untouched();
    still_serves(&mailbox);
}

#[test]
fn files_of_a_request_must_be_plain_files() {
    let (mailbox, outside) = (Mailbox::start(&["fake"]), Outside::new());
    for part in ["call", "stdin", "alive"] {
        for (number, kind) in KINDS.into_iter().enumerate() {
            let stem = format!("fake.{part}{number}");
            put(kind, &mailbox.file(&format!("{stem}.{part}")), &outside);
            mailbox.place(&stem, b"cat\0");
            let answer = mailbox.answer(&stem);
            assert_eq!(answer.exit, "125", "{part} {kind}");
            let expected = format!("proxy: the request's .{part} is not a regular file\n");
            assert_eq!(answer.stderr, expected, "{kind}");
        }
    }
    outside.is_untouched();
    still_serves(&mailbox);
}

#[test]
fn signals_and_ends_of_input_that_are_no_plain_files_are_nothing() {
    let (mailbox, outside) = (Mailbox::start(&["fake"]), Outside::new());
    let go = mailbox.setup().workspace().join("go");
    fs::write(mailbox.file("fake.1.stdin"), "").unwrap();
    mailbox.place("fake.1", format!("hold\0{}\0", go.display()).as_bytes());
    eventually("it runs", || {
        fs::read_to_string(mailbox.file("fake.1.stdout")).is_ok_and(|out| out == "first\n")
    });
    for kind in ["a link", "a FIFO", "a second name", "a device", "a link to nothing"] {
        let draft = mailbox.file("draft");
        put(kind, &draft, &outside);
        fs::rename(&draft, mailbox.file("fake.1.sig")).unwrap();
        eventually(kind, || {
            !mailbox.file("fake.1.sig").is_symlink() && !mailbox.file("fake.1.sig").exists()
        });
    }
    fs::write(mailbox.file("draft"), "9".repeat(1024)).unwrap();
    fs::rename(mailbox.file("draft"), mailbox.file("fake.1.sig")).unwrap();
    eventually("a long one is removed", || !mailbox.file("fake.1.sig").exists());
    fs::write(&go, "").unwrap();
    assert_eq!(mailbox.answer("fake.1").stdout, b"first\nsecond\n");
    outside.is_untouched();
}

#[test]
fn names_that_mean_nothing_are_left_alone() {
    let mailbox = Mailbox::start(&["fake"]);
    let long = format!("fake.{}.req", "x".repeat(65));
    let names = [
        "..req",
        "...req",
        "fake..req",
        "fake.a b.req",
        "fake.a\nb.req",
        "other.1.req",
        "fake.\u{1b}.req",
        "fake.1.req.bak",
        ".fake.1.req",
        "fake.é.req",
        "FAKE.1.req",
        "fake.pid.1.req",
        &long,
    ];
    for name in names {
        fs::write(mailbox.file(name), "say\0ran\0").unwrap();
    }
    let raw: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"fake.\xff.req");
    fs::write(mailbox.directory().join(raw), "say\0ran\0").unwrap();
    still_serves(&mailbox);
    assert_eq!(mailbox.leftovers().len(), names.len() + 1, "{:?}", mailbox.leftovers());
    for name in names {
        assert_eq!(fs::read_to_string(mailbox.file(name)).unwrap(), "say\0ran\0", "{name:?}");
    }
}

#[test]
fn answers_are_written_to_new_files_alone() {
    let outside = Outside::new();
    let mailbox = Mailbox::start(&["fake"]);
    let ran = mailbox.setup().workspace().join("ran");
    for (number, part) in ["stdout", "stderr", "exit.tmp"].into_iter().enumerate() {
        for (serial, kind) in KINDS.into_iter().enumerate() {
            let stem = format!("fake.{number}x{serial}");
            put(kind, &mailbox.file(&format!("{stem}.{part}")), &outside);
            mailbox.place(&stem, format!("count\0{}\0", ran.display()).as_bytes());
            let [request, claimed] =
                ["req", "run"].map(|part| mailbox.file(&format!("{stem}.{part}")));
            eventually("it is decided", || !request.exists() && !claimed.exists());
            let exit = fs::read_to_string(mailbox.file(&format!("{stem}.exit"))).ok();
            let expected = (part != "exit.tmp").then_some("125");
            assert_eq!(exit.as_deref(), expected, "{part} {kind}");
        }
    }
    assert!(!ran.exists(), "nothing ran");
    outside.is_untouched();
    still_serves(&mailbox);
}

#[test]
fn a_file_in_place_of_the_exit_code_is_replaced_or_stays() {
    let outside = Outside::new();
    let mailbox = Mailbox::start(&["fake"]);
    for (serial, kind) in KINDS.into_iter().enumerate() {
        let stem = format!("fake.{serial}");
        for part in ["exit", "reason", "taken"] {
            put(kind, &mailbox.file(&format!("{stem}.{part}")), &outside);
        }
        fs::write(mailbox.file(&format!("{stem}.stdin")), "x").unwrap();
        fs::write(mailbox.file(&format!("{stem}.eof")), "").unwrap();
        mailbox.place(&stem, b"die\x009\0");
        eventually("it has ended", || !mailbox.file(&format!("{stem}.run")).exists());
        eventually("it was taken", || !mailbox.file(&format!("{stem}.req")).exists());
        let exit = mailbox.file(&format!("{stem}.exit"));
        if !kind.ends_with("directory") || kind.starts_with("a link") {
            eventually(kind, || {
                fs::symlink_metadata(&exit).is_ok_and(|it| it.is_file())
                    && fs::read_to_string(&exit).is_ok_and(|code| code == "137")
            });
        }
    }
    outside.is_untouched();
    still_serves(&mailbox);
}

#[test]
fn a_directory_that_is_swapped_during_a_request_is_still_the_one_that_was_opened() {
    let outside = Outside::new();
    let mailbox = Mailbox::start(&["fake"]);
    let go = mailbox.setup().workspace().join("go");
    let mut client = mailbox.client("fake");
    let client = Running::start(client.arg("hold").arg(&go).current_dir(mailbox.directory()));
    client.expect("first\n");
    let moved = mailbox.setup().workspace().join("moved");
    fs::rename(mailbox.directory(), &moved).unwrap();
    symlink(outside.dir(), mailbox.directory()).unwrap();
    fs::write(&go, "").unwrap();
    let exits = || {
        let names = fs::read_dir(&moved).unwrap().flatten().map(|it| it.file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".exit")).count()
    };
    eventually("it is answered where it was placed", || exits() == 1);
    fs::write(moved.join("draft"), "say\0here\0").unwrap();
    fs::rename(moved.join("draft"), moved.join("fake.new.req")).unwrap();
    eventually("another one is", || moved.join("fake.new.exit").exists());
    assert_eq!(fs::read(moved.join("fake.new.stdout")).unwrap(), b"here\n");
    drop(client);
    outside.is_untouched();
    let (_setup, ended) = mailbox.stop();
    ended.exited(0);
    assert!(!moved.join("fake").exists() && !moved.join("fake.pid").exists());
    outside.is_untouched();
}

#[test]
fn a_removed_directory_is_reported_and_the_daemon_lives() {
    let mailbox = Mailbox::start(&["fake"]);
    let go = mailbox.setup().workspace().join("go");
    let mut client = mailbox.client("fake");
    let client = Running::start(client.arg("hold").arg(&go));
    client.expect("first\n");
    fs::remove_dir_all(mailbox.directory()).unwrap();
    mailbox.running().complains("the mailbox's directory was removed");
    drop(client);
    let (_setup, ended) = mailbox.stop();
    ended.exited(0);
}

#[test]
fn a_link_where_the_directory_should_be_made_is_not_followed() {
    let outside = Outside::new();
    let dirs: [fn(&SessionSetup) -> PathBuf; 2] = [
        |setup| setup.workspace().join(".swe-swe"),
        |setup| setup.workspace().join(".swe-swe/proxy"),
    ];
    for dir in dirs {
        let setup = host();
        let link = dir(&setup);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(outside.dir(), &link).unwrap();
        let refused = Running::start(setup.coder().args(["proxy", "make"])).finish();
        assert!(refused.exited(86).stderr.contains("cannot open '.swe-swe/proxy'"), "{refused:?}");
        outside.is_untouched();
    }
}

#[test]
fn files_with_the_names_of_the_daemons_own_are_replaced() {
    let outside = Outside::new();
    for kind in ["a link", "a link to nothing", "a second name", "a FIFO", "a socket", "a device"] {
        let setup = host();
        let directory = setup.workspace().join(".swe-swe/proxy");
        fs::create_dir_all(&directory).unwrap();
        for name in ["fake", "fake.pid", "fake.mailbox", "fake.tmp", "fake.mailbox.tmp"] {
            put(kind, &directory.join(name), &outside);
        }
        let mailbox = Mailbox::of(setup, &["fake"]);
        still_serves(&mailbox);
        outside.is_untouched();
        let (_setup, ended) = mailbox.stop();
        ended.exited(0);
        outside.is_untouched();
    }
}

#[test]
fn a_directory_of_the_callers_is_below_the_workspace_or_nowhere() {
    let outside = Outside::new();
    let mailbox = Mailbox::start(&["fake"]);
    let workspace = mailbox.setup().workspace();
    symlink(outside.dir(), workspace.join("leads-out")).unwrap();
    fs::create_dir(workspace.join("sub")).unwrap();
    let root = format!("{}\n", workspace.display());
    let inner = format!("{}/sub\n", workspace.display());
    let out = outside.dir().display().to_string();
    let rows = [
        ("/w/sub", "/w", Ok(inner.as_str())),
        ("/w/sub/../../..", "/w", Ok(&root)),
        ("/etc", "/", Ok(&root)),
        (&out, "/w", Ok(&root)),
        ("/w/leads-out", "/w", Err("lies outside the workspace")),
        ("/w/missing", "/w", Err("does not exist")),
    ];
    for (number, (cwd, called, expected)) in rows.into_iter().enumerate() {
        let stem = format!("fake.{number}");
        let call = format!("cwd={cwd}\0workspace={called}\0env=LD_PRELOAD=/x\0");
        fs::write(mailbox.file(&format!("{stem}.call")), call).unwrap();
        mailbox.place(&stem, b"cwd\0");
        let answer = mailbox.answer(&stem);
        match expected {
            Ok(directory) => assert_eq!(answer.stdout, directory.as_bytes(), "{cwd}"),
            Err(reason) => {
                assert_eq!(answer.exit, "125", "{cwd}");
                assert!(answer.stderr.contains(reason), "{cwd}: {}", answer.stderr);
            }
        }
    }
    outside.is_untouched();
}

#[test]
fn requests_that_are_too_large_or_endless_are_refused() {
    let mailbox = Mailbox::start(&["fake", "cat"]);
    fs::write(mailbox.file("draft"), vec![b'x'; 1024 * 1024 + 1]).unwrap();
    fs::rename(mailbox.file("draft"), mailbox.file("fake.1.req")).unwrap();
    let answer = mailbox.answer("fake.1");
    assert_eq!(answer.stderr, "proxy: the request is larger than 1 MiB\n");
    // A sparse file of a terabyte.
    let sparse = File::create(mailbox.file("draft")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    fs::rename(mailbox.file("draft"), mailbox.file("fake.2.call")).unwrap();
    mailbox.place("fake.2", b"say\0ran\0");
    assert_eq!(
        mailbox.answer("fake.2").stderr,
        "proxy: the request's .call is larger than 1 MiB\n"
    );
    // One that grows while it is claimed.
    let growing = File::create(mailbox.file("cat.3.stdin")).unwrap();
    mailbox.place("cat.3", b"");
    growing.write_all_at(b"grown", 0).unwrap();
    eventually("it is copied as far as it goes", || {
        fs::read(mailbox.file("cat.3.stdout")).is_ok_and(|out| out == b"grown")
    });
    growing.set_len(0).unwrap();
    fs::write(mailbox.file("cat.3.eof"), "").unwrap();
    assert_eq!(mailbox.answer("cat.3").exit, "0");
    still_serves(&mailbox);
}

#[test]
fn a_hundred_thousand_junk_files_cost_no_memory() {
    let mailbox = Mailbox::start(&["fake"]);
    still_serves(&mailbox);
    let memory = || status_kib(mailbox.running().pid(), "VmRSS");
    let before = memory();
    for number in 0..100_000 {
        // Every other name has the form of a request, for an unknown command.
        let name =
            if number % 2 == 0 { format!("junk{number}") } else { format!("junk.{number}.req") };
        File::create(mailbox.file(&name)).unwrap();
    }
    still_serves(&mailbox);
    // More own requests than the daemon remembers.
    for number in 0..5_000 {
        mailbox.place(&format!("fake.{number}"), b"exit\x003\0");
    }
    for number in 0..5_000 {
        assert_eq!(mailbox.answer(&format!("fake.{number}")).exit, "3");
    }
    still_serves(&mailbox);
    let grown = memory().saturating_sub(before);
    assert!(grown < 16 * 1024, "grown by {grown} KiB");
}
