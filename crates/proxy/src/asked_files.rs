//! The directory and the scripts of a call that a user is asked about (`spec/questions.md#directory-and-scripts`).

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, read_link};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use aifo_policy::{AskedCall, CallFiles, JudgedCall, Script, scripts};
use aifo_process::{descriptor_path, file_id, open_regular};
use aifo_types::{Refusal, replaced_while_waiting};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use sha2::{Digest, Sha256};

/// The directories that agent and tools share, the workspace first: of each its path for the proxy, then its
/// other names.
#[derive(Debug)]
pub(crate) struct SharedNames(Vec<Vec<PathBuf>>);

/// Why the directory of a call cannot be opened.
#[derive(Debug)]
pub(crate) enum DirectoryError {
    /// It is none of the shared ones, nor below one.
    Outside,
    Failed(Errno),
}

/// The effort for one call, whose names an agent chooses.
struct Budget {
    /// Bytes of scripts that are read. Of further ones only inode, size and times are compared.
    bytes: u64,
    /// Components of paths, links followed.
    components: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { bytes: 16 << 20, components: 16 << 10 }
    }
}

/// Maximum number of links in a path, as in Linux.
const MAX_LINKS: usize = 40;

impl DirectoryError {
    /// Returns the refusal of a call.
    pub(crate) fn refusal(&self, directory: &[u8]) -> Refusal {
        let path = Path::new(OsStr::from_bytes(directory)).display();
        Refusal::BadRequest(match self {
            DirectoryError::Outside => format!("cwd '{path}' lies outside the workspace"),
            DirectoryError::Failed(errno) => format!("cannot open cwd '{path}': {}", errno.desc()),
        })
    }
}

impl SharedNames {
    pub(crate) fn new(shared: Vec<Vec<PathBuf>>) -> Self {
        SharedNames(shared)
    }

    /// Returns the workspace names, the tools' first.
    pub(crate) fn workspace(&self) -> &[PathBuf] {
        self.0.first().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns a call with the directory and the scripts that its names lead to now. Its directory is without
    /// links. Errors: the directory cannot be opened, or there are too many names.
    pub(crate) fn pin(&self, call: &AskedCall) -> Result<AskedCall, DirectoryError> {
        let mut budget = Budget::default();
        let real = self.resolve(&call.directory, &mut budget)?;
        let own = self.own_path(&real).ok_or(DirectoryError::Outside)?;
        let held = open_path(&own, OFlag::O_DIRECTORY).map_err(DirectoryError::Failed)?;
        let id = file_id(&held).map_err(DirectoryError::Failed)?;
        let directory = real.into_os_string().into_vec();
        let workspace: Vec<_> =
            self.workspace().iter().map(|name| name.as_os_str().as_bytes().to_vec()).collect();
        let judged = JudgedCall { argv: &call.argv, directory: &directory, workspace: &workspace };
        let scripts = scripts(&judged).into_iter().map(|path| self.script(path, &mut budget));
        let scripts = scripts.collect::<Result<_, _>>()?;
        let files = CallFiles { directory: id, scripts, held: Box::new(held) };
        Ok(AskedCall { argv: call.argv.clone(), directory, files: Some(Arc::new(files)) })
    }

    /// Compares a call with its names now. Errors: they lead elsewhere, or a script has another content.
    pub(crate) fn check(&self, call: &AskedCall) -> Result<(), Refusal> {
        let Some(then) = &call.files else { return Ok(()) };
        let replaced = |path: &[u8]| {
            let path = Path::new(OsStr::from_bytes(path));
            Err(Refusal::BadRequest(replaced_while_waiting(path)))
        };
        let now = match self.pin(call) {
            Ok(AskedCall { directory, files: Some(now), .. })
                if directory == call.directory && now.directory == then.directory =>
            {
                now
            }
            _ => return replaced(&call.directory),
        };
        let mut scripts = then.scripts.iter().zip(&now.scripts);
        let other = scripts.find(|(then, now)| then != now);
        other.map_or(Ok(()), |(script, _)| replaced(&script.path))
    }

    /// Returns whether a path is below one of the directories, links unresolved.
    pub(crate) fn name(&self, path: &[u8]) -> bool {
        self.own_path(Path::new(OsStr::from_bytes(path))).is_some()
    }

    /// Returns the path for the proxy of one below a shared directory.
    fn own_path(&self, path: &Path) -> Option<PathBuf> {
        let count = |below: &&Path| below.components().count();
        let containing = self.0.iter().filter_map(|names| {
            let below = names.iter().filter_map(|name| path.strip_prefix(name).ok());
            Some((below.min_by_key(count)?, names.first()?))
        });
        // The innermost: one may be below another.
        let (below, own) = containing.min_by_key(|(below, _)| count(below))?;
        Some(own.join(below))
    }

    /// Follows the links of an absolute path as tools do.
    fn resolve(&self, path: &[u8], budget: &mut Budget) -> Result<PathBuf, DirectoryError> {
        let names = |path: &Path| -> VecDeque<OsString> {
            let plain = path
                .components()
                .filter(|it| matches!(it, Component::Normal(_) | Component::ParentDir));
            plain.map(|component| component.as_os_str().to_owned()).collect()
        };
        let too_many = DirectoryError::Failed(Errno::ELOOP);
        let mut rest = names(Path::new(OsStr::from_bytes(path)));
        let (mut found, mut links) = (PathBuf::from("/"), 0);
        while let Some(name) = rest.pop_front() {
            match budget.components.checked_sub(1) {
                Some(left) if links <= MAX_LINKS => budget.components = left,
                _ => return Err(too_many),
            }
            if name == ".." {
                found.pop();
                continue;
            }
            found.push(&name);
            // Each process has its own links there.
            if found.starts_with("/proc") {
                continue;
            }
            let own = self.own_path(&found);
            let Ok(target) = read_link(own.as_ref().unwrap_or(&found)) else { continue };
            links += 1;
            found.pop();
            if target.is_absolute() {
                found = PathBuf::from("/");
            }
            names(&target).into_iter().rev().for_each(|name| rest.push_front(name));
        }
        Ok(found)
    }

    fn script(&self, path: Vec<u8>, budget: &mut Budget) -> Result<Script, DirectoryError> {
        let real = self.resolve(&path, budget)?;
        // Elsewhere, tools have files of their own.
        let file = self.own_path(&real).and_then(|own| open_path(&own, OFlag::empty()).ok());
        let digest = file.and_then(|file| digest(&File::from(file), budget));
        Ok(Script { path, real: real.into_os_string().into_vec(), digest })
    }
}

fn open_path(path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let flags = flags | OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    open(path, flags, Mode::empty())
}

/// Returns the digest of a regular file's content, or of its metadata if it cannot be read within the budget.
fn digest(file: &File, budget: &mut Budget) -> Option<[u8; 32]> {
    let metadata = file.metadata().ok().filter(Metadata::is_file)?;
    let content = read(file, budget);
    Some(Sha256::digest(content.unwrap_or_else(|_| identity(&metadata))).into())
}

fn read(file: &File, Budget { bytes, .. }: &mut Budget) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let read = open_regular(&descriptor_path(file))?.take(*bytes).read_to_end(&mut content)?;
    *bytes = bytes.saturating_sub(read as u64);
    if *bytes == 0 { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(content) }
}

fn identity(metadata: &Metadata) -> Vec<u8> {
    let numbers = [metadata.dev(), metadata.ino(), metadata.size()];
    let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
    let numbers = numbers.into_iter().chain(times.map(i64::cast_unsigned));
    numbers.flat_map(u64::to_be_bytes).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// A workspace and a temporary directory, which tools know as `/workspace` and `/tmp`.
    fn shared() -> (TempDir, SharedNames) {
        let base = tempfile::tempdir().unwrap();
        let own = |name: &str| base.path().canonicalize().unwrap().join(name);
        for name in ["ws/a", "ws/b", "tmp/c"] {
            fs::create_dir_all(own(name)).unwrap();
        }
        let names = [("ws", "/workspace"), ("tmp", "/tmp")];
        let names = names.map(|(own_name, name)| vec![own(own_name), PathBuf::from(name)]);
        (base, SharedNames::new(names.to_vec()))
    }

    fn call(line: &str, directory: &str) -> AskedCall {
        let argv = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        AskedCall::new(argv, directory.as_bytes().to_vec())
    }

    #[test]
    fn links_lead_where_tools_follow_them() {
        let (base, shared) = shared();
        let own = |name: &str| base.path().join(name);
        symlink("/workspace/b", own("ws/a/absolute")).unwrap();
        symlink("../b/../a", own("ws/b/relative")).unwrap();
        symlink("/tmp/c", own("ws/to-tmp")).unwrap();
        symlink("/usr", own("ws/out")).unwrap();
        symlink("/proc/self/cwd", own("ws/process")).unwrap();
        symlink("loop", own("ws/loop")).unwrap();
        let rows = [
            ("/workspace/a", Ok("/workspace/a")),
            ("/workspace/a/absolute", Ok("/workspace/b")),
            ("/workspace/a/absolute/relative", Ok("/workspace/a")),
            ("/workspace/to-tmp", Ok("/tmp/c")),
            ("/workspace/to-tmp/..", Ok("/tmp")),
            ("/workspace/out", Err("lies outside")),
            ("/workspace/process", Err("lies outside")),
            ("/workspace/..", Err("lies outside")),
            ("/workspace/loop", Err("Too many")),
            ("/workspace/none", Err("No such file")),
        ];
        for (name, expected) in rows {
            let pinned = shared.pin(&call("make", name));
            match (pinned, expected) {
                (Ok(call), Ok(real)) => assert_eq!(call.directory, real.as_bytes(), "{name}"),
                (Err(error), Err(text)) => {
                    let text_of = error.refusal(name.as_bytes()).body();
                    assert!(text_of.contains(text), "{name}: {text_of}");
                }
                (pinned, _) => panic!("{name}: {pinned:?}"),
            }
        }
    }

    #[test]
    fn the_effort_for_a_call_is_bounded() {
        let (base, shared) = shared();
        let script = base.path().join("ws/large.sh");
        File::create(&script).unwrap().set_len(1 << 30).unwrap();
        let large = shared.pin(&call("sh large.sh", "/workspace")).unwrap();
        shared.check(&large).unwrap();
        fs::OpenOptions::new().write(true).open(&script).unwrap().set_len(1 << 29).unwrap();
        assert!(shared.check(&large).unwrap_err().body().contains("large.sh' was replaced"));
        let text: String = (0..4000).map(|number| format!("./a/a/a/a/{number};")).collect();
        let many = AskedCall::new(
            ["sh", "-c", &text].map(|word| word.as_bytes().to_vec()).to_vec(),
            b"/workspace".to_vec(),
        );
        assert!(shared.pin(&many).is_err());
    }
}
