//! `aifo-coder man DIR`: a manual page for every command, for those who pack us.
//!
//! They come out of the binary itself, so that they tell of no flag that it does not have, and nobody
//! else has to link the command line in.

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
