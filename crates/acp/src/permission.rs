//! Requests for permission: what is asked, which option is meant, what is answered.

use serde_json::{Value, json};

use crate::tool_call::ToolCall;

/// What an agent wants to be allowed (`spec/acp.md#permissions`).
///
/// It is not a reliable description of what will be done: titles are cut and invented, and some
/// agents ask with nothing but an id.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionRequest {
    /// The session that asks.
    pub session: String,
    /// The call that is asked for, with all that is known of it; `None` if none is named.
    pub call: Option<ToolCall>,
    /// What can be chosen, in the agent's order.
    pub options: Vec<PermissionOption>,
    /// The parameters as they came.
    pub params: Value,
}

/// One of the choices.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionOption {
    /// What is echoed if it is chosen, as it came.
    pub id: Value,
    /// What choosing it means.
    pub kind: OptionKind,
    /// For people only.
    pub name: String,
}

/// What choosing an option means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// Yes, to this.
    AllowOnce,
    /// Yes, to this and to what the agent takes for the like.
    AllowAlways,
    /// No, to this.
    RejectOnce,
    /// No, and never again.
    RejectAlways,
    /// Something else, or nothing was said.
    Other(String),
}

/// What somebody, or a rule, has decided.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// This option, by its id.
    Select(Value),
    /// Nobody decides: the turn is over, or so is the waiting.
    Cancelled,
}

/// What is wanted of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Allow this once.
    Allow,
    /// Do not.
    Deny,
}

impl PermissionRequest {
    /// Reads what is asked; `call` is what the session knows of the call by now.
    pub(crate) fn parse(session: String, call: Option<ToolCall>, params: Value) -> Self {
        let options = params.get("options").and_then(Value::as_array);
        let options = options.into_iter().flatten().filter_map(PermissionOption::parse).collect();
        PermissionRequest { session, call, options, params }
    }

    /// The option that a verdict means, for a client that must not guess: the only one of exactly
    /// that kind; where there are several, or none, the one that the agent's profile names. `None` if
    /// a person has to choose.
    ///
    /// A denial without an option is [`Decision::Cancelled`], which ends the turn.
    pub fn choose(&self, verdict: Verdict, profile_allows: Option<&str>) -> Option<Decision> {
        let kind = match verdict {
            Verdict::Allow => OptionKind::AllowOnce,
            Verdict::Deny => OptionKind::RejectOnce,
        };
        let mut exact = self.options.iter().filter(|option| option.kind == kind);
        match (verdict, exact.next(), exact.next()) {
            (_, Some(only), None) => Some(Decision::Select(only.id.clone())),
            // Several ways to say no are all a no.
            (Verdict::Deny, Some(first), Some(_)) => Some(Decision::Select(first.id.clone())),
            (Verdict::Deny, None, _) => Some(Decision::Cancelled),
            (Verdict::Allow, _, _) => {
                let named = profile_allows?;
                let option = self.options.iter().find(|option| option.id == named)?;
                Some(Decision::Select(option.id.clone()))
            }
        }
    }

    /// Whether it was asked with an option of this id.
    pub fn offers(&self, id: &Value) -> bool {
        self.options.iter().any(|option| option.id == *id)
    }
}

impl PermissionOption {
    /// `None` for what cannot be chosen because it has no id.
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

    /// The protocol's word for it.
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

impl Decision {
    /// The result that is answered.
    pub(crate) fn to_result(&self) -> Value {
        match self {
            Decision::Select(id) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
            Decision::Cancelled => json!({"outcome": {"outcome": "cancelled"}}),
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
    fn an_option_is_chosen_by_its_exact_kind_or_by_the_profile() {
        let usual =
            [("always", "allow_always"), ("proceed_once", "allow_once"), ("cancel", "reject_once")];
        let twice = [("proceed_once", "allow_once"), ("switch_mode", "allow_once")];
        let select = |id: &str| Some(Decision::Select(json!(id)));
        let cancelled = Some(Decision::Cancelled);
        type Row<'a> = (&'a [(&'a str, &'a str)], Verdict, Option<&'a str>, Option<Decision>);
        let rows: [Row<'_>; 10] = [
            (&usual, Verdict::Allow, None, select("proceed_once")),
            (&usual, Verdict::Deny, None, select("cancel")),
            (&twice, Verdict::Allow, None, None),
            (&twice, Verdict::Allow, Some("proceed_once"), select("proceed_once")),
            (&twice, Verdict::Allow, Some("elsewhere"), None),
            (&twice, Verdict::Deny, None, cancelled.clone()),
            (&[("accept", "yes")], Verdict::Allow, Some("accept"), select("accept")),
            (&[("always", "allow_always")], Verdict::Allow, None, None),
            (&[("no", "reject_always")], Verdict::Deny, None, cancelled.clone()),
            (&[], Verdict::Deny, None, cancelled),
        ];
        for (options, verdict, profile, expected) in rows {
            let found = request(options).choose(verdict, profile);
            assert_eq!(found, expected, "{options:?} {verdict:?} {profile:?}");
        }
    }

    #[test]
    fn options_survive_what_the_schema_refuses() {
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
        assert!(request.offers(&json!(2)) && !request.offers(&json!("2")));
        for odd in [json!({}), json!({"options": 7}), json!(null)] {
            assert_eq!(PermissionRequest::parse("s".into(), None, odd).options, []);
        }
    }

    #[test]
    fn answers_are_the_schemas() {
        for decision in [Decision::Select(json!("a")), Decision::Cancelled] {
            let result = decision.to_result();
            let typed = RequestPermissionResponse::deserialize(&result).unwrap();
            assert_eq!(serde_json::to_value(typed).unwrap(), result);
        }
    }
}
