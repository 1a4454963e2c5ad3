//! Mounts and files of the agent container (`spec/agents.md#the-container`).

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use aifo_engine::{Mount, Value, images::LOGIN_PROFILE};
use aifo_host::{
    Beneath, DirectoryError, Found, TrustedPrograms, create_private_directory, identity,
    workspace_check,
};
use aifo_sidecar::{AgentContainer, CONTAINER_HOME};
use aifo_types::container_path;

use crate::agent_error::AgentError;
use crate::agents::{AgentSpec, StateImport, StateMode};
use crate::forges::AgentForges;
use crate::keys::ModelKeys;
use crate::shims::{ShimTools, link_names_apart};

/// Configuration of an agent that runs in a container.
#[derive(Clone, Debug)]
pub struct AgentContainerConfig {
    /// The agent row.
    pub spec: AgentSpec,
    /// The container image.
    pub image: String,
    /// The user's home, which has the state directories. `None`: the agent keeps no state.
    pub home: Option<PathBuf>,
    /// Whose state it works with.
    pub state: StateMode,
    /// The part of the user's state that a new state of its own gets.
    pub state_import: StateImport,
    /// The user's model keys that aifo adds to its requests, instead of passing them.
    pub keys: Option<ModelKeys>,
    /// The forges that its git reaches with the user's credentials.
    pub forges: Option<AgentForges>,
}

/// Completes the environment and executes the agent's command; a link to the shim.
pub const AGENT_PROGRAM: &str = "aifo-agent";

/// Names below the session directory, and paths in the container.
const FILES: [(&str, &str); 5] = [
    ("zz-aifo.sh", "/etc/profile.d/zz-aifo.sh"),
    ("passwd", "/etc/passwd"),
    ("group", "/etc/group"),
    ("gitconfig", "/etc/gitconfig"),
    ("git-excludes", identity::EXCLUDES),
];

/// Checks every directory of the user that the container would mount as state. Errors: an agent
/// must not write there.
pub fn check_state(agent: &AgentContainerConfig) -> Result<(), AgentError> {
    let (Some(home), StateMode::Host) = (&agent.home, agent.state) else { return Ok(()) };
    let mut state = agent.spec.state.iter().map(|state| home.join(state));
    state.try_for_each(|state| workspace_check::check_state(&state)).map_err(AgentError::from)
}

/// Returns the description of the container, whose processes are those of `uid`. The files need not exist yet.
/// `own_home` has the state of the agent's own, if it works with that; `interpreters` are covered by shims.
pub fn container(
    agent: &AgentContainerConfig,
    own_home: Option<&Path>,
    interpreters: Vec<PathBuf>,
    session_dir: &Path,
    uid: u32,
) -> AgentContainer {
    let mut mounts =
        vec![Mount::bind(&frontend_dir(session_dir), Path::new(container_path::SOCKET_DIR), true)];
    let files = files_dir(session_dir);
    mounts
        .extend(FILES.iter().map(|(name, to)| Mount::bind(&files.join(name), Path::new(to), true)));
    mounts.extend(state_mounts(agent, own_home));
    mounts.extend(settings_mounts(agent, session_dir));
    let plain = |(name, value): &(String, String)| {
        (OsString::from(name), Value::Plain(OsString::from(value)))
    };
    let mut variables = vec![("SHELL".into(), Value::Plain(agent.spec.shell.clone().into()))];
    variables.extend(agent.spec.set.iter().map(plain));
    AgentContainer {
        image: agent.image.clone(),
        shims: shim_dir(session_dir),
        interpreters,
        mounts,
        variables,
        private: agent.spec.private_in_tmp(uid),
    }
}

/// Writes the container files, and creates the user's state directories that it mounts.
pub async fn configure(
    agent: &AgentContainerConfig,
    session_dir: &Path,
    tools: ShimTools<'_>,
    programs: &TrustedPrograms,
    as_root: bool,
) -> Result<(), AgentError> {
    let shims = shim_dir(session_dir);
    create_private_directory(&shims)?;
    link_shims(&shims, tools).map_err(|source| DirectoryError::new(&shims, source))?;
    let files = files_dir(session_dir);
    create_private_directory(&files)?;
    let shell = agent.spec.shell.to_string_lossy();
    let (gitconfig, excludes) = identity::git_settings(programs).await;
    let texts = [
        LOGIN_PROFILE.to_owned(),
        identity::passwd(CONTAINER_HOME, &shell, as_root),
        identity::group(as_root),
        gitconfig,
        excludes,
    ];
    for ((name, _), text) in FILES.iter().zip(texts) {
        let file = files.join(name);
        fs::write(&file, text).map_err(|source| DirectoryError::new(&file, source))?;
    }
    for (name, bytes) in settings(agent) {
        let file = files.join(name);
        fs::write(&file, bytes).map_err(|source| DirectoryError::new(&file, source))?;
    }
    let (Some(home), StateMode::Host) = (&agent.home, agent.state) else { return Ok(()) };
    for state in agent.spec.state.iter().chain(agent.spec.private_in_state()) {
        let state = home.join(state);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&state);
        made.map_err(|source| DirectoryError::new(&state, source))?;
    }
    Ok(())
}

/// Returns the directory of the proxy socket, which only agents see.
pub fn frontend_dir(session_dir: &Path) -> PathBuf {
    session_dir.join("front")
}

fn shim_dir(session_dir: &Path) -> PathBuf {
    session_dir.join("bin")
}

fn files_dir(session_dir: &Path) -> PathBuf {
    session_dir.join("agent")
}

/// Fills the directory of shims with relative links; the shim itself is mounted beside them, as the
/// runtime directory may be mounted `noexec`.
fn link_shims(shims: &Path, tools: ShimTools<'_>) -> io::Result<()> {
    fs::write(shims.join("aifo-shim"), "")?;
    for name in [AGENT_PROGRAM, "aifo-runner"] {
        symlink("aifo-shim", shims.join(name))?;
    }
    link_names_apart(shims, tools)
}

/// Mounts the agent state directories. Their parents become scratch directories; otherwise the
/// engine would create them as root.
fn state_mounts(agent: &AgentContainerConfig, own_home: Option<&Path>) -> Vec<Mount> {
    let Some(home) = own_home.or(agent.home.as_deref()) else { return Vec::new() };
    let inside = Path::new(CONTAINER_HOME);
    let mut mounts: Vec<Mount> = Vec::new();
    for state in &agent.spec.state {
        let parents =
            state.ancestors().skip(1).filter(|directory| !directory.as_os_str().is_empty());
        for parent in parents {
            let scratch = Mount::Scratch { to: inside.join(parent) };
            if !mounts.contains(&scratch) {
                mounts.push(scratch);
            }
        }
        let from = home.join(state);
        // The real path, as links may lead out of the home.
        let real = from.canonicalize().unwrap_or(from);
        let to = inside.join(state);
        mounts.push(Mount::bind(&real, &to, false));
        if own_home.is_none() {
            mounts.extend(socket_covers(agent, &real, &to));
        }
    }
    let private = agent.spec.private_in_state();
    mounts.extend(private.map(|private| Mount::Scratch { to: inside.join(private) }));
    mounts
}

/// Covers the sockets in a directory of the user: programs of this machine listen there, and would
/// act for the agent outside of the container.
fn socket_covers(agent: &AgentContainerConfig, real: &Path, to: &Path) -> Vec<Mount> {
    let is_private = |path: &Path| {
        let mut private = agent.spec.private_in_state();
        private.any(|private| path.starts_with(Path::new(CONTAINER_HOME).join(private)))
    };
    let sockets = aifo_host::sockets_below(real).into_iter();
    let paths = sockets.filter_map(|socket| Some(to.join(socket.strip_prefix(real).ok()?)));
    paths
        .filter(|path| !is_private(path))
        .map(|path| Mount::bind(Path::new(NULL), path, true))
        .collect()
}

/// Mounts copies of the settings files that exist.
fn settings_mounts(agent: &AgentContainerConfig, session_dir: &Path) -> Vec<Mount> {
    let files = files_dir(session_dir);
    let to = |name: &str| {
        let index: usize = name.strip_prefix(SETTINGS_FILE)?.parse().ok()?;
        Some(Path::new(CONTAINER_HOME).join(agent.spec.settings.get(index)?))
    };
    let found = settings(agent).into_iter();
    found.filter_map(|(name, _)| Some(Mount::bind(&files.join(&name), to(&name)?, true))).collect()
}

/// Reads the settings files below HOME, without following links.
fn settings(agent: &AgentContainerConfig) -> Vec<(String, Vec<u8>)> {
    let home = agent.home.as_deref().and_then(|home| Beneath::open(home).ok());
    let Some(home) = home.filter(|_| !agent.spec.settings.is_empty()) else { return Vec::new() };
    let found = agent.spec.settings.iter().enumerate().filter_map(|(index, path)| {
        match home.read(path, MAX_SETTINGS) {
            Found::File(bytes, _) => Some((format!("{SETTINGS_FILE}{index}"), bytes)),
            Found::Missing => None,
            Found::Rejected(why) => {
                tracing::debug!("the settings '~/{}' are not mounted: it {why}", path.display());
                None
            }
        }
    });
    found.collect()
}

/// Covers sockets: nothing has to be created, and nothing connects to it.
const NULL: &str = "/dev/null";

/// Settings are written by hand.
const MAX_SETTINGS: u64 = 1 << 20;

/// Copies of settings files, followed by their index in the row.
const SETTINGS_FILE: &str = "settings-";

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_state_and_settings_of_the_home_are_mounted() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let mut spec = AgentSpec::unknown("it");
        spec.state = vec![".it".into(), ".local/share/it".into(), ".local/state/it".into()];
        let mut agent = AgentContainerConfig {
            spec,
            image: String::new(),
            home: Some(home.to_owned()),
            state: StateMode::Host,
            state_import: StateImport::Settings,
            keys: None,
            forges: None,
        };
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
        assert_eq!(state_mounts(&agent, None), expected);

        // Copies of settings are mounted read-only if they exist. Links are not followed.
        fs::write(home.join(".it.yml"), "x").unwrap();
        symlink(home.join(".it.yml"), home.join(".it.link")).unwrap();
        agent.spec.settings = vec![".it.absent".into(), ".it.link".into(), ".it.yml".into()];
        let copy = Path::new("/s/agent/settings-2");
        let settings = Mount::bind(copy, Path::new("/home/coder/.it.yml"), true);
        assert_eq!(settings_mounts(&agent, Path::new("/s")), [settings]);
        agent.spec.settings.clear();

        // Sockets of this machine are covered.
        for directory in [".it/own", ".it/a/b"] {
            fs::create_dir_all(home.join(directory)).unwrap();
        }
        let sockets = [".it/own/x", ".it/a/b/y", ".it/z"];
        let _listening = sockets.map(|path| UnixListener::bind(home.join(path)).unwrap());
        agent.spec.state.truncate(1);
        agent.spec.private = vec![".it/own".into()];
        let cover =
            |path: &str| Mount::bind(Path::new(NULL), Path::new("/home/coder").join(path), true);
        let mounts = state_mounts(&agent, None);
        let expected = [state(".it"), cover(".it/z"), cover(".it/a/b/y"), scratch(".it/own")];
        assert_eq!(mounts.len(), expected.len(), "{mounts:?}");
        assert!(expected.iter().all(|mount| mounts.contains(mount)), "{mounts:?}");

        // A state of its own has none of the user's.
        let own = state_mounts(&agent, Some(Path::new("/own")));
        let it = Mount::bind(Path::new("/own/.it"), Path::new("/home/coder/.it"), false);
        assert_eq!(own, [it, scratch(".it/own")]);
    }
}
