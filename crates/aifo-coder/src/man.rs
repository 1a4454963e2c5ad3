//! `aifo-coder man DIR`: writes a manual page for every command, for packagers.
//!
//! The binary generates them, so they match its flags exactly.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::Cli;

pub(crate) fn write(folder: &Path) -> anyhow::Result<ExitCode> {
    let written =
        fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.with_context(|| format!("cannot write into '{}'", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
