//! Definitions of the command line.

mod acp;
mod cluster;
mod deferred;
mod help;
mod history;
mod images;
mod kube;
mod mailbox;
mod net;
mod policy;
mod queries;
mod removal;
mod root_help;
mod run;
mod session;
mod usage;
#[cfg(feature = "web")]
mod web;

use clap::{CommandFactory, Parser, Subcommand};

use self::help::{ACP_USAGE, PROMPT_USAGE, RUN_USAGE, text};

pub(crate) use self::acp::{Acp, AcpAgent, OutputFormat, Prompt, ServedBy, UserPresence};
pub(crate) use self::cluster::PodFlags;
pub(crate) use self::deferred::Deferred;
pub(crate) use self::history::{Changes, Undo};
pub(crate) use self::images::{BuildImages, Images, ImagesCommand, PushImages, Setup};
pub(crate) use self::kube::{Kube, KubeCommand, KubeFetch, KubeRbac, KubeRender};
pub(crate) use self::mailbox::Mailbox;
pub(crate) use self::net::{Net, NetAllow, NetCheck, NetCommand, NetList};
pub(crate) use self::policy::{Policy, PolicyCheck, PolicyCommand};
pub(crate) use self::queries::{
    Agents, Approve, Attach, Completions, Config, ConfigCommand, Detach, Doctor, Log, Man, Ps,
    Publish, Stop, Why,
};
pub(crate) use self::removal::{
    Cache, CacheClear, CacheCommand, Clean, State, StateClear, StateCommand, is_gone,
};
pub(crate) use self::run::{Exec, Run, RunTarget, Serve};
pub(crate) use self::session::{Session, default_workspace};
pub(crate) use self::usage::{parse, reject_option};
#[cfg(feature = "web")]
pub(crate) use self::web::Web;

/// Run coding agents with their tool calls in per-language sidecars, under an allowlist
#[derive(Debug, Parser)]
#[command(name = "aifo-coder", version)]
#[command(after_help = text("aifo-coder").unwrap_or_default())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Returns the definition with all commands' options.
    pub(crate) fn built() -> clap::Command {
        let mut command = Cli::command();
        command.build();
        command
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an agent in a container, or a command, with its tools in sidecars
    #[command(override_usage = RUN_USAGE)]
    Run(Deferred<Run>),
    /// Run one prompt non-interactively
    #[command(override_usage = PROMPT_USAGE)]
    Prompt(Deferred<Prompt>),
    /// Run an agent for an editor, with ACP on stdin and stdout
    #[command(override_usage = ACP_USAGE)]
    Acp(Deferred<Acp>),
    /// Run an agent on a web page, to watch and steer it from a browser
    #[cfg(feature = "web")]
    Web(Deferred<Web>),
    /// List the supported agents and their state
    Agents(Deferred<Agents>),
    /// Build or pull the images that a project needs
    Setup(Deferred<Setup>),
    /// Build, list or update the images of toolchains and agents
    Images(Deferred<Images>),
    /// Print sessions as manifests for Kubernetes
    Kube(Deferred<Kube>),
    /// Run the proxy and sidecars for another launcher
    Serve(Deferred<Serve>),
    /// Run one tool in its sidecar
    Exec(Deferred<Exec>),
    /// Run commands of this machine for containers that share a directory with it
    #[command(alias = "proxy")]
    Mailbox(Deferred<Mailbox>),
    /// Explain how a tool call would be handled, without running it
    Why(Deferred<Why>),
    /// Show the tool calls of a session
    Log(Deferred<Log>),
    /// Show what the calls of a session changed in the project
    Changes(Deferred<Changes>),
    /// Put back what a call changed in the project
    Undo(Deferred<Undo>),
    /// Show the connections of a session with a network by name, or change its rules
    Net(Deferred<Net>),
    /// List running sessions with their containers and tools
    #[command(alias = "sessions")]
    Ps(Deferred<Ps>),
    /// Show a session that was started with `run --keep` or `run --detach`
    Attach(Deferred<Attach>),
    /// End a running session
    Stop(Deferred<Stop>),
    /// Disconnect the terminals that show a session, which continues
    #[command(hide = true)]
    Detach(Deferred<Detach>),
    /// Answer calls of a running session that wait for approval
    Approve(Deferred<Approve>),
    /// Publish a port of a running session's tools on this machine
    Publish(Deferred<Publish>),
    /// Remove directories, containers, networks and sockets of killed sessions
    #[command(alias = "cleanup")]
    Clean(Deferred<Clean>),
    /// List or remove the caches of sidecars
    Cache(Deferred<Cache>),
    /// List or remove the states that agents in containers keep
    State(Deferred<State>),
    /// Check this machine, or a cluster, and suggest fixes
    Doctor(Deferred<Doctor>),
    /// Check rules on arguments
    Policy(Deferred<Policy>),
    /// Show or check the configuration
    Config(Deferred<Config>),
    /// Print a shell completion script
    Completions(Deferred<Completions>),
    /// Write manual pages to a directory
    Man(Deferred<Man>),
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn the_command_line_is_valid() {
        Cli::command().debug_assert();
    }

    /// With a longer text clap prints the values of `--help` on lines of their own.
    #[test]
    fn every_help_has_the_same_layout() {
        fn check(command: &clap::Command) {
            let name = command.get_name();
            assert!(command.get_long_about().is_none(), "{name}");
            for arg in command.get_arguments() {
                assert!(arg.get_long_help().is_none(), "{name} {}", arg.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::built());
    }

    /// Each example is also a valid command line.
    #[test]
    fn every_command_has_an_example() {
        fn check(command: &clap::Command, path: &str) {
            let is_own = |it: &&clap::Command| it.get_name() != "help";
            let mut subcommands = command.get_subcommands().filter(is_own).peekable();
            if subcommands.peek().is_none() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains(path), "'{path}' has no example");
            }
            subcommands.for_each(|inner| check(inner, &format!("{path} {}", inner.get_name())));
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let (_, examples) = help.split_once("Examples:\n").unwrap_or_default();
            for line in examples.lines().take_while(|line| line.starts_with("  ")) {
                let Some((_, line)) = line.split_once("aifo-coder ") else { continue };
                let line = line.split("  ").next().unwrap_or_default();
                let end = [" | ", " >> ", ")"].iter().filter_map(|end| line.find(end)).min();
                let words = shlex::split(&line[..end.unwrap_or(line.len())]).unwrap();
                let words = ["aifo-coder".to_owned()].into_iter().chain(words);
                if let Err(error) = Cli::try_parse_from(words) {
                    panic!("{line}: {error}");
                }
            }
        }
        check(&Cli::built(), "aifo-coder");
    }

    #[test]
    fn every_default_is_stated_once() {
        fn check(command: &clap::Command) {
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let count = help.to_lowercase().matches("default").count();
                assert!(!help.contains("[default:") || count == 1, "{help}");
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::built());
    }

    #[test]
    fn options_after_a_tool_belong_to_the_tool() {
        let parse = |args: &[&str]| match Cli::try_parse_from(args).unwrap().command {
            Command::Why(why) => (why.0.json, why.0.words),
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
                Command::Run(run) => match run.0.target(&line) {
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

    #[test]
    fn a_tool_needs_no_separator() {
        let command = |args: &[&str]| {
            let args = [&["aifo-coder", "exec"], args].concat();
            match Cli::try_parse_from(args).unwrap().command {
                Command::Exec(exec) => exec.0.call.words,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(command(&["cargo", "test", "-q"]), ["cargo", "test", "-q"]);
        assert_eq!(command(&["-q", "cargo", "--session", "5d"]), ["cargo", "--session", "5d"]);
        assert_eq!(command(&["--", "cargo", "--", "x"]), ["cargo", "--", "x"]);
    }

    #[test]
    fn an_unknown_option_is_rejected_with_a_suggestion() {
        let rejected = |command, word: &str| {
            reject_option(command, Some(word.as_ref())).map_err(|error| error.to_string())
        };
        let near = "unknown option '--tolchain'\nhint: did you mean '--toolchain'?";
        for command in ["run", "exec", "why", "acp"] {
            assert_eq!(rejected(command, "--tolchain"), Err(near.to_owned()), "{command}");
            assert_eq!(rejected(command, "--tolchain=rust"), Err(near.to_owned()), "{command}");
        }
        let unlike = "unknown option '--xyzzy'\nhint: see 'aifo-coder run --help'";
        assert_eq!(rejected("run", "--xyzzy"), Err(unlike.to_owned()));
        assert_eq!(rejected("run", "codex"), Ok(()));
    }
}
