//! `aifo-coder policy`: verdicts on arguments (`spec/rules.md#commands`).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;

use aifo_config::Flags;
use aifo_policy::{Explained, Judge, JudgedCall, RuleOrigin, default_rules};
use aifo_terminal::{console, paint};
use anyhow::{Context, ensure};
use serde_json::json;

use crate::cli::{PolicyCheck, PolicyCommand};

pub(crate) fn run(command: &PolicyCommand) -> anyhow::Result<ExitCode> {
    match command {
        PolicyCommand::Check(flags) => check(flags)?,
        PolicyCommand::Test { workspace } => test(workspace.existing()?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn check(flags: &PolicyCheck) -> anyhow::Result<()> {
    ensure!(!flags.words.is_empty(), "no command is named");
    let workspace = flags.project.workspace.existing()?;
    let config = aifo_config::load(workspace, &flags.project.flags())?;
    config.argument_rules.warnings().into_iter().for_each(console::say);
    let judge = config.judge(workspace);
    let names = [aifo_config::real(workspace), workspace.to_owned()];
    let names = names.map(|path| path.into_os_string().into_vec());
    let directory = std::env::current_dir().context("cannot determine the current directory")?;
    let argv: Vec<Vec<u8>> = flags.words.iter().cloned().map(OsString::into_vec).collect();
    let call =
        JudgedCall { argv: &argv, directory: directory.as_os_str().as_bytes(), workspace: &names };
    show(&judge.explain(&call), flags.json)
}

/// Prints a verdict, its rule and the calls that were judged.
pub(crate) fn show(explained: &Explained, as_json: bool) -> anyhow::Result<()> {
    let judgement = &explained.judgement;
    if as_json {
        return Ok(paint::print_json(&json!({
            "verdict": judgement.verdict.as_str(),
            "rule": judgement.rule,
            "reason": judgement.reason,
            "no_network": judgement.no_network,
            "calls": explained.calls,
            "unclear": explained.is_unclear,
        }))?);
    }
    let rule = if judgement.rule.is_empty() { "none" } else { &judgement.rule };
    let mut rows = vec![["verdict:", judgement.verdict.as_str()], ["rule:", rule]];
    if !judgement.reason.is_empty() {
        rows.push(["because:", &judgement.reason]);
    }
    let network = judgement.no_network.as_ref().map(|rule| format!("none, by rule '{rule}'"));
    rows.extend(network.as_ref().map(|network| ["network:", network.as_str()]));
    rows.extend(explained.calls.iter().map(|call| ["call:", call.as_str()]));
    if explained.is_unclear {
        rows.push(["call:", "(a part that is known only when it runs)"]);
    }
    let rows: Vec<_> = rows.into_iter().map(|row| row.map(str::to_owned)).collect();
    Ok(paint::print(&paint::columns(&rows))?)
}

/// Runs the examples of all rules, which loading them does.
fn test(workspace: &Path) -> anyhow::Result<()> {
    let config = aifo_config::load(workspace, &Flags::default())?;
    let defaults = default_rules();
    let defaults_hold = Judge::default().add(&defaults, RuleOrigin::Default);
    defaults_hold.map_err(|(_, error)| error)?;
    config.argument_rules.warnings().into_iter().for_each(console::say);
    let (rules, examples) = config.argument_rules.count();
    let of_defaults: usize = defaults.iter().map(|(rule, _)| rule.examples.len()).sum();
    Ok(paint::print(&format!(
        "rules in files: {rules}, examples passed: {examples}\n\
         default rules: {}, examples passed: {of_defaults}\n",
        defaults.len()
    ))?)
}
