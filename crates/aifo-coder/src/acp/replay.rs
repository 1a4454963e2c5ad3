//! `aifo-coder acp replay`: prints the events of a recorded connection (`spec/acp-wire.md#replay`).

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use aifo_acp::{Config, report_line};
use aifo_acp_io::{News, Told, replay as replayed};
use aifo_types::{escape_json, escape_line};
use anyhow::{Context, bail};
use serde_json::Value;

use crate::cli::Format;

/// Prints the events. Errors: the log cannot be read, or does not match the replay.
pub(crate) fn replay(files: &[PathBuf], format: Format) -> anyhow::Result<ExitCode> {
    let mut stdout = std::io::BufWriter::new(std::io::stdout().lock());
    let mut written = Ok(());
    let mut mismatches = 0_u64;
    replayed(files, Config::default(), |told| {
        mismatches += u64::from(matches!(told.news, News::Misfit(_)));
        for report in told.reports() {
            let line = match format {
                Format::Json => escape_json(&report.to_string()).into_owned(),
                Format::Text => escape_line(&for_people(&told, &report)),
            };
            if written.is_ok() {
                written = writeln!(stdout, "{line}");
            }
        }
    })
    .context("cannot read the log")?;
    written.and_then(|()| stdout.flush()).context("cannot write to stdout")?;
    drop(stdout);
    match mismatches {
        0 => Ok(ExitCode::SUCCESS),
        1 => bail!("1 mismatch between log and replay"),
        count => bail!("{count} mismatches between log and replay"),
    }
}

/// The time in seconds, then the report.
fn for_people(told: &Told, report: &Value) -> String {
    let mut report = report.clone();
    if let Some(members) = report.as_object_mut() {
        members.remove("at");
    }
    format!("{:10.3} {}", told.at.as_secs_f64(), report_line(&report))
}
