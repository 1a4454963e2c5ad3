//! Text below the options of `--help`, and usage lines that clap cannot generate.
//!
//! The text of `aifo-coder cache list` is `help/cache-list.txt`. The rows of [`EXIT_CODES`] follow its heading
//! "Exit codes:".

use clap::Command;

/// Sets the text of a command and its subcommands. The parent's name is empty, or ends with a hyphen.
pub(super) fn add_texts(parent: &str, command: Command) -> Command {
    let name = format!("{parent}{}", command.get_name());
    let command = match text(&name) {
        Some(text) => command.after_help(text),
        None => command,
    };
    command.mut_subcommands(|inner| add_texts(&format!("{name}-"), inner))
}

/// Returns the text of a file of `help/`, with its exit codes.
pub(super) fn text(name: &str) -> Option<String> {
    let (_, text) = TEXTS.iter().find(|(file, _)| file.strip_suffix(".txt") == Some(name))?;
    let lines = text.lines().map(|line| match line {
        "Exit codes:" => format!("{line}{}", exit_codes(name)),
        "Exit codes of a client:" => format!("{line}{}", exit_codes(CLIENT)),
        _ => line.to_owned(),
    });
    Some(lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the rows of a command, each after a newline.
fn exit_codes(name: &str) -> String {
    let has = |names: &str| names.split(' ').any(|it| it == name || it == "*" && name != CLIENT);
    let rows: Vec<_> = EXIT_CODES.iter().filter(|(_, _, names)| has(names)).collect();
    let width = rows.iter().map(|(code, ..)| code.len()).max().unwrap_or_default();
    rows.iter().map(|(code, meaning, _)| format!("\n  {code:width$}  {meaning}")).collect()
}

/// Names of files and their texts.
const TEXTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/help.rs"));

/// A client of `mailbox`, whose exit codes its help has too.
const CLIENT: &str = "client";

/// Exit codes in the order of the help, their meanings, and the commands that have them: `*` is each.
const EXIT_CODES: &[(&str, &str, &str)] = &[
    ("0..255", "those of the command", "aifo-coder run client"),
    ("0..255", "those of the tool", "exec"),
    ("0..255", "that of the session, at its end", "attach"),
    (
        "0",
        "success",
        "approve changes kube-render kube-rbac images-build images-push images-update net policy cache state",
    ),
    ("0", "success, also with conflicts", "kube-fetch"),
    ("0", "success, or nothing to remove", "clean"),
    ("0", "success, or nothing was to be changed", "setup"),
    ("0", "ended by a signal", "serve web mailbox"),
    ("0", "all was put back, or nothing was to be", "undo"),
    ("0", "no check failed", "doctor"),
    ("0", "the call was explained", "why"),
    ("0", "the editor closed the connection", "acp"),
    ("0", "the port is open", "publish"),
    ("0", "the session continues", "attach"),
    ("0", "the session has ended", "stop"),
    ("0", "the turn ended", "prompt"),
    ("1", "the agent failed", "prompt acp"),
    ("3", "the agent refused", "prompt"),
    ("4", "token limit", "prompt"),
    ("5", "request limit", "prompt"),
    ("6", "another stop reason", "prompt"),
    ("7", "the agent cancelled the turn", "prompt"),
    ("8", "the agent cancelled the turn after a denied call", "prompt"),
    ("9", "the turn ended after a denied request, with --fail-on-denied", "prompt"),
    ("124", "timeout", "prompt"),
    ("128+n", "the command was killed by signal n", "run client"),
    ("128+n", "the tool was killed by signal n", "exec"),
    ("128+n", "cancelled by signal n", "prompt"),
    ("128+n", "ended by signal n", "acp"),
    ("127", "the command was not found", "run"),
    ("127", "the command no longer exists", "client"),
    ("127", "the tool's interpreter was not found", "exec"),
    ("126", "the command could not be executed", "run client"),
    ("126", "the tool could not be executed", "exec"),
    ("125", "nothing ran, or the exit code is unknown", "client"),
    ("125", "the session's holder was killed", "attach"),
    ("125", "the tool's exit code is unknown", "exec"),
    ("124", "time limit", "exec"),
    ("124", "timeout or time limit", "client"),
    ("86", "nothing ran", "aifo-coder run prompt acp web exec"),
    ("86", "could not start", "serve mailbox"),
    ("1", "the request failed", "aifo-coder net"),
    ("1", "a check failed", "doctor"),
    ("1", "a file stayed as it is, or you declined", "undo"),
    ("1", "there is no history", "changes"),
    ("1", "a file or rule is invalid", "policy"),
    ("1", "an entry could not be renewed", "images-update"),
    ("1", "an image could not be built", "images-build"),
    ("1", "an image could not be built or pulled", "setup"),
    ("1", "an image is missing, or could not be pushed", "images-push"),
    ("1", "an item could not be removed", "clean cache state"),
    ("1", "another answer was first, or the session did not answer", "approve"),
    ("1", "files or commits could not be fetched", "kube-fetch"),
    ("1", "it could not be explained", "why"),
    ("1", "it is not", "publish"),
    ("1", "no such session", "attach"),
    ("1", "no such session, or it did not end", "stop"),
    ("1", "the session cannot run in a pod", "kube-render"),
    ("2", "invalid command line", "*"),
];

pub(super) const RUN_USAGE: &str = "\
aifo-coder run [OPTIONS] AGENT [ARGS]..
       aifo-coder run [OPTIONS] [--image IMAGE] -- COMMAND [ARGS]..";

pub(super) const PROMPT_USAGE: &str = "\
aifo-coder prompt [OPTIONS] AGENT [TEXT]
       aifo-coder prompt [OPTIONS] --agent-command COMMAND [TEXT]";

pub(super) const ACP_USAGE: &str = "\
aifo-coder acp [OPTIONS] AGENT [ARGS]..
       aifo-coder acp [OPTIONS] --agent-command COMMAND [-- ARGS..]";

pub(super) const KUBE_RENDER_USAGE: &str = "\
aifo-coder kube render [OPTIONS] AGENT [ARGS]..
       aifo-coder kube render [OPTIONS] --image IMAGE -- COMMAND [ARGS]..";

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;

    /// Returns the names of the commands below one.
    fn names(parent: &str, command: &Command) -> Vec<String> {
        let inner = command.get_subcommands().flat_map(|inner| {
            let name = format!("{parent}{}", inner.get_name());
            let below = names(&format!("{name}-"), inner);
            [vec![name], below].concat()
        });
        inner.collect()
    }

    #[test]
    fn every_text_and_every_row_belongs_to_a_command() {
        let mut known = names("", &Cli::built());
        known.extend(["aifo-coder", "run-short"].map(str::to_owned));
        for (file, text) in TEXTS {
            let name = file.trim_end_matches(".txt");
            assert!(known.iter().any(|it| it == name), "{file}");
            let has_rows = EXIT_CODES.iter().any(|(_, _, of)| of.split(' ').any(|it| it == name));
            assert_eq!(text.lines().any(|line| line == "Exit codes:"), has_rows, "{file}");
        }
        known.extend(["*", CLIENT].map(str::to_owned));
        for name in EXIT_CODES.iter().flat_map(|(_, _, names)| names.split(' ')) {
            assert!(known.iter().any(|it| it == name), "{name}");
        }
    }

    /// The codes of `prompt` are those of the specification, in its order.
    #[test]
    fn the_codes_of_prompt_are_those_of_the_specification() {
        let page = include_str!("../../../../spec/acp-commands.md");
        let (_, table) = page.split_once("| exit code | when |\n| --- | --- |\n").unwrap();
        let rows = table.lines().map_while(|line| line.strip_prefix("| "));
        let specified: Vec<_> =
            rows.filter_map(|row| Some(row.split_once(" |")?.0.replace(' ', ""))).collect();
        let rows = exit_codes("prompt");
        let shown: Vec<_> = rows.lines().filter_map(|row| row.split_whitespace().next()).collect();
        assert_eq!(shown, specified);
    }
}
