//! The help of `aifo-coder` itself: the commands by what they are for.

use clap::CommandFactory;

use super::Cli;
use super::help::text;

/// The headings of everyday commands, and the commands.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Work", &["run", "prompt", "web", "acp"]),
    ("Sessions", &["ps", "attach", "stop", "approve", "publish", "log", "changes", "undo"]),
    ("Ask", &["why", "net"]),
    ("This machine", &["setup", "doctor", "config", "clean"]),
];

/// The other commands, which `help experts` prints.
const EXPERTS: (&str, &[&str]) = (
    "For experts",
    &[
        "exec",
        "serve",
        "kube",
        "images",
        "mailbox",
        "policy",
        "state",
        "agents",
        "cache",
        "man",
        "completions",
    ],
);

/// Returns the help for command lines that ask for it: `-h`, `--help`, `help` and `help experts`.
pub(super) fn answer(words: &[&str]) -> Option<String> {
    match words {
        ["-h" | "--help" | "help"] => Some(everyday()),
        ["help", "experts"] => Some(list(&[EXPERTS])),
        _ => None,
    }
}

/// Returns the everyday commands, examples and exit codes.
pub(super) fn everyday() -> String {
    let about = Cli::command().get_about().map(ToString::to_string).unwrap_or_default();
    let usage = "Usage: aifo-coder COMMAND [OPTIONS] ..\n       aifo-coder AGENT [ARGS] ..";
    let more = "Commands for experts: aifo-coder help experts\n\
                Options of a command: aifo-coder COMMAND --help\n\
                Version: aifo-coder --version";
    let rest = text("aifo-coder").unwrap_or_default();
    format!("{about}\n\n{usage}\n\n{}\n{more}\n\n{rest}\n", list(&GROUPS))
}

fn list(groups: &[(&str, &[&str])]) -> String {
    let cli = Cli::command();
    let width = groups.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max();
    let width = width.unwrap_or_default();
    let group = |(heading, names): &(&str, &[&str])| {
        let rows = names.iter().filter_map(|name| {
            let about = cli.find_subcommand(name)?.get_about()?;
            Some(format!("  {name:width$}  {about}\n"))
        });
        format!("{heading}:\n{}", rows.collect::<String>())
    };
    groups.iter().map(group).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let groups = GROUPS.iter().chain([&EXPERTS]);
        let mut listed: Vec<&str> = groups.flat_map(|(_, names)| *names).copied().collect();
        let cli = Cli::command();
        let shown = cli.get_subcommands().filter(|command| !command.is_hide_set());
        let mut names: Vec<&str> = shown.map(clap::Command::get_name).collect();
        if !cfg!(feature = "web") {
            names.push("web");
        }
        listed.sort_unstable();
        names.sort_unstable();
        assert_eq!(listed, names);
    }

    #[test]
    fn the_everyday_help_fits_on_a_screen() {
        let help = everyday();
        assert!(help.lines().count() <= 50, "{help}");
        assert!(!help.contains("  serve  ") && answer(&["help", "experts"]).is_some());
    }
}
