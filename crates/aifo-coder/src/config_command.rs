//! `aifo-coder config`: shows the configuration, prints the file's path, checks files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aifo_config::{Config, ConfigEntry, ConfigError, File, Flags};
use aifo_terminal::{console, paint};
use anyhow::{Context, bail};
use serde::Serialize;

use crate::cli::ConfigCommand;

pub(crate) fn run(command: &ConfigCommand) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Show { session, yes_to, json } => {
            show(session.project.workspace.existing()?, &yes_to.add_to(session.flags()), *json)?;
        }
        ConfigCommand::Path => {
            let path = aifo_config::user_file_path().context(NO_HOME)?;
            paint::print(&format!("{}\n", path.display()))?;
        }
        ConfigCommand::Check { file: Some(file), .. } => {
            let Some(read) = File::read(file)? else {
                bail!("'{}' does not exist", file.display())
            };
            let mut config = Config::builtin();
            apply(&read, &mut config)?;
            config.argument_rules.warnings().into_iter().for_each(console::say);
            paint::print(&format!("{}: ok\n", file.display()))?;
        }
        ConfigCommand::Check { file: None, workspace } => check_usual(workspace.existing()?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(workspace: &Path, flags: &Flags, as_json: bool) -> anyhow::Result<()> {
    let config = aifo_config::load(workspace, flags)?;
    let entries = config.entries();
    if as_json {
        return Ok(paint::print_json(&Shown {
            user_file: aifo_config::user_file_path(),
            workspace_file: aifo_config::workspace_file_path(&aifo_config::real(workspace)),
            values: &entries,
        })?);
    }
    let rows: Vec<_> = entries
        .iter()
        .map(|entry| [entry.key.clone(), cut(entry.shown()), entry.from.clone()])
        .collect();
    Ok(paint::print(&paint::columns(&rows))?)
}

/// The longest value that is printed, in characters; JSON has all of it.
const MAX_VALUE: usize = 60;

fn cut(value: String) -> String {
    match value.char_indices().nth(MAX_VALUE) {
        Some((at, _)) => format!("{}..", value.get(..at).unwrap_or_default()),
        None => value,
    }
}

/// The output of `config show --json`.
#[derive(Serialize)]
struct Shown<'a> {
    /// `None` if there is no home directory.
    user_file: Option<PathBuf>,
    workspace_file: PathBuf,
    values: &'a [ConfigEntry],
}

/// Checks the files that a session over `workspace` would read.
fn check_usual(workspace: &Path) -> anyhow::Result<()> {
    let workspace = &aifo_config::real(workspace);
    let user = aifo_config::user_file_path();
    // In the order of a session: the workspace file may refer to the user's kinds.
    let mut config = Config::builtin();
    let mut report = String::new();
    for path in user.into_iter().chain([aifo_config::workspace_file_path(workspace)]) {
        let result = match File::read(&path)? {
            Some(file) => {
                apply(&file, &mut config)?;
                "ok"
            }
            None => "not found",
        };
        report += &format!("{}: {result}\n", path.display());
    }
    config.argument_rules.warnings().into_iter().for_each(console::say);
    Ok(paint::print(&report)?)
}

/// Applies a file to `config`. Errors: the file is invalid.
fn apply(file: &File, config: &mut Config) -> Result<(), ConfigError> {
    if file.is_workspaces() { config.tighten(file) } else { config.apply_user(file) }
}

const NO_HOME: &str = "no configuration directory: neither XDG_CONFIG_HOME nor HOME is set";
