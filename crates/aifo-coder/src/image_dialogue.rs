//! Questions and lines about the images of toolchains (`spec/cli.md#versions`).

use std::io::{BufRead, IsTerminal};
use std::time::Instant;

use aifo_host::Devcontainer;
use aifo_launch::{ImageDecision, ImageDialogue, ImageReason};
use aifo_terminal::console::{self, PROGRESS};
use aifo_types::escape_line;
use tracing::Level;

/// Asks, pulls and reports for a session that starts.
#[derive(Debug, Default)]
pub(crate) struct Dialogue {
    /// The begin of the current pull.
    pull_start: Option<Instant>,
}

impl ImageDialogue for Dialogue {
    fn ask(&mut self, devcontainer: &Devcontainer) -> Option<bool> {
        ask(devcontainer)
    }

    fn may_pull(&self) -> bool {
        true
    }

    /// The progress is one line on a terminal, which disappears; elsewhere a line at the start and one at
    /// the end.
    fn report_pull(&mut self, decision: &ImageDecision, line: Option<&str>) {
        let ImageDecision { kind, image, reason, .. } = decision;
        let is_drawn = is_shown() && std::io::stderr().is_terminal();
        match (line, is_drawn) {
            (Some(line), true) => {
                let line = if line.is_empty() { ".." } else { line };
                let line = escape_line(line);
                console::set_status(&format!("aifo-coder: {kind}: pulling {image}: {line}"));
            }
            (Some(""), false) => tracing::info!(target: PROGRESS, "{kind}: pulling {image} .."),
            (Some(_), false) => {}
            (None, _) => {
                if is_drawn {
                    console::set_status("");
                }
                let took = self.pull_start.take().map(|start| start.elapsed().as_secs_f64());
                if let (ImageReason::Pulled, Some(took)) = (reason, took) {
                    tracing::info!(target: PROGRESS, "{kind}: pulled {image} in {took:.1} s");
                }
                return;
            }
        }
        self.pull_start.get_or_insert_with(Instant::now);
    }

    fn report_decision(&mut self, decision: &ImageDecision) {
        if let Some(line) = decision.unavailable() {
            tracing::warn!("{line}");
        }
    }
}

fn is_shown() -> bool {
    tracing::enabled!(target: PROGRESS, Level::INFO)
}

/// Asks whether to use the devcontainer's image, and records the answer. `None` without a terminal.
fn ask(devcontainer: &Devcontainer) -> Option<bool> {
    if !is_shown() || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return None;
    }
    let image = &devcontainer.image;
    console::say(format_args!(
        ".devcontainer/devcontainer.json of this project names the image '{image}'"
    ));
    console::say_lines(
        "aifo-coder: run the project's tools in it? The answer is remembered. [y/N] ",
    );
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).ok()?;
    let answer = match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => true,
        "n" | "no" | "" if line.ends_with('\n') => false,
        // The end of input, or another word.
        _ => return None,
    };
    if let Err(error) = devcontainer.record(answer) {
        tracing::warn!("cannot remember the answer about '{image}': {error}");
    }
    Some(answer)
}
