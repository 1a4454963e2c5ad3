//! Errors of the command line that clap does not find.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

use aifo_config::{Config, Flags, UsageError, suggestion};
use aifo_terminal::{PROGRAM, console, paint};
use aifo_types::exit;
use clap::{
    Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::help::text;
use super::{Cli, default_workspace, root_help};

/// Parses the command line of this process. Exits on an error, and after help.
pub(crate) fn parse() -> Cli {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let texts: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    if let Some(help) = root_help::answer(&texts) {
        print_help(&help);
    }
    Cli::try_parse().unwrap_or_else(|error| match error.kind() {
        ErrorKind::DisplayHelp if is_of_run(&texts) => print_help(&short_help_of_run()),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if texts.is_empty() => {
            console::say_lines(&root_help::everyday());
            std::process::exit(USAGE);
        }
        ErrorKind::InvalidSubcommand if is_agent(&texts) => run_agent(&words),
        _ => with_own_tip(error).exit(),
    })
}

/// Exit code: wrong command line, as clap's.
const USAGE: i32 = 2;

fn print_help(help: &str) -> ! {
    std::process::exit(i32::from(paint::print(help).is_err()));
}

/// True for `run --help`, but not for `run --help all`.
fn is_of_run(words: &[&str]) -> bool {
    let (first, rest) = words.split_first().unwrap_or((&"", &[]));
    match *first {
        "run" => rest.last() != Some(&"all"),
        "help" => rest == ["run"],
        _ => false,
    }
}

/// True if the first word, which is no command, names an agent.
fn is_agent(words: &[&str]) -> bool {
    let config = aifo_config::load(&default_workspace(), &Flags::default());
    let config = config.unwrap_or_else(|_| Config::builtin());
    words.first().is_some_and(|word| config.agents.all().iter().any(|agent| agent.name == *word))
}

/// Runs `aifo-coder run` with these words in place of this process.
fn run_agent(words: &[OsString]) -> ! {
    let error = Command::new(PROGRAM).arg0("aifo-coder").arg("run").args(words).exec();
    console::fail(&anyhow::Error::from(error).context("cannot run 'aifo-coder run'"));
    std::process::exit(i32::from(exit::NOTHING_RAN));
}

/// Words that other tools have for what is done here otherwise.
const OTHER_WORDS: &[(&str, &str)] = &[
    (
        "build",
        "images are built with 'aifo-coder setup', or one by one with 'aifo-coder images build'",
    ),
    ("diff", "the project is on this machine: 'git diff'"),
    ("down", "a session ends with 'aifo-coder stop'"),
    ("kill", "a session ends with 'aifo-coder stop'"),
    (
        "login",
        "agents get the login that they have on this machine; without one, log in within 'aifo-coder run AGENT'",
    ),
    ("logs", "calls are listed by 'aifo-coder log'"),
    ("ls", "sessions are listed by 'aifo-coder ps', agents by 'aifo-coder agents'"),
    ("prune", "remains are removed by 'aifo-coder clean', caches by 'aifo-coder cache clear'"),
    ("shell", "a shell whose tools run in sidecars: 'aifo-coder run --image IMAGE -- bash'"),
    ("start", "a session starts with 'aifo-coder run AGENT'"),
    ("status", "sessions are listed by 'aifo-coder ps'"),
    ("up", "a session starts with 'aifo-coder run AGENT'"),
    ("update", "images are updated with 'aifo-coder images update'"),
];

/// The options of `run` in its short help.
const OPTIONS_OF_RUN: [&str; 10] = [
    "keep",
    "detach",
    "image",
    "workspace",
    "toolchain",
    "env",
    "backend",
    "net",
    "allow-net",
    "publish",
];

/// Returns the help of `run -h`, which fits on a screen.
fn short_help_of_run() -> String {
    let cli = Cli::built();
    let run = cli.get_subcommands().find(|command| command.get_name() == "run").cloned();
    let mut run =
        run.unwrap_or_default().after_help(text("run-short").unwrap_or_default()).mut_args(|arg| {
            let is_shown = arg.get_long().is_none_or(|long| OPTIONS_OF_RUN.contains(&long));
            arg.hide(!is_shown)
        });
    run.render_help().to_string()
}

/// Replaces clap's tip for an unknown option, to pass it as a value: no command takes an agent or a name
/// that begins with a hyphen.
fn with_own_tip(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) {
        if let Some(tip) = tip_for_word(word) {
            error.remove(ContextKind::SuggestedSubcommand);
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
        return error;
    }
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if option.starts_with('-') => option.clone(),
        _ => return error,
    };
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let is_of_web = usage.contains("aifo-coder web ");
    let tip = match option.split('=').next().unwrap_or_default() {
        "--port" | "-p" | "--host" | "--bind" | "--address" if is_of_web => {
            vec!["the page's address is set with '--listen 127.0.0.1:PORT'".into()]
        }
        _ => Vec::new(),
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tip));
    error
}

/// Returns the tip for a word that is no command.
fn tip_for_word(word: &str) -> Option<String> {
    if let Some((_, tip)) = OTHER_WORDS.iter().find(|(other, _)| *other == word) {
        return Some((*tip).to_owned());
    }
    let command = Cli::built();
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
    let near = suggestion(word, shown.map(clap::Command::get_name))?;
    Some(format!("did you mean '{near}'?"))
}

/// Errors: the first word of a command's words is an option that the command does not have. clap takes
/// it for a word, as later words may begin with a hyphen.
pub(crate) fn reject_option(command: &str, word: Option<&OsStr>) -> Result<(), UsageError> {
    let word = word.map(OsStr::to_string_lossy).unwrap_or_default();
    if !word.starts_with('-') {
        return Ok(());
    }
    let name = word.split('=').next().unwrap_or_default();
    let known = options_of(command);
    // Without the hyphens, as any two letters would be near otherwise.
    let letters = known.iter().map(|option| option.trim_start_matches('-'));
    let near = suggestion(name.trim_start_matches('-'), letters);
    let near = near.and_then(|near| known.iter().find(|it| it.trim_start_matches('-') == near));
    let hint = match near {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("see 'aifo-coder {command} --help'"),
    };
    Err(UsageError(format!("unknown option '{name}'\nhint: {hint}")))
}

/// Returns the options of a command, with their hyphens.
pub(super) fn options_of(command: &str) -> Vec<String> {
    let cli = Cli::built();
    let Some(command) = cli.find_subcommand(command) else { return Vec::new() };
    let options = command.get_arguments().flat_map(|option| {
        let longs = option.get_long_and_visible_aliases().into_iter().flatten();
        let shorts = option.get_short_and_visible_aliases().into_iter().flatten();
        let longs = longs.map(|name| format!("--{name}"));
        longs.chain(shorts.map(|name| format!("-{name}"))).collect::<Vec<_>>()
    });
    options.collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn words_of_other_tools_have_a_tip() {
        for (word, tip) in OTHER_WORDS {
            assert!(Cli::command().find_subcommand(word).is_none(), "{word}");
            let error = Cli::try_parse_from(["aifo-coder", word]).unwrap_err();
            let text = with_own_tip(error).to_string();
            assert!(text.contains(&format!("tip: {tip}")), "{text}");
        }
    }

    #[test]
    fn a_word_with_a_slip_is_near_a_command() {
        for (word, near) in [("rnu", "run"), ("apprve", "approve"), ("doctr", "doctor")] {
            assert_eq!(tip_for_word(word), Some(format!("did you mean '{near}'?")));
        }
        assert_eq!(tip_for_word("xyzzy"), None);
    }

    #[test]
    fn the_help_of_run_is_short_unless_all_is_asked_for() {
        for words in [&["run", "-h"][..], &["run", "--help"], &["help", "run"]] {
            assert!(is_of_run(words), "{words:?}");
        }
        for words in [&["run", "--help", "all"][..], &["exec", "--help"], &["help"], &[]] {
            assert!(!is_of_run(words), "{words:?}");
        }
    }

    #[test]
    fn tips_name_an_option_that_exists() {
        let text = |line: &str| {
            let error = Cli::try_parse_from(line.split(' ')).unwrap_err();
            with_own_tip(error).to_string()
        };
        let port = text("aifo-coder web --port 80 codex");
        assert!(port.contains("tip: the page's address is set with '--listen 127"), "{port}");
        for line in ["aifo-coder web --xyzzy", "aifo-coder log --port", "aifo-coder agents -p"] {
            let text = text(line);
            assert!(text.contains("unexpected argument") && !text.contains("tip:"), "{text}");
            assert!(text.contains("try '--help'"), "{text}");
        }
        let near = text("aifo-coder log --folow");
        assert!(near.contains("tip: a similar argument exists: '--follow'"), "{near}");
    }

    #[test]
    fn an_unknown_option_is_near_one_that_shares_letters() {
        let rows = [
            ("--tolchain", "did you mean '--toolchain'?"),
            ("--workspace-dir=x", "did you mean '--workspace'?"),
            ("-C", "see 'aifo-coder exec --help'"),
        ];
        for (word, expected) in rows {
            let error = reject_option("exec", Some(OsStr::new(word))).unwrap_err().to_string();
            let (_, hint) = error.split_once("\nhint: ").unwrap();
            assert_eq!(hint, expected, "{word}");
        }
    }
}
