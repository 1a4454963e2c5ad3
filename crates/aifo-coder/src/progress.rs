//! Progress of starting sidecars, on stderr: a status line on a terminal, else a line for each slow
//! one.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aifo_sidecar::{OutdatedCause, Reporter, SidecarEvent};
use aifo_terminal::console::{self, PROGRESS};
use aifo_types::{Kind, escape_line};
use tracing::Level;

/// Faster starts print no line.
const MIN_REPORTED: Duration = Duration::from_millis(300);

/// Reports the start of sidecars, `starting` of which start with the session. Later starts are logged
/// as notices.
pub(crate) fn reporter(starting: usize) -> Reporter {
    let view = Mutex::new(ProgressView { starting, pending: Vec::new() });
    Reporter::new(move |kind, event| {
        let mut view = view.lock().unwrap_or_else(PoisonError::into_inner);
        view.update(kind, event);
    })
}

struct ProgressView {
    /// Sidecars that are not up yet.
    starting: usize,
    /// Those that are being started, each with its current step.
    pending: Vec<(Kind, String)>,
}

impl ProgressView {
    fn update(&mut self, kind: &Kind, event: SidecarEvent<'_>) {
        let text = describe(event);
        // A failure is the caller's to report. Decisions are logged line by line.
        if self.starting == 0 || tracing::enabled!(Level::DEBUG) {
            tracing::info!("{kind}: {text}");
            return;
        }
        self.pending.retain(|(known, _)| known != kind);
        if matches!(event, SidecarEvent::Ready(_) | SidecarEvent::Failed(_)) {
            self.starting -= 1;
        } else {
            self.pending.push((kind.clone(), text.clone()));
        }
        if std::io::stderr().is_terminal() {
            console::set_status(&self.status());
        } else if matches!(event, SidecarEvent::Ready(took) if took >= MIN_REPORTED) {
            tracing::info!(target: PROGRESS, "{kind}: {text}");
        }
    }

    /// The status line, empty when all are up: the kinds, and the step that changed last.
    fn status(&self) -> String {
        let Some((kind, step)) = self.pending.last() else { return String::new() };
        match self.pending.as_slice() {
            [_] => escape_line(&format!("aifo-coder: {kind}: {step}")),
            pending => {
                let kinds: Vec<&str> = pending.iter().map(|(kind, _)| kind.as_str()).collect();
                escape_line(&format!("aifo-coder: {}: {step}", kinds.join(", ")))
            }
        }
    }
}

fn describe(event: SidecarEvent<'_>) -> String {
    match event {
        SidecarEvent::Starting => "starting ..".to_owned(),
        SidecarEvent::Line(line) => line.to_owned(),
        SidecarEvent::Ready(took) => format!("ready in {:.1} s", took.as_secs_f64()),
        SidecarEvent::Failed(_) => "failed".to_owned(),
        SidecarEvent::Outdated(OutdatedCause::ReplacedMount) => {
            "stopped, git replaced a mounted file".to_owned()
        }
        SidecarEvent::Outdated(OutdatedCause::LostStack) => {
            "stopped, its network was lost".to_owned()
        }
        SidecarEvent::Idle(after) => format!("stopped, idle for {} s", after.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_names_what_still_starts() {
        let kind = |name: &str| Kind::parse(name).unwrap();
        let mut view = ProgressView { starting: 2, pending: Vec::new() };
        let shown = |view: &mut ProgressView, name: &str, event: SidecarEvent<'_>| {
            view.update(&kind(name), event);
            view.status()
        };
        let starting = SidecarEvent::Starting;
        assert_eq!(shown(&mut view, "rust", starting), "aifo-coder: rust: starting ..");
        assert_eq!(shown(&mut view, "node", starting), "aifo-coder: rust, node: starting ..");
        let pull = SidecarEvent::Line("pulling \x1b");
        let pulling = "aifo-coder: node, rust: pulling \\u{1b}";
        assert_eq!(shown(&mut view, "rust", pull), pulling);
        let ready = SidecarEvent::Ready(Duration::ZERO);
        assert_eq!(shown(&mut view, "rust", ready), "aifo-coder: node: starting ..");
        assert_eq!(shown(&mut view, "node", ready), "");
    }
}
