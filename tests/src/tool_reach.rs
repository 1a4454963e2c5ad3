//! Files by which a tool could take over a process of the agent container.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::procfs::{argv, in_containers};
use crate::scratch::files_below;

/// Lists executable mappings, open FIFOs and listening sockets of the processes in the agent container below
/// directories that tools can write: the workspace and the session's temporary directory, at all their paths.
/// Also lists files of compiled code in the temporary directory, and files that arguments name.
pub fn tool_reach(workspace: &Path) -> Vec<String> {
    let mut found = BTreeSet::new();
    let mut has_agent = false;
    for pid in in_containers(workspace) {
        let mounts = Mounted::all(pid);
        // Only the agent container has the directory of this control socket.
        if !mounts.iter().any(|mount| mount.at == Path::new("/run/aifo-agent")) {
            continue;
        }
        has_agent = true;
        let program = argv(pid).into_iter().next().unwrap_or_default();
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        let seen = mapped(pid).chain(fifos(pid)).chain(listening(pid));
        for (what, path) in seen.chain(code(&root)).chain(named(pid, &root)) {
            if is_shared(&mounts, Path::new(&path)) {
                found.insert(format!("{program}: {what} {path}"));
            }
        }
    }
    assert!(has_agent, "no process of an agent's container");
    found.into_iter().collect()
}

/// A mount of a process.
struct Mounted {
    /// The device, and the path of its root there.
    source: (String, String),
    at: PathBuf,
}

impl Mounted {
    fn all(pid: i32) -> Vec<Self> {
        let mount = |line: &str| {
            let mut fields = line.split(' ').skip(2).map(str::to_owned);
            let source = (fields.next()?, fields.next()?);
            Some(Mounted { source, at: PathBuf::from(fields.next()?) })
        };
        read(pid, "mountinfo").lines().filter_map(mount).collect()
    }
}

/// Returns whether the innermost mount of a path is one of those that tools can write, too.
fn is_shared(mounts: &[Mounted], path: &Path) -> bool {
    let innermost = mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.at))
        .max_by_key(|mount| mount.at.components().count());
    let shared = |at: &str| mounts.iter().find(|mount| mount.at == Path::new(at));
    let shared = ["/workspace", "/tmp"].into_iter().filter_map(shared);
    innermost.is_some_and(|it| shared.into_iter().any(|shared| shared.source == it.source))
}

/// Executable mappings: `ADDRESSES PERMISSIONS OFFSET DEVICE INODE PATH`.
fn mapped(pid: i32) -> impl Iterator<Item = (&'static str, String)> {
    let maps = read(pid, "maps");
    let executable = maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(is_executable));
    let paths = executable.filter_map(|line| line.find('/').map(|at| line[at..].to_owned()));
    paths.map(|path| ("maps", path)).collect::<Vec<_>>().into_iter()
}

fn is_executable(permissions: &str) -> bool {
    permissions.contains('x')
}

fn fifos(pid: i32) -> impl Iterator<Item = (&'static str, String)> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let named = open.filter_map(|entry| {
        let is_fifo = fs::metadata(entry.path()).is_ok_and(|it| it.file_type().is_fifo());
        let path = fs::read_link(entry.path()).ok()?;
        is_fifo.then(|| ("opens", path.display().to_string()))
    });
    named.collect::<Vec<_>>().into_iter()
}

/// Listening sockets with a path, of the stack of this process:
/// `NUMBER: REFERENCES PROTOCOL FLAGS TYPE STATE INODE PATH`.
fn listening(pid: i32) -> impl Iterator<Item = (&'static str, String)> {
    const ACCEPTS: &str = "00010000";
    let sockets = read(pid, "net/unix");
    let listening = sockets.lines().filter(|line| line.split(' ').nth(3) == Some(ACCEPTS));
    let paths = listening.filter_map(|line| line.find(" /").map(|at| line[at + 1..].to_owned()));
    paths.map(|path| ("listens at", path)).collect::<Vec<_>>().into_iter()
}

/// Native libraries and caches of compiled code, which runtimes unpack or write there.
fn code(root: &Path) -> impl Iterator<Item = (&'static str, String)> {
    let files = files_below(&root.join("tmp")).into_iter();
    let is_code = |path: &String| {
        let ends = [".so", ".node", ".pyc", ".jsc"].iter().any(|end| path.ends_with(end));
        ends || path.contains("compile-cache")
    };
    let within = |path: PathBuf| {
        let path = path.strip_prefix(root).ok()?;
        Some(format!("/{}", path.display()))
    };
    files
        .filter_map(within)
        .filter(is_code)
        .map(|path| ("may load", path))
        .collect::<Vec<_>>()
        .into_iter()
}

/// Files that the arguments name, also in the text of a shell.
fn named(pid: i32, root: &Path) -> impl Iterator<Item = (&'static str, String)> {
    let separators = |it: char| it.is_whitespace() || "'\"`;&|<>()=".contains(it);
    let words = argv(pid);
    let paths = words.iter().flat_map(|word| word.split(separators));
    let is_file = |path: &&str| path.starts_with('/') && root.join(&path[1..]).is_file();
    paths.filter(is_file).map(|path| ("names", path.to_owned())).collect::<Vec<_>>().into_iter()
}

fn read(pid: i32, file: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}
