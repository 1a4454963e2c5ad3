//! HTML of calls that wait for approval.

use std::fmt::Write;

use super::{moment, option_class, or};
use crate::markdown::escape;
use crate::waiting_call::{CallEnd, WaitingCall};

/// Returns the HTML of a waiting call, with a button for each answer. The one that changes the user's
/// file is below the change.
pub(crate) fn waiting_call(call: &WaitingCall) -> String {
    let mut html = format!(
        "<form class=\"question\" data-question=\"{}\" data-call aria-label=\"call that waits for \
         approval\"><h2>A call waits for approval</h2>\
         <pre class=\"command\" tabindex=\"0\" aria-label=\"command\"><code>{}</code></pre><dl>",
        escape(&call.id()),
        escape(&call.command),
    );
    let left = if call.left { "has left; an answer covers a repetition of the call" } else { "" };
    let rows = [
        ("directory", &*call.directory),
        ("reason", &*call.reason),
        ("workspace", &*call.workspace),
        ("client", left),
    ];
    for (name, value) in rows.into_iter().filter(|(_, value)| !value.is_empty()) {
        _ = write!(html, "<dt>{name}</dt><dd>{}</dd>", escape(value));
    }
    html.push_str("</dl><div class=\"options\" role=\"group\" aria-label=\"answers\">");
    let lasts = |kind: &str, id: &str| kind == "allow_always" && id == "always";
    let plain = call.options.iter().filter(|(id, kind, _)| !lasts(kind, id));
    let mut number = 0;
    for option in plain {
        number += 1;
        button(&mut html, option, number, None);
    }
    html.push_str("</div>");
    if let Some(option) = call.options.iter().find(|(id, kind, _)| lasts(kind, id)) {
        always(&mut html, call, option, number + 1);
    }
    html.push_str("</form>");
    html
}

/// The change of the user's file, folded, and the button that makes it.
fn always(html: &mut String, call: &WaitingCall, option: &(String, String, String), number: usize) {
    match &call.change {
        Ok(change) => {
            html.push_str(
                "<details class=\"change\"><summary>Always allow: add a rule to your file</summary>\
                 <figure class=\"diff\"><pre tabindex=\"0\" aria-label=\"changes\">",
            );
            for line in change.lines() {
                let (tag, class) = match line.as_bytes().first() {
                    Some(b'+') => ("ins", "added"),
                    Some(b'-') => ("del", "removed"),
                    _ => ("span", "same"),
                };
                _ = writeln!(html, "<{tag} class=\"{class}\">{}</{tag}>", escape(line));
            }
            html.push_str("</pre></figure>");
            let named = (option.0.clone(), option.1.clone(), "Add this rule and allow".to_owned());
            button(html, &named, number, call.change_id().as_deref());
            html.push_str("</details>");
        }
        Err(why) => {
            _ = write!(html, "<p class=\"faint\">No rule can allow it: {}</p>", escape(why));
        }
    }
}

fn button(
    html: &mut String,
    (id, kind, name): &(String, String, String),
    number: usize,
    change: Option<&str>,
) {
    let change = change.map(|change| format!(" data-change=\"{}\"", escape(change)));
    _ = write!(
        html,
        "<button type=\"button\" class=\"option {}\" data-option=\"{}\"{} \
         aria-keyshortcuts=\"Alt+{number}\">{}</button>",
        option_class(kind),
        escape(id),
        change.unwrap_or_default(),
        escape(or(name, id)),
    );
}

/// Returns the HTML of a call that has an answer or was withdrawn.
pub(crate) fn ended_call(call: &WaitingCall, end: &CallEnd, time: u64) -> String {
    let (class, words) = match &end.option {
        Some(option) => {
            let found = call.options.iter().find(|(id, ..)| id == option);
            let (kind, name) = found.map_or(("", option.as_str()), |(_, kind, name)| (kind, name));
            (option_class(kind), format!("{name} ({})", end.by))
        }
        None => ("withdrawn", format!("withdrawn: {}", end.by)),
    };
    format!(
        "<p class=\"decision {class}\"><span class=\"tag\">call</span> <code>{}</code> \
         <strong>{}</strong> {}</p>",
        escape(&call.command.chars().take(MOST_COMMAND).collect::<String>()),
        escape(&words),
        moment(time),
    )
}

/// Characters of an ended call's command.
const MOST_COMMAND: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn call(change: Result<String, String>) -> WaitingCall {
        let option = |id: &str, kind: &str| (id.to_owned(), kind.to_owned(), id.to_owned());
        WaitingCall {
            session: "0123".to_owned(),
            question: "q1".to_owned(),
            workspace: "/w".to_owned(),
            command: "git push <b>".to_owned(),
            directory: "/w/\u{202e}x".to_owned(),
            reason: "rule '<script>'".to_owned(),
            options: vec![option("once", "allow_once"), option("always", "allow_always")],
            left: true,
            change,
        }
    }

    #[test]
    fn every_text_is_escaped() {
        let html = waiting_call(&call(Ok("/f\n+<img>\n".to_owned())));
        for text in ["git push &lt;b&gt;", "/w/\u{fffd}x", "&lt;script&gt;", "+&lt;img&gt;"] {
            assert!(html.contains(text), "{text} in {html}");
        }
        assert!(html.contains("has left"), "{html}");
        let end =
            CallEnd { option: Some("once".to_owned()), by: "<i>".to_owned(), ends_turns: false };
        assert!(ended_call(&call(Ok(String::new())), &end, 0).contains("once (&lt;i&gt;)"));
    }

    #[test]
    fn without_a_rule_always_is_not_offered() {
        let html = waiting_call(&call(Err("no rule matches exactly '*'".to_owned())));
        assert!(!html.contains("data-option=\"always\""), "{html}");
        assert!(html.contains("No rule can allow it: no rule matches exactly"), "{html}");
    }
}
