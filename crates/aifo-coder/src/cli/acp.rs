//! The flags of what speaks ACP with an agent.

use std::path::PathBuf;

use aifo_launch::Stream;
use clap::{Args, Subcommand, ValueEnum, ValueHint};

use crate::cli::{Session, YesTo};

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
    /// The agent, see `aifo-coder agents`
    #[arg(
        id = "agent",
        value_name = "AGENT",
        required_unless_present = "agent_command",
        conflicts_with = "agent_command"
    )]
    pub(crate) name: Option<String>,
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
    pub(crate) stream: Option<Stream>,
    /// Log what is said either way into files in this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) wire_log: Option<PathBuf>,
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

fn parse_stream(word: &str) -> Result<Stream, &'static str> {
    Stream::parse(word).ok_or("say delta, snapshot or auto")
}
