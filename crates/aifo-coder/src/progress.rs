//! Progress of starting sidecars, on stderr: a line for each slow one.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aifo_launch::{Reporter, SidecarEvent};
use aifo_types::{Kind, escape_line};
use tracing::Level;

use crate::console::PROGRESS;

/// Faster starts print no line.
const MIN_REPORTED: Duration = Duration::from_millis(300);

/// Columns of a line redrawn in place; a wrapped line could not be erased.
const WIDTH: usize = 78;

/// Replaces the last line of a terminal.
pub(crate) fn redraw(text: &str) {
    let line: String = escape_line(text).chars().take(WIDTH).collect();
    // A closed stderr has no reader.
    let _ = std::io::stderr().write_all(format!("\r\x1b[K{line}").as_bytes());
}

/// Reports the start of sidecars, `starting` of which start with the session: redrawn in place on a
/// terminal, else a line each. Once the session is up the terminal is the command's, so later starts are
/// logged as notices.
pub(crate) fn reporter(starting: usize) -> Reporter {
    let view =
        Mutex::new(ProgressView { starting, lines: Vec::new(), drawn: 0, took: Duration::ZERO });
    Reporter::new(move |kind, event| {
        let mut view = view.lock().unwrap_or_else(PoisonError::into_inner);
        view.update(kind, event);
    })
}

struct ProgressView {
    /// Sidecars that are not up yet.
    starting: usize,
    lines: Vec<(Kind, String)>,
    /// Lines on the terminal.
    drawn: usize,
    /// The longest start so far.
    took: Duration,
}

impl ProgressView {
    fn update(&mut self, kind: &Kind, event: SidecarEvent<'_>) {
        let text = describe(event);
        // A failure is the caller's to report. With debug logging other lines would break redrawing.
        if self.starting == 0 || tracing::enabled!(Level::DEBUG) {
            tracing::info!("{kind}: {text}");
            return;
        }
        if let SidecarEvent::Ready(took) = event {
            self.took = self.took.max(took);
        }
        if matches!(event, SidecarEvent::Ready(_) | SidecarEvent::Failed(_)) {
            self.starting -= 1;
        }
        let is_shown = tracing::enabled!(target: PROGRESS, Level::INFO);
        if is_shown && std::io::stderr().is_terminal() {
            self.draw(kind, text);
        } else if matches!(event, SidecarEvent::Ready(took) if took >= MIN_REPORTED) {
            tracing::info!(target: PROGRESS, "{kind}: {text}");
        }
    }

    fn draw(&mut self, kind: &Kind, text: String) {
        match self.lines.iter_mut().find(|(known, _)| known == kind) {
            Some((_, line)) => *line = text,
            None => self.lines.push((kind.clone(), text)),
        }
        let mut drawing = String::new();
        if self.drawn > 0 {
            drawing += &format!("\x1b[{}A", self.drawn);
        }
        drawing += "\r\x1b[J";
        self.drawn = 0;
        // Fast starts leave nothing on the screen.
        if self.starting > 0 || self.took >= MIN_REPORTED {
            for (kind, text) in &self.lines {
                let line = escape_line(&format!("aifo-coder: {kind}: {text}"));
                drawing.extend(line.chars().take(WIDTH).chain(['\n']));
            }
            self.drawn = self.lines.len();
        }
        // A closed stderr has no reader.
        let _ = std::io::stderr().write_all(drawing.as_bytes());
    }
}

fn describe(event: SidecarEvent<'_>) -> String {
    match event {
        SidecarEvent::Starting => "starting ..".to_owned(),
        SidecarEvent::Line(line) => line.to_owned(),
        SidecarEvent::Ready(took) => format!("ready in {:.1} s", took.as_secs_f64()),
        SidecarEvent::Failed(_) => "failed".to_owned(),
        SidecarEvent::Outdated => "stopped, git replaced a mounted file".to_owned(),
        SidecarEvent::Idle(after) => format!("stopped, idle for {} s", after.as_secs()),
    }
}
