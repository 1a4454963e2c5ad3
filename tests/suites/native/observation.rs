//! The observable result of a call, and the differences between two.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The ending of a call, as `waitpid` reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Exited(i32),
    Killed(i32),
    /// It did not end, or a step failed.
    Stuck(String),
}

/// A call as its caller observes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observation {
    pub(crate) ending: Ending,
    /// True if a core was dumped.
    pub(crate) core: bool,
    /// Stdout, or the shared stdout and stderr.
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// Every file afterwards: type, mode and content.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// The `name value` lines that the tool has written to `report`.
    pub(crate) report: BTreeMap<String, String>,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// `stdout`, `stderr`, `status`, `core`, `file NAME` or `report NAME`.
    pub(crate) what: String,
    pub(crate) native: String,
    pub(crate) here: String,
}

impl Observation {
    /// A call with only an ending.
    pub(crate) fn new(ending: Ending) -> Self {
        Observation {
            ending,
            core: false,
            stdout: Vec::new(),
            stderr: Vec::new(),
            files: BTreeMap::new(),
            report: BTreeMap::new(),
        }
    }

    /// Adds the files below a directory, except for core dumps. `report` is parsed instead.
    pub(crate) fn add_files(&mut self, prefix: &str, dir: &Path) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            let name = format!("{prefix}{}", entry.file_name().as_bytes().escape_ascii());
            let path = entry.path();
            // Its name depends on the machine, and its content is not compared.
            if name.starts_with("core") {
                continue;
            }
            if name == "report" {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let lines = text.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
                self.report.extend(lines.map(|(name, value)| (name.to_owned(), value.to_owned())));
                continue;
            }
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let content = if metadata.is_file() {
                fs::read(&path).unwrap_or_default()
            } else if metadata.is_symlink() {
                fs::read_link(&path).unwrap_or_default().into_os_string().into_encoded_bytes()
            } else {
                Vec::new()
            };
            let mut state = format!("{:o} ", metadata.mode()).into_bytes();
            state.extend(content);
            if metadata.is_dir() {
                self.add_files(&format!("{name}/"), &path);
            }
            self.files.insert(name, state);
        }
    }

    /// All differences from `self`, which ran natively.
    pub(crate) fn differences(&self, other: &Observation) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut report = |what: &str, native: String, here: String| {
            found.push(Difference { what: what.to_owned(), native, here });
        };
        // Two stuck calls are never equal.
        if self.ending != other.ending || matches!(self.ending, Ending::Stuck(_)) {
            report("status", self.ending.to_string(), other.ending.to_string());
        }
        if self.core != other.core {
            report("core", self.core.to_string(), other.core.to_string());
        }
        let streams =
            [("stdout", &self.stdout, &other.stdout), ("stderr", &self.stderr, &other.stderr)];
        for (what, native, here) in streams {
            if native != here {
                report(what, excerpt(native, here), excerpt(here, native));
            }
        }
        for name in keys(&self.files, &other.files) {
            let (native, here) = (self.files.get(name), other.files.get(name));
            if native != here {
                let none = b"none".to_vec();
                let (native, here) = (native.unwrap_or(&none), here.unwrap_or(&none));
                report(&format!("file {name}"), excerpt(native, here), excerpt(here, native));
            }
        }
        for name in keys(&self.report, &other.report) {
            let (native, here) = (self.report.get(name), other.report.get(name));
            if native != here {
                let text = |value: Option<&String>| value.map_or("none", String::as_str).to_owned();
                report(&format!("report {name}"), text(native), text(here));
            }
        }
        found
    }
}

/// The keys of both, each once.
fn keys<'a, T>(one: &'a BTreeMap<String, T>, other: &'a BTreeMap<String, T>) -> Vec<&'a String> {
    let only_there = other.keys().filter(|name| !one.contains_key(*name));
    one.keys().chain(only_there).collect()
}

/// The part of `bytes` around the first difference from `others`.
fn excerpt(bytes: &[u8], others: &[u8]) -> String {
    let same = bytes.iter().zip(others).take_while(|(byte, other)| byte == other).count();
    let start = same.saturating_sub(40);
    let end = bytes.len().min(same + 160);
    let part = bytes.get(start..end).unwrap_or_default();
    let ellipsis = |cut: bool| if cut { ".." } else { "" };
    let (before, behind) = (ellipsis(start > 0), ellipsis(end < bytes.len()));
    format!("{} bytes, {before}\"{}\"{behind}", bytes.len(), part.escape_ascii())
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exited(code) => write!(f, "exited with {code}"),
            Ending::Killed(signal) => write!(f, "killed by signal {signal}"),
            Ending::Stuck(why) => write!(f, "stuck: {why}"),
        }
    }
}
