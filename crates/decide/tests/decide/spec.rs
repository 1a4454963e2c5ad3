//! Replays `spec/decide.md`.

use aifo_decide::Decision;

use crate::fake_files::{FakeFiles, decide_line, smart};

const PAGE: &str = include_str!("../../../../spec/decide.md");

#[test]
fn every_row_of_the_spec_holds() {
    let rows: Vec<_> = rows().collect();
    assert!(rows.len() > 100, "only {} rows found", rows.len());
    for [call, runs, reason] in rows {
        let found = decide_line(call, &smart(), &page_files());
        let decision = found.unwrap_or_else(|error| panic!("{call}: {error}"));
        let line = decision.log_line(b"tool");
        let mode = runs.split(':').next().unwrap_or_default();
        let expected = format!("smart: tool=tool mode={mode} reason={reason}");
        let rest = line.strip_prefix(&expected);
        assert!(
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')),
            "{call}: {line}"
        );
        if let Some((_, runtime)) = runs.split_once(": ") {
            let Decision::Local(local) = decision else { panic!("{call}: {line}") };
            assert_eq!(local.runtime.to_str(), Some(runtime.trim_matches('`')), "{call}");
        }
    }
}

#[test]
fn every_listed_option_takes_the_next_argument() {
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
fn the_spec_lists_every_reason_and_the_error() {
    let table = PAGE.split("\n## Reasons\n").nth(1).expect("a section about reasons");
    for [call, _, reason] in rows() {
        assert!(table.contains(&format!("| `{reason}` |")), "{call}: {reason}");
    }
    let missing = decide_line("python3.13 /opt/agent/cli.py", &smart(), &page_files());
    let message = missing.expect_err("no such python").to_string();
    assert!(PAGE.contains(&format!("\n{message}\n")), "{message}");
}

/// The spec's file system.
pub(crate) fn page_files() -> FakeFiles {
    FakeFiles::parse(block("files"))
}

/// Node's options that take the next argument.
pub(crate) fn node_options() -> impl Iterator<Item = &'static str> {
    block("node-options").split_whitespace()
}

/// Returns the rows of the tables of calls: call, where it runs, reason.
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
    let after = PAGE.split_once(&format!("```{name}\n")).expect("the block").1;
    after.split_once("```").expect("the end of the block").0
}
