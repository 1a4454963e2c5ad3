//! `aifo-coder completions`: generates shell completions (`spec/cli.md#completions`).
//!
//! clap generates the script from the flags' definitions. The usual values of a flag are listed here,
//! for the script only: the flag accepts more, such as a version after a kind.

use std::path::Path;
use std::process::ExitCode;

use aifo_agents::trusted_programs_here;
use aifo_config::{Config, Flags};
use aifo_egress::GROUPS;
use aifo_engine::{
    Choice, Engine,
    images::{Part, Recipe, recipes},
    within_timeout,
};
use aifo_host::{running_sessions, session_logs};
use aifo_policy::request_words;
use aifo_terminal::paint;
use clap::{Arg, Command, ValueHint, builder::PossibleValuesParser};
use clap_complete::Shell;

use crate::cli::Cli;

pub(crate) fn print(shell: Shell) -> anyhow::Result<ExitCode> {
    let vocabulary = Vocabulary::here();
    let mut script = Vec::new();
    let mut command = with_words(Cli::built(), &vocabulary);
    clap_complete::generate(shell, &mut command, PROGRAM, &mut script);
    let script = String::from_utf8(script)?;
    let script = match shell {
        // clap_complete 4.6 spells a program with a hyphen in two ways, and finds no subcommand of it.
        Shell::Bash => script.replace("aifo__subcmd__coder", "aifo__coder"),
        // For fish it skips positional arguments.
        Shell::Fish => script + &command.get_subcommands().map(fish_words).collect::<String>(),
        _ => script,
    };
    paint::print(&with_queries(script, shell))?;
    Ok(ExitCode::SUCCESS)
}

/// Words that stand for the output of `aifo-coder ps --complete WORD`.
const QUERIES: [&str; 3] = ["aifo-running", "aifo-sessions", "aifo-containers"];

/// Replaces the words of [`QUERIES`] by commands that the shell runs when it completes.
fn with_queries(script: String, shell: Shell) -> String {
    QUERIES.into_iter().fold(script, |script, word| {
        let query = format!("{PROGRAM} sessions --complete {word} 2>/dev/null");
        match shell {
            Shell::Bash | Shell::Zsh => script.replace(word, &format!("$({query})")),
            Shell::Fish => {
                let script = script.replace(&format!("{word}\\t''"), &format!("({query})"));
                // The query itself contains the word.
                let marker = format!("--complete {word}");
                script
                    .split(&marker)
                    .map(|part| part.replace(word, &format!("({query})")))
                    .collect::<Vec<_>>()
                    .join(&marker)
            }
            _ => script.replace(word, ""),
        }
    })
}

/// Prints the words for a query, one per line.
pub(crate) async fn answer(query: &str) -> anyhow::Result<ExitCode> {
    let mut words: Vec<String> = match query {
        "aifo-running" => running_sessions().into_iter().map(|session| session.name).collect(),
        "aifo-sessions" => session_logs().into_iter().map(|log| log.name).collect(),
        "aifo-containers" => {
            running_containers().await.into_iter().map(|name| name + "=").collect()
        }
        _ => Vec::new(),
    };
    words.retain(|word| !word.is_empty());
    words.sort();
    words.dedup();
    paint::print(&words.iter().map(|word| format!("{word}\n")).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the names of the containers that run on the first engine that answers.
async fn running_containers() -> Vec<String> {
    let found = within_timeout(async {
        let engine = Engine::find(Choice::Any, &trusted_programs_here()).await.ok()?;
        let list = engine.command().args(["ps", "--format", "{{.Names}}"]);
        engine.output(&list).await.ok()
    });
    let names = found.await.flatten().unwrap_or_default();
    String::from_utf8_lossy(&names).lines().map(str::to_owned).collect()
}

const PROGRAM: &str = "aifo-coder";

/// Names that a configuration may extend.
struct Vocabulary {
    agents: Vec<String>,
    kinds: Vec<String>,
}

impl Vocabulary {
    /// The user's names; the built-in ones if the configuration is invalid, as a starting shell must not fail.
    fn here() -> Self {
        let config = aifo_config::load(Path::new("."), &Flags::default());
        let config = config.unwrap_or_else(|_| Config::builtin());
        Vocabulary {
            agents: config.agents.all().into_iter().map(|agent| agent.name.clone()).collect(),
            kinds: config
                .kinds
                .policy
                .kinds()
                .iter()
                .map(|policy| policy.kind.to_string())
                .collect(),
        }
    }

    /// The usual values of an argument; `None` if unknown.
    fn words(&self, argument: &str) -> Option<Vec<String>> {
        let owned = |words: Vec<&str>| Some(words.into_iter().map(str::to_owned).collect());
        match argument {
            "words" | "agent" | "agents" => Some(self.agents.clone()),
            "names" => {
                let built = recipes().iter().filter(|recipe| recipe.part != Part::Base);
                let names = built.map(Recipe::short_name);
                owned(names.chain(["toolchains", "agents"]).collect())
            }
            "engine" => owned(vec!["docker", "podman"]),
            "kinds" | "kind" => Some(self.kinds.clone()),
            "rules" => owned(GROUPS.iter().map(|group| group.name).collect()),
            "toolchain" => Some([&["auto".to_owned()], self.kinds.as_slice()].concat()),
            "yes-to" => owned(request_words().collect()),
            "runner_transport" => owned(vec!["auto", "socket", "stdio"]),
            "running" => owned(vec!["aifo-running"]),
            "session" => owned(vec!["aifo-sessions"]),
            "attach" => owned(vec!["aifo-containers"]),
            flag => owned(aifo_config::flag_words(flag)).filter(|words| !words.is_empty()),
        }
    }
}

fn with_words(command: Command, vocabulary: &Vocabulary) -> Command {
    command
        .mut_args(|arg| match vocabulary.words(arg.get_id().as_str()) {
            Some(words) => arg.value_parser(PossibleValuesParser::new(words)),
            None if is_no_path(&arg) => arg.value_hint(ValueHint::Other),
            None => arg,
        })
        .mut_subcommands(|command| with_words(command, vocabulary))
}

/// True if an argument must not be completed with file names: an option without paths.
fn is_no_path(arg: &Arg) -> bool {
    let is_option = !arg.is_positional() && arg.get_action().takes_values();
    let is_unknown = arg.get_value_hint() == ValueHint::Unknown;
    is_unknown && is_option
}

/// The first positional argument of a subcommand, such as the agent of `run` or a name of `images build`.
fn fish_words(command: &Command) -> String {
    let name = command.get_name();
    let nested = command.get_subcommands().map(|nested| {
        fish_positionals(
            nested,
            &format!("{name}; and __fish_seen_subcommand_from {}", nested.get_name()),
        )
    });
    fish_positionals(command, name) + &nested.collect::<String>()
}

/// The first positional argument, if the words before it are as `path` says.
fn fish_positionals(command: &Command, path: &str) -> String {
    let lines = command.get_positionals().map(|argument| {
        let words = argument.get_possible_values();
        let words: Vec<_> = words.iter().map(|word| word.get_name()).collect();
        let words = words.join(" ");
        if words.is_empty() {
            return String::new();
        }
        format!(
            "complete -c {PROGRAM} -n \"__fish_aifo_coder_using_subcommand {path}; \
             and not __fish_seen_subcommand_from {words}\" -f -a \"{words}\"\n"
        )
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn vocabulary() -> Vocabulary {
        Vocabulary { agents: vec!["codex".to_owned()], kinds: vec!["c-cpp".to_owned()] }
    }

    #[test]
    fn offered_values_are_accepted() {
        let config = Config::builtin();
        for flag in ["--backend", "--net", "--confine", "--runner-transport", "--toolchain"] {
            let id = match flag {
                "--runner-transport" => "runner_transport",
                flag => flag.trim_start_matches('-'),
            };
            for word in vocabulary().words(id).unwrap() {
                let cli = Cli::try_parse_from(["aifo-coder", "serve", flag, &word]);
                let crate::cli::Command::Serve(serve) = cli.unwrap().command else { panic!() };
                assert!(
                    config.clone().apply_flags(&serve.session.flags()).is_ok(),
                    "{flag} {word}"
                );
            }
        }
    }

    #[test]
    fn every_word_has_its_argument() {
        fn ids(command: &Command, found: &mut Vec<String>) {
            found.extend(command.get_arguments().map(|arg| arg.get_id().to_string()));
            command.get_subcommands().for_each(|command| ids(command, found));
        }
        let mut found = Vec::new();
        ids(&Cli::built(), &mut found);
        for id in ["words", "agent", "kinds", "toolchain", "backend", "net", "confine", "yes-to"] {
            assert!(found.iter().any(|known| known == id), "{id}");
        }
        with_words(Cli::built(), &vocabulary()).debug_assert();
    }
}
