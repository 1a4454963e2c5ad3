//! Tests of an agent's files on a real directory tree.
//!
//! Proves `spec/acp-hosts.md#reading`, `spec/acp-hosts.md#writing`.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::scratch::{SECRET, Scratch, names};
use aifo_acp::{RpcError, code};
use aifo_acp_io::{FileLimits, Files, MissingFile, Writing};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

fn files(scratch: &Scratch) -> Files {
    Files::new(scratch.workspace(), MissingFile::Error, Writing::Served)
}

fn read(files: &Files, path: &str) -> Result<String, RpcError> {
    let answer = files.read(&json!({"sessionId": "s", "path": path}))?;
    Ok(answer["content"].as_str().unwrap().to_owned())
}

fn write(files: &Files, path: &str, content: &str) -> Result<Value, RpcError> {
    files.write(&json!({"sessionId": "s", "path": path, "content": content}))
}

#[test]
fn files_are_read_and_written_by_every_name_of_the_workspace() {
    let scratch = Scratch::new();
    let files = files(&scratch);
    assert_eq!(write(&files, "/ws/a", "one\n").unwrap(), json!({}));
    assert_eq!(read(&files, &scratch.named("a")).unwrap(), "one\n");
    write(&files, &scratch.named("a"), "two").unwrap();
    assert_eq!(read(&files, "/ws//./a").unwrap(), "two");
    assert_eq!(names(&scratch.ws("")), ["a"], "nothing is left beside it");
}

#[test]
fn paths_out_of_the_workspace_are_rejected() {
    let scratch = Scratch::new();
    let files = files(&scratch);
    fs::create_dir_all(scratch.ws("dir")).unwrap();
    symlink(scratch.outside(), scratch.ws("away")).unwrap();
    symlink("../outside", scratch.ws("up")).unwrap();
    symlink("../outside/secret", scratch.ws("file")).unwrap();
    symlink("../outside/new", scratch.ws("dangling")).unwrap();
    symlink("/proc/self/root", scratch.ws("magic")).unwrap();
    symlink(scratch.ws("dir"), scratch.ws("absolute")).unwrap();
    symlink("loop", scratch.ws("loop")).unwrap();
    let evil = format!("{}-evil/a", scratch.named("").trim_end_matches('/'));
    let rows = [
        "",
        "a",
        "./a",
        "~/a",
        "/",
        "/etc/passwd",
        "/dev/null",
        "/dev/stdin",
        "/proc/self/environ",
        "/ws-evil/a",
        &evil,
        "/ws/../outside/secret",
        "/ws/dir/../../outside/secret",
        "/ws/..",
        "/ws/up/secret",
        "/ws/away/secret",
        "/ws/away/new/deep",
        "/ws/up/new",
        "/ws/file",
        "/ws/dangling",
        "/ws/magic/etc/passwd",
        // Inside, but the path leaves the workspace on the way.
        "/ws/absolute/a",
        "/ws/loop",
        "/ws/a\0b",
        "file:///ws/a",
    ];
    for path in rows {
        for refused in [read(&files, path).err(), write(&files, path, "x").err()] {
            assert_eq!(refused.map(|error| error.code), Some(code::INVALID_PARAMS), "{path:?}");
        }
    }
    scratch.assert_outside_untouched();
    let links = ["absolute", "away", "dangling", "dir", "file", "loop", "magic", "up"];
    assert_eq!(names(&scratch.ws("")), links, "nothing was made");
}

#[test]
fn inner_links_are_read_and_not_written() {
    let scratch = Scratch::new();
    let files = files(&scratch);
    fs::create_dir_all(scratch.ws("real/inner")).unwrap();
    fs::write(scratch.ws("real/a"), "a").unwrap();
    symlink("real", scratch.ws("link")).unwrap();
    symlink("../a", scratch.ws("real/inner/up")).unwrap();
    symlink("nowhere", scratch.ws("dangling")).unwrap();
    assert_eq!(read(&files, "/ws/link/a").unwrap(), "a");
    assert_eq!(read(&files, "/ws/real/inner/up").unwrap(), "a");
    assert_eq!(read(&files, "/ws/real/inner/../a").unwrap(), "a");
    write(&files, "/ws/link/b", "b").unwrap();
    assert_eq!(fs::read_to_string(scratch.ws("real/b")).unwrap(), "b");

    assert_eq!(read(&files, "/ws/dangling").unwrap_err().code, code::NOT_FOUND);
    for link in ["/ws/real/inner/up", "/ws/dangling"] {
        let refused = write(&files, link, "x").unwrap_err();
        assert_eq!(refused.message, format!("'{link}' is a symbolic link"));
    }
    assert_eq!(fs::read_to_string(scratch.ws("real/a")).unwrap(), "a");
    assert!(!scratch.ws("nowhere").exists());
    // A dangling link is not replaced by a directory.
    assert_eq!(write(&files, "/ws/dangling/x", "x").unwrap_err().code, code::NOT_FOUND);
}

#[test]
fn only_regular_files_are_served_and_no_call_blocks() {
    let scratch = Scratch::new();
    let files = files(&scratch);
    fs::create_dir(scratch.ws("dir")).unwrap();
    mkfifo(&scratch.ws("fifo"), Mode::from_bits_truncate(0o600)).unwrap();
    let _socket = UnixListener::bind(scratch.ws("socket")).unwrap();
    for path in ["/ws", "/ws/dir", "/ws/fifo", "/ws/socket"] {
        for refused in [read(&files, path).err(), write(&files, path, "x").err()] {
            assert_eq!(refused.map(|error| error.code), Some(code::INVALID_PARAMS), "{path}");
        }
    }
    // Nor a FIFO with a reader.
    let options = || fs::File::options().read(true).write(true).open(scratch.ws("fifo"));
    let _reader = options().unwrap();
    assert!(write(&files, "/ws/fifo", "x").is_err());
    assert!(read(&files, "/ws/fifo").is_err());
    assert_eq!(names(&scratch.ws("")), ["dir", "fifo", "socket"]);
}

#[test]
fn a_hard_link_is_read_and_not_written() {
    let scratch = Scratch::new();
    let files = files(&scratch);
    fs::hard_link(scratch.outside().join("secret"), scratch.ws("hard")).unwrap();
    assert_eq!(write(&files, "/ws/hard", "x").unwrap_err().code, code::INVALID_PARAMS);
    scratch.assert_outside_untouched();
    // Package managers hard-link files into a workspace.
    assert_eq!(read(&files, "/ws/hard").unwrap(), SECRET);
}

#[test]
fn a_missing_file_is_an_error_or_empty() {
    let scratch = Scratch::new();
    let strict = files(&scratch);
    let lenient = Files::new(scratch.workspace(), MissingFile::Empty, Writing::Served);
    for path in ["/ws/no", "/ws/no/file"] {
        let error = read(&strict, path).unwrap_err();
        assert_eq!(error.code, code::NOT_FOUND);
        assert_eq!(error.message, format!("Resource not found: {path}"));
        assert_eq!(read(&lenient, path).unwrap(), "");
    }
    fs::write(scratch.ws("file"), "x").unwrap();
    for path in ["/ws/file/x", "/ws/../no", "/no"] {
        assert_eq!(read(&lenient, path).unwrap_err().code, code::INVALID_PARAMS, "{path}");
    }
}

#[test]
fn lines_are_sliced_within_limits() {
    let scratch = Scratch::new();
    let limits = FileLimits { read: 16, write: 8, ..FileLimits::default() };
    let workspace = scratch.workspace();
    let files = Files::with_limits(workspace, MissingFile::Error, Writing::Served, limits);
    let text: String = (1..=1000).map(|line| format!("{line}\r\n")).collect();
    fs::write(scratch.ws("huge"), text).unwrap();
    let ask = |line, limit| files.read(&json!({"path": "/ws/huge", "line": line, "limit": limit}));
    assert_eq!(ask(998, 2).unwrap(), json!({"content": "998\r\n999\r\n"}));
    assert_eq!(ask(5000, 2).unwrap(), json!({"content": ""}));
    assert_eq!(ask(1, 0).unwrap(), json!({"content": ""}));
    let refused = ask(1, 900).unwrap_err();
    assert!(refused.message.contains("too large"), "{refused}");
    assert_eq!(read(&files, "/ws/huge").unwrap_err().code, code::INVALID_PARAMS);
    for params in
        [json!({"path": "/ws/huge", "line": -1}), json!({"path": 1}), json!({}), Value::Null]
    {
        assert_eq!(files.read(&params).unwrap_err().code, code::INVALID_PARAMS, "{params}");
    }

    assert_eq!(write(&files, "/ws/new", "123456789").unwrap_err().code, code::INVALID_PARAMS);
    assert!(!scratch.ws("new").exists());
    write(&files, "/ws/new", "12345678").unwrap();
}

#[test]
fn errors_contain_no_content() {
    let scratch = Scratch::new();
    fs::write(scratch.ws("image"), b"payload\xff\n").unwrap();
    let error = read(&files(&scratch), "/ws/image").unwrap_err();
    assert_eq!(error.message, "'/ws/image' is not UTF-8 text");
    assert_eq!(error.code, code::INVALID_PARAMS);
}

#[test]
fn directories_are_created_and_owner_and_mode_are_kept() {
    let scratch = Scratch::new();
    let files = files(&scratch);
    write(&files, "/ws/deep/er/new", "x").unwrap();
    assert_eq!(fs::read_to_string(scratch.ws("deep/er/new")).unwrap(), "x");
    fs::write(scratch.ws("usual"), "").unwrap();
    let mode = |path: &str| fs::metadata(scratch.ws(path)).unwrap().mode();
    assert_eq!(mode("deep/er/new"), mode("usual"), "the default mode");
    if nix::unistd::geteuid().is_root() {
        chown(scratch.ws("usual"), Some(4711), Some(4712)).unwrap();
    }
    let owner = |path: &str| {
        let metadata = fs::metadata(scratch.ws(path)).unwrap();
        (metadata.uid(), metadata.gid())
    };
    let owned = owner("usual");
    for bits in [0o600, 0o755, 0o640] {
        fs::set_permissions(scratch.ws("usual"), fs::Permissions::from_mode(bits)).unwrap();
        write(&files, "/ws/usual", "y").unwrap();
        assert_eq!(mode("usual") & 0o7777, bits);
        assert_eq!(owner("usual"), owned);
    }
}

#[test]
fn files_are_replaced_atomically() {
    let scratch = Scratch::new();
    let files = files(&scratch);
    let (old, new) = ("old\n".repeat(50_000), "new!\n".repeat(40_000));
    write(&files, "/ws/file", &old).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _over = Over(&over);
            for content in [&new, &old].repeat(50) {
                write(&files, "/ws/file", content).unwrap();
            }
        });
        while !over.load(Ordering::Relaxed) {
            let seen = fs::read_to_string(scratch.ws("file")).unwrap();
            assert!(seen == old || seen == new, "{} bytes of it", seen.len());
        }
    });
    assert_eq!(names(&scratch.ws("")), ["file"]);
}

#[test]
fn a_directory_swapped_with_a_link_does_not_lead_out() {
    let scratch = Scratch::new();
    let files = files(&scratch);
    fs::create_dir(scratch.ws("dir")).unwrap();
    fs::write(scratch.ws("dir/secret"), "mine\n").unwrap();
    symlink("../outside", scratch.ws("link")).unwrap();
    let over = AtomicBool::new(false);
    let (mut reads, mut refusals, mut writes) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (dir, link) = (scratch.ws("dir"), scratch.ws("link"));
            while !over.load(Ordering::Relaxed) {
                let flags = RenameFlags::RENAME_EXCHANGE;
                renameat2(AT_FDCWD, &dir, AT_FDCWD, &link, flags).unwrap();
            }
        });
        let _over = Over(&over);
        // Until every operation has succeeded and failed often enough.
        while [reads, refusals, writes].iter().any(|count| *count < 300) {
            match read(&files, "/ws/dir/secret") {
                Ok(text) if text == SECRET => panic!("read outside"),
                Ok(_) => reads += 1,
                Err(_) => refusals += 1,
            }
            writes += u32::from(write(&files, "/ws/dir/secret", "mine again\n").is_ok());
        }
    });
    scratch.assert_outside_untouched();
}

/// Stops the other thread on drop, also when a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn writing_can_be_disabled() {
    let scratch = Scratch::new();
    let files = Files::new(scratch.workspace(), MissingFile::Error, Writing::Refused);
    assert_eq!(write(&files, "/ws/a", "x").unwrap_err().code, code::METHOD_NOT_FOUND);
    assert!(!scratch.ws("a").exists());
}

#[test]
fn read_only_files_are_not_replaced() {
    let scratch = Scratch::new();
    let program = scratch.ws("program");
    fs::copy("/bin/sleep", &program).unwrap();
    // A running program cannot be written, not even by root. Another test's child may have it open
    // for a moment.
    let mut running = loop {
        match Command::new(&program).arg("1000").spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {}
            spawned => break spawned.unwrap(),
        }
    };
    let refused = write(&files(&scratch), "/ws/program", "x");
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(refused.unwrap_err().code, code::INTERNAL);
    assert_eq!(fs::read(&program).unwrap(), fs::read("/bin/sleep").unwrap());
    assert_eq!(names(&scratch.ws("")), ["program"]);
}
