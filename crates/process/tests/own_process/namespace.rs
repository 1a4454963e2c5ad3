//! The namespace of confined tools, without Landlock.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use aifo_process::enter_namespace;
use aifo_types::Ending;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getgid, getuid};

use super::output_of;

/// A name with characters that are special in tables of mounts and option lists.
const ODD: &str = "a ,\\:\"'\t\nb";

pub(super) fn a_namespace_cannot_be_left_or_changed() {
    let base = std::env::temp_dir().join(format!("aifo-namespace-{}", std::process::id()));
    for name in ["outside", "workspace/deep", "keys", "linked-keys", ODD] {
        fs::create_dir_all(base.join(name)).unwrap();
    }
    fs::write(base.join("keys/key"), "key").unwrap();
    fs::write(base.join("linked-keys/key"), "key").unwrap();
    fs::write(base.join("socket"), "").unwrap();
    symlink("linked-keys", base.join("link")).unwrap();
    let (output, ending) = output_of("namespace", &[base.as_os_str().as_bytes()], 1, |_| {});
    if output.starts_with("cannot create a user namespace") {
        println!("skipped: a_namespace_cannot_be_left_or_changed ({output})");
    } else {
        assert_eq!(ending, Ending::Exited(0), "{output}");
        assert_eq!(output, EXPECTED);
        assert_eq!(fs::read_to_string(base.join("keys/key")).unwrap(), "key");
        let made = fs::metadata(base.join("workspace/deep/made")).unwrap();
        assert_eq!((made.uid(), made.gid()), (getuid().as_raw(), getgid().as_raw()));
    }
    fs::remove_dir_all(&base).unwrap();
}

const EXPECTED: &str = "\
outside: Err(EROFS)
workspace: Ok
odd: Ok
through a link: Err(EROFS)
keys/key: Err(ENOENT)
linked-keys/key: Err(ENOENT)
link/key: Err(ENOENT)
socket: Ok
keys: Err(EROFS)
the user is the same: true
unmount: Err(EPERM)
no capability: true
as root of another namespace
unmount: Err(EINVAL)
unmount all: Err(EINVAL)
writable again: Err(EPERM)
the keys' parent without the mount: Err(EINVAL)
unmount the workspace: Err(EINVAL)
outside: Err(EROFS)
keys/key: Err(ENOENT)
";

/// Prints what is possible in the namespace.
pub(super) fn enter() {
    let base = PathBuf::from(std::env::args_os().nth(1).unwrap());
    let (uid, gid) = (getuid(), getgid());
    let writable = ["workspace", "workspace/deep", ODD, "absent"].map(|name| base.join(name));
    let hidden = ["keys", "link", "socket", "absent"].map(|name| base.join(name));
    if let Err(error) = enter_namespace(&writable, &hidden) {
        return print!("{error}");
    }
    let write = |name: &str| {
        let path = base.join(name);
        show(
            fs::write(path, "text").map_err(|error| Errno::from_raw(error.raw_os_error().unwrap())),
        )
    };
    let read = |name: &str| {
        let read = fs::read(base.join(name)).map(drop);
        show(read.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap())))
    };
    println!("outside: {}", write("outside/new"));
    println!("workspace: {}", write("workspace/deep/made"));
    println!("odd: {}", write(&format!("{ODD}/made")));
    symlink("../outside", base.join("workspace/out")).unwrap();
    println!("through a link: {}", write("workspace/out/new"));
    for name in ["keys/key", "linked-keys/key", "link/key", "socket"] {
        println!("{name}: {}", read(name));
    }
    println!("keys: {}", write("keys/new"));
    println!("the user is the same: {}", (getuid(), getgid()) == (uid, gid));
    let unmount = |name: &str| show(umount2(&base.join(name), MntFlags::MNT_DETACH));
    println!("unmount: {}", unmount("keys"));
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let capabilities =
        ["CapPrm", "CapEff", "CapBnd"].map(|set| format!("{set}:\t0000000000000000"));
    println!("no capability: {}", capabilities.iter().all(|line| status.contains(line)));

    println!("as root of another namespace");
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).unwrap();
    println!("unmount: {}", unmount("keys"));
    println!("unmount all: {}", show(umount2("/", MntFlags::MNT_DETACH)));
    let writable = MsFlags::MS_REMOUNT | MsFlags::MS_BIND;
    let none = None::<&str>;
    println!("writable again: {}", show(mount(none, "/", none, writable, none)));
    let copy = mount(Some(&base), &base.join("workspace/deep"), none, MsFlags::MS_BIND, none);
    println!("the keys' parent without the mount: {}", show(copy));
    println!("unmount the workspace: {}", unmount("workspace"));
    println!("outside: {}", write("outside/new"));
    println!("keys/key: {}", read("keys/key"));
}

fn show(result: nix::Result<()>) -> String {
    match result {
        Ok(()) => "Ok".to_owned(),
        Err(errno) => format!("Err({errno:?})"),
    }
}
