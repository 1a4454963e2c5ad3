//! `aifo-coder net list`: the rules of a session in a project.
//!
//! Proves `spec/cli.md#net-list-net-forget`.

use std::path::Path;
use std::process::ExitCode;

use aifo_config::Flags;
use aifo_network::RuleScope;
use aifo_terminal::paint;
use serde::Serialize;

/// A rule in JSON.
#[derive(Serialize)]
struct Row {
    rule: String,
    /// The kind whose tools have it, or `agent`; null for all.
    only: Option<String>,
    source: String,
}

pub(super) fn list(workspace: &Path, as_json: bool) -> anyhow::Result<ExitCode> {
    let workspace = aifo_config::real(workspace);
    let config = aifo_config::load(&workspace, &Flags::default())?;
    let (rules, _) = config.network_rules(&workspace);
    let row = |rule: &aifo_network::NetworkRule| Row {
        rule: rule.rule.clone(),
        only: match &rule.scope {
            RuleScope::All => None,
            RuleScope::Kind(kind) => Some(kind.to_string()),
            RuleScope::Agent => Some("agent".to_owned()),
        },
        source: rule.source.clone(),
    };
    let rows: Vec<Row> = rules.iter().map(row).collect();
    if as_json {
        paint::print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["RULE", "FOR", "SOURCE"].map(str::to_owned);
    let cells = rows
        .into_iter()
        .map(|row| [row.rule, row.only.unwrap_or_else(|| "all".to_owned()), row.source]);
    paint::print(&paint::columns(&std::iter::once(head).chain(cells).collect::<Vec<_>>()))?;
    Ok(ExitCode::SUCCESS)
}
