//! What the agent's container is given of the session (`spec/agents.md#the-container`).

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, symlink};
use std::path::{Path, PathBuf};

use aifo_engine::{Mount, Value};
use aifo_policy::{NotifyRules, Policy};
use aifo_sidecar::{AgentContainer, CONTAINER_HOME};

use crate::agents::AgentSpec;
use crate::error::LaunchError;
use crate::ground;
use crate::identity;
use crate::shims::link_names;
use crate::trusted::TrustedPrograms;

/// An agent that is to run in a container.
#[derive(Clone, Debug)]
pub struct AgentPlace {
    /// What it needs.
    pub spec: AgentSpec,
    /// What its container is made from.
    pub image: String,
    /// The home of the user, where its state lies; without one it keeps nothing.
    pub home: Option<PathBuf>,
}

/// Where the container has the proxy's socket and the settings.
pub(crate) const FRONT: &str = "/run/aifo";
/// Where it has the shims.
pub(crate) const SHIMS: &str = "/opt/aifo/bin";
/// What makes the environment and becomes the command; a link to the shim.
pub(crate) const ENTRY: &str = "aifo-agent";

/// Files of ours, by their names in the session's folder, and where the container has them.
const FILES: [(&str, &str); 4] = [
    ("zz-aifo.sh", "/etc/profile.d/zz-aifo.sh"),
    ("passwd", "/etc/passwd"),
    ("group", "/etc/group"),
    ("gitconfig", "/etc/gitconfig"),
];

/// Checks every state directory that the container would get. Errors: an agent must not write there.
pub(crate) fn check_state(place: &AgentPlace) -> Result<(), LaunchError> {
    let Some(home) = &place.home else { return Ok(()) };
    let mut state = place.spec.state.iter().map(|state| home.join(state));
    state.try_for_each(|state| ground::check_state(&state)).map_err(LaunchError::from)
}

/// What the container is made of, given the session's folder. Nothing of it need be there yet.
pub(crate) fn container(place: &AgentPlace, folder: &Path) -> AgentContainer {
    let mut mounts = vec![Mount::bind(&front(folder), Path::new(FRONT), true)];
    let files = files(folder);
    mounts
        .extend(FILES.iter().map(|(name, to)| Mount::bind(&files.join(name), Path::new(to), true)));
    mounts.extend(state_mounts(place, folder));
    let plain = |(name, value): &(String, String)| {
        (OsString::from(name), Value::Plain(OsString::from(value)))
    };
    let mut variables = vec![("SHELL".into(), Value::Plain(place.spec.shell.clone().into()))];
    variables.extend(place.spec.set.iter().map(plain));
    AgentContainer { image: place.image.clone(), shims: shims(folder), mounts, variables }
}

/// Makes what the container is to see: files of the session, and the folders of the agent's state.
pub(crate) async fn furnish(
    place: &AgentPlace,
    folder: &Path,
    tools: (&Policy, &NotifyRules),
    programs: &TrustedPrograms,
    as_root: bool,
) -> Result<(), LaunchError> {
    let shims = shims(folder);
    make(&shims)?;
    fill_shims(&shims, tools).map_err(|source| failed(&shims, source))?;
    let files = files(folder);
    make(&files)?;
    let shell = place.spec.shell.to_string_lossy();
    let texts = [
        include_str!("agents/zz-aifo.sh").to_owned(),
        identity::passwd(CONTAINER_HOME, &shell, as_root),
        identity::group(as_root),
        identity::gitconfig(programs).await,
    ];
    for ((name, _), text) in FILES.iter().zip(texts) {
        let file = files.join(name);
        fs::write(&file, text).map_err(|source| failed(&file, source))?;
    }
    let nothing = files.join(NOTHING);
    fs::write(&nothing, "").map_err(|source| failed(&nothing, source))?;
    let Some(home) = &place.home else { return Ok(()) };
    for state in place.spec.state.iter().chain(&place.spec.private) {
        let state = home.join(state);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&state);
        made.map_err(|source| failed(&state, source))?;
    }
    Ok(())
}

/// The session's folder with the proxy's socket, which only agents see.
pub(crate) fn front(folder: &Path) -> PathBuf {
    folder.join("front")
}

fn shims(folder: &Path) -> PathBuf {
    folder.join("bin")
}

fn files(folder: &Path) -> PathBuf {
    folder.join("agent")
}

/// Links that hold in the container: the shim itself is mounted beside them. A runtime folder may be one
/// from which nothing can be executed.
fn fill_shims(shims: &Path, tools: (&Policy, &NotifyRules)) -> io::Result<()> {
    fs::write(shims.join("aifo-shim"), "")?;
    for name in [ENTRY, "aifo-runner"] {
        symlink("aifo-shim", shims.join(name))?;
    }
    link_names(shims, tools.0, tools.1)
}

/// The agent's own folders of the user's home, and nothing else of it. A folder on the way there is
/// the agent's as well, and empty: an engine would make it as root's.
fn state_mounts(place: &AgentPlace, folder: &Path) -> Vec<Mount> {
    let Some(home) = &place.home else { return Vec::new() };
    let inside = Path::new(CONTAINER_HOME);
    let mut mounts: Vec<Mount> = Vec::new();
    for state in &place.spec.state {
        let way = state.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        for parent in way {
            let scratch = Mount::Scratch { to: inside.join(parent) };
            if !mounts.contains(&scratch) {
                mounts.push(scratch);
            }
        }
        let from = home.join(state);
        // What is mounted is what it is, wherever a link leads.
        let real = from.canonicalize().unwrap_or(from);
        let to = inside.join(state);
        mounts.push(Mount::bind(&real, &to, false));
        // Who listens there is a program of this machine, and would do what it is told by the agent.
        let covers = sockets_below(&real).into_iter().filter_map(|socket| {
            let rest = socket.strip_prefix(&real).ok()?;
            Some(Mount::bind(&files(folder).join(NOTHING), to.join(rest), true))
        });
        let is_private = |cover: &Mount| {
            let private = place.spec.private.iter().map(|private| inside.join(private));
            matches!(cover, Mount::Bind { to, .. } if private.into_iter().any(|it| to.starts_with(it)))
        };
        mounts.extend(covers.filter(|cover| !is_private(cover)));
    }
    let private =
        place.spec.private.iter().map(|private| Mount::Scratch { to: inside.join(private) });
    mounts.extend(private);
    let settings = place.spec.settings.iter().filter_map(|settings| {
        let real = home.join(settings).canonicalize().ok().filter(|file| file.is_file())?;
        Some(Mount::bind(&real, inside.join(settings), true))
    });
    mounts.extend(settings);
    mounts
}

/// The sockets in a folder of state, as far as one looks.
fn sockets_below(folder: &Path) -> Vec<PathBuf> {
    let mut sockets = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    let mut looked_at = 0;
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > MOST_ENTRIES {
                return sockets;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_socket() => sockets.push(entry.path()),
                Ok(kind) if kind.is_dir() && depth < DEEPEST => {
                    folders.push((entry.path(), depth + 1));
                }
                _ => {}
            }
        }
    }
    sockets
}

/// How far is looked for sockets: programs put them where their names are short.
const DEEPEST: u32 = 4;
const MOST_ENTRIES: u32 = 20_000;

/// An empty file, which is mounted over what is not to be reached.
const NOTHING: &str = "nothing";

fn make(folder: &Path) -> Result<(), LaunchError> {
    let made = DirBuilder::new().mode(0o700).create(folder);
    made.map_err(|source| failed(folder, source))
}

fn failed(path: &Path, source: io::Error) -> LaunchError {
    LaunchError::Folder { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn state_and_nothing_else_of_the_home() {
        let home = std::env::temp_dir().join(format!("aifo-place-{}", std::process::id()));
        fs::create_dir(&home).unwrap();
        let mut spec = AgentSpec::unknown("it");
        spec.state = vec![".it".into(), ".local/share/it".into(), ".local/state/it".into()];
        let mut place = AgentPlace { spec, image: String::new(), home: Some(home.clone()) };
        let real = home.canonicalize().unwrap();
        let scratch = |to: &str| Mount::Scratch { to: format!("/home/coder/{to}").into() };
        let state =
            |path: &str| Mount::bind(&real.join(path), Path::new("/home/coder").join(path), false);
        let expected = [
            state(".it"),
            scratch(".local/share"),
            scratch(".local"),
            state(".local/share/it"),
            scratch(".local/state"),
            state(".local/state/it"),
        ];
        assert_eq!(state_mounts(&place, Path::new("/s")), expected);

        // And settings, if there are any, to be read.
        fs::write(home.join(".it.yml"), "").unwrap();
        place.spec.settings = vec![".it.yml".into(), ".it.absent".into()];
        let settings = Mount::bind(&real.join(".it.yml"), Path::new("/home/coder/.it.yml"), true);
        assert_eq!(state_mounts(&place, Path::new("/s")).last(), Some(&settings));
        assert_eq!(state_mounts(&place, Path::new("/s")).len(), expected.len() + 1);
        place.spec.settings.clear();

        // Nor what listens on this machine.
        for folder in [".it/own", ".it/a/b"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        let sockets = [".it/own/x", ".it/a/b/y", ".it/z"];
        let _listening = sockets.map(|path| UnixListener::bind(home.join(path)).unwrap());
        place.spec.state.truncate(1);
        place.spec.private = vec![".it/own".into()];
        let cover = |path: &str| {
            Mount::bind(Path::new("/s/agent/nothing"), Path::new("/home/coder").join(path), true)
        };
        let mounts = state_mounts(&place, Path::new("/s"));
        let expected = [state(".it"), cover(".it/z"), cover(".it/a/b/y"), scratch(".it/own")];
        assert_eq!(mounts.len(), expected.len(), "{mounts:?}");
        assert!(expected.iter().all(|mount| mounts.contains(mount)), "{mounts:?}");
        fs::remove_dir_all(&home).unwrap();
    }
}
