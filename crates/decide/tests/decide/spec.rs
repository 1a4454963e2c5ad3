//! `spec/decide.md`, replayed.

use aifo_decide::Decision;

use crate::fake_files::{FakeFiles, decide_line, smart};

const PAGE: &str = include_str!("../../../../spec/decide.md");

#[test]
fn every_row_of_the_page_holds() {
    let rows: Vec<_> = rows().collect();
    assert!(rows.len() > 100, "only {} rows found", rows.len());
    for [call, runs, reason] in rows {
        let found = decide_line(call, &smart(), &page_files());
        let decision = found.unwrap_or_else(|error| panic!("{call}: {error}"));
        let line = decision.log_line(b"tool");
        let mode = runs.split(':').next().unwrap_or_default();
        let expected = format!("smart: tool=tool mode={mode} reason={reason}");
        let story = line.strip_prefix(&expected);
        assert!(
            story.is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')),
            "{call}: {line}"
        );
        if let Some((_, runtime)) = runs.split_once(": ") {
            let Decision::Local(local) = decision else { panic!("{call}: {line}") };
            assert_eq!(local.runtime.to_str(), Some(runtime.trim_matches('`')), "{call}");
        }
    }
}

#[test]
fn every_option_of_the_page_takes_the_next_word() {
    for option in node_options() {
        let mut calls = vec![format!("node {option} app.js /opt/agent/cli.js")];
        if let Some(name) = option.strip_prefix("--") {
            calls.push(format!("node {option}=app.js /opt/agent/cli.js"));
            calls.push(format!("node --{} app.js /opt/agent/cli.js", name.replace('-', "_")));
        }
        for call in calls {
            let decision = decide_line(&call, &smart(), &page_files());
            assert!(matches!(decision, Ok(Decision::Local(_))), "{call}: {decision:?}");
        }
    }
}

#[test]
fn the_page_names_every_reason_and_the_message() {
    let table = PAGE.split("\n## Reasons\n").nth(1).expect("the page tells the reasons");
    for [call, _, reason] in rows() {
        assert!(table.contains(&format!("| `{reason}` |")), "{call}: {reason}");
    }
    let missing = decide_line("python3.13 /opt/agent/cli.py", &smart(), &page_files());
    let message = missing.expect_err("there is no such python").to_string();
    assert!(PAGE.contains(&format!("\n{message}\n")), "{message}");
}

/// The page's file system.
pub(crate) fn page_files() -> FakeFiles {
    FakeFiles::parse(block("files"))
}

/// The options of node that take the next word.
pub(crate) fn node_options() -> impl Iterator<Item = &'static str> {
    block("node-options").split_whitespace()
}

/// Rows of the tables that begin with `call`: call, where it runs, why.
fn rows() -> impl Iterator<Item = [&'static str; 3]> {
    let mut in_table = false;
    PAGE.lines().filter_map(move |line| {
        in_table = line == "| call | runs | reason |" || (in_table && line.starts_with('|'));
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [call, runs, reason] = cells[..] else { return None };
        let call = call.strip_prefix('`')?.strip_suffix('`')?;
        in_table.then_some([call, runs, reason])
    })
}

fn block(name: &str) -> &'static str {
    let after = PAGE.split_once(&format!("```{name}\n")).expect("the page has the block").1;
    after.split_once("```").expect("the block ends").0
}
