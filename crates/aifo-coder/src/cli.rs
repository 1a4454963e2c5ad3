//! The command line: every flag once, with its help.

mod acp;
mod help;
mod permissions;
mod session;

use std::ffi::OsString;
use std::path::PathBuf;

use aifo_doors::{CommandName, InvalidCommandName};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

use self::help::{
    ACP, ACP_USAGE, CACHE, CLEANUP, COMPLETIONS, CONFIG, DOCTOR, EXAMPLES, EXEC, EXIT_CODES, LOG,
    PROMPT, PROMPT_USAGE, PROXY, RUN, RUN_USAGE, WHY,
};

pub(crate) use self::acp::{Acp, AcpAgent, AcpCommand, Format, Prompt, Server};
pub(crate) use self::permissions::YesTo;
pub(crate) use self::session::{Project, Session, Smart};
use crate::config::{ContainerFlags, Flags};

/// Coding agents beside their tools, not among them: tool calls run in per-language sidecars, under
/// an allowlist, at nearly the speed of a local process.
#[derive(Debug, Parser)]
#[command(name = "aifo-coder", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an agent in its container, or any command, with its tools in sidecars
    #[command(override_usage = RUN_USAGE, after_help = RUN)]
    Run(Run),
    /// Have an agent do one thing, without anybody at it: its answer on stdout
    #[command(override_usage = PROMPT_USAGE, after_help = PROMPT)]
    Prompt(Box<Prompt>),
    /// Be an editor's agent: ACP on stdin and stdout, the agent itself in its container
    #[command(override_usage = ACP_USAGE, after_help = ACP)]
    Acp(Box<Acp>),
    /// List the agents that can be run, and what of each is ready
    Agents(Agents),
    /// Start proxy and sidecars only, for a launcher of your own
    ///
    /// Prints AIFO_TOOLEEXEC_URL, AIFO_TOOLEEXEC_TOKEN and AIFO_WORKSPACE as NAME=value lines on
    /// stdout as soon as clients can connect, then serves until SIGTERM or SIGINT.
    #[command(after_help = EXIT_CODES)]
    Serve(Serve),
    /// Run one tool in its sidecar, in a session of its own or one that runs
    #[command(after_help = EXEC)]
    Exec(Exec),
    /// Run commands of this machine for containers that share only a directory with it
    ///
    /// For each command a client of its name is put into the directory. Called from a container, it
    /// places a request there as files, and behaves as the command would.
    #[command(after_help = PROXY)]
    Proxy(Proxy),
    /// Tell what would become of a tool call, and why; nothing is run
    #[command(after_help = WHY)]
    Why(Why),
    /// Show the tool calls of a session
    #[command(after_help = LOG)]
    Log(Log),
    /// List the sessions that run, with their containers and running tools
    Sessions(Sessions),
    /// Remove what sessions left that were killed: folders, containers, networks, sockets
    #[command(after_help = CLEANUP)]
    Cleanup(Cleanup),
    /// Show or remove what sidecars keep between sessions
    #[command(after_help = CACHE)]
    Cache(Cache),
    /// Measure whether sessions can work here, and say what to mend
    #[command(after_help = DOCTOR)]
    Doctor(Doctor),
    /// Show, locate or check the configuration
    #[command(after_help = CONFIG)]
    Config(Config),
    /// Print a script by which a shell completes this command line
    #[command(after_help = COMPLETIONS)]
    Completions(Completions),
    /// Write a manual page of every command into a folder
    Man(Man),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The image of the agent's container; with a command after `--`, any image
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Let the agent in although another one works in the same workspace
    #[arg(long)]
    pub(crate) force_share: bool,
    #[command(flatten)]
    pub(crate) smart: Smart,
    /// The agent, see `aifo-coder agents`, and what it is given, options too: it runs in a container of
    /// its own. Or, after `--`, any command: it runs on this machine, or with --image in a container
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "AGENT"
    )]
    pub(crate) words: Vec<OsString>,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// What the words of [`Run`] name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Words<'a> {
    /// An agent, and its arguments.
    Agent(&'a OsString, &'a [OsString]),
    /// A command, with its program.
    Command(&'a [OsString]),
}

impl Run {
    /// What the words name, given the whole command line that they end: a `--` before the first makes
    /// them a command.
    pub(crate) fn words(&self, line: &[OsString]) -> Words<'_> {
        let before = line.len().checked_sub(self.words.len() + 1).and_then(|at| line.get(at));
        match self.words.split_first() {
            Some((agent, args)) if before.is_none_or(|word| word != "--") => {
                Words::Agent(agent, args)
            }
            _ => Words::Command(&self.words),
        }
    }
}

/// What can be asked about agents.
#[derive(Debug, Args)]
pub(crate) struct Agents {
    /// The project
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) workspace: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) session: Session,
}

#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// Join the running session whose id begins so, instead of starting one
    #[arg(long = "session", value_name = "ID", conflicts_with_all = ["toolchains", "workspace", "listen", "idle_stop", "max_secs", "env"])]
    pub(crate) join: Option<String>,
    /// The tool and its arguments, after `--`
    #[arg(required = true, last = true, value_name = "TOOL")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) session: Session,
}

#[derive(Debug, Args)]
pub(crate) struct Proxy {
    /// The commands, by the names under which PATH has them
    #[arg(
        required = true,
        value_name = "COMMAND",
        value_parser = parse_command,
        value_hint = ValueHint::CommandName
    )]
    pub(crate) commands: Vec<CommandName>,
    /// The directory that containers share, .swe-swe/proxy by default
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
    /// Use .swe-swe/proxy in HOME, for the containers of every project
    #[arg(long, conflicts_with = "dir")]
    pub(crate) global: bool,
    /// What containers find under a command's name: script, for any shell; or binary, a copy of
    /// aifo-shim, which needs nothing else of its image
    #[arg(long, value_name = "KIND", value_enum, default_value = "script")]
    pub(crate) client: ClientKind,
    /// How long a command may run, in seconds; 0 is as long as it likes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_secs: u64,
    /// A variable of the caller that passes to its command; may be repeated
    #[arg(long, value_name = "NAME", value_parser = parse_variable)]
    pub(crate) env: Vec<String>,
    /// How long commands have to finish once this is told to end, in seconds
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) grace: u64,
    /// Tell nothing on stderr but what goes wrong
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Tell decisions on stderr, one line each
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// What stands under a command's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientKind {
    Script,
    Binary,
}

fn parse_command(word: &str) -> Result<CommandName, InvalidCommandName> {
    CommandName::parse(word.as_bytes())
}

/// A name that a shell can have, so that the script can as well.
fn parse_variable(word: &str) -> Result<String, String> {
    let starts_well = word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if starts_well && word.chars().all(|it| it.is_ascii_alphanumeric() || it == '_') {
        return Ok(word.to_owned());
    }
    Err("a variable's name is letters, digits and _, and begins with no digit".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct Why {
    #[command(flatten)]
    pub(crate) project: Project,
    /// The directory the call is made in; the current one by default
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// The agent that makes the call, by the name of its command
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) smart: Smart,
    /// Tell of every variable of this environment whether it would pass, and why
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The tool and its arguments, as the agent would type them
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "TOOL"
    )]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Log {
    /// Go on with what comes, until the session ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only calls that were refused or did not exit with 0
    #[arg(long)]
    pub(crate) failed: bool,
    /// The lines as they stand in the log
    #[arg(long)]
    pub(crate) json: bool,
    /// The session whose id begins so; by default the one with the latest call
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Sessions {
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Cleanup {
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Only of the session whose id begins so
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Cache {
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// List volumes of engines, and folders of sidecars without containers
    List {
        /// Only what tools of these toolchains keep
        #[arg(value_name = "KIND", value_delimiter = ',')]
        kinds: Vec<String>,
        /// Say how large each is, which may take a while
        #[arg(long)]
        sizes: bool,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove them, except what a container uses
    Clear(CacheClear),
}

#[derive(Debug, Args)]
pub(crate) struct CacheClear {
    /// Only what tools of these toolchains keep
    #[arg(value_name = "KIND", value_delimiter = ',')]
    pub(crate) kinds: Vec<String>,
    /// Only those of the workspace's project
    #[arg(long, conflicts_with_all = ["user", "gone"])]
    pub(crate) project: bool,
    /// The workspace whose project is meant
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath, requires = "project")]
    pub(crate) workspace: PathBuf,
    /// Only those that your projects share
    #[arg(long, conflicts_with = "gone")]
    pub(crate) user: bool,
    /// Only those of projects that are no longer there
    #[arg(long)]
    pub(crate) gone: bool,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) project: Project,
    /// Only of this: docker, podman or local; by default all that are there
    #[arg(long, value_name = "HOW")]
    pub(crate) backend: Option<String>,
    /// The image of a kind's containers; may be repeated
    #[arg(long = "toolchain-image", value_name = "KIND=IMAGE")]
    pub(crate) images: Vec<String>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Doctor {
    /// What was given.
    pub(crate) fn flags(&self) -> Flags {
        let containers = ContainerFlags {
            backend: self.backend.clone(),
            images: self.images.clone(),
            ..ContainerFlags::default()
        };
        Flags { containers, ..self.project.flags() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every value that holds, and where it comes from
    Show {
        /// Answer in JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        yes_to: YesTo,
        #[command(flatten)]
        session: Box<Session>,
    },
    /// Print where your own configuration file is, or would be
    Path,
    /// Check a file; by default your own and the workspace's
    Check {
        /// A file; one that is called .aifo.toml is judged as a workspace's
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// The project whose .aifo.toml is checked
        #[arg(
            long,
            value_name = "DIR",
            default_value = ".",
            value_hint = ValueHint::DirPath,
            conflicts_with = "file"
        )]
        workspace: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder, made if it is missing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
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
    fn what_follows_a_tool_is_the_tools() {
        let parse = |args: &[&str]| match Cli::try_parse_from(args).unwrap().command {
            Command::Why(why) => (why.json, why.command),
            other => panic!("{other:?}"),
        };
        let (json, command) = parse(&["aifo-coder", "why", "cargo", "--json", "--", "-h"]);
        assert!(!json);
        assert_eq!(command, ["cargo", "--json", "--", "-h"]);
        let (json, command) = parse(&["aifo-coder", "why", "--json", "--", "cargo", "test"]);
        assert!(json);
        assert_eq!(command, ["cargo", "test"]);
    }

    #[test]
    fn an_agent_or_a_command() {
        let words = |args: &[&str]| {
            let line: Vec<OsString> =
                ["aifo-coder", "run"].iter().chain(args).map(OsString::from).collect();
            match Cli::try_parse_from(&line).unwrap().command {
                Command::Run(run) => match run.words(&line) {
                    Words::Agent(agent, args) => format!("{agent:?} is given {args:?}"),
                    Words::Command(command) => format!("{command:?}"),
                },
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(words(&["codex"]), r#""codex" is given []"#);
        let given = words(&["--toolchain", "rust", "codex", "exec", "-q", "--", "x"]);
        assert_eq!(given, r#""codex" is given ["exec", "-q", "--", "x"]"#);
        assert_eq!(words(&["codex", "--", "x"]), r#""codex" is given ["--", "x"]"#);
        assert_eq!(words(&["-q", "--", "codex", "-q"]), r#"["codex", "-q"]"#);
        assert_eq!(words(&["--", "sh", "--", "x"]), r#"["sh", "--", "x"]"#);
        assert!(Cli::try_parse_from(["aifo-coder", "run"]).is_err());
    }

    #[test]
    fn a_session_is_joined_or_started() {
        let parse = |args: &[&str]| {
            let args = [&["aifo-coder", "exec"], args, &["--", "make"]].concat();
            Cli::try_parse_from(args).map(|_| ())
        };
        assert!(parse(&["--session", "5d"]).is_ok());
        assert!(parse(&["--toolchain", "rust"]).is_ok());
        assert!(parse(&["--session", "5d", "--toolchain", "rust"]).is_err());
        assert!(parse(&["--session", "5d", "--workspace", "/w"]).is_err());
        assert!(parse(&["--session", "5d", "--env", "FOO"]).is_err());
    }
}
