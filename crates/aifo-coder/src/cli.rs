//! The command line: every flag once, with its help.

use std::ffi::OsString;
use std::path::PathBuf;

use aifo_policy::Policy;
use aifo_types::{Endpoint, Kind, env};
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Coding agents beside their tools, not among them: tool calls run in per-language sidecars, under
/// an allowlist, at nearly the speed of a local process.
#[derive(Debug, Parser)]
#[command(name = "aifo-coder", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command, an agent as a rule, with its tools in sidecars
    #[command(after_help = EXIT_CODES)]
    Run(Run),
    /// Start proxy and sidecars only, for a launcher of your own
    ///
    /// Prints AIFO_TOOLEEXEC_URL, AIFO_TOOLEEXEC_TOKEN and AIFO_WORKSPACE as NAME=value lines on
    /// stdout as soon as clients can connect, then serves until SIGTERM or SIGINT.
    #[command(after_help = EXIT_CODES)]
    Serve(Serve),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) session: Session,
    /// The command and its arguments, after `--`
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) session: Session,
}

/// What every session can be told.
#[derive(Debug, Args)]
pub(crate) struct Session {
    /// How sidecars run
    #[arg(long, value_enum, default_value_t = Backend::Local)]
    pub(crate) backend: Backend,
    /// The project; tools run in it and below
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// A sidecar to start: rust, node, python, c-cpp or go; may be repeated. Without it, the
    /// project's files decide
    #[arg(long = "toolchain", value_name = "KIND", value_delimiter = ',', value_parser = parse_kind)]
    pub(crate) toolchains: Vec<Kind>,
    /// Where the proxy listens: unix:///path/to.sock or tcp://host:port (port 0: any). By default a
    /// unix socket in a folder of the session
    #[arg(long, value_name = "URL")]
    pub(crate) listen: Option<Endpoint>,
    /// End a tool that runs longer: INT, TERM 5 s later, KILL 10 s later [env:
    /// AIFO_TOOLEEXEC_MAX_SECS]
    #[arg(long, value_name = "N")]
    pub(crate) max_secs: Option<u64>,
    /// Tell decisions on stderr, one line each [env: AIFO_TOOLCHAIN_VERBOSE=1]
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Backend {
    /// Child processes of this machine, no container
    Local,
}

impl Session {
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose || std::env::var(env::VERBOSE).is_ok_and(|value| env::is_truthy(&value))
    }
}

const EXIT_CODES: &str = "\
Exit codes: the command's own; 128+n if signal n ended it; 127 the command was not found; 126 it \
could not be executed; 86 nothing ran; 2 the command line was wrong. A tool's shim also exits with \
124 (the tool ran into the time limit) and 125 (its ending is unknown).";

fn parse_kind(word: &str) -> Result<Kind, String> {
    let policy = Policy::builtin();
    let found = policy.kind_named(word).ok_or_else(|| {
        let known: Vec<_> = policy.kinds().iter().map(|policy| policy.kind.as_str()).collect();
        format!("there is no such toolchain; known are: {}", known.join(", "))
    })?;
    Ok(found.kind.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn toolchains_by_any_of_their_names() {
        let parse = |args: &[&str]| {
            let cli = Cli::try_parse_from([&["aifo-coder", "run"], args, &["--", "x"]].concat());
            cli.map(|cli| match cli.command {
                Command::Run(run) => run.session.toolchains,
                Command::Serve(_) => unreachable!("run was asked for"),
            })
        };
        let names = |args: &[&str]| {
            parse(args).unwrap().iter().map(|kind| kind.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(&["--toolchain", "py", "--toolchain", "C++"]), ["python", "c-cpp"]);
        assert_eq!(names(&["--toolchain", "rust,ts"]), ["rust", "node"]);
        assert!(names(&[]).is_empty());
        let error = parse(&["--toolchain", "java"]).unwrap_err().to_string();
        assert!(error.contains("known are: c-cpp, rust"), "{error}");
    }
}
