//! `aifo-agent COMMAND [ARG..]`: executes the agent in its container
//! (`spec/agents.md#how-it-is-started`).
//!
//! The runner starts this program with the image environment. The session variables are in a
//! file that is mounted into this container only.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use aifo_process::{Lookup, find_in_path, variable};
use aifo_types::{container_path, decode_variables, env, exit, protective_git_variables};
use nix::errno::Errno;
use nix::unistd::execve;

use crate::log;
use crate::shim_exit::ShimExit;
use crate::variables::system_file_variables;

/// The directory of shims, which is first in every agent PATH.
const SHIMS: &str = "/opt/aifo/bin";

/// Directories that precede the image PATH for every agent.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The directory with a directory for each tool that may run in place.
const IN_PLACE: &str = "/opt/aifo/bin/in-place";

/// The variables of runtimes and terminals that select where code is unpacked or cached, and where sockets are.
/// Their defaults are in `/tmp`, where tools can replace files (`spec/trust.md#who-writes-and-who-executes`).
const PRIVATE: [&str; 4] = ["BUN_TMPDIR", "NODE_COMPILE_CACHE", "TMUX_TMPDIR", "XDG_RUNTIME_DIR"];

/// Replaces this process by the command, in the agent environment. Returns only on failure.
pub(crate) fn become_agent(words: &[OsString]) -> ShimExit {
    let Some((command, args)) = words.split_first() else {
        log::line("aifo-agent: no command given");
        return ShimExit::Code(exit::NOTHING_RAN);
    };
    let variables = system_file_variables();
    let environment = environment(std::env::vars_os(), &variables, Path::new(IN_PLACE));
    // It exists for every further command. Without it, programs fail rather than use `/tmp`.
    let _ = DirBuilder::new().mode(0o700).create(container_path::PRIVATE_DIR);
    let Err(errno) = program(command, &environment)
        .and_then(|program| execute(&program, command, args, &environment));
    log::line(format_args!(
        "cannot execute '{}': {}",
        command.display(),
        match errno {
            Errno::ENOENT => "not found in the agent's image".to_owned(),
            errno => std::io::Error::from(errno).to_string(),
        }
    ));
    ShimExit::Code(match errno {
        Errno::ENOENT => exit::NOT_FOUND,
        _ => exit::NOT_EXECUTABLE,
    })
}

type Environment = Vec<(OsString, OsString)>;

/// Merges three environments: the command's overrides the image's, and the session's overrides
/// both.
fn environment(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    session: &HashMap<String, String>,
    in_place: &Path,
) -> Environment {
    let mut own = Environment::new();
    let (mut path, mut given) = (OsString::from(USUAL_PATH), OsString::new());
    for (name, value) in inherited {
        match name.to_str() {
            Some("PATH") if value.is_empty() => {}
            Some("PATH") => {
                path.push(":");
                path.push(value);
            }
            Some(env::COMMAND_ENV) => given = value,
            _ => own.push((name, value)),
        }
    }
    let path = path_with_shims(&path, in_place);
    let of = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let given = decode_variables(given.as_bytes()).into_iter();
    let given = given.map(|(name, value)| (of(name), of(value)));
    let private = PRIVATE.map(|name| (name.into(), container_path::PRIVATE_DIR.into()));
    let session = session.iter().map(|(name, value)| (name.into(), value.into()));
    for (name, value) in given.chain([("PATH".into(), path)]).chain(private).chain(session) {
        own.retain(|(known, _)| *known != name);
        own.push((name, value));
    }
    let variable =
        |name: &str| own.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    for (name, value) in protective_git_variables(variable).unwrap_or_default() {
        own.retain(|(known, _)| *known != *name);
        own.push((name.into(), value.into()));
    }
    own
}

/// Returns the PATH with the shims first: the directory of all, then those of the tools that run in place
/// and that this PATH has. Programs look with `command -v` for a tool that the image lacks.
fn path_with_shims(path: &OsStr, in_place: &Path) -> OsString {
    let entries = std::fs::read_dir(in_place).into_iter().flatten().flatten();
    let is_found = |name: &OsString| {
        let found = Some(find_in_path(name, path));
        found.is_some_and(|found| found != Lookup::Absent)
    };
    let mut names: Vec<OsString> =
        entries.map(|entry| entry.file_name()).filter(is_found).collect();
    names.sort_unstable();
    let mut shims = OsString::from(SHIMS);
    for directory in names.into_iter().map(|name| in_place.join(name)) {
        shims.push(":");
        shims.push(directory);
    }
    shims.push(":");
    shims.push(path);
    shims
}

/// Resolves the command: a path is used as it is, a name is searched for in the agent PATH.
fn program(command: &OsStr, environment: &Environment) -> nix::Result<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(command));
    }
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path);
    let name = command.to_str().ok_or(Errno::ENOENT)?;
    match find_in_path(name.as_ref(), path.map(OsString::as_os_str).unwrap_or_default()) {
        Lookup::Found(program) => Ok(program),
        Lookup::NotExecutable(_) => Err(Errno::EACCES),
        Lookup::Absent => Err(Errno::ENOENT),
    }
}

fn execute(
    program: &Path,
    command: &OsStr,
    args: &[OsString],
    environment: &Environment,
) -> nix::Result<Infallible> {
    let of = |text: &OsStr| CString::new(text.as_bytes()).map_err(|_| Errno::EINVAL);
    let program = of(program.as_os_str())?;
    let args = std::iter::once(command).chain(args.iter().map(OsString::as_os_str)).map(of);
    let args = args.collect::<nix::Result<Vec<_>>>()?;
    let environment = environment.iter().filter_map(|(name, value)| variable(name, value));
    execve(&program, &args, &environment.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use aifo_types::encode_variables;

    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn session_variables_override_the_command_s_and_the_image_s() {
        let given = [
            ("GIT_CONFIG_COUNT", "1"),
            ("CI", "1"),
            ("LANG", "C"),
            ("PATH", "/given"),
            ("AIFO_WORKSPACE", "/given"),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let given = encode_variables(&given);
        let inherited =
            pairs(&[("LANG", "de"), (env::COMMAND_ENV, &given), ("PATH", "/image"), ("TERM", "x")]);
        let session = HashMap::from([("AIFO_WORKSPACE".to_owned(), "/workspace".to_owned())]);
        let none = Path::new("/nonexistent");
        let mut environment = environment(inherited.into_iter(), &session, none);
        environment.sort();
        let path = format!("{SHIMS}:{USUAL_PATH}:/image");
        let expected = [
            ("AIFO_WORKSPACE", "/workspace"),
            ("BUN_TMPDIR", container_path::PRIVATE_DIR),
            ("CI", "1"),
            ("GIT_CONFIG_COUNT", "3"),
            ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
            ("GIT_CONFIG_KEY_2", "safe.bareRepository"),
            ("GIT_CONFIG_VALUE_1", "false"),
            ("GIT_CONFIG_VALUE_2", "explicit"),
            ("LANG", "C"),
            ("NODE_COMPILE_CACHE", container_path::PRIVATE_DIR),
            ("PATH", &path),
            ("TERM", "x"),
            ("TMUX_TMPDIR", container_path::PRIVATE_DIR),
            ("XDG_RUNTIME_DIR", container_path::PRIVATE_DIR),
        ];
        assert_eq!(environment, pairs(&expected));
    }

    #[test]
    fn an_image_may_lack_a_path() {
        for inherited in [pairs(&[]), pairs(&[("PATH", "")])] {
            let none = Path::new("/nonexistent");
            let environment = environment(inherited.into_iter(), &HashMap::new(), none);
            let path = ("PATH".into(), format!("{SHIMS}:{USUAL_PATH}").into());
            assert!(environment.contains(&path), "{environment:?}");
        }
    }

    #[test]
    fn tools_in_place_are_in_the_path_if_the_image_has_them() {
        let scratch = tempfile::tempdir().unwrap();
        let base = scratch.path();
        for directory in ["in-place/git", "in-place/absent", "in-place/plain", "image"] {
            std::fs::create_dir_all(base.join(directory)).unwrap();
        }
        std::os::unix::fs::symlink("/bin/sh", base.join("image/git")).unwrap();
        std::fs::write(base.join("image/plain"), "").unwrap();
        let image = base.join("image").into_os_string().into_string().unwrap();
        let path = path_with_shims(OsStr::new(&image), &base.join("in-place"));
        let of = |name: &str| base.join("in-place").join(name).display().to_string();
        // A file that cannot be executed gets the shim, which reports it.
        let expected = [SHIMS.to_owned(), of("git"), of("plain"), image].join(":");
        assert_eq!(path, OsString::from(expected));
    }
}
