//! A session page.

use super::{Activity, SessionState};
use crate::block::{Block, QuestionBlock, QuestionEnd};
use crate::history::PlanEntry;
use crate::markdown::{self, escape};
use crate::page_state::{PageState, Seq};
use crate::view;

impl SessionState {
    /// Shows all that is not an entry.
    pub(super) fn show_status(&mut self, seq: &mut Seq) {
        let questions: Vec<(u64, &QuestionBlock)> = self
            .questions
            .values()
            .filter_map(|number| match self.entries.get(number)? {
                Block::Question(question) => Some((*number, &**question)),
                _ => None,
            })
            .collect();
        let mut pending = 0;
        for (number, question) in questions {
            let key = format!("asks.{number}");
            if question.state == QuestionEnd::Pending {
                pending += 1;
                self.page.put(seq, &key, view::question(question));
            } else {
                self.page.remove(seq, &key);
            }
        }
        let (state, words) = match self.activity {
            _ if pending > 0 => ("waiting", "waiting<span class=\"wide\"> for permission</span>"),
            Activity::Idle if self.facts.closed => ("closed", "closed"),
            Activity::Idle => ("idle", "ready"),
            Activity::Starting => ("starting", "starting"),
            Activity::Running => ("running", "working"),
            Activity::Cancelling => ("cancelling", "cancelling"),
        };
        let status = format!("<span class=\"state {state}\" data-state=\"{state}\">{words}</span>");
        self.page.put(seq, "status.1", status);
        let title = escape(view::or(&self.facts.title, "new session"));
        self.page.put(seq, "title.1", format!("<span>{title}</span>"));
        match self.usage.is_empty() {
            true => self.page.remove(seq, "usage.1"),
            false => {
                self.page.put(seq, "usage.1", format!("<span>{}</span>", escape(&self.usage)));
            }
        }
        match self.plan.is_empty() {
            true => self.page.remove(seq, "plan.1"),
            false => self.page.put(seq, "plan.1", plan_html(&self.plan)),
        }
        if self.facts.removed > 0 {
            let text = format!(
                "<div class=\"notice\">{} earlier entries were removed</div>",
                self.facts.removed
            );
            self.page.put(seq, "log.0", text);
        }
    }
}

/// Shows an entry. Texts have a key for each of their blocks.
pub(super) fn show(page: &mut PageState, seq: &mut Seq, number: u64, block: &Block) {
    match block {
        Block::Text { thought: false, text } => {
            let blocks = markdown::render(text);
            for (index, block) in blocks.iter().enumerate() {
                page.put(seq, &piece_key(number, index), view::text(false, &block.html));
            }
            hide_from(page, seq, number, blocks.len());
        }
        Block::Text { thought: true, text } => {
            let html: String = markdown::render(text).into_iter().map(|block| block.html).collect();
            let words = text.split_whitespace().count();
            page.put(seq, &piece_key(number, 0), view::thought(&html, words, false));
        }
        Block::Question(question) if question.state == QuestionEnd::Pending => {}
        block => page.put(seq, &piece_key(number, 0), view::block(block)),
    }
}

pub(super) fn hide(page: &mut PageState, seq: &mut Seq, number: u64) {
    hide_from(page, seq, number, 0);
}

/// Removes the keys of an entry from this piece on.
pub(super) fn hide_from(page: &mut PageState, seq: &mut Seq, number: u64, from: usize) {
    let keys = (from..).map(|index| piece_key(number, index));
    for key in keys.take_while(|key| page.has(key)).collect::<Vec<_>>() {
        page.remove(seq, &key);
    }
}

/// The key of a piece of an entry: `log.NUMBER.INDEX`.
pub(super) fn piece_key(number: u64, index: usize) -> String {
    format!("log.{number}.{index}")
}

fn plan_html(plan: &[PlanEntry]) -> String {
    let done = plan.iter().filter(|entry| entry.status == "completed").count();
    let mut html = format!(
        "<details class=\"plan\" open><summary>Plan <span class=\"faint\">{done} of {}</span></summary><ol>",
        plan.len()
    );
    for entry in plan {
        let (class, words) = match entry.status.as_str() {
            "completed" => ("done", "done: "),
            "in_progress" => ("active", "in progress: "),
            _ => ("open", "to do: "),
        };
        html.push_str(&format!(
            "<li class=\"{class}\"><span class=\"sr\">{words}</span>{}</li>",
            escape(&entry.content)
        ));
    }
    html + "</ol></details>"
}
