//! The paths that tools of local sidecars in a namespace cannot read or connect to
//! (`spec/confinement.md#namespaces`).

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

/// Returns the paths, of which some may be absent.
pub(crate) fn hidden_paths(environment: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let variable = |name| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let uid = getuid();
    let homes = [variable("HOME"), home_in_passwd(uid)];
    let of_home = homes.iter().flatten();
    let of_home = of_home.flat_map(|home| OF_HOME.iter().map(|name| home.join(name)));
    let runtime = [variable("XDG_RUNTIME_DIR"), Some(format!("/run/user/{uid}").into())];
    let of_runtime = runtime.iter().flatten();
    let of_runtime =
        of_runtime.flat_map(|runtime| OF_RUNTIME_DIRECTORY.iter().map(|name| runtime.join(name)));
    let sockets = SOCKET_VARIABLES.iter().filter_map(|(name, prefix)| {
        let value = environment(name)?;
        let path = value.as_bytes().strip_prefix(*prefix)?;
        let path = path.split(|byte| *byte == b',').next()?;
        Some(PathBuf::from(OsStr::from_bytes(path))).filter(|path| path.is_absolute())
    });
    let mut paths: Vec<PathBuf> = of_home
        .chain(DIRECTORY_VARIABLES.iter().filter_map(|name| variable(name)))
        .chain(SOCKETS.iter().map(PathBuf::from))
        .chain(of_runtime)
        .chain(sockets)
        .collect();
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
    }
}
