//! A user and mount namespace in which a process can write only to some directories
//! (`spec/confinement.md#namespaces`).

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getgid, getuid};

use crate::sys;

/// Why a process could not enter a namespace. The process must not run tools in that case.
#[derive(Debug)]
pub enum NamespaceError {
    /// A system call failed.
    Failed {
        /// The step, as the object of "cannot".
        step: &'static str,
        /// The path that the step concerns.
        path: Option<PathBuf>,
        /// The kernel's error.
        errno: Errno,
    },
    /// A writable directory is in a hidden one.
    HiddenRoot {
        /// The writable directory.
        root: PathBuf,
        /// The hidden directory.
        hidden: PathBuf,
    },
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamespaceError::Failed { step, path, errno } => {
                write!(f, "cannot {step}")?;
                if let Some(path) = path {
                    write!(f, " '{}'", path.display())?;
                }
                write!(f, ": {}\nhint: {}", errno.desc(), remedy(*errno))
            }
            NamespaceError::HiddenRoot { root, hidden } => {
                let (root, hidden) = (root.display(), hidden.display());
                write!(
                    f,
                    "'{root}' must be writable, but is in '{hidden}', which is hidden from tools\n\
                     hint: move it to another directory"
                )
            }
        }
    }
}

impl std::error::Error for NamespaceError {}

/// Kernel settings that forbid user namespaces to users, with the forbidding values.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or load an AppArmor profile with \
         'userns,' for aifo-shim",
    ),
    ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000"),
];

fn remedy(errno: Errno) -> String {
    let forbids = |(name, value, _): &&(&str, &str, &str)| {
        let setting = fs::read_to_string(Path::new("/proc/sys").join(name));
        setting.is_ok_and(|setting| setting.trim() == *value)
    };
    match SETTINGS.iter().find(forbids) {
        Some((.., remedy)) => format!("run as root: {remedy}"),
        None if errno == Errno::ENOSYS => "use Linux 5.12 or later, or containers".to_owned(),
        None => "a container or a security module forbids user namespaces here; use sidecars in \
                 containers, or a session without the namespace"
            .to_owned(),
    }
}

/// Moves this process and its future children to a new user and mount namespace for good. All is
/// read-only there but the writable paths, and each hidden path is an empty directory, or the null
/// device. Missing paths are ignored. User and group stay the same. The process has no capability
/// afterwards, and `no_new_privs`.
///
/// Must be called before the process starts a thread. It may change the current directory.
pub fn enter_namespace(writable: &[PathBuf], hidden: &[PathBuf]) -> Result<(), NamespaceError> {
    create_user_namespace(CloneFlags::CLONE_NEWNS)?;
    // Later mounts of the machine would be writable.
    detach_mounts()?;
    let hidden = real_paths(hidden.iter().map(PathBuf::as_path));
    let devices = DEVICES.map(Path::new);
    let roots = real_paths(writable.iter().map(PathBuf::as_path).chain(devices));
    for root in &roots {
        if let Some(hidden) = hidden.iter().find(|hidden| root.starts_with(hidden)) {
            let (root, hidden) = (root.clone(), hidden.clone());
            return Err(NamespaceError::HiddenRoot { root, hidden });
        }
    }
    // Copies are not below `/`, so they stay writable.
    let copies = roots.iter().map(|root| {
        let at = open_path(root)?;
        let copy = sys::copy_mounts(&at).map_err(at_path("copy the mount of", root))?;
        Ok((root, at, copy))
    });
    let copies = copies.collect::<Result<Vec<_>, _>>()?;
    sys::make_read_only(Path::new("/")).map_err(failed("make mounts read-only"))?;
    for (root, at, copy) in &copies {
        sys::attach_mounts(copy, at).map_err(at_path("mount", root))?;
    }
    for path in &hidden {
        hide(path).map_err(at_path("hide", path))?;
    }
    // The directory of before is below the new mounts.
    nix::unistd::chdir("/").map_err(failed("change the directory"))?;
    give_up_privileges()
}

/// Creates a user namespace, and others that it owns. User and group stay the same; no other one is
/// mapped.
pub(crate) fn create_user_namespace(others: CloneFlags) -> Result<(), NamespaceError> {
    let (uid, gid) = (getuid(), getgid());
    unshare(CloneFlags::CLONE_NEWUSER | others).map_err(failed("create a user namespace"))?;
    // The kernel demands it before an unprivileged process maps a group.
    write_file("/proc/self/setgroups", "deny")?;
    write_file("/proc/self/uid_map", &format!("{uid} {uid} 1"))?;
    write_file("/proc/self/gid_map", &format!("{gid} {gid} 1"))
}

/// Makes all mounts independent of the machine's.
pub(crate) fn detach_mounts() -> Result<(), NamespaceError> {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(NOTHING, "/", NOTHING, private, NOTHING).map_err(failed("detach mounts"))
}

/// Drops all capabilities, and sets `no_new_privs`.
pub(crate) fn give_up_privileges() -> Result<(), NamespaceError> {
    sys::no_new_privileges().map_err(failed("give up privileges"))?;
    sys::drop_capabilities().map_err(failed("drop capabilities"))
}

pub(crate) fn failed(step: &'static str) -> impl FnOnce(Errno) -> NamespaceError {
    move |errno| NamespaceError::Failed { step, path: None, errno }
}

pub(crate) const NOTHING: Option<&str> = None;

/// Directories for memory that processes share, beside the writable ones.
const DEVICES: [&str; 1] = ["/dev/shm"];

pub(crate) fn write_file(path: &str, text: &str) -> Result<(), NamespaceError> {
    fs::write(path, text).map_err(|error| at_path("write", Path::new(path))(errno_of(&error)))
}

pub(crate) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Returns the existing paths with links resolved, without those below another one.
pub(crate) fn real_paths<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = paths.filter_map(|path| path.canonicalize().ok()).collect();
    // A directory precedes all below it.
    all.sort();
    let mut outermost = Vec::<PathBuf>::new();
    for path in all {
        if !outermost.iter().any(|outer| path.starts_with(outer)) {
            outermost.push(path);
        }
    }
    outermost
}

/// Opens a path without following a link at its end.
fn open_path(path: &Path) -> Result<File, NamespaceError> {
    let flags = (OFlag::O_PATH | OFlag::O_NOFOLLOW).bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.map_err(|error: io::Error| at_path("open", path)(errno_of(&error)))
}

pub(crate) fn at_path(step: &'static str, path: &Path) -> impl FnOnce(Errno) -> NamespaceError {
    let path = Some(path.to_owned());
    move |errno| NamespaceError::Failed { step, path, errno }
}

/// Mounts an empty directory over a directory, and the null device over another file.
pub(crate) fn hide(path: &Path) -> nix::Result<()> {
    let at = open_path(path).map_err(|error| match error {
        NamespaceError::Failed { errno, .. } => errno,
        NamespaceError::HiddenRoot { .. } => Errno::EINVAL,
    })?;
    let is_directory = at.metadata().is_ok_and(|metadata| metadata.is_dir());
    let at = PathBuf::from(format!("/proc/self/fd/{}", at.as_raw_fd()));
    if !is_directory {
        return mount(Some("/dev/null"), &at, NOTHING, MsFlags::MS_BIND, NOTHING);
    }
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("tmpfs"), &at, Some("tmpfs"), flags, Some("mode=0555,size=4k,nr_inodes=1"))
}
