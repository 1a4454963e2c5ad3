use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// A directory for a log.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Scratch(tempfile::tempdir().unwrap())
    }

    fn open(&self, limits: WireLogLimits) -> WireLog {
        WireLog::open(&self.0.path().join("log"), limits, "gemini", vec!["s3cret".into()]).unwrap()
    }

    /// Returns the log's files.
    fn files(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.0.path().join("log")).unwrap().flatten();
        files.map(|file| file.path()).collect()
    }

    /// Returns all lines of all files without their times.
    fn lines(&self) -> Vec<Value> {
        let files = self.files().into_iter();
        let text: String = files.map(|file| fs::read_to_string(file).unwrap()).collect();
        let parse = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            assert!(line["t"].as_u64().unwrap() > 1_700_000_000_000);
            line.as_object_mut().unwrap().remove("t");
            line
        };
        text.lines().map(parse).collect()
    }
}

#[test]
fn every_line_is_logged_however_it_is_split() {
    let scratch = Scratch::new();
    let log = scratch.open(WireLogLimits::default());
    log.record_out(b"{\"id\":1,\"method\":\"initialize\",\"params\":{\"token\":\"x\"}}\n");
    let came = b"Loading s3cret\n\n[{\"id\":1,\"result\":{}},17]\r\nbad \xff\nend";
    for byte in came.chunks(1) {
        log.record_in(byte);
    }
    log.record_err(b"warning: caf\xe9\nAPI_KEY=x\n");
    log.end_in();
    let expected = [
        json!({"log": "acp", "version": 1, "agent": "gemini", "pid": std::process::id(), "part": 1}),
        json!({"dir": "out", "frame": {"id": 1, "method": "initialize", "params": {"token": "[redacted]"}}}),
        json!({"dir": "in", "text": "Loading [redacted]", "len": 14}),
        json!({"dir": "in", "frame": [{"id": 1, "result": {}}, 17]}),
        json!({"dir": "in", "text": "bad \u{fffd}", "len": 5, "utf8": false}),
        json!({"dir": "err", "text": "warning: caf\u{fffd}", "len": 13, "utf8": false}),
        json!({"dir": "err", "text": "API_KEY=[redacted]", "len": 9}),
        json!({"dir": "in", "text": "end", "len": 3}),
        json!({"dir": "in", "end": true}),
    ];
    assert_eq!(scratch.lines(), expected);
}

#[test]
fn long_lines_are_logged_by_their_beginning() {
    let scratch = Scratch::new();
    let log = scratch.open(WireLogLimits::default());
    log.record_err(&vec![b'e'; STDERR_LINE + 1]);
    log.record_err(b"\n");
    log.record_in(&[b'n'; TEXT + 1]);
    log.record_in(b"\n");
    let many = format!("[{}0]\n", "0,".repeat(Limits::default().values));
    log.record_in(many.as_bytes());
    let lines = scratch.lines();
    assert_eq!(lines[1]["skipped"], STDERR_LINE + 1);
    assert_eq!(lines[1]["head"].as_str().unwrap().len(), HEAD);
    assert_eq!(lines[2]["len"], TEXT + 1);
    assert_eq!(lines[2]["text"].as_str().unwrap().len(), TEXT);
    assert_eq!(lines[3]["skipped"], many.len() - 1);
}

#[test]
fn files_rotate_and_the_first_is_kept() {
    let scratch = Scratch::new();
    let log = scratch.open(WireLogLimits { file_bytes: 200, files: 3 });
    fs::write(scratch.0.path().join("log/acp-notes.jsonl"), "mine").unwrap();
    fs::write(scratch.0.path().join("log/acp-1-01-1.jsonl"), "mine").unwrap();
    fs::write(scratch.0.path().join("log/acp-1-1-1.jsonl"), "another log, long ago").unwrap();
    for number in 0..30 {
        log.record_out(format!("{{\"id\":{number},\"method\":\"session/prompt\"}}\n").as_bytes());
    }
    assert!(!scratch.0.path().join("log/acp-1-1-1.jsonl").exists());
    assert!(scratch.0.path().join("log/acp-notes.jsonl").exists());
    assert!(scratch.0.path().join("log/acp-1-01-1.jsonl").exists());
    let mut names: Vec<_> = fs::read_dir(scratch.0.path().join("log")).unwrap().flatten().collect();
    names.retain(|entry| files::LogFileName::parse(entry.file_name().to_str().unwrap()).is_some());
    let mut parts: Vec<u64> = names
        .iter()
        .map(|entry| files::LogFileName::parse(entry.file_name().to_str().unwrap()).unwrap().part)
        .collect();
    parts.sort_unstable();
    let last = *parts.last().unwrap();
    assert!(last > 3, "{parts:?}");
    assert_eq!(parts, [1, last - 1, last]);
    for entry in names {
        let text = fs::read_to_string(entry.path()).unwrap();
        assert!(text.lines().next().unwrap().contains("\"log\":\"acp\""), "{text}");
        assert!(text.len() < 400, "{text}");
    }
}

#[test]
fn files_are_private_and_links_are_not_followed() {
    let scratch = Scratch::new();
    drop(scratch.open(WireLogLimits::default()));
    drop(scratch.open(WireLogLimits::default()));
    let directory = scratch.0.path().join("log");
    assert_eq!(directory.metadata().unwrap().mode() & 0o777, 0o700);
    let files: Vec<_> = fs::read_dir(&directory).unwrap().flatten().collect();
    assert_eq!(files.len(), 2, "two connections never share one");
    for file in files {
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    }
    let link = scratch.0.path().join("link");
    symlink(&directory, &link).unwrap();
    let error = WireLog::open(&link, WireLogLimits::default(), "gemini", vec![]).unwrap_err();
    assert!(matches!(error.raw_os_error(), Some(nix::libc::ENOTDIR | nix::libc::ELOOP)), "{error}");
}

#[test]
fn a_removed_directory_stops_only_the_log() {
    let scratch = Scratch::new();
    let log = scratch.open(WireLogLimits { file_bytes: 1, files: 2 });
    fs::remove_dir_all(scratch.0.path().join("log")).unwrap();
    for _ in 0..3 {
        log.record_out(b"{}\n");
        log.record_in(b"{}\n");
    }
    assert!(log.writer().files.is_none());
}
