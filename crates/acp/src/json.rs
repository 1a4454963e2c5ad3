//! JSON in bounded memory: parses and writes one line.

mod surrogates;

use std::cell::Cell;
use std::fmt;
use std::io::{self, Write};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use surrogates::Repaired;

/// Why a text was not parsed.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Not JSON.
    #[error("invalid JSON: {0}")]
    Syntax(#[source] serde_json::Error),
    /// Too many values, or nested too deeply.
    #[error("more than {limit} values, or {MAX_DEPTH} levels of them, in one line")]
    TooMuch {
        /// The most values.
        limit: usize,
    },
}

/// The deepest nesting: one less than `serde_json` accepts, so that its own limit is never reached.
pub const MAX_DEPTH: usize = 126;

/// Parses one value with at most `limit` values in it, itself included: a small value takes dozens
/// of times its text. Of duplicate keys the last one counts. Half a surrogate pair, such as
/// `\ud800` alone, reads as U+FFFD, in keys too.
pub fn parse_json(text: &str, limit: usize) -> Result<Value, JsonError> {
    let parsed = parse(serde_json::Deserializer::from_str(text), limit);
    // `serde_json` rejects such an escape. Lines without one are parsed only once.
    match (&parsed, Repaired::new(text)) {
        (Err(JsonError::Syntax(_)), Some(repaired)) => {
            parse(serde_json::Deserializer::from_reader(repaired), limit)
        }
        _ => parsed,
    }
}

fn parse<'de, R: serde_json::de::Read<'de>>(
    mut reader: serde_json::Deserializer<R>,
    limit: usize,
) -> Result<Value, JsonError> {
    let left = Cell::new(limit);
    let value = Bounded { left: &left, depth: 0 }.deserialize(&mut reader);
    let value = value.and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| match error.classify() {
        serde_json::error::Category::Data => JsonError::TooMuch { limit },
        _ => JsonError::Syntax(error),
    })
}

/// Writes a message as one line with its `\n`. A `\n` in the message is always escaped.
///
/// # Errors
///
/// [`LineTooLong`] if the line without its end has more than `limit` bytes.
pub fn encode_line(message: &Value, limit: usize) -> Result<Vec<u8>, LineTooLong> {
    let mut line = Line { bytes: Vec::with_capacity(MOST_LINES), len: 0, limit };
    // Keys are strings, and writing to memory does not fail.
    let _ = serde_json::to_writer(&mut line, message);
    if line.len > limit {
        return Err(LineTooLong { len: line.len, limit });
    }
    line.bytes.push(b'\n');
    Ok(line.bytes)
}

/// A line being written. The bytes of an oversized one are counted but not kept.
struct Line {
    bytes: Vec<u8>,
    len: usize,
    limit: usize,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.len = self.len.saturating_add(bytes.len());
        if self.len <= self.limit {
            self.bytes.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The initial capacity of a line, in bytes.
const MOST_LINES: usize = 256;

/// An outgoing message that exceeds the line limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {len} bytes exceeds the limit of {limit}")]
pub struct LineTooLong {
    /// Its length in bytes.
    pub len: usize,
    /// The limit in bytes.
    pub limit: usize,
}

/// Returns about how many bytes of memory a value takes.
pub(crate) fn weight(value: &Value) -> usize {
    let below = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => {
            members.iter().map(|(key, value)| ENTRY + key.len() + weight(value)).sum()
        }
    };
    size_of::<Value>() + below
}

/// Memory per object member besides key and value, in bytes.
const ENTRY: usize = 40;

/// A deserializer seed that bounds count and depth.
#[derive(Clone, Copy)]
struct Bounded<'a> {
    left: &'a Cell<usize>,
    /// The current depth.
    depth: usize,
}

impl Bounded<'_> {
    /// Returns the seed for an array's or an object's members; an error if nested too deeply.
    fn inside<E: serde::de::Error>(self) -> Result<Self, E> {
        let depth = self.depth.saturating_add(1);
        if depth > MAX_DEPTH { Err(E::custom("too deep")) } else { Ok(Bounded { depth, ..self }) }
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| D::Error::custom("too many"))?;
        self.left.set(left);
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(inside)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            object.insert(key, members.next_value_seed(inside)?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_match_serde_json() {
        let rows = [
            "null",
            "true",
            "-1",
            "18446744073709551615",
            "1.5e3",
            r#""a\u00e9\n""#,
            r#"[1, [], {}, [[2]]]"#,
            r#"{"z": 1, "a": {"m": [null]}, "z": 2}"#,
        ];
        for text in rows {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse_json(text, 100).unwrap(), expected, "{text}");
        }
        for text in ["", "{", "[1,]", "1 2", "{} x", "nul", "\"\u{1}\"", "01"] {
            assert!(matches!(parse_json(text, 100), Err(JsonError::Syntax(_))), "{text}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_reads_as_a_replacement_character() {
        let rows = [
            (r#""\ud800""#, "\u{fffd}"),
            (r#""\uDFFF!""#, "\u{fffd}!"),
            (r#""a\ud83d\ude00b""#, "a\u{1f600}b"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\ud83d\n\ude00""#, "\u{fffd}\n\u{fffd}"),
            (r#""\ud83d\u0041""#, "\u{fffd}A"),
            (r#""\ud83du0041""#, "\u{fffd}u0041"),
            (r#""\ud83d\\ude00""#, "\u{fffd}\\ude00"),
            (r#""\\ud800\ud800\\\ud800""#, "\\ud800\u{fffd}\\\u{fffd}"),
            (r#""é\ud800é""#, "é\u{fffd}é"),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_json(text, 1).unwrap(), expected, "{text}");
        }
        let text = r#"{"\ud800": ["\udc00", {"a\udbff\udbff": 1}]}"#;
        let expected = json!({"\u{fffd}": ["\u{fffd}", {"a\u{fffd}\u{fffd}": 1}]});
        assert_eq!(parse_json(text, 5).unwrap(), expected);
        assert!(matches!(parse_json(text, 4), Err(JsonError::TooMuch { limit: 4 })));
        let deep = format!("{}\"\\ud800\"{}", "[".repeat(200), "]".repeat(200));
        assert!(matches!(parse_json(&deep, 1000), Err(JsonError::TooMuch { .. })));
        for text in [r#""\ud800"#, r#"{"\ud800"}"#, r#""\ud800\u12""#, r#""\ud800" x"#, r#"\ud800"#]
        {
            assert!(matches!(parse_json(text, 100), Err(JsonError::Syntax(_))), "{text}");
        }
    }

    #[test]
    fn too_many_values_are_an_error() {
        for (text, count) in [("1", 1), ("[1,2]", 3), (r#"{"a":[1],"b":{}}"#, 4)] {
            assert!(parse_json(text, count).is_ok(), "{text}");
            let error = parse_json(text, count - 1).unwrap_err();
            let expected =
                format!("more than {} values, or 126 levels of them, in one line", count - 1);
            assert_eq!(error.to_string(), expected);
        }
        let flood = format!("[{}0]", "0,".repeat(1 << 20));
        assert!(matches!(parse_json(&flood, 1000), Err(JsonError::TooMuch { .. })));
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse_json(&nested(MAX_DEPTH), 1000).is_ok());
        for depth in [MAX_DEPTH + 1, 1 << 20] {
            assert!(matches!(parse_json(&nested(depth), 1 << 30), Err(JsonError::TooMuch { .. })));
        }
    }

    #[test]
    fn a_message_is_encoded_as_one_line() {
        let message = json!({"text": "a\nb\r\u{2028}"});
        let line = encode_line(&message, 64).unwrap();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(line.last(), Some(&b'\n'));
        assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), message);
        let error = LineTooLong { len: 4, limit: 3 };
        assert_eq!(encode_line(&json!("12"), 3), Err(error));
        assert!(encode_line(&json!("12"), 4).is_ok());
    }

    #[test]
    fn weights_grow_with_content() {
        let rows = [json!(1), json!("x"), json!(["x", 1]), json!({"key": ["x", 1]})];
        let weights: Vec<usize> = rows.iter().map(weight).collect();
        assert!(weights.is_sorted(), "{weights:?}");
        assert!(weight(&json!("x".repeat(1000))) >= 1000);
    }
}
