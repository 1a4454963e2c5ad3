//! Flags of `prompt` and `acp`.

use std::ffi::OsString;
use std::path::PathBuf;

use aifo_agents::ChunkMode;
use aifo_config::{Flags, UsageError};
use clap::{Args, ValueEnum, ValueHint};

use super::cluster::PodFlags;
use super::run::AgentStart;
use super::session::{Session, StateFlags, YesTo};
use super::usage::{options_of, reject_option};

#[derive(Debug, Args)]
pub(crate) struct Prompt {
    /// Agent (see `aifo-coder agents`), unless --agent-command is given, and prompt; `-` or no
    /// prompt reads stdin
    #[arg(value_name = "AGENT] [TEXT", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// Output format: the answer as text, or all events as JSON Lines
    #[arg(long, value_name = "HOW", value_enum, default_value = "text")]
    pub(crate) format: OutputFormat,
    /// Resume a session of the agent [default: the last one in this directory]
    #[arg(long, value_name = "SESSION", num_args = 0..=1, require_equals = true)]
    pub(crate) resume: Option<Option<String>>,
    /// Cancel the turn after N seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
    /// Cancel the turn after N seconds without a message; 0 for never
    #[arg(long, value_name = "N", default_value_t = 600)]
    pub(crate) idle_timeout: u64,
    /// Exit with 9 if a request of the agent was denied
    #[arg(long)]
    pub(crate) fail_on_denied: bool,
    #[command(flatten)]
    pub(crate) agent: AcpAgent,
}

#[derive(Debug, Args)]
pub(crate) struct Acp {
    /// Agent (see `aifo-coder agents`), unless --agent-command is given
    #[arg(
        id = "agent",
        value_name = "AGENT",
        required_unless_present = "agent_command",
        allow_hyphen_values = true
    )]
    first: Option<OsString>,
    /// Run the agent with these arguments in this terminal and its container, to log in or set it
    /// up. Put `--` before options that aifo-coder has too
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
    /// Server of the agent's fs/*: aifo (confined to the workspace), editor (paths are checked before,
    /// with unsaved changes) or none [default: aifo for agents that support it]
    #[arg(long, value_name = "WHO", value_enum)]
    pub(crate) files: Option<ServedBy>,
    /// Server of the agent's terminal/*: aifo (next to the agent, with tools in sidecars), editor
    /// (on this machine, without any rules) or none [default: aifo for agents that use them]
    #[arg(long, value_name = "WHO", value_enum)]
    pub(crate) terminals: Option<ServedBy>,
    /// Forward the agent's requests and notifications of this method to the editor, although the
    /// protocol does not have it; '_vendor/*' stands for all of a vendor; repeatable
    #[arg(long, value_name = "METHOD", value_parser = parse_method)]
    pub(crate) allow_request: Vec<String>,
    /// The workspace on the editor's machine, given by the client of a pod
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) editor_workspace: Option<String>,
    #[command(flatten)]
    pub(crate) agent: AcpAgent,
}

impl Acp {
    /// Returns the agent's name, if there is one, and its arguments. Errors: an unknown option.
    pub(crate) fn words(&self) -> Result<(Option<String>, Vec<OsString>), UsageError> {
        let rest = self.rest.iter();
        match &self.first {
            first if self.agent.agent_command.is_some() => {
                Ok((None, first.iter().chain(rest).cloned().collect()))
            }
            Some(first) => {
                let name = first.to_string_lossy().into_owned();
                reject_option("acp", Some(first))?;
                Ok((Some(name), rest.cloned().collect()))
            }
            None => Ok((None, Vec::new())),
        }
    }

    /// Returns all options, which an agent's argument could be mistaken for.
    pub(crate) fn own_words() -> Vec<String> {
        options_of("acp")
    }
}

/// Selects whether a user can answer questions about calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UserPresence {
    /// The command has a prompt only.
    #[default]
    Absent,
    /// An editor or a page shows them.
    Present,
}

/// The server of an agent's requests to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServedBy {
    Aifo,
    Editor,
    None,
}

/// Flags for the agent and its connection.
#[derive(Debug, Args)]
pub(crate) struct AcpAgent {
    /// Command of an ACP agent, quoted as for a shell; runs on this machine or, with --image, in a
    /// container
    #[arg(
        long,
        value_name = "COMMAND",
        value_parser = parse_command_line,
        value_hint = ValueHint::CommandString
    )]
    pub(crate) agent_command: Option<String>,
    #[command(flatten)]
    pub(crate) start: AgentStart,
    /// Working directory of the agent; outside the workspace it is the workspace [default: the
    /// current directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// Meaning of the agent's text chunks: delta, snapshot or auto [default: from its profile]
    #[arg(long, value_name = "HOW", value_parser = parse_stream)]
    pub(crate) stream: Option<ChunkMode>,
    /// Log all messages to files in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) wire_log: Option<PathBuf>,
    /// Whether a user can answer questions.
    #[arg(skip)]
    pub(crate) user: UserPresence,
    #[command(flatten)]
    pub(crate) yes_to: YesTo,
    #[command(flatten)]
    pub(crate) state: StateFlags,
    #[command(flatten)]
    pub(crate) session: Session,
    #[command(flatten)]
    pub(crate) pod: PodFlags,
}

impl AcpAgent {
    /// Returns the flags that are keys of the configuration.
    pub(crate) fn flags(&self) -> Flags {
        let flags = self.state.add_to(self.yes_to.add_to(self.session.flags()));
        self.pod.add_to(flags)
    }
}

fn parse_command_line(text: &str) -> Result<String, &'static str> {
    match shlex::split(text) {
        Some(words) if !words.is_empty() => Ok(text.to_owned()),
        Some(_) => Err("expected a command"),
        None => Err("a quotation is not closed"),
    }
}

/// Accepts a method, or a namespace of extensions: `_vendor/*`.
fn parse_method(text: &str) -> Result<String, &'static str> {
    let name = match text.strip_suffix('*') {
        Some(name) if name.len() > 2 && name.starts_with('_') && name.ends_with('/') => name,
        Some(_) => return Err("expected a method, or a namespace such as '_vendor/*'"),
        None => text,
    };
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'*';
    match !name.is_empty() && name.bytes().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("expected a method, or a namespace such as '_vendor/*'"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
}

impl Prompt {
    /// Returns the agent's name and the prompt, if given. Errors: too many words, or no agent.
    pub(crate) fn split(&self) -> Result<(Option<&str>, Option<&str>), UsageError> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let wrong = |text: &str| Err(UsageError(text.to_owned()));
        match (self.agent.agent_command.is_some(), words.as_slice()) {
            (true, []) => Ok((None, None)),
            (true, [text]) => Ok((None, Some(text))),
            (true, _) => {
                wrong("expected one TEXT and no AGENT with --agent-command\nhint: quote the text")
            }
            (false, []) => wrong("missing AGENT\nhint: list agents with `aifo-coder agents`"),
            (false, [agent]) => Ok((Some(agent), None)),
            (false, [agent, text]) => Ok((Some(agent), Some(text))),
            (false, _) => wrong("expected one TEXT\nhint: quote the text"),
        }
    }
}

fn parse_stream(word: &str) -> Result<ChunkMode, &'static str> {
    ChunkMode::parse(word).ok_or("expected delta, snapshot or auto")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn parse(words: &[&str]) -> Acp {
        let line = ["aifo-coder", "acp"].iter().chain(words);
        match Cli::try_parse_from(line).unwrap_or_else(|e| panic!("{words:?}: {e}")).command {
            Command::Acp(acp) => *acp.0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn unknown_options_after_an_agent_belong_to_the_agent() {
        let words = |words: &[&str]| {
            let acp = parse(words);
            let backend = acp.agent.session.flags().words("--backend").concat();
            let (name, args) = acp.words().unwrap();
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
        assert!(Cli::try_parse_from(["aifo-coder", "acp"]).is_err());
    }

    #[test]
    fn an_agents_argument_is_never_an_option_behind_a_separator() {
        let own = Acp::own_words();
        for word in ["--files", "--agent-command", "--backend", "--help", "-h", "-q", "-v"] {
            assert!(own.iter().any(|own| own == word), "{word} in {own:?}");
        }
        for word in own.iter().map(String::as_str).chain(["--", "--backend=x", "-qv"]) {
            for before in
                [&["gemini"][..], &["--agent-command", "a"], &["gemini", "--files", "none"]]
            {
                let acp = parse(&[before, &["--", word, "local"]].concat());
                assert_eq!(acp.words().unwrap().1, [word, "local"], "{before:?}");
                assert!(acp.agent.session.flags().words("--backend").is_empty());
            }
        }
    }
}
