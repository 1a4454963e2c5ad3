//! `aifo-agent COMMAND [ARG..]`: becoming the agent, in its container (`spec/agents.md#how-it-is-started`).
//!
//! The runner starts us with the image's own environment, in which nothing of ours is. What the
//! session has to say stands in a file that only this container sees.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aifo_process::{Lookup, find_in_path, variable};
use aifo_types::{decode_variables, env, exit};
use nix::errno::Errno;
use nix::unistd::execve;

use crate::ending::ShimEnd;
use crate::tell;
use crate::variables::of_system_file;

/// What stands before the image's own PATH, for every agent alike.
const FIRST_IN_PATH: &str =
    "/opt/aifo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Replaces this process by the command, in the agent's environment. Returns only if that fails.
pub(crate) fn become_agent(words: &[OsString]) -> ShimEnd {
    let Some((command, args)) = words.split_first() else {
        tell::line("aifo-agent needs a command, and is not for people");
        return ShimEnd::Code(exit::NOTHING_RAN);
    };
    let environment = environment(std::env::vars_os(), &of_system_file());
    let Err(errno) = program(command, &environment)
        .and_then(|program| execute(&program, command, args, &environment));
    tell::line(format_args!(
        "cannot execute '{}': {}",
        command.display(),
        match errno {
            Errno::ENOENT => "it is not in the agent's image".to_owned(),
            errno => std::io::Error::from(errno).to_string(),
        }
    ));
    ShimEnd::Code(match errno {
        Errno::ENOENT => exit::NOT_FOUND,
        _ => exit::NOT_EXECUTABLE,
    })
}

type Environment = Vec<(OsString, OsString)>;

/// The image's own, over it what this command is given, and over that the session's.
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
    own
}

/// Where the command is: a path as it stands, a name in the agent's PATH.
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
    fn the_session_s_word_counts_and_then_the_command_s() {
        let given =
            [("CI", "1"), ("LANG", "C"), ("PATH", "/theirs"), ("AIFO_WORKSPACE", "/theirs")];
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
            ("LANG", "C"),
            ("PATH", &path),
            ("TERM", "x"),
        ];
        assert_eq!(environment, pairs(&expected));
    }

    #[test]
    fn an_image_need_not_have_a_path() {
        for inherited in [pairs(&[]), pairs(&[("PATH", "")])] {
            let environment = environment(inherited.into_iter(), &HashMap::new());
            assert_eq!(environment, pairs(&[("PATH", FIRST_IN_PATH)]));
        }
    }
}
