//! Commands of aifo that an editor lists beside the agent's own (`spec/history.md#in-an-editor`).

use aifo_acp::OwnCommand;
use aifo_history::{Selection, UndoAction, UndoRequest};
use aifo_host::SessionHistory;

const UNDO: &str = "aifo-undo";

/// Returns the commands of a session; none without a history.
pub fn own_commands(history: Option<&SessionHistory>) -> Vec<OwnCommand> {
    let undo = OwnCommand {
        name: UNDO.to_owned(),
        description: "Put back what the last turn, or a call, changed in the project".to_owned(),
        hint: "[CALL | --session] [PATH..] [--yes]".to_owned(),
    };
    history.map(|_| undo).into_iter().collect()
}

/// Runs a command, and returns its text for the editor. Without `--yes` it says what it would do.
pub(crate) async fn run(history: Option<&SessionHistory>, words: &[String]) -> String {
    let Some(history) = history else { return "the session has no history".to_owned() };
    let (flags, mut rest): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| word.starts_with("--"));
    if let Some(other) = flags.iter().find(|flag| !["--yes", "--turn", "--session"].contains(*flag))
    {
        return format!("unknown option '{other}'; known are --yes, --turn and --session");
    }
    let selection = match rest.first().copied() {
        _ if flags.contains(&"--session") => Selection::Session,
        Some(call) if !flags.contains(&"--turn") => {
            rest.remove(0);
            Selection::Call(call.to_owned())
        }
        _ => Selection::Turn,
    };
    let apply = flags.contains(&"--yes");
    let paths = rest.into_iter().map(str::to_owned).collect();
    let report = match history.undo(UndoRequest { selection, paths, apply }).await {
        Ok(report) => report,
        Err(error) => return error.to_string(),
    };
    let changes = report.lines.iter().any(|line| line.action != UndoAction::Keep);
    let next = match &report.id {
        _ if !changes => "Nothing to put back.".to_owned(),
        Some(id) => format!("Put back. To undo this: /{UNDO} {id} --yes"),
        None => format!("To do this: /{UNDO} {} --yes", words.join(" ")),
    };
    format!("```\n{report}```\n{next}")
}
