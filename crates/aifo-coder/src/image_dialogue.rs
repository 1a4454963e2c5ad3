//! Questions and lines about the images of toolchains (`spec/cli.md#versions`).

use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal};
use std::time::Instant;

use aifo_host::{Devcontainer, ProjectVersion, VersionSource};
use aifo_launch::{ImageDecision, ImageDialogue, ImageReason};
use aifo_terminal::console::{self, PROGRESS};
use aifo_types::{Kind, escape_line};
use tracing::Level;

/// Asks, pulls and reports for a session that starts, or does nothing of this for a command that only
/// prints facts.
#[derive(Debug)]
pub(crate) enum Dialogue {
    /// `pull_start` is the begin of the current pull.
    Session { pull_start: Option<Instant> },
    /// Nothing.
    Silent,
}

impl Dialogue {
    pub(crate) fn of_session() -> Self {
        Dialogue::Session { pull_start: None }
    }
}

impl ImageDialogue for Dialogue {
    fn ask(&mut self, devcontainer: &Devcontainer) -> Option<bool> {
        match self {
            Dialogue::Session { .. } => ask(devcontainer),
            Dialogue::Silent => None,
        }
    }

    fn may_pull(&self) -> bool {
        matches!(self, Dialogue::Session { .. })
    }

    /// The progress is one line on a terminal, which disappears; elsewhere a line at the start and one at
    /// the end.
    fn report_pull(&mut self, decision: &ImageDecision, line: Option<&str>) {
        let Dialogue::Session { pull_start } = self else { return };
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
                let took = pull_start.take().map(|start| start.elapsed().as_secs_f64());
                if let (ImageReason::Pulled, Some(took)) = (reason, took) {
                    tracing::info!(target: PROGRESS, "{kind}: pulled {image} in {took:.1} s");
                }
                return;
            }
        }
        pull_start.get_or_insert_with(Instant::now);
    }

    fn report_decision(&mut self, decision: &ImageDecision) {
        let is_session = matches!(self, Dialogue::Session { .. });
        if let Some(line) = unavailable(decision).filter(|_| is_session) {
            tracing::warn!("{line}");
        }
    }
}

fn is_shown() -> bool {
    tracing::enabled!(target: PROGRESS, Level::INFO)
}

/// Returns the line about a version that no image has, with the remedy.
pub(crate) fn unavailable(decision: &ImageDecision) -> Option<String> {
    let ImageReason::Unavailable { contained, official } = &decision.reason else { return None };
    let (kind, usual) = (&decision.kind, &decision.image);
    let requested = decision.requested.as_ref()?;
    let is_of_user = *requested.version.source() == VersionSource::User;
    let mut line = requests(kind, requested);
    // Writing to a String does not fail.
    let _ = match contained {
        Some(version) => write!(line, ", but '{usual}' has {version}"),
        None => write!(line, ", but no image of that version is on this machine"),
    };
    let _ = match official {
        Some((image, why)) if is_of_user => write!(
            line,
            ", and '{image}' cannot be pulled: {why}\nhint: omit the version, load '{image}' into the \
             engine, or name an image with --toolchain-image {kind}=IMAGE"
        ),
        None if is_of_user => write!(
            line,
            "\nhint: omit the version, or name an image with --toolchain-image {kind}=IMAGE"
        ),
        Some((image, why)) => write!(
            line,
            ", and '{image}' cannot be pulled: {why}; using '{usual}'; load '{image}' into the engine, or \
             name an image with --toolchain-image {kind}=IMAGE"
        ),
        None => {
            write!(line, "; using '{usual}'; name an image with --toolchain-image {kind}=IMAGE")
        }
    };
    Some(line)
}

/// `'.nvmrc' requests node 22`, `you request node 22`
pub(crate) fn requests(kind: &Kind, requested: &ProjectVersion) -> String {
    let later = if requested.is_minimum { " or later" } else { "" };
    let subject = match requested.version.source() {
        VersionSource::ProjectFile(path) => {
            format!("'{}' requests", path.file_name().unwrap_or_default().to_string_lossy())
        }
        VersionSource::User => "you request".to_owned(),
    };
    format!("{subject} {kind} {}{later}", requested.version)
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
