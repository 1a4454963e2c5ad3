//! `aifo-agent COMMAND [ARG..]`: becoming the agent, in its container (`spec/agents.md#how-it-is-started`).
//!
//! The runner starts us with the image's own environment, in which nothing of ours is. What the
//! session has to say stands in a file that only this container sees.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aifo_process::{Lookup, find_in_path, variable};
use aifo_types::exit;
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
    let environment = environment();
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

/// The image's own, and over it the session's.
fn environment() -> Environment {
    let session = of_system_file();
    let mut path = OsString::from(FIRST_IN_PATH);
    if let Some(own) = std::env::var_os("PATH").filter(|own| !own.is_empty()) {
        path.push(":");
        path.push(own);
    }
    let inherited = std::env::vars_os()
        .filter(|(name, _)| name != "PATH" && !session.iter().any(|(ours, _)| *name == **ours));
    let ours = session.iter().map(|(name, value)| (name.into(), value.into()));
    inherited.chain([("PATH".into(), path)]).chain(ours).collect()
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
