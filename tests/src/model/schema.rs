//! The smallest value that matches a JSON schema.

use serde_json::{Map, Value, json};

/// A value with only required members. Of alternatives it takes the first; unknown types become
/// `null`.
///
/// Gemini writes types in capitals.
pub(super) fn smallest(schema: &Value) -> Value {
    within(schema, schema)
}

fn within(root: &Value, schema: &Value) -> Value {
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        return values.first().cloned().unwrap_or_default();
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let target = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map(|target| within(root, target)).unwrap_or_default();
    }
    for word in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema.get(word).and_then(|all| all.get(0)) {
            return within(root, first);
        }
    }
    match kind(schema).as_deref() {
        Some("object") => {
            let required = schema.get("required").and_then(Value::as_array);
            let names = required.into_iter().flatten().filter_map(Value::as_str);
            let value = |name: &str| {
                let schema = schema.get("properties").and_then(|all| all.get(name));
                schema.map(|schema| within(root, schema)).unwrap_or_default()
            };
            Value::Object(names.map(|name| (name.to_owned(), value(name))).collect::<Map<_, _>>())
        }
        Some("array") => json!([]),
        Some("string") => json!("ok"),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(0)),
        Some("boolean") => json!(false),
        _ => Value::Null,
    }
}

/// The type in lower case; the first, if there are several.
pub(super) fn kind(schema: &Value) -> Option<String> {
    let kind = schema.get("type")?;
    let kind = kind.get(0).unwrap_or(kind).as_str()?;
    Some(kind.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_schema() {
        let rows = [
            (json!({"type": "string"}), json!("ok")),
            (json!({"type": "STRING", "enum": ["user", "model"]}), json!("user")),
            (json!({"type": ["integer", "null"], "minimum": 1}), json!(1)),
            (json!({"type": "number"}), json!(0)),
            (json!({"type": "boolean"}), json!(false)),
            (json!({"type": "array", "items": {"type": "string"}}), json!([])),
            (json!({"const": 7}), json!(7)),
            (json!({"anyOf": [{"type": "boolean"}, {"type": "null"}]}), json!(false)),
            (json!({}), Value::Null),
        ];
        for (schema, value) in rows {
            assert_eq!(smallest(&schema), value, "{schema}");
        }
    }

    #[test]
    fn an_object_has_what_is_required_and_no_more() {
        let schema = json!({
            "type": "OBJECT",
            "properties": {"a": {"$ref": "#/$defs/a"}, "b": {"type": "string"}},
            "required": ["a", "c"],
            "$defs": {"a": {"type": "object", "properties": {}}},
        });
        assert_eq!(smallest(&schema), json!({"a": {}, "c": null}));
    }
}
