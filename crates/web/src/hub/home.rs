//! The list of sessions, and the browsers that show the page.

use std::time::Instant;

use super::Inner;
use crate::markdown::escape;
use crate::session_state::Activity;
use crate::view::{moment, or};

impl Inner {
    /// Brings the list up to date.
    pub(super) fn show_home(&mut self) {
        let mut shown = Vec::new();
        for slot in self.sessions.values() {
            let facts = &slot.facts;
            let state = slot
                .loaded
                .as_ref()
                .map(|loaded| (loaded.state.activity(), loaded.state.pending_questions()));
            let (class, words) = match state {
                Some((_, 1..)) => ("waiting", "waiting for permission"),
                Some((Activity::Running, _)) => ("running", "working"),
                Some((Activity::Starting, _)) => ("starting", "starting"),
                Some((Activity::Cancelling, _)) => ("cancelling", "cancelling"),
                _ if facts.closed => ("closed", "closed"),
                _ => ("idle", ""),
            };
            let html = format!(
                "<a class=\"session {class}\" href=\"#/s={}\" data-session=\"{}\" data-state=\"{class}\">\
                 <span class=\"name\">{}</span> <span class=\"faint\">{} {words}</span> {}</a>",
                facts.id,
                facts.id,
                escape(or(&facts.title, "new session")),
                escape(&facts.agent),
                moment(facts.changed),
            );
            // A part of the id, for sessions that were created at the same time.
            let number = facts.id.get(..8).and_then(|id| u32::from_str_radix(id, 16).ok());
            let key = format!("sessions.{}.{}", facts.created, number.unwrap_or_default());
            shown.push((key, html));
        }
        shown.extend(self.calls.html());
        for session in &self.running {
            let waits = self.calls.waits(&session.id);
            let words = if waits { "waiting for approval" } else { &session.backend };
            let html = format!(
                "<a class=\"session\" href=\"#/c={}\" data-calls=\"{}\"><span class=\"name\">{}</span> \
                 <span class=\"faint\">{} {}</span> {}</a>",
                escape(&session.id),
                escape(&session.id),
                escape(&session.workspace),
                escape(or(&session.agent, "session")),
                escape(words),
                moment(session.started),
            );
            shown.push((format!("running.{}.{}", session.started, session.pid), html));
        }
        let keys: std::collections::HashSet<&str> =
            shown.iter().map(|(key, _)| key.as_str()).collect();
        for key in self.home.keys() {
            if !keys.contains(&*key) {
                self.home.remove(&mut self.seq, &key);
            }
        }
        for (key, html) in shown {
            self.home.put(&mut self.seq, &key, html);
        }
    }

    /// Adds a browser's stream and returns its number.
    pub(crate) fn add_viewer(&mut self, is_visible: bool) -> u64 {
        self.next_viewer = self.next_viewer.saturating_add(1);
        self.viewers.insert(self.next_viewer, is_visible);
        self.note_visible();
        self.next_viewer
    }

    pub(crate) fn set_visible(&mut self, viewer: u64, is_visible: bool) {
        self.note_visible();
        if let Some(known) = self.viewers.get_mut(&viewer) {
            *known = is_visible;
        }
        self.note_visible();
    }

    pub(crate) fn remove_viewer(&mut self, viewer: u64) {
        self.note_visible();
        self.viewers.remove(&viewer);
    }

    /// Returns the number of streams.
    pub(crate) fn viewers(&self) -> usize {
        self.viewers.len()
    }

    /// Returns when a browser last showed the page; now if one does.
    pub(crate) fn last_visible(&mut self) -> Option<Instant> {
        self.note_visible();
        self.last_visible
    }

    fn note_visible(&mut self) {
        if self.viewers.values().any(|is_visible| *is_visible) {
            self.last_visible = Some(Instant::now());
            // The user has seen the end of a turn. A question still waits for an answer.
            self.attention.retain(|event| event.question.is_some());
        }
    }
}
