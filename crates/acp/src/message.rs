//! Lenient classification of JSON-RPC messages.

use serde_json::{Map, Number, Value, json};

/// One JSON value from the peer (`spec/acp.md#messages`).
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A request.
    Request {
        /// Its id, echoed as received.
        id: Id,
        /// Its method.
        method: String,
        /// `Null` if missing.
        params: Value,
    },
    /// A notification.
    Notification {
        /// Its method.
        method: String,
        /// `Null` if missing.
        params: Value,
    },
    /// A response.
    Response {
        /// The request id, as the peer returns it.
        id: Id,
        /// The result or the error.
        outcome: Result<Value, RpcError>,
    },
    /// Not a message. Never answered.
    Invalid(Invalid),
}

/// A request id: a number or a string, as received.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Id {
    /// A number, whole or not.
    Number(Number),
    /// A string.
    Text(String),
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message} ({code}){}", self.details())]
pub struct RpcError {
    /// The code, see [`code`]; 0 if missing.
    pub code: i64,
    /// The message.
    pub message: String,
    /// Optional data. `Some(Null)` is not `None`.
    pub data: Option<Value>,
}

/// Why a value is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A string, a number, or an array within a batch.
    #[error("not an object")]
    NotAnObject,
    /// An empty array.
    #[error("an empty batch")]
    EmptyBatch,
    /// An object without a method or a result, such as a log line.
    #[error("neither a method nor a result")]
    Neither,
    /// An object with both.
    #[error("a method and a result")]
    Both,
    /// The method is not a string.
    #[error("a method that is not a string")]
    Method,
    /// The id is `null`, a boolean, an array or an object.
    #[error("an id that is neither a number nor a string")]
    Id,
    /// A response without an id.
    #[error("an answer without an id")]
    NoId,
}

/// JSON-RPC error codes.
pub mod code {
    /// Invalid parameters.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Unknown method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Invalid request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// Internal error.
    pub const INTERNAL: i64 = -32603;
    /// Authentication required.
    pub const AUTH_REQUIRED: i64 = -32000;
    /// Resource not found.
    pub const NOT_FOUND: i64 = -32002;
    /// Cancelled by `$/cancel_request`.
    pub const CANCELLED: i64 = -32800;
}

/// Classifies a line: one message, or those of a batch in order. Never empty.
pub fn classify(value: Value) -> Vec<Message> {
    match value {
        Value::Array(batch) if batch.is_empty() => vec![Message::Invalid(Invalid::EmptyBatch)],
        Value::Array(batch) => batch.into_iter().map(Message::of).collect(),
        value => vec![Message::of(value)],
    }
}

impl Message {
    /// Classifies a value that is not a batch.
    pub fn of(value: Value) -> Self {
        Self::split(value).0
    }

    /// Classifies a value, and returns its additional members.
    pub(crate) fn split(value: Value) -> (Self, Map<String, Value>) {
        let Value::Object(mut members) = value else {
            return (Message::Invalid(Invalid::NotAnObject), Map::new());
        };
        let message = Self::take(&mut members).unwrap_or_else(Message::Invalid);
        (message, members)
    }

    fn take(members: &mut Map<String, Value>) -> Result<Self, Invalid> {
        members.remove("jsonrpc");
        let id = members.remove("id").map(Id::parse);
        // Some write `"error": null` beside a result.
        let error = members.remove("error");
        let outcome = match (error, members.remove("result")) {
            (Some(error), None) => Some(RpcError::parse(error).map_or(Ok(Value::Null), Err)),
            (Some(error), Some(result)) => Some(RpcError::parse(error).map_or(Ok(result), Err)),
            (None, result) => result.map(Ok),
        };
        let method = match members.remove("method") {
            Some(Value::String(method)) => Some(method),
            Some(_) => return Err(Invalid::Method),
            None => None,
        };
        let params = members.remove("params").unwrap_or_default();
        match (method, outcome, id) {
            (Some(_), Some(_), _) => Err(Invalid::Both),
            (Some(_), None, Some(None)) | (None, Some(_), Some(None)) => Err(Invalid::Id),
            (Some(method), None, Some(Some(id))) => Ok(Message::Request { id, method, params }),
            (Some(method), None, None) => Ok(Message::Notification { method, params }),
            (None, Some(outcome), Some(Some(id))) => Ok(Message::Response { id, outcome }),
            (None, Some(_), None) => Err(Invalid::NoId),
            (None, None, _) => Err(Invalid::Neither),
        }
    }

    /// Returns the message as JSON, always with `jsonrpc`. `Null` for [`Message::Invalid`].
    pub fn to_value(&self) -> Value {
        self.clone().into_value(Map::new())
    }

    /// Consumes the message and adds members.
    pub(crate) fn into_value(self, extra: Map<String, Value>) -> Value {
        let mut members = Map::new();
        let mut set = |name: &str, value| members.insert(name.to_owned(), value);
        set("jsonrpc", json!("2.0"));
        let params = match self {
            Message::Request { id, method, params } => {
                set("id", id.into_value());
                set("method", Value::String(method));
                params
            }
            Message::Notification { method, params } => {
                set("method", Value::String(method));
                params
            }
            Message::Response { id, outcome } => {
                set("id", id.into_value());
                match outcome {
                    Ok(result) => set("result", result),
                    Err(error) => set("error", error.into_value()),
                };
                Value::Null
            }
            Message::Invalid(_) => return Value::Null,
        };
        // Missing parameters must not be written as `null`.
        if !params.is_null() {
            set("params", params);
        }
        members.extend(extra);
        Value::Object(members)
    }
}

impl Id {
    /// Returns `None` if the value cannot be an id.
    pub(crate) fn parse(value: Value) -> Option<Self> {
        match value {
            Value::Number(number) => Some(Id::Number(number)),
            Value::String(text) => Some(Id::Text(text)),
            _ => None,
        }
    }

    /// Returns the number of a request sent here, whether returned as `3`, `"3"` or `3.0`.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Id::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
            // `+3` and `03` parse but are never written here.
            Id::Text(text) => text.parse().ok().filter(|id: &u64| id.to_string() == *text),
        }
    }

    /// Returns the id as received.
    pub fn to_value(&self) -> Value {
        self.clone().into_value()
    }

    fn into_value(self) -> Value {
        match self {
            Id::Number(number) => Value::Number(number),
            Id::Text(text) => Value::String(text),
        }
    }
}

impl From<u64> for Id {
    fn from(id: u64) -> Self {
        Id::Number(id.into())
    }
}

/// Returns a float as the whole number that it is.
fn whole(number: f64) -> Option<u64> {
    // Above 2^53 a double is not exact.
    let is_whole = (0.0..9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0;
    is_whole.then_some(number as u64)
}

/// The longest part of the data that is shown, in characters.
const DETAILS: usize = 300;

impl RpcError {
    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into(), data: None }
    }

    /// Returns the readable part of the data, after ": ". The message is often only the name of the
    /// code.
    fn details(&self) -> String {
        let Some(data) = &self.data else { return String::new() };
        let named = ["details", "reason", "message", "error"].map(|name| data.get(name));
        let texts = named.into_iter().flatten().chain([data]).filter_map(Value::as_str);
        let text = texts.map(str::trim).find(|text| !text.is_empty() && *text != self.message);
        let text: String = text.unwrap_or_default().chars().take(DETAILS).collect();
        if text.is_empty() { text } else { format!(": {text}") }
    }

    /// Parses an error leniently; `None` for `null`.
    fn parse(value: Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::Object(mut members) => {
                let code = members.get("code").and_then(Value::as_i64).unwrap_or_default();
                let message = match members.remove("message") {
                    Some(Value::String(message)) => message,
                    _ => "an error without a message".to_owned(),
                };
                let data = members.remove("data");
                Some(RpcError { code, message, data })
            }
            Value::String(message) => Some(RpcError::new(0, message)),
            data => {
                let message = "no error object".to_owned();
                Some(RpcError { code: 0, message, data: Some(data) })
            }
        }
    }

    fn into_value(self) -> Value {
        let mut error = Map::new();
        error.insert("code".to_owned(), self.code.into());
        error.insert("message".to_owned(), Value::String(self.message));
        if let Some(data) = self.data {
            error.insert("data".to_owned(), data);
        }
        Value::Object(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: impl Into<Value>) -> Message {
        let id = Id::parse(id.into()).unwrap();
        Message::Request { id, method: "m".to_owned(), params: Value::Null }
    }

    fn response(id: impl Into<Value>, outcome: Result<Value, RpcError>) -> Message {
        Message::Response { id: Id::parse(id.into()).unwrap(), outcome }
    }

    #[test]
    fn requests_notifications_and_responses_are_classified() {
        let failed = RpcError { code: -1, message: "no".to_owned(), data: Some(json!([1])) };
        let rows = [
            (json!({"jsonrpc": "2.0", "id": 1, "method": "m"}), request(1)),
            (json!({"id": 1, "method": "m"}), request(1)),
            (json!({"id": "x", "method": "m", "extra": 1}), request("x")),
            (json!({"id": 1.5, "method": "m"}), request(1.5)),
            (json!({"id": -7, "method": "m"}), request(-7)),
            (json!({"id": u64::MAX, "method": "m"}), request(u64::MAX)),
            (
                json!({"method": "session/update", "params": [1]}),
                Message::Notification { method: "session/update".into(), params: json!([1]) },
            ),
            (json!({"id": 1, "result": {}}), response(1, Ok(json!({})))),
            (json!({"id": 1, "result": null}), response(1, Ok(Value::Null))),
            (json!({"id": 1, "error": null, "result": 2}), response(1, Ok(json!(2)))),
            (json!({"id": 1, "error": null}), response(1, Ok(Value::Null))),
            (
                json!({"id": 1, "result": 2, "error": {"code": -1, "message": "no", "data": [1]}}),
                response(1, Err(failed)),
            ),
            (json!({"id": 1, "error": "no"}), response(1, Err(RpcError::new(0, "no")))),
            (
                json!({"id": 1, "error": {}}),
                response(1, Err(RpcError::new(0, "an error without a message"))),
            ),
        ];
        for (value, expected) in rows {
            assert_eq!(classify(value.clone()), [expected], "{value}");
        }
    }

    #[test]
    fn invalid_messages_have_a_reason() {
        let rows = [
            (json!(17), Invalid::NotAnObject),
            (json!("Loading credentials..."), Invalid::NotAnObject),
            (json!([]), Invalid::EmptyBatch),
            (json!({}), Invalid::Neither),
            (json!({"id": 1, "level": "info"}), Invalid::Neither),
            (json!({"id": null}), Invalid::Neither),
            (json!({"id": 1, "method": "m", "result": 1}), Invalid::Both),
            (json!({"id": 1, "method": 7}), Invalid::Method),
            (json!({"id": null, "method": "m"}), Invalid::Id),
            (json!({"id": true, "method": "m"}), Invalid::Id),
            (json!({"id": [1], "result": 1}), Invalid::Id),
            (json!({"id": {}, "error": {}}), Invalid::Id),
            (json!({"id": null, "error": {"code": -32700}}), Invalid::Id),
            (json!({"result": 1}), Invalid::NoId),
        ];
        for (value, why) in rows {
            assert_eq!(classify(value.clone()), [Message::Invalid(why)], "{value}");
        }
    }

    #[test]
    fn an_error_shows_details_of_its_data() {
        let text =
            |data: Value| RpcError { code: -1, message: "no".into(), data: Some(data) }.to_string();
        assert_eq!(
            text(json!({"details": "no such model", "path": "/x"})),
            "no (-1): no such model"
        );
        assert_eq!(text(json!({"message": " no key\n"})), "no (-1): no key");
        assert_eq!(text(json!("not today")), "no (-1): not today");
        assert_eq!(text(json!("a".repeat(1000))).len(), "no (-1): ".len() + DETAILS);
        for silent in [json!(null), json!("no"), json!([1]), json!({"reason": 7, "error": ""})] {
            assert_eq!(text(silent.clone()), "no (-1)", "{silent}");
        }
    }

    #[test]
    fn a_batch_yields_its_messages_in_order() {
        let batch = json!([{"id": 1, "result": 2}, {"method": "m"}, 17, [{"method": "m"}]]);
        let expected = [
            response(1, Ok(json!(2))),
            Message::Notification { method: "m".into(), params: Value::Null },
            Message::Invalid(Invalid::NotAnObject),
            Message::Invalid(Invalid::NotAnObject),
        ];
        assert_eq!(classify(batch), expected);
    }

    #[test]
    fn returned_ids_may_have_many_forms() {
        let id = |value: Value| Id::parse(value).unwrap().as_u64();
        for value in [json!(3), json!("3"), json!(3.0)] {
            assert_eq!(id(value.clone()), Some(3), "{value}");
        }
        let others = [json!("03"), json!("+3"), json!(" 3"), json!("x"), json!(3.5), json!(-3)];
        for value in others.into_iter().chain([json!(1e300), json!("")]) {
            assert_eq!(id(value.clone()), None, "{value}");
        }
    }

    #[test]
    fn written_messages_parse_to_the_same() {
        let error =
            RpcError { code: -32002, message: "no".into(), data: Some(json!({"path": "/x"})) };
        let messages = [
            request("a"),
            Message::Notification { method: "m".into(), params: json!({"a": 1}) },
            response(7, Ok(json!({"x": null}))),
            response(7, Err(error)),
            response(7, Err(RpcError { data: Some(Value::Null), ..RpcError::new(-1, "no") })),
            response(7, Err(RpcError::new(code::METHOD_NOT_FOUND, "no such method"))),
        ];
        for message in messages {
            let value = message.to_value();
            assert_eq!(value.get("jsonrpc"), Some(&json!("2.0")));
            assert_eq!(Message::of(value), message);
        }
        assert_eq!(Message::Invalid(Invalid::Both).to_value(), Value::Null);
    }
}
