//! `aifo-coder acp replay`: replays a wire log (`spec/acp-wire.md#replay`).

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use aifo_acp::{Config, report_line};
use aifo_acp_io::{ReplayEvent, ReplayEventKind, replay as replayed};
use aifo_types::{escape_json, escape_line};
use anyhow::{Context, bail};
use serde_json::Value;

use crate::cli::OutputFormat;

/// Prints the replay's reports. Fails if the replay differs from the log.
pub(crate) fn replay(files: &[PathBuf], format: OutputFormat) -> anyhow::Result<ExitCode> {
    let mut stdout = std::io::BufWriter::new(std::io::stdout().lock());
    let mut written = Ok(());
    let mut mismatches = 0_u64;
    replayed(files, Config::default(), |event| {
        mismatches += u64::from(matches!(event.kind, ReplayEventKind::Mismatch(_)));
        for report in event.reports() {
            let line = match format {
                OutputFormat::Json => escape_json(&report.to_string()).into_owned(),
                OutputFormat::Text => escape_line(&for_people(&event, &report)),
            };
            if written.is_ok() {
                written = writeln!(stdout, "{line}");
            }
        }
    })
    .with_context(|| {
        let names: Vec<_> = files.iter().map(|file| format!("'{}'", file.display())).collect();
        format!("cannot read the log {}", names.join(" "))
    })?;
    written.and_then(|()| stdout.flush()).context("cannot write to stdout")?;
    drop(stdout);
    match mismatches {
        0 => Ok(ExitCode::SUCCESS),
        1 => bail!("1 mismatch between log and replay"),
        count => bail!("{count} mismatches between log and replay"),
    }
}

/// Formats a report with its time in seconds.
fn for_people(event: &ReplayEvent, report: &Value) -> String {
    let mut report = report.clone();
    if let Some(members) = report.as_object_mut() {
        members.remove("at");
    }
    format!("{:10.3} {}", event.at.as_secs_f64(), report_line(&report))
}
