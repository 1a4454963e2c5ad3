//! Errors of the command line that clap does not find.

use std::ffi::{OsStr, OsString};

use aifo_config::{UsageError, suggestion};
use aifo_terminal::paint;
use clap::{
    Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::Cli;
use super::help::text;

/// Parses the command line of this process. Exits on an error, and after help.
pub(crate) fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let words: Vec<OsString> = std::env::args_os().skip(1).collect();
        let is_short = words.first().is_some_and(|word| word == "run")
            && words.iter().any(|word| word == "-h")
            && !words.iter().any(|word| word == "--help");
        if error.kind() == ErrorKind::DisplayHelp && is_short {
            let printed = paint::print(&short_help_of_run());
            std::process::exit(i32::from(printed.is_err()));
        }
        with_own_tip(error).exit()
    })
}

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
    use super::*;

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
