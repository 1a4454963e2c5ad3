//! The flags of what speaks ACP with an agent.

use std::ffi::OsString;
use std::path::PathBuf;

use aifo_acp::Requests;
use aifo_launch::ChunkMode;
use clap::{Args, CommandFactory, Subcommand, ValueEnum, ValueHint};

use crate::cli::{Cli, Session, YesTo};

#[derive(Debug, Args)]
pub(crate) struct Prompt {
    /// The agent, see `aifo-coder agents`, unless there is an --agent-command; then the prompt, by
    /// default or as `-` what stdin has
    #[arg(value_name = "AGENT] [TEXT", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// What comes on stdout: text, the answer; json, all that happens, an object a line
    #[arg(long, value_name = "HOW", value_enum, default_value = "text")]
    pub(crate) format: Format,
    /// Go on with that session of the agent's, or with the last one here
    #[arg(long, value_name = "SESSION", num_args = 0..=1, require_equals = true)]
    pub(crate) resume: Option<Option<String>>,
    /// Cancel the turn after N seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
    /// Cancel the turn when nothing has come for N seconds; 0 is never
    #[arg(long, value_name = "N", default_value_t = 600)]
    pub(crate) idle_timeout: u64,
    #[command(flatten)]
    pub(crate) agent: AcpAgent,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Acp {
    #[command(subcommand)]
    pub(crate) command: Option<AcpCommand>,
    /// The agent, see `aifo-coder agents`, unless there is an --agent-command
    #[arg(
        id = "agent",
        value_name = "AGENT",
        required_unless_present = "agent_command",
        allow_hyphen_values = true
    )]
    first: Option<OsString>,
    /// Arguments of the agent's own: it runs with them in this terminal, in its container, to
    /// authenticate or to be set up. Put `--` before an argument that is an option of aifo-coder too
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
    /// Who serves the agent's fs/*: aifo, confined to the workspace; editor, with what is not saved, and
    /// with all that the editor can reach; none. By default aifo for agents that make do with it
    #[arg(long, value_name = "WHO", value_enum)]
    pub(crate) files: Option<Server>,
    /// Who serves the agent's terminal/*: aifo, where the agent is, its tools in sidecars; editor, on
    /// this machine, past every rule; none. By default aifo for agents that use them
    #[arg(long, value_name = "WHO", value_enum)]
    pub(crate) terminals: Option<Server>,
    #[command(flatten)]
    pub(crate) agent: AcpAgent,
}

impl Acp {
    /// The agent's name, if it has one, and its arguments. Errors: a name that is an option.
    pub(crate) fn words(&self) -> Result<(Option<String>, Vec<OsString>), String> {
        let rest = self.rest.iter();
        match &self.first {
            first if self.agent.agent_command.is_some() => {
                Ok((None, first.iter().chain(rest).cloned().collect()))
            }
            Some(first) => {
                let name = first.to_string_lossy().into_owned();
                if name.starts_with('-') {
                    return Err(format!("there is no option '{name}'"));
                }
                Ok((Some(name), rest.cloned().collect()))
            }
            None => Ok((None, Vec::new())),
        }
    }

    /// Every word that is this command's own where an agent's argument could stand.
    pub(crate) fn own_words() -> Vec<String> {
        let mut cli = Cli::command();
        cli.build();
        let Some(acp) = cli.find_subcommand("acp") else { return Vec::new() };
        let options = acp.get_arguments().flat_map(|option| {
            let longs = option.get_long_and_visible_aliases().into_iter().flatten();
            let shorts = option.get_short_and_visible_aliases().into_iter().flatten();
            let longs = longs.map(|name| format!("--{name}"));
            longs.chain(shorts.map(|name| format!("-{name}"))).collect::<Vec<_>>()
        });
        let commands = acp.get_subcommands().map(|command| command.get_name().to_owned());
        options.chain(commands).collect()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum AcpCommand {
    /// Tell what came of a conversation that was logged with --wire-log, by the same state machines
    Replay {
        /// As lines for people, or one JSON object a line
        #[arg(long, value_name = "HOW", value_enum, default_value = "text")]
        format: Format,
        /// The log; of one that has several files, in their order
        #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
}

/// Who serves something that the agent asks its client for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Server {
    Aifo,
    Editor,
    None,
}

/// Which agent, and how it is spoken with.
#[derive(Debug, Args)]
pub(crate) struct AcpAgent {
    /// Any agent that speaks ACP, quoted as for a shell; it runs on this machine, or with --image in a
    /// container
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub(crate) agent_command: Option<String>,
    /// The image of the agent's container
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Where the agent works, by default here; outside of the workspace, it is the workspace
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// Let the agent in although another one works in the same workspace
    #[arg(long)]
    pub(crate) force_share: bool,
    /// What the agent's chunks of text are: delta, snapshot or auto; by default what its profile says
    #[arg(long, value_name = "HOW", value_parser = parse_stream)]
    pub(crate) stream: Option<ChunkMode>,
    /// Log what is said either way into files in this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) wire_log: Option<PathBuf>,
    /// Whose requests the agent gets, as its log says.
    #[arg(skip)]
    pub(crate) requests: Requests,
    #[command(flatten)]
    pub(crate) yes_to: YesTo,
    #[command(flatten)]
    pub(crate) session: Session,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

impl Prompt {
    /// The agent's name, and the prompt, as far as they are there. Errors: too many words.
    pub(crate) fn split(&self) -> Result<(Option<&str>, Option<&str>), &'static str> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        match (self.agent.agent_command.is_some(), words.as_slice()) {
            (true, []) => Ok((None, None)),
            (true, [text]) => Ok((None, Some(text))),
            (true, _) => Err("with --agent-command there is no AGENT, and one TEXT; quote it"),
            (false, []) => Err("there is no AGENT\nhint: see `aifo-coder agents`"),
            (false, [agent]) => Ok((Some(agent), None)),
            (false, [agent, text]) => Ok((Some(agent), Some(text))),
            (false, _) => Err("there is one TEXT; quote it"),
        }
    }
}

fn parse_stream(word: &str) -> Result<ChunkMode, &'static str> {
    ChunkMode::parse(word).ok_or("say delta, snapshot or auto")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command;
    use clap::Parser;

    fn parse(words: &[&str]) -> Acp {
        let line = ["aifo-coder", "acp"].iter().chain(words);
        match Cli::try_parse_from(line).unwrap_or_else(|e| panic!("{words:?}: {e}")).command {
            Command::Acp(acp) => *acp,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_follows_an_agent_and_is_no_option_is_the_agents() {
        let words = |words: &[&str]| {
            let acp = parse(words);
            let backend = acp.agent.session.containers.backend.clone().unwrap_or_default();
            let (name, args) = acp.words().unwrap();
            assert!(acp.command.is_none());
            format!("{backend} {} {args:?}", name.unwrap_or_default())
        };
        assert_eq!(words(&["gemini"]), " gemini []");
        assert_eq!(words(&["--backend", "local", "gemini"]), "local gemini []");
        assert_eq!(words(&["gemini", "--backend", "local"]), "local gemini []");
        assert_eq!(
            words(&["gemini", "--login", "--backend", "x"]),
            r#" gemini ["--login", "--backend", "x"]"#
        );
        assert_eq!(
            words(&["gemini", "--backend", "local", "auth", "-q"]),
            r#"local gemini ["auth", "-q"]"#
        );
        assert_eq!(words(&["gemini", "--", "--backend", "x"]), r#" gemini ["--backend", "x"]"#);
        assert_eq!(words(&["gemini", "replay", "x"]), r#" gemini ["replay", "x"]"#);
        assert_eq!(words(&["gemini", "-xq"]), r#" gemini ["-xq"]"#);
        assert_eq!(words(&["--agent-command", "a b"]), "  []");
        assert_eq!(
            words(&["--agent-command", "a b", "--login", "x", "-q"]),
            r#"  ["--login", "x", "-q"]"#
        );
        assert_eq!(words(&["--agent-command", "a b", "--", "-q"]), r#"  ["-q"]"#);
        assert!(parse(&["--nosuch", "gemini"]).words().is_err());
        assert!(matches!(parse(&["replay", "file"]).command, Some(AcpCommand::Replay { .. })));
        assert!(Cli::try_parse_from(["aifo-coder", "acp"]).is_err());
    }

    #[test]
    fn an_agents_argument_is_never_an_option_behind_a_separator() {
        let own = Acp::own_words();
        for word in
            ["--files", "--agent-command", "--backend", "--help", "-h", "-q", "-v", "replay"]
        {
            assert!(own.iter().any(|own| own == word), "{word} in {own:?}");
        }
        for word in own.iter().map(String::as_str).chain(["--", "--backend=x", "-qv"]) {
            for before in
                [&["gemini"][..], &["--agent-command", "a"], &["gemini", "--files", "none"]]
            {
                let acp = parse(&[before, &["--", word, "local"]].concat());
                assert_eq!(acp.words().unwrap().1, [word, "local"], "{before:?}");
                assert!(acp.agent.session.containers.backend.is_none() && acp.command.is_none());
            }
        }
    }
}
