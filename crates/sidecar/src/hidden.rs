//! The paths that tools of local sidecars cannot read or connect to: in a namespace
//! (`spec/confinement.md#namespaces`), and in a network stack.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use nix::unistd::{Uid, getuid};

/// Directories of keys, in the user's home.
const OF_HOME: [&str; 5] = [".ssh", ".aws", ".gnupg", ".config/gcloud", ".kube"];
/// Variables that name another directory for one of these.
const DIRECTORY_VARIABLES: [&str; 2] = ["GNUPGHOME", "CLOUDSDK_CONFIG"];
/// Sockets of programs that execute commands outside of the namespace, or directories of such sockets.
const SOCKETS: [&str; 3] = ["/run/docker.sock", "/var/run/docker.sock", "/run/podman"];
/// The same in the user's runtime directory.
const OF_RUNTIME_DIRECTORY: [&str; 5] = ["docker.sock", "podman", "bus", "systemd", "gnupg"];
/// Variables that name such a socket, and what precedes its path.
const SOCKET_VARIABLES: [(&str, &[u8]); 3] = [
    ("DOCKER_HOST", b"unix://"),
    ("CONTAINER_HOST", b"unix://"),
    ("DBUS_SESSION_BUS_ADDRESS", b"unix:path="),
];

/// Sockets of programs that resolve names outside of a network stack.
const RESOLVERS: [&str; 5] = [
    "/run/nscd/socket",
    "/var/run/nscd/socket",
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/dbus/system_bus_socket",
    "/run/avahi-daemon/socket",
];

/// Returns the paths, of which some may be absent.
pub(crate) fn hidden_paths(environment: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let variable = |name| absolute(environment(name));
    let homes = [variable("HOME"), home_in_passwd(getuid())];
    let of_home = homes.iter().flatten();
    let of_home = of_home.flat_map(|home| OF_HOME.iter().map(|name| home.join(name)));
    let directories = DIRECTORY_VARIABLES.iter().filter_map(|name| variable(name));
    sorted(of_home.chain(directories).chain(command_sockets(&environment)))
}

/// Returns the sockets of programs outside of a network stack that execute commands, connect or resolve
/// names for their clients (`spec/network.md#local-sidecars`). Some may be absent.
pub(crate) fn hidden_sockets(environment: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    sorted(RESOLVERS.iter().map(PathBuf::from).chain(command_sockets(&environment)))
}

/// Returns sockets of programs that execute commands, and directories of such sockets.
fn command_sockets(environment: &impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let own = PathBuf::from(format!("/run/user/{}", getuid()));
    let runtime = [absolute(environment("XDG_RUNTIME_DIR")), Some(own)];
    let of_runtime = runtime.iter().flatten();
    let of_runtime =
        of_runtime.flat_map(|runtime| OF_RUNTIME_DIRECTORY.iter().map(|name| runtime.join(name)));
    let sockets = SOCKET_VARIABLES.iter().filter_map(|(name, prefix)| {
        let value = environment(name)?;
        let path = value.as_bytes().strip_prefix(*prefix)?;
        let path = path.split(|byte| *byte == b',').next()?;
        absolute(Some(OsStr::from_bytes(path).to_owned()))
    });
    SOCKETS.iter().map(PathBuf::from).chain(of_runtime).chain(sockets).collect()
}

fn absolute(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}

fn sorted(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Returns the home directory in `/etc/passwd`. Not by `getpwuid`: in a static binary the C library loads
/// the machine's libraries for it, and crashes if they are of another version.
fn home_in_passwd(uid: Uid) -> Option<PathBuf> {
    let text = fs::read("/etc/passwd").ok()?;
    let uid = uid.to_string();
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let fields: Vec<_> = line.split(|byte| *byte == b':').collect();
        let home = fields.get(5).filter(|_| fields.get(2) == Some(&uid.as_bytes()))?;
        Some(PathBuf::from(OsStr::from_bytes(home)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_in_passwd() {
        assert_eq!(home_in_passwd(Uid::from_raw(0)), Some("/root".into()));
        assert_eq!(home_in_passwd(Uid::from_raw(u32::MAX - 1)), None);
    }

    #[test]
    fn keys_and_sockets_are_hidden() {
        let variables = [
            ("HOME", "/h"),
            ("GNUPGHOME", "relative"),
            ("CLOUDSDK_CONFIG", "/cloud"),
            ("XDG_RUNTIME_DIR", "/r"),
            ("DOCKER_HOST", "unix:///d/docker.sock"),
            ("CONTAINER_HOST", "tcp://1.2.3.4:5"),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/b/bus,guid=1"),
        ];
        let found = hidden_paths(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        });
        for path in ["/h/.ssh", "/h/.config/gcloud", "/cloud", "/run/podman", "/r/systemd"] {
            assert!(found.contains(&path.into()), "{path}: {found:?}");
        }
        for path in ["/d/docker.sock", "/b/bus"] {
            assert!(found.contains(&path.into()), "{path}: {found:?}");
        }
        assert!(found.iter().all(|path| path.is_absolute()));
        assert!(!found.contains(&"/run/nscd/socket".into()), "names are resolved in a namespace");

        let found = hidden_sockets(|name| (name == "HOME").then(|| "/h".into()));
        for path in ["/run/nscd/socket", "/run/docker.sock"] {
            assert!(found.contains(&path.into()), "{path}: {found:?}");
        }
        assert!(found.iter().all(|path| !path.starts_with("/h")), "{found:?}");
    }
}
