//! The state of one session: folds updates into entries, entries into a page and a journal.

mod facts;
mod live_text;
mod restore;
mod runs;
mod shown;
mod turn;
mod turn_end;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aifo_acp::{Image, Streaming, ToolCalls, Update, UpdateKind, UpdateScope, pieces};
use serde_json::Value;

use crate::block::{Attachment, Block, QuestionBlock, QuestionEnd, ToolBlock};
use crate::history::{Op, PlanEntry, SessionFacts};
use crate::page_state::{PageState, Seq};
use crate::tool_view::{Arrival, tool_block};
use facts::usage_text;
use shown::{hide, hide_from, piece_key, show};
use turn::LiveTurn;

/// What a session is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Activity {
    #[default]
    Idle,
    /// A prompt waits for the agent to start or to open the session.
    Starting,
    Running,
    Cancelling,
}

/// Stores an image and returns its name.
pub(crate) type StoreImage<'a> = &'a mut dyn FnMut(Image) -> Option<String>;

/// A session: its entries, its page and what must be written to its journal.
#[derive(Debug)]
pub(crate) struct SessionState {
    facts: SessionFacts,
    entries: BTreeMap<u64, Block>,
    next: u64,
    weight: usize,
    max_weight: usize,
    /// The entries of tool calls, by the agent id.
    calls: HashMap<String, u64>,
    /// Calls with unshown changes, and when those arrived.
    changed_calls: BTreeMap<String, Arrival>,
    /// The entries of questions, by their id.
    questions: HashMap<String, u64>,
    plan: Vec<PlanEntry>,
    usage: String,
    activity: Activity,
    turn: Option<LiveTurn>,
    streaming: Streaming,
    page: PageState,
    ops: Vec<Op>,
    /// Entries whose HTML is out of date.
    dirty: BTreeSet<u64>,
    is_dirty: bool,
}

impl SessionState {
    /// Creates an empty session.
    pub(crate) fn new(facts: SessionFacts, max_weight: usize, now: Seq) -> Self {
        let mut state = SessionState::empty(facts, max_weight, now);
        state.ops.push(Op::Facts(state.facts.clone()));
        state
    }

    fn empty(facts: SessionFacts, max_weight: usize, now: Seq) -> Self {
        SessionState {
            facts,
            entries: BTreeMap::new(),
            next: 1,
            weight: 0,
            max_weight,
            calls: HashMap::new(),
            changed_calls: BTreeMap::new(),
            questions: HashMap::new(),
            plan: Vec::new(),
            usage: String::new(),
            activity: Activity::Idle,
            turn: None,
            streaming: Streaming::Delta,
            page: PageState::new(now),
            ops: Vec::new(),
            dirty: BTreeSet::new(),
            is_dirty: true,
        }
    }

    /// Sets how many removed keys the page remembers.
    pub(crate) fn limit_removals(&mut self, most: usize) {
        self.page.limit_removals(most);
    }

    /// Returns the facts.
    pub(crate) fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    /// Returns what the session is doing.
    pub(crate) fn activity(&self) -> Activity {
        self.activity
    }

    /// Returns the page.
    pub(crate) fn page(&self) -> &PageState {
        &self.page
    }

    /// Returns the number of pending questions.
    pub(crate) fn pending_questions(&self) -> usize {
        let is_pending = |number: &&u64| match self.entries.get(number) {
            Some(Block::Question(question)) => question.state == QuestionEnd::Pending,
            _ => false,
        };
        self.questions.values().filter(is_pending).count()
    }

    /// Returns whether a prompt with this idempotency key is in the history.
    pub(crate) fn has_request(&self, key: &str) -> bool {
        self.entries.values().any(|block| match block {
            Block::Prompt { request, .. } => request == key,
            _ => false,
        })
    }

    /// Changes the facts.
    pub(crate) fn set_facts(&mut self, change: impl FnOnce(&mut SessionFacts)) {
        let before = self.facts.clone();
        change(&mut self.facts);
        if self.facts != before {
            self.ops.push(Op::Facts(self.facts.clone()));
            self.is_dirty = true;
        }
    }

    /// Changes the activity.
    pub(crate) fn set_activity(&mut self, activity: Activity) {
        self.activity = activity;
        self.is_dirty = true;
    }

    /// Adds a prompt.
    pub(crate) fn add_prompt(
        &mut self,
        text: String,
        attachments: Vec<Attachment>,
        request: String,
        time: u64,
    ) {
        if self.facts.title.is_empty() {
            let title: String = text.lines().next().unwrap_or_default().chars().take(80).collect();
            self.set_facts(|facts| facts.title = title);
        }
        self.set_facts(|facts| facts.changed = time);
        self.push(Block::Prompt { text, attachments, request, time });
        self.set_activity(Activity::Starting);
    }

    /// Begins a turn.
    pub(crate) fn begin_turn(&mut self, streaming: Streaming, time: u64) {
        self.streaming = streaming;
        self.turn = Some(LiveTurn::new(streaming, time));
        self.set_activity(Activity::Running);
    }

    /// Applies an update. The history of a loaded session is known already.
    pub(crate) fn update(&mut self, update: &Update, scope: UpdateScope, call: Option<&str>) {
        let (UpdateScope::Turn(_) | UpdateScope::Late(_)) = scope else { return };
        self.is_dirty = true;
        let body = update.body();
        match update.kind() {
            UpdateKind::Plan => self.set_plan(body.get("entries")),
            UpdateKind::Usage => self.set_usage(usage_text(body)),
            UpdateKind::SessionInfo => {
                if let Some(title) = body.get("title").and_then(Value::as_str) {
                    let title = title.chars().take(200).collect();
                    self.set_facts(|facts| facts.title = title);
                }
            }
            _ => {}
        }
        if let Some(turn) = &mut self.turn {
            for (channel, piece) in pieces(update) {
                turn.push(channel, update.message_id(), piece);
            }
            if let Some(call) = call {
                turn.push_tool(call);
            }
        }
        if let Some(call) = call {
            self.note_change(call);
        }
    }

    /// Adds a question.
    pub(crate) fn add_question(
        &mut self,
        question: QuestionBlock,
        tools: Option<&ToolCalls>,
        store: StoreImage<'_>,
    ) {
        self.sync(tools, store);
        let id = question.id.clone();
        let number = self.push(Block::Question(Box::new(question)));
        self.questions.insert(id, number);
    }

    /// Ends a question.
    pub(crate) fn end_question(&mut self, id: &str, end: QuestionEnd) {
        let Some(number) = self.questions.get(id).copied() else { return };
        if let Some(Block::Question(question)) = self.entries.get(&number) {
            let question = QuestionBlock { state: end, ..(**question).clone() };
            self.put(number, Block::Question(Box::new(question)));
        }
    }

    /// Adds a message of aifo.
    pub(crate) fn add_notice(&mut self, text: String, is_error: bool, time: u64) {
        self.push(Block::Notice { text, is_error, time });
    }

    /// Returns whether [`flush`](SessionState::flush) has anything to do.
    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty || !self.dirty.is_empty() || !self.ops.is_empty()
    }

    /// Returns how long the next flush may wait, longer for long texts.
    pub(crate) fn flush_delay_ms(&self) -> u64 {
        self.turn.as_ref().map_or(MIN_DELAY_MS, LiveTurn::flush_delay_ms)
    }

    /// Brings the page up to date.
    pub(crate) fn flush(
        &mut self,
        seq: &mut Seq,
        tools: Option<&ToolCalls>,
        store: StoreImage<'_>,
    ) {
        self.sync(tools, store);
        self.is_dirty = false;
        for number in std::mem::take(&mut self.dirty) {
            match self.entries.get(&number) {
                Some(block) => show(&mut self.page, seq, number, block),
                None => hide(&mut self.page, seq, number),
            }
        }
        if let Some(mut turn) = self.turn.take() {
            turn.show(&self.entries, &mut self.page, seq);
            self.turn = Some(turn);
        }
        self.show_status(seq);
    }

    /// Returns what must be written to the journal.
    pub(crate) fn take_ops(&mut self) -> Vec<Op> {
        std::mem::take(&mut self.ops)
    }

    /// Returns operations that restore the session as it is.
    pub(crate) fn snapshot_ops(&self) -> Vec<Op> {
        let mut ops = vec![Op::Facts(self.facts.clone())];
        ops.extend(self.entries.iter().map(|(number, block)| Op::Put(*number, block.clone())));
        ops.push(Op::Plan(self.plan.clone()));
        ops.push(Op::Usage(self.usage.clone()));
        ops
    }

    /// Adds the new entries of the turn and updates tool calls.
    fn sync(&mut self, tools: Option<&ToolCalls>, store: StoreImage<'_>) {
        if let Some(mut turn) = self.turn.take() {
            turn.sync(self, &mut *store);
            self.turn = Some(turn);
        }
        // Without the agent's tool calls the next flush has them.
        let Some(tools) = tools else { return };
        for (id, arrival) in std::mem::take(&mut self.changed_calls) {
            let Some(call) = tools.get(&id) else { continue };
            let number = self.calls.get(&id).copied();
            let before = number.and_then(|number| self.entries.get(&number)).and_then(tool_of);
            let block = tool_block(call, before, arrival, &mut *store);
            if before != Some(&block) {
                match number {
                    Some(number) => self.put(number, Block::Tool(Box::new(block))),
                    None => {
                        let number = self.push(Block::Tool(Box::new(block)));
                        self.calls.insert(id, number);
                    }
                }
            }
        }
    }

    /// Adds an entry at the end and returns its number.
    fn push(&mut self, block: Block) -> u64 {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        self.put(number, block);
        self.drop_oldest();
        number
    }

    fn put(&mut self, number: u64, block: Block) {
        self.ops.push(Op::Put(number, block.clone()));
        self.replay(Op::Put(number, block));
        self.dirty.insert(number);
        self.is_dirty = true;
    }

    /// Removes the oldest entries of a history that is too long.
    fn drop_oldest(&mut self) {
        while self.weight > self.max_weight && self.entries.len() > KEPT_ENTRIES {
            let Some((number, _)) = self.entries.first_key_value() else { return };
            let number = *number;
            self.calls.retain(|_, entry| *entry != number);
            self.questions.retain(|_, entry| *entry != number);
            self.replay(Op::Remove(number));
            self.ops.push(Op::Remove(number));
            self.dirty.insert(number);
            self.set_facts(|facts| facts.removed = facts.removed.saturating_add(1));
        }
    }

    /// Adds the entry of a tool call, unless it has one.
    fn add_call(&mut self, id: &str) {
        if self.calls.contains_key(id) {
            return;
        }
        self.note_change(id);
        let started = self.changed_calls.get(id).map_or(0, |arrival| arrival.first);
        let call = ToolBlock {
            id: id.to_owned(),
            status: "pending".to_owned(),
            is_open: true,
            started,
            ..ToolBlock::default()
        };
        let number = self.push(Block::Tool(Box::new(call)));
        self.calls.insert(id.to_owned(), number);
    }

    /// Has the call shown anew by the next flush.
    fn note_change(&mut self, call: &str) {
        let now = crate::clock::unix_ms();
        let arrival = Arrival { first: now, last: now };
        self.changed_calls.entry(call.to_owned()).or_insert(arrival).last = now;
    }

    /// Returns the text of an entry.
    fn text(&self, number: u64) -> &str {
        match self.entries.get(&number) {
            Some(Block::Text { text, .. }) => text,
            _ => "",
        }
    }
}

fn tool_of(block: &Block) -> Option<&ToolBlock> {
    match block {
        Block::Tool(call) => Some(call),
        _ => None,
    }
}

/// Why a question of a stopped server is cancelled.
const INTERRUPTED: &str = "aifo-coder web was stopped";
/// The largest image, in bytes.
const IMAGE: usize = 10 * 1024 * 1024;
/// Entries of a plan that are shown.
const MOST_PLAN: usize = 200;
/// Entries that are kept whatever their size.
const KEPT_ENTRIES: usize = 8;
/// The shortest time between two flushes.
pub(crate) const MIN_DELAY_MS: u64 = 40;
#[cfg(test)]
mod tests;
