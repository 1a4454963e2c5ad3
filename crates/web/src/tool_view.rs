//! Tool calls of the protocol as entries.

use aifo_acp::{CallState, Image, ToolCall};
use serde_json::Value;

use crate::block::{ToolBlock, ToolContent};
use crate::diff::diff;

/// When the changes of a call arrived, in milliseconds since 1970. A flush shows them later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Returns the entry of a call. `store` stores images and returns their names.
pub(crate) fn tool_block(
    call: &ToolCall,
    before: Option<&ToolBlock>,
    arrival: Arrival,
    store: &mut dyn FnMut(Image) -> Option<String>,
) -> ToolBlock {
    let state = call.state();
    let is_open = matches!(state, CallState::Open(_));
    let ended = before.and_then(|before| before.ended).or((!is_open).then_some(arrival.last));
    ToolBlock {
        id: call.id().to_owned(),
        title: call.title().to_owned(),
        kind: call.kind().to_owned(),
        status: state.word().to_owned(),
        is_open,
        command: call.command(),
        paths: call.paths().into_iter().map(str::to_owned).collect(),
        content: content(call, store),
        started: before.map_or(arrival.first, |before| before.started),
        ended: ended.filter(|_| !is_open),
        runs: before.map(|before| before.runs.clone()).unwrap_or_default(),
    }
}

fn content(call: &ToolCall, store: &mut dyn FnMut(Image) -> Option<String>) -> Vec<ToolContent> {
    let blocks = call.member("content").and_then(Value::as_array);
    let mut contents = Vec::new();
    let mut output = String::new();
    for block in blocks.into_iter().flatten().take(MOST_BLOCKS) {
        match block.get("type").and_then(Value::as_str) {
            Some("diff") => contents.push(diff_of(block)),
            Some("content") | None => match block.get("content") {
                Some(inner) => push_inner(inner, &mut output, &mut contents, store),
                None => push_inner(block, &mut output, &mut contents, store),
            },
            _ => push_inner(block, &mut output, &mut contents, store),
        }
    }
    let raw = call.member("rawOutput");
    let raw_text = raw_output(raw);
    // The content of some agents is the text of their question only, and the output is elsewhere.
    let is_elsewhere = raw.is_some_and(Value::is_object) && !output.contains(raw_text.trim());
    if contents.is_empty() && (output.is_empty() || is_elsewhere) {
        output.push_str(&raw_text);
    }
    if !output.trim().is_empty() {
        let (text, is_cut) = tail(&output);
        contents.push(ToolContent::Output { text: text.to_owned(), is_cut });
    }
    contents
}

fn push_inner(
    block: &Value,
    output: &mut String,
    contents: &mut Vec<ToolContent>,
    store: &mut dyn FnMut(Image) -> Option<String>,
) {
    if let Some(text) = block.get("text").and_then(Value::as_str) {
        output.push_str(text);
        if !text.ends_with('\n') {
            output.push('\n');
        }
    } else if let Some(name) = Image::of_block(block, IMAGE).and_then(store) {
        contents.push(ToolContent::Image { name });
    }
}

fn diff_of(block: &Value) -> ToolContent {
    let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    let (lines, is_cut) = diff(text("oldText"), text("newText"));
    ToolContent::Diff { path: text("path").to_owned(), lines, is_cut }
}

/// Returns the text of an agent's own output format, as far as known.
fn raw_output(output: Option<&Value>) -> String {
    match output {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(members)) => {
            let names = ["output", "formatted_output", "aggregated_output", "stdout", "stderr"];
            let mut texts = names.iter().filter_map(|name| members.get(*name)?.as_str());
            texts.find(|text| !text.is_empty()).unwrap_or_default().to_owned()
        }
        _ => String::new(),
    }
}

/// Returns the end of an output from the beginning of a line, and whether anything was left out.
fn tail(output: &str) -> (&str, bool) {
    let output = output.trim_end();
    let lines = output.rmatch_indices('\n').nth(MOST_LINES.saturating_sub(1));
    let by_lines = lines.map_or(0, |(at, _)| at.saturating_add(1));
    let by_bytes = output.ceil_char_boundary(output.len().saturating_sub(MOST_BYTES));
    let from = by_lines.max(by_bytes);
    (output.get(from..).unwrap_or_default(), from > 0)
}

/// Lines of an output that are shown.
const MOST_LINES: usize = 200;
/// Bytes of an output that are shown.
const MOST_BYTES: usize = 32 * 1024;
/// Content blocks of a call that are shown.
const MOST_BLOCKS: usize = 64;
/// The largest image, in bytes.
const IMAGE: usize = 10 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use aifo_acp::ToolCalls;
    use serde_json::json;

    use super::*;

    fn view(update: &Value) -> ToolBlock {
        let mut calls = ToolCalls::new(10, 1 << 24);
        calls.upsert(update);
        let call = calls.iter().next().unwrap();
        tool_block(call, None, Arrival { first: 4, last: 5 }, &mut |_| Some("image".to_owned()))
    }

    #[test]
    fn outputs_diffs_and_images() {
        let call = view(&json!({"toolCallId": "t", "title": "x", "status": "completed",
        "rawInput": {"command": ["ls", "-l"]}, "rawOutput": "not shown",
        "content": [
            {"type": "content", "content": {"type": "text", "text": "one"}},
            {"type": "content", "content": {"type": "image", "mimeType": "image/png", "data": "aGk="}},
            {"type": "diff", "path": "/w/a", "oldText": null, "newText": "b"},
            {"type": "content", "content": {"type": "text", "text": "two\n"}},
        ]}));
        assert_eq!(call.command.as_deref(), Some("ls -l"));
        assert_eq!((call.is_open, call.ended), (false, Some(5)));
        assert!(matches!(&call.content[0], ToolContent::Image { name } if name == "image"));
        assert!(matches!(&call.content[1], ToolContent::Diff { path, .. } if path == "/w/a"));
        let output = ToolContent::Output { text: "one\ntwo".to_owned(), is_cut: false };
        assert_eq!(call.content[2], output);
    }

    #[test]
    fn an_output_beside_the_text_of_a_question_is_shown_once() {
        let shown = |text: &str| {
            let text = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
            let raw = json!({"exit_code": 0, "formatted_output": "made\n"});
            let call = view(&json!({"toolCallId": "t", "content": text, "rawOutput": raw}));
            let [ToolContent::Output { text, .. }] = &call.content[..] else { panic!() };
            text.clone()
        };
        assert_eq!(shown("Available Decisions: Abort"), "Available Decisions: Abort\nmade");
        assert_eq!(shown("$ make\nmade"), "$ make\nmade");
    }

    #[test]
    fn only_the_end_of_an_output_is_kept() {
        let long: String = (0..1000).map(|line| format!("{line}\n")).collect();
        let call = view(&json!({"toolCallId": "t", "rawOutput": {"stdout": long}}));
        let ToolContent::Output { text, is_cut } = &call.content[0] else { panic!() };
        assert!(*is_cut && text.starts_with("800\n") && text.ends_with("\n999"), "{text}");
        let line = "é".repeat(100_000);
        let (text, is_cut) = tail(&line);
        assert!(is_cut && text.len() <= MOST_BYTES && !text.is_empty());
    }
}
