//! axe-core, which checks the page's accessibility.

use std::fs;
use std::process::Command;

use aifo_tests::{Chromium, Scratch, can_run};
use serde_json::Value;

/// The checked rules change with the version.
const VERSION: &str = "4.14.1";

/// Loads axe-core with npm, from the registry. `None` if that fails; `test` is then reported as
/// skipped.
pub(super) fn axe(test: &str) -> Option<String> {
    let scratch = Scratch::new();
    let dir = scratch.path().to_str().expect("a plain path");
    let cache = scratch.path().join("cache");
    let cache = cache.to_str().expect("a plain path");
    let place = ["--pack-destination", dir, "--cache", cache];
    let pack = [
        "npm",
        "pack",
        "--silent",
        "--fetch-retries=0",
        "--fetch-timeout=30000",
        &format!("axe-core@{VERSION}"),
    ];
    if !can_run(test, &[&pack[..], &place[..]].concat()) {
        return None;
    }
    let archive = scratch.path().join(format!("axe-core-{VERSION}.tgz"));
    let unpacked = Command::new("tar").arg("-xzf").arg(archive).args(["-C", dir]).status();
    assert!(unpacked.expect("tar starts").success());
    Some(fs::read_to_string(scratch.path().join("package/axe.min.js")).expect("axe-core"))
}

/// Checks the page with axe-core.
#[track_caller]
pub(super) fn assert_accessible(page: &Chromium, axe: &str, state: &str) {
    let script = format!(
        "{axe};\n\
         axe.run(document, {{ resultTypes: ['violations'] }}).then(({{ violations }}) => done(\
         violations.flatMap(({{ id, help, nodes }}) => nodes.map((node) => \
         `${{id}}: ${{help}}: ${{node.html.slice(0, 200)}}: ${{node.failureSummary}}`))), \
         (error) => done([String(error)]));"
    );
    let found = page.run_async(&script);
    page.screenshot(&state.replace([',', ' '], "-"));
    assert_eq!(found, Value::Array(Vec::new()), "{state}: {found:#}");
}
