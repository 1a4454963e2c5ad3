//! Plan and usage.

use serde_json::Value;

use super::{MOST_PLAN, SessionState};
use crate::history::{Op, PlanEntry};

impl SessionState {
    pub(super) fn set_plan(&mut self, entries: Option<&Value>) {
        let text = |entry: &Value, name: &str| {
            entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let entries = entries.and_then(Value::as_array).into_iter().flatten().take(MOST_PLAN);
        self.plan = entries
            .map(|entry| PlanEntry {
                content: text(entry, "content"),
                status: text(entry, "status"),
            })
            .collect();
        self.ops.push(Op::Plan(self.plan.clone()));
    }

    pub(super) fn set_usage(&mut self, usage: String) {
        self.ops.push(Op::Usage(usage.clone()));
        self.usage = usage;
    }
}

/// Returns the known members of a usage as text.
pub(super) fn usage_text(usage: &Value) -> String {
    let number = |name: &str| usage.get(name).and_then(Value::as_f64);
    let mut parts = Vec::new();
    if let (Some(used), Some(size)) = (number("used"), number("size")) {
        let percent = if size > 0.0 { used / size * 100.0 } else { 0.0 };
        parts.push(format!("context {} of {} ({percent:.0}%)", count(used), count(size)));
    }
    let names = [("inputTokens", "in"), ("outputTokens", "out"), ("totalTokens", "total")];
    for (name, word) in names {
        let tokens = |value| if value == 1.0 { "token" } else { "tokens" };
        let part = |value| format!("{} {} {word}", count(value), tokens(value));
        parts.extend(number(name).map(part));
    }
    let cost = usage.get("cost");
    if let Some(amount) = cost.and_then(|cost| cost.get("amount")?.as_f64()) {
        let currency = cost.and_then(|cost| cost.get("currency")?.as_str()).unwrap_or("USD");
        let currency: String = currency.chars().take(8).collect();
        parts.push(format!("{} {currency}", money(amount)));
    }
    parts.join(", ")
}

/// Writes an amount with two to four decimals.
fn money(amount: f64) -> String {
    let text = format!("{amount:.4}");
    let short = text.strip_suffix('0').map_or(text.as_str(), |text| text);
    short.strip_suffix('0').unwrap_or(short).to_owned()
}

fn count(value: f64) -> String {
    match value {
        10_000.0.. => format!("{:.0}k", value / 1000.0),
        1000.0.. => format!("{:.1}k", value / 1000.0),
        value => format!("{value:.0}"),
    }
}
