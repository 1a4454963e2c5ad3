//! Errors of the command line that clap does not find.

use std::ffi::OsStr;

use clap::CommandFactory;

use super::Cli;
use crate::config::suggestion;

/// The command line is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

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
    let mut cli = Cli::command();
    cli.build();
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
