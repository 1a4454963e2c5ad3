//! HTML of the entries, with every text escaped (`spec/web.md#pages`).

mod waiting_call;

use std::fmt::Write;

use crate::block::{
    Attachment, Block, DiffKind, DiffLine, QuestionBlock, QuestionEnd, ToolBlock, ToolContent,
    ToolRun,
};
use crate::markdown::{MEDIA, escape};

pub(crate) use waiting_call::{ended_call, waiting_call};

/// Returns the HTML of an entry that is no text of the agent.
pub(crate) fn block(block: &Block) -> String {
    match block {
        Block::Prompt { text, attachments, time, .. } => prompt(text, attachments, *time),
        Block::Text { .. } => String::new(),
        Block::Image { name } => image(name),
        Block::Other { kind, text } => format!(
            "<div class=\"other\"><span class=\"tag\">{}</span> {}</div>",
            escape(&kind.replace('_', " ")),
            escape(text)
        ),
        Block::Tool(call) => tool(call),
        Block::Question(question) => decided(question),
        Block::TurnEnd { outcome, error, usage, time, millis } => {
            let class = if error.is_some() { "turn-end failed" } else { "turn-end" };
            let error =
                error.iter().map(|error| format!("<span class=\"error\">{}</span>", escape(error)));
            let mut parts = vec![escape(outcome)];
            parts.extend(error.chain(usage.as_deref().map(escape)));
            parts.extend([duration(*millis), moment(*time)]);
            format!("<div class=\"{class}\">{}</div>", parts.join(" \u{b7} "))
        }
        Block::Notice { text, is_error, time } => {
            let class = if *is_error { "notice failed" } else { "notice" };
            format!("<div class=\"{class}\">{} {}</div>", escape(text), moment(*time))
        }
    }
}

/// Returns the HTML of a piece of the agent's text.
pub(crate) fn text(thought: bool, html: &str) -> String {
    match thought {
        false => format!("<div class=\"md\">{html}</div>"),
        true => format!("<div class=\"md thought-text\">{html}</div>"),
    }
}

/// Returns the HTML of a thought, folded.
pub(crate) fn thought(html: &str, words: usize, is_live: bool) -> String {
    let state = if is_live { "thinking" } else { "thought" };
    format!(
        "<details class=\"thought\"><summary>{state} <span class=\"faint\">{words} words</span>\
         </summary><div class=\"md\">{html}</div></details>"
    )
}

/// Returns the HTML of a pending question, with a button for each option.
pub(crate) fn question(question: &QuestionBlock) -> String {
    let mut html = format!(
        "<form class=\"question\" data-question=\"{}\" aria-label=\"permission request\">\
         <h2>{}</h2>",
        escape(&question.id),
        escape(question_title(question))
    );
    details(&mut html, question);
    html.push_str("<div class=\"options\" role=\"group\" aria-label=\"answers\">");
    for (index, (id, kind, name)) in question.options.iter().enumerate() {
        let number = index.saturating_add(1);
        let shortcut = if number < 10 {
            format!(" aria-keyshortcuts=\"Alt+{number}\"")
        } else {
            String::new()
        };
        _ = write!(
            html,
            "<button type=\"button\" class=\"option {}\" data-option=\"{}\"{shortcut}>{}{}</button>",
            option_class(kind),
            escape(id),
            escape(or(name, id)),
            option_note(kind, name),
        );
    }
    html.push_str("</div></form>");
    html
}

/// The title, unless it only repeats the command.
fn question_title(question: &QuestionBlock) -> &str {
    let repeats = question.command.as_deref() == Some(question.title.as_str());
    if repeats || question.title.is_empty() {
        "The agent asks for permission"
    } else {
        &question.title
    }
}

fn decided(question: &QuestionBlock) -> String {
    let (class, words) = match &question.state {
        QuestionEnd::Pending => ("pending", "waiting for an answer".to_owned()),
        QuestionEnd::Answered { option, by } => {
            let found = question.options.iter().find(|(id, _, _)| id == option);
            let name = found.map_or(option.as_str(), |(id, _, name)| or(name, id));
            let kind = found.map_or("", |(_, kind, _)| kind.as_str());
            (option_class(kind), format!("{name} ({by})"))
        }
        QuestionEnd::Withdrawn { why } => ("withdrawn", format!("cancelled: {why}")),
    };
    let mut html = format!(
        "<details class=\"decision {class}\"><summary><span class=\"tag\">permission</span> \
         <code>{}</code> <strong>{}</strong></summary>",
        escape(question.command.as_deref().unwrap_or(or(&question.title, &question.kind))),
        escape(&words)
    );
    details(&mut html, question);
    html.push_str("</details>");
    html
}

/// Command, paths, directory and reason of a question.
fn details(html: &mut String, question: &QuestionBlock) {
    if let Some(command) = &question.command {
        _ = write!(html, "<pre class=\"command\"><code>{}</code></pre>", escape(command));
    }
    html.push_str("<dl>");
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            _ = write!(html, "<dt>{name}</dt><dd>{}</dd>", escape(value));
        }
    };
    row("kind", &question.kind);
    question.paths.iter().take(MOST_PATHS).for_each(|path| row("path", path));
    row("directory", &question.directory);
    row("reason", &question.reason);
    html.push_str("</dl>");
}

fn option_class(kind: &str) -> &'static str {
    match kind {
        "allow_once" => "allow",
        "allow_always" => "allow always",
        "reject_once" => "reject",
        "reject_always" => "reject always",
        _ => "neutral",
    }
}

/// A lasting option is marked as such, unless its name says so.
fn option_note(kind: &str, name: &str) -> &'static str {
    match kind {
        _ if name.to_lowercase().contains("always") => "",
        "allow_always" | "reject_always" => " <span class=\"faint\">always</span>",
        _ => "",
    }
}

fn prompt(text: &str, attachments: &[Attachment], time: u64) -> String {
    let mut html =
        format!("<div class=\"prompt\"><div class=\"prompt-text\">{}</div>", escape(text));
    for file in attachments {
        match &file.image {
            Some(name) => html.push_str(&image(name)),
            None => {
                let (name, size) = (escape(&file.name), size(file.bytes));
                _ = write!(
                    html,
                    "<div class=\"file\">{name} <span class=\"faint\">{size}</span></div>"
                );
            }
        }
    }
    _ = write!(html, "{}</div>", moment(time));
    html
}

fn image(name: &str) -> String {
    format!(
        "<p class=\"image\"><img src=\"{MEDIA}{}\" alt=\"image\" loading=\"lazy\"></p>",
        escape(name)
    )
}

fn tool(call: &ToolBlock) -> String {
    let (kind, status) = (or(&call.kind, "tool"), status_class(call));
    let title = call.command.as_deref().unwrap_or(or(&call.title, &call.id));
    let open = if call.is_open || has_diff(call) { " open" } else { "" };
    let mut html = format!(
        "<details class=\"tool {status}\"{open}><summary><span class=\"tag\">{}</span> \
         <code class=\"title\">{}</code> <span class=\"status\">{}</span>",
        escape(kind),
        escape(first_line(title)),
        escape(&failed_run(call).map_or(call.status.replace('_', " "), |run| run.ending.clone())),
    );
    if let Some(ended) = call.ended {
        let reported = ended.saturating_sub(call.started);
        let millis = match call.runs.as_slice() {
            [only] => only.millis.unwrap_or(reported),
            _ => reported,
        };
        _ = write!(html, " <span class=\"faint\">{}</span>", duration(millis));
    }
    html.push_str("</summary>");
    if call.command.is_some() && !call.title.is_empty() && call.title != title {
        _ = write!(html, "<p class=\"faint\">{}</p>", escape(&call.title));
    }
    if title.contains('\n') {
        _ = write!(html, "<pre class=\"command\"><code>{}</code></pre>", escape(title));
    }
    if call.command.is_none() && !call.paths.is_empty() && !has_diff(call) {
        let paths: Vec<String> =
            call.paths.iter().take(MOST_PATHS).map(|path| escape(path)).collect();
        _ = write!(html, "<p class=\"paths\">{}</p>", paths.join("<br>"));
    }
    for run in &call.runs {
        _ = write!(
            html,
            "<p class=\"run\"><span class=\"tag\">{}</span> <code>{}</code> <span>{}</span> \
             <span class=\"faint\">{}</span></p>",
            escape(&run.kind),
            escape(&run.command),
            escape(&run.ending),
            run.millis.map(duration).unwrap_or_default(),
        );
    }
    call.content.iter().for_each(|content| tool_content(&mut html, content));
    html.push_str("</details>");
    html
}

fn tool_content(html: &mut String, content: &ToolContent) {
    match content {
        ToolContent::Output { text, is_cut } => {
            if *is_cut {
                html.push_str("<p class=\"faint\">the beginning is left out</p>");
            }
            _ = write!(
                html,
                "<pre class=\"output\" tabindex=\"0\" aria-label=\"output\">{}</pre>",
                escape(text)
            );
        }
        ToolContent::Diff { path, lines, is_cut } => diff(html, path, lines, *is_cut),
        ToolContent::Image { name } => html.push_str(&image(name)),
    }
}

fn diff(html: &mut String, path: &str, lines: &[DiffLine], is_cut: bool) {
    let count = |kind| lines.iter().filter(|line| line.0 == kind).count();
    _ = write!(
        html,
        "<figure class=\"diff\"><figcaption><code>{}</code> <span class=\"added\">+{}</span> \
         <span class=\"removed\">-{}</span></figcaption>\
         <pre tabindex=\"0\" aria-label=\"changes\">",
        escape(path),
        count(DiffKind::Added),
        count(DiffKind::Removed),
    );
    for DiffLine(kind, text) in lines {
        let (tag, class, sign) = match kind {
            DiffKind::Same => ("span", "same", "  "),
            DiffKind::Added => ("ins", "added", "+ "),
            DiffKind::Removed => ("del", "removed", "- "),
            DiffKind::Gap => ("span", "gap", "@ "),
        };
        _ = writeln!(html, "<{tag} class=\"{class}\">{sign}{}</{tag}>", escape(text));
    }
    html.push_str("</pre>");
    if is_cut {
        html.push_str("<p class=\"faint\">the rest is left out</p>");
    }
    html.push_str("</figure>");
}

fn has_diff(call: &ToolBlock) -> bool {
    call.content.iter().any(|content| matches!(content, ToolContent::Diff { .. }))
}

/// Returns the last run of an ended call if it has failed: an agent may report that as completed.
fn failed_run(call: &ToolBlock) -> Option<&ToolRun> {
    call.runs.last().filter(|run| run.has_failed && !call.is_open)
}

fn status_class(call: &ToolBlock) -> &'static str {
    match call.status.as_str() {
        _ if call.is_open => "open",
        _ if failed_run(call).is_some() => "failed",
        "completed" => "done",
        "failed" => "failed",
        _ => "stopped",
    }
}

/// A moment, which the page shows in the browser's time zone.
pub(crate) fn moment(unix_ms: u64) -> String {
    format!("<time data-ms=\"{unix_ms}\"></time>")
}

pub(crate) fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis / 1000 % 60),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

pub(crate) fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// Paths that are shown of one call.
const MOST_PATHS: usize = 20;

#[cfg(test)]
mod tests;
