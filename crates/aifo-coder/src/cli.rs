//! Definitions of the command line.

mod acp;
mod help;
mod permissions;
mod session;
mod web;

use std::ffi::OsString;
use std::path::PathBuf;

use aifo_doors::{CommandName, InvalidCommandName};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

use self::help::{
    ACP, ACP_USAGE, CACHE, CLEANUP, COMPLETIONS, CONFIG, DOCTOR, EXAMPLES, EXEC, EXIT_CODES, LOG,
    PROMPT, PROMPT_USAGE, PROXY, RUN, RUN_USAGE, WEB, WHY,
};

pub(crate) use self::acp::{Acp, AcpAgent, AcpCommand, OutputFormat, Prompt, ServedBy};
pub(crate) use self::permissions::YesTo;
pub(crate) use self::session::{Project, Session, SmartFlags};
pub(crate) use self::web::Web;
use crate::config::{ContainerFlags, Flags};

/// Run coding agents with their tool calls in per-language sidecars, under an allowlist
#[derive(Debug, Parser)]
#[command(name = "aifo-coder", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an agent in a container, or a command, with its tools in sidecars
    #[command(override_usage = RUN_USAGE, after_help = RUN)]
    Run(Run),
    /// Run one prompt non-interactively
    #[command(override_usage = PROMPT_USAGE, after_help = PROMPT)]
    Prompt(Box<Prompt>),
    /// Run an agent for an editor, with ACP on stdin and stdout
    #[command(override_usage = ACP_USAGE, after_help = ACP)]
    Acp(Box<Acp>),
    /// Run an agent on a web page, to watch and steer it from a browser
    #[command(after_help = WEB)]
    Web(Box<Web>),
    /// List the supported agents and their state
    Agents(Agents),
    /// Run the proxy and sidecars for another launcher
    ///
    /// Prints AIFO_TOOLEEXEC_URL, AIFO_TOOLEEXEC_TOKEN and AIFO_WORKSPACE as NAME=value lines on
    /// stdout when clients can connect, then serves until SIGTERM, SIGINT or SIGHUP.
    #[command(after_help = EXIT_CODES)]
    Serve(Serve),
    /// Run one tool in its sidecar
    #[command(after_help = EXEC)]
    Exec(Exec),
    /// Run commands of this machine for containers that share a directory with it
    ///
    /// Creates a client for each command in the directory. In a container the client sends requests
    /// as files, and returns the command's output and exit code.
    #[command(after_help = PROXY)]
    Proxy(Proxy),
    /// Explain how a tool call would be handled, without running it
    #[command(after_help = WHY)]
    Why(Why),
    /// Show the tool calls of a session
    #[command(after_help = LOG)]
    Log(Log),
    /// List running sessions with their containers and tools
    Sessions(Sessions),
    /// Remove directories, containers, networks and sockets of killed sessions
    #[command(after_help = CLEANUP)]
    Cleanup(Cleanup),
    /// List or remove the caches of sidecars
    #[command(after_help = CACHE)]
    Cache(Cache),
    /// Check this machine and suggest fixes
    #[command(after_help = DOCTOR)]
    Doctor(Doctor),
    /// Show or check the configuration
    #[command(after_help = CONFIG)]
    Config(Config),
    /// Print a shell completion script
    #[command(after_help = COMPLETIONS)]
    Completions(Completions),
    /// Write manual pages to a directory
    Man(Man),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Image of the agent's or command's container
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Start even if another agent uses the workspace
    #[arg(long)]
    pub(crate) force_share: bool,
    #[command(flatten)]
    pub(crate) smart: SmartFlags,
    /// Agent (see `aifo-coder agents`) and its arguments, run in a container; or after `--` a
    /// command, run on this machine or, with --image, in a container
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

/// The program that [`Run`] starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RunTarget<'a> {
    /// An agent and its arguments.
    Agent(&'a OsString, &'a [OsString]),
    /// A command: program and arguments.
    Command(&'a [OsString]),
}

impl Run {
    /// Returns the program to start. `line` is the whole command line, which ends with these words:
    /// a `--` before the first word makes them a command.
    pub(crate) fn target(&self, line: &[OsString]) -> RunTarget<'_> {
        let before = line.len().checked_sub(self.words.len() + 1).and_then(|at| line.get(at));
        match self.words.split_first() {
            Some((agent, args)) if before.is_none_or(|word| word != "--") => {
                RunTarget::Agent(agent, args)
            }
            _ => RunTarget::Command(&self.words),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Agents {
    /// Workspace directory
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) workspace: PathBuf,
    /// Print JSON
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
    /// Use the running session whose id starts with ID
    #[arg(long = "session", value_name = "ID", conflicts_with_all = ["toolchains", "workspace", "listen", "idle_stop", "max_secs", "env"])]
    pub(crate) join: Option<String>,
    /// Tool and its arguments
    #[arg(required = true, last = true, value_name = "TOOL")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) session: Session,
}

#[derive(Debug, Args)]
pub(crate) struct Proxy {
    /// Commands to serve, as found in PATH
    #[arg(
        required = true,
        value_name = "COMMAND",
        value_parser = parse_command,
        value_hint = ValueHint::CommandName
    )]
    pub(crate) commands: Vec<CommandName>,
    /// Directory shared with the containers [default: .swe-swe/proxy]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
    /// Use .swe-swe/proxy in HOME, for containers of all projects
    #[arg(long, conflicts_with = "dir")]
    pub(crate) global: bool,
    /// Type of the clients: a shell script, or a copy of the aifo-shim binary, which needs no other
    /// program in the image
    #[arg(long, value_name = "KIND", value_enum, default_value = "script")]
    pub(crate) client: ClientKind,
    /// Time limit of a command in seconds; 0 for none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_secs: u64,
    /// Forward this variable of the caller to the command; repeatable
    #[arg(long, value_name = "NAME", value_parser = parse_variable)]
    pub(crate) env: Vec<String>,
    /// Seconds that running commands get to finish at shutdown
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) grace: u64,
    /// Only print warnings and errors on stderr
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Log decisions on stderr
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// The type of the clients of `proxy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientKind {
    Script,
    Binary,
}

fn parse_command(word: &str) -> Result<CommandName, InvalidCommandName> {
    CommandName::parse(word.as_bytes())
}

/// Accepts the names of shell variables, because the client may be a shell script.
fn parse_variable(word: &str) -> Result<String, String> {
    let starts_well = word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if starts_well && word.chars().all(|it| it.is_ascii_alphanumeric() || it == '_') {
        return Ok(word.to_owned());
    }
    Err("use letters, digits and _, not starting with a digit".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct Why {
    #[command(flatten)]
    pub(crate) project: Project,
    /// Working directory of the call [default: the current directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// Name of the calling agent's command [env: AIFO_AGENT_NAME]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) smart: SmartFlags,
    /// Explain for each variable of this environment whether it is forwarded
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Tool and its arguments
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
    /// Print new calls until the session ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only print calls that were refused or failed
    #[arg(long)]
    pub(crate) failed: bool,
    /// Print the lines of the log unchanged
    #[arg(long)]
    pub(crate) json: bool,
    /// Start of the session's id [default: the session with the latest call]
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Sessions {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Cleanup {
    /// Print what would be removed, without removing it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Only clean up the session whose id starts with this
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
    /// List cache volumes of engines and cache directories of local sidecars
    List {
        /// Only caches of these toolchains
        #[arg(value_name = "KIND", value_delimiter = ',')]
        kinds: Vec<String>,
        /// Print sizes, which may take a while
        #[arg(long)]
        sizes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove caches, except those in use
    Clear(CacheClear),
}

#[derive(Debug, Args)]
pub(crate) struct CacheClear {
    /// Only caches of these toolchains
    #[arg(value_name = "KIND", value_delimiter = ',')]
    pub(crate) kinds: Vec<String>,
    /// Only caches of the workspace's project
    #[arg(long, conflicts_with_all = ["user", "gone"])]
    pub(crate) project: bool,
    /// Workspace for --project
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath, requires = "project")]
    pub(crate) workspace: PathBuf,
    /// Only caches shared by your projects
    #[arg(long, conflicts_with = "gone")]
    pub(crate) user: bool,
    /// Only caches of projects that no longer exist
    #[arg(long)]
    pub(crate) gone: bool,
    /// Print what would be removed, without removing it
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) project: Project,
    /// Backend to check: docker, podman or local [default: all that are installed]
    #[arg(long, value_name = "HOW")]
    pub(crate) backend: Option<String>,
    /// Image of a toolchain's containers; repeatable
    #[arg(long = "toolchain-image", value_name = "KIND=IMAGE")]
    pub(crate) images: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Doctor {
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
    /// Show all values with their sources
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        yes_to: YesTo,
        #[command(flatten)]
        session: Box<Session>,
    },
    /// Print the path of the user's configuration file
    Path,
    /// Check the user's and the workspace's file, or FILE
    Check {
        /// File to check; .aifo.toml is checked as a workspace's file
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Workspace directory with the .aifo.toml to check
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
    /// Shell to generate the script for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Output directory, created if missing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_after_a_tool_belong_to_the_tool() {
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
                Command::Run(run) => match run.target(&line) {
                    RunTarget::Agent(agent, args) => format!("{agent:?} {args:?}"),
                    RunTarget::Command(command) => format!("{command:?}"),
                },
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(words(&["codex"]), r#""codex" []"#);
        let given = words(&["--toolchain", "rust", "codex", "exec", "-q", "--", "x"]);
        assert_eq!(given, r#""codex" ["exec", "-q", "--", "x"]"#);
        assert_eq!(words(&["codex", "--", "x"]), r#""codex" ["--", "x"]"#);
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
