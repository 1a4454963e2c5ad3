//! What the agent's container is given of the session (`spec/agents.md#the-container`).

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use aifo_engine::{Mount, Value};
use aifo_policy::{NotifyRules, Policy};
use aifo_sidecar::{AgentContainer, CONTAINER_HOME};

use crate::agents::AgentSpec;
use crate::identity;
use crate::session::LaunchError;
use crate::shims::link_names;

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

/// What the container is made of, given the session's folder. Nothing of it need be there yet.
pub(crate) fn container(place: &AgentPlace, folder: &Path) -> AgentContainer {
    let mut mounts = vec![bind(&front(folder), Path::new(FRONT), true)];
    let files = files(folder);
    mounts.extend(FILES.iter().map(|(name, to)| bind(&files.join(name), Path::new(to), true)));
    mounts.extend(state_mounts(place));
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
    shim: &Path,
    tools: (&Policy, &NotifyRules),
    as_root: bool,
) -> Result<(), LaunchError> {
    let shims = shims(folder);
    make(&shims)?;
    fill_shims(&shims, shim, tools).map_err(|source| failed(&shims, source))?;
    let files = files(folder);
    make(&files)?;
    let shell = place.spec.shell.to_string_lossy();
    let texts = [
        include_str!("agents/zz-aifo.sh").to_owned(),
        identity::passwd(CONTAINER_HOME, &shell, as_root),
        identity::group(as_root),
        identity::gitconfig().await,
    ];
    for ((name, _), text) in FILES.iter().zip(texts) {
        let file = files.join(name);
        fs::write(&file, text).map_err(|source| failed(&file, source))?;
    }
    let Some(home) = &place.home else { return Ok(()) };
    for state in &place.spec.state {
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

/// A copy of the shim, so that its links hold in the container as well.
fn fill_shims(shims: &Path, shim: &Path, tools: (&Policy, &NotifyRules)) -> io::Result<()> {
    fs::copy(shim, shims.join("aifo-shim"))?;
    for name in [ENTRY, "aifo-runner"] {
        symlink("aifo-shim", shims.join(name))?;
    }
    link_names(shims, tools.0, tools.1)
}

/// The agent's own folders of the user's home, and nothing else of it. A folder on the way there is
/// the agent's as well, and empty: an engine would make it as root's.
fn state_mounts(place: &AgentPlace) -> Vec<Mount> {
    let Some(home) = &place.home else { return Vec::new() };
    let inside = Path::new(CONTAINER_HOME);
    let mut mounts: Vec<Mount> = Vec::new();
    for state in &place.spec.state {
        let way = state.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        for folder in way {
            let scratch = Mount::Scratch { to: inside.join(folder) };
            if !mounts.contains(&scratch) {
                mounts.push(scratch);
            }
        }
        let from = home.join(state);
        // What is mounted is what it is, wherever a link leads.
        let real = from.canonicalize().unwrap_or(from);
        mounts.push(bind(&real, &inside.join(state), false));
    }
    mounts
}

fn make(folder: &Path) -> Result<(), LaunchError> {
    let made = DirBuilder::new().mode(0o700).create(folder);
    made.map_err(|source| failed(folder, source))
}

fn failed(path: &Path, source: io::Error) -> LaunchError {
    LaunchError::Folder { path: path.to_owned(), source }
}

fn bind(from: &Path, to: &Path, read_only: bool) -> Mount {
    Mount::Bind { from: from.to_owned(), to: to.to_owned(), read_only }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_and_nothing_else_of_the_home() {
        let home = std::env::temp_dir().join(format!("aifo-place-{}", std::process::id()));
        fs::create_dir(&home).unwrap();
        let mut spec = AgentSpec::unknown("it");
        spec.state = vec![".it".into(), ".local/share/it".into(), ".local/state/it".into()];
        let place = AgentPlace { spec, image: String::new(), home: Some(home.clone()) };
        let real = home.canonicalize().unwrap();
        let scratch = |to: &str| Mount::Scratch { to: format!("/home/coder/{to}").into() };
        let state =
            |path: &str| bind(&real.join(path), &Path::new("/home/coder").join(path), false);
        let expected = [
            state(".it"),
            scratch(".local/share"),
            scratch(".local"),
            state(".local/share/it"),
            scratch(".local/state"),
            state(".local/state/it"),
        ];
        assert_eq!(state_mounts(&place), expected);
        fs::remove_dir_all(&home).unwrap();
    }
}
