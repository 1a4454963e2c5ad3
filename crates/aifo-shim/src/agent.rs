//! `aifo-agent COMMAND [ARG..]`: executes the agent in its container
//! (`spec/agents.md#how-it-is-started`).
//!
//! The runner starts this program with the image's environment. The session's variables are in a
//! file that is mounted into this container only.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aifo_process::{Lookup, find_in_path, variable};
use aifo_types::{decode_variables, env, exit, protective_git_variables};
use nix::errno::Errno;
use nix::unistd::execve;

use crate::log;
use crate::shim_exit::ShimExit;
use crate::variables::system_file_variables;

/// Directories that precede the image's PATH for every agent.
const FIRST_IN_PATH: &str =
    "/opt/aifo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Replaces this process by the command, in the agent's environment. Returns only on failure.
pub(crate) fn become_agent(words: &[OsString]) -> ShimExit {
    let Some((command, args)) = words.split_first() else {
        log::line("aifo-agent: no command given");
        return ShimExit::Code(exit::NOTHING_RAN);
    };
    let environment = environment(std::env::vars_os(), &system_file_variables());
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
) -> Environment {
    let mut own = Environment::new();
    let (mut path, mut given) = (OsString::from(FIRST_IN_PATH), OsString::new());
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
    let of = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let given = decode_variables(given.as_bytes()).into_iter();
    let given = given.map(|(name, value)| (of(name), of(value)));
    let session = session.iter().map(|(name, value)| (name.into(), value.into()));
    for (name, value) in given.chain([("PATH".into(), path)]).chain(session) {
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

/// Resolves the command: a path is used as it is, a name is searched for in the agent's PATH.
fn program(command: &OsStr, environment: &Environment) -> nix::Result<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(command));
    }
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path);
    let name = command.to_str().ok_or(Errno::ENOENT)?;
    match find_in_path(name, path.map(OsString::as_os_str).unwrap_or_default()) {
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
        let mut environment = environment(inherited.into_iter(), &session);
        environment.sort();
        let path = format!("{FIRST_IN_PATH}:/image");
        let expected = [
            ("AIFO_WORKSPACE", "/workspace"),
            ("CI", "1"),
            ("GIT_CONFIG_COUNT", "3"),
            ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
            ("GIT_CONFIG_KEY_2", "safe.bareRepository"),
            ("GIT_CONFIG_VALUE_1", "false"),
            ("GIT_CONFIG_VALUE_2", "explicit"),
            ("LANG", "C"),
            ("PATH", &path),
            ("TERM", "x"),
        ];
        assert_eq!(environment, pairs(&expected));
    }

    #[test]
    fn an_image_may_lack_a_path() {
        for inherited in [pairs(&[]), pairs(&[("PATH", "")])] {
            let environment = environment(inherited.into_iter(), &HashMap::new());
            assert_eq!(environment[0], ("PATH".into(), FIRST_IN_PATH.into()));
        }
    }
}
