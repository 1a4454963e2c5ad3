//! `aifo-coder net list`: the rules of a session in a project.
//!
//! Proves `spec/cli.md#net-list-net-forget`.

use std::path::Path;
use std::process::ExitCode;

use aifo_config::Flags;
use aifo_terminal::paint;

use crate::net::check::RuleRow;

pub(super) fn list(workspace: &Path, as_json: bool) -> anyhow::Result<ExitCode> {
    let workspace = aifo_config::real(workspace);
    let config = aifo_config::load(&workspace, &Flags::default())?;
    let (rules, _) = config.network_rules(&workspace);
    let rows: Vec<RuleRow> = rules.iter().map(RuleRow::of).collect();
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
