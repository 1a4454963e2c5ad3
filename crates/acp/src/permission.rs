//! Permission requests: parsing, choosing an option, answering.

use serde_json::{Value, json};

use crate::tool_call::ToolCall;

/// A permission request (`spec/acp.md#permission-requests`).
///
/// It does not describe the action reliably: agents shorten and invent titles, and some send only
/// an id.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionRequest {
    /// The session.
    pub session: String,
    /// The tool call with all known fields; `None` if none is named.
    pub call: Option<ToolCall>,
    /// The options, in the agent's order.
    pub options: Vec<PermissionOption>,
    /// The parameters, as received.
    pub params: Value,
}

/// An option.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionOption {
    /// The id, returned as received if selected.
    pub id: Value,
    /// Its meaning.
    pub kind: OptionKind,
    /// The label for users.
    pub name: String,
}

/// The meaning of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// Allow this call.
    AllowOnce,
    /// Allow this and similar calls.
    AllowAlways,
    /// Reject this call.
    RejectOnce,
    /// Reject this and similar calls.
    RejectAlways,
    /// Unknown or missing.
    Other(String),
}

/// The answer to a permission request.
#[derive(Clone, Debug, PartialEq)]
pub enum PermissionOutcome {
    /// Select the option with this id.
    Select(Value),
    /// No decision: the turn was cancelled, or the request timed out.
    Cancelled,
}

/// The outcome of a permission rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// Allow once.
    Allow,
    /// Reject.
    Deny,
}

impl PermissionRequest {
    /// Parses a request; `call` is the session state of the tool call.
    pub(crate) fn parse(session: String, call: Option<ToolCall>, params: Value) -> Self {
        let options = params.get("options").and_then(Value::as_array);
        let options = options.into_iter().flatten().filter_map(PermissionOption::parse).collect();
        PermissionRequest { session, call, options, params }
    }

    /// Returns the option for a verdict without guessing: the only one of exactly that kind, else
    /// the one that the agent profile names. `None` if a user must choose.
    ///
    /// A denial without an option is [`PermissionOutcome::Cancelled`], which ends the turn.
    pub fn choose(
        &self,
        verdict: PermissionAnswer,
        profile_allows: Option<&str>,
    ) -> Option<PermissionOutcome> {
        let kind = match verdict {
            PermissionAnswer::Allow => OptionKind::AllowOnce,
            PermissionAnswer::Deny => OptionKind::RejectOnce,
        };
        let mut exact = self.options.iter().filter(|option| option.kind == kind);
        match (verdict, exact.next(), exact.next()) {
            (_, Some(only), None) => Some(PermissionOutcome::Select(only.id.clone())),
            // Any reject option rejects.
            (PermissionAnswer::Deny, Some(first), Some(_)) => {
                Some(PermissionOutcome::Select(first.id.clone()))
            }
            (PermissionAnswer::Deny, None, _) => Some(PermissionOutcome::Cancelled),
            (PermissionAnswer::Allow, _, _) => {
                let named = profile_allows?;
                let option = self.options.iter().find(|option| option.id == named)?;
                Some(PermissionOutcome::Select(option.id.clone()))
            }
        }
    }

    /// Returns the ids of the options.
    pub(crate) fn option_ids(&self) -> Vec<Value> {
        self.options.iter().map(|option| option.id.clone()).collect()
    }
}

impl PermissionOption {
    /// Returns `None` without an id.
    fn parse(value: &Value) -> Option<Self> {
        let id = value.get("optionId").filter(|id| id.is_string() || id.is_number())?.clone();
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = OptionKind::parse(text("kind"));
        Some(PermissionOption { id, kind, name: text("name").to_owned() })
    }
}

impl OptionKind {
    fn parse(word: &str) -> Self {
        match word {
            "allow_once" => OptionKind::AllowOnce,
            "allow_always" => OptionKind::AllowAlways,
            "reject_once" => OptionKind::RejectOnce,
            "reject_always" => OptionKind::RejectAlways,
            word => OptionKind::Other(word.to_owned()),
        }
    }

    /// Returns the protocol's name.
    pub fn word(&self) -> &str {
        match self {
            OptionKind::AllowOnce => "allow_once",
            OptionKind::AllowAlways => "allow_always",
            OptionKind::RejectOnce => "reject_once",
            OptionKind::RejectAlways => "reject_always",
            OptionKind::Other(word) => word,
        }
    }
}

impl PermissionOutcome {
    /// Returns whether a request with these options can be answered with it.
    pub(crate) fn is_among(&self, options: &[Value]) -> bool {
        match self {
            PermissionOutcome::Select(option) => options.contains(option),
            PermissionOutcome::Cancelled => true,
        }
    }

    /// Returns the result to answer with.
    pub(crate) fn to_result(&self) -> Value {
        match self {
            PermissionOutcome::Select(id) => {
                json!({"outcome": {"outcome": "selected", "optionId": id}})
            }
            PermissionOutcome::Cancelled => json!({"outcome": {"outcome": "cancelled"}}),
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1::RequestPermissionResponse;
    use serde::Deserialize;

    use super::*;

    fn request(options: &[(&str, &str)]) -> PermissionRequest {
        let option =
            |(id, kind): &(&str, &str)| json!({"optionId": id, "kind": kind, "name": "Yes"});
        let options: Vec<Value> = options.iter().map(option).collect();
        PermissionRequest::parse("s".into(), None, json!({"options": options}))
    }

    #[test]
    fn an_option_is_selected_by_exact_kind_or_profile() {
        let usual =
            [("always", "allow_always"), ("proceed_once", "allow_once"), ("cancel", "reject_once")];
        let twice = [("proceed_once", "allow_once"), ("switch_mode", "allow_once")];
        let select = |id: &str| Some(PermissionOutcome::Select(json!(id)));
        let cancelled = Some(PermissionOutcome::Cancelled);
        type Row<'a> = (
            &'a [(&'a str, &'a str)],
            PermissionAnswer,
            Option<&'a str>,
            Option<PermissionOutcome>,
        );
        let rows: [Row<'_>; 10] = [
            (&usual, PermissionAnswer::Allow, None, select("proceed_once")),
            (&usual, PermissionAnswer::Deny, None, select("cancel")),
            (&twice, PermissionAnswer::Allow, None, None),
            (&twice, PermissionAnswer::Allow, Some("proceed_once"), select("proceed_once")),
            (&twice, PermissionAnswer::Allow, Some("elsewhere"), None),
            (&twice, PermissionAnswer::Deny, None, cancelled.clone()),
            (&[("accept", "yes")], PermissionAnswer::Allow, Some("accept"), select("accept")),
            (&[("always", "allow_always")], PermissionAnswer::Allow, None, None),
            (&[("no", "reject_always")], PermissionAnswer::Deny, None, cancelled.clone()),
            (&[], PermissionAnswer::Deny, None, cancelled),
        ];
        for (options, verdict, profile, expected) in rows {
            let found = request(options).choose(verdict, profile);
            assert_eq!(found, expected, "{options:?} {verdict:?} {profile:?}");
        }
    }

    #[test]
    fn options_are_parsed_where_the_schema_rejects_them() {
        let params = json!({"options": [
            {"optionId": "a", "kind": "allow_once", "name": 7},
            {"optionId": 2, "kind": "brand_new"},
            {"kind": "allow_once"},
            17,
        ]});
        let request = PermissionRequest::parse("s".into(), None, params);
        let expected = [
            PermissionOption { id: json!("a"), kind: OptionKind::AllowOnce, name: String::new() },
            PermissionOption {
                id: json!(2),
                kind: OptionKind::Other("brand_new".into()),
                name: String::new(),
            },
        ];
        assert_eq!(request.options, expected);
        for odd in [json!({}), json!({"options": 7}), json!(null)] {
            assert_eq!(PermissionRequest::parse("s".into(), None, odd).options, []);
        }
    }

    #[test]
    fn answers_match_the_schema() {
        for decision in [PermissionOutcome::Select(json!("a")), PermissionOutcome::Cancelled] {
            let result = decision.to_result();
            let typed = RequestPermissionResponse::deserialize(&result).unwrap();
            assert_eq!(serde_json::to_value(typed).unwrap(), result);
        }
    }
}
