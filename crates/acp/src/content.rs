//! Assigns content to the answer, the thoughts or the user by its labels, never by its text.

use serde_json::Value;

use crate::update::{Update, UpdateKind};

/// The audience of a piece of content (`spec/acp.md#content`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// The answer.
    Answer,
    /// The agent's reasoning, plans and notes.
    Thought,
    /// An echo of the user's message.
    User,
}

/// A piece of content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Piece<'a> {
    /// Text, never empty.
    Text(&'a str),
    /// Any other block, as received: an image, a resource, an unknown type.
    Block(&'a Value),
}

/// Returns the pieces of a message chunk in order, each with its channel; none for other updates.
pub fn pieces(update: &Update) -> Vec<(Channel, Piece<'_>)> {
    let body = update.body();
    let of_kind = match update.kind() {
        UpdateKind::AgentMessage => Channel::Answer,
        UpdateKind::AgentThought => Channel::Thought,
        UpdateKind::UserMessage => Channel::User,
        _ => return Vec::new(),
    };
    // The update's kind decides. Only an answer can be reassigned, by its innermost label.
    let of_update = labelled(body).unwrap_or(Channel::Answer);
    let mut pieces = Vec::new();
    let content = held(body).unwrap_or(&Value::Null);
    blocks(content, of_update, &mut |of_label, piece| {
        let channel = if of_kind == Channel::Answer { of_label } else { of_kind };
        pieces.push((channel, piece));
    });
    pieces
}

/// Passes each block of a content to `give`, unwrapped, with the channel of its labels. Depth is
/// bounded by [`MAX_DEPTH`](crate::MAX_DEPTH).
fn blocks<'a>(content: &'a Value, around: Channel, give: &mut impl FnMut(Channel, Piece<'a>)) {
    match content {
        Value::Array(items) => items.iter().for_each(|item| blocks(item, around, give)),
        Value::String(text) if !text.is_empty() => give(around, Piece::Text(text)),
        Value::Object(members) => {
            let channel = labelled(content).unwrap_or(around);
            let kind = members.get("type").unwrap_or(&Value::Null);
            let is_wrapper = kind.is_null() || WRAPPERS.iter().any(|wrapper| kind == wrapper);
            match held(content).filter(|_| is_wrapper) {
                Some(inner) => blocks(inner, channel, give),
                None if is_wrapper => {}
                None => give(channel, Piece::Block(content)),
            }
        }
        _ => {}
    }
}

/// Returns a wrapper's content: its text, else its `content`.
fn held(wrapper: &Value) -> Option<&Value> {
    let is_there = |held: &&Value| !held.is_null() && *held != "";
    ["text", "content"].into_iter().filter_map(|name| wrapper.get(name)).find(is_there)
}

/// Types of blocks that only wrap their content.
const WRAPPERS: [&str; 2] = ["text", "content"];

/// Returns the channel that an update's or a block's labels name, if known.
fn labelled(value: &Value) -> Option<Channel> {
    let annotations = value.get("annotations");
    let places = [Some(value), value.get("_meta"), annotations].into_iter().flatten();
    let words =
        places.flat_map(|place| LABELS.iter().filter_map(|label| place.get(label)?.as_str()));
    let mut channels = words.filter_map(|word| {
        let word = word.to_ascii_lowercase();
        WORDS.iter().find(|(known, _)| *known == word).map(|(_, channel)| *channel)
    });
    channels.next().or_else(|| {
        let audience = annotations?.get("audience")?.as_array()?;
        let is_for_user = audience.is_empty() || audience.iter().any(|role| role == "user");
        (!is_for_user).then_some(Channel::Thought)
    })
}

/// Members that label content.
const LABELS: [&str; 4] = ["segment", "kind", "channel", "role"];
/// Known labels.
const WORDS: [(&str, Channel); 7] = [
    ("thought", Channel::Thought),
    ("thinking", Channel::Thought),
    ("reasoning", Channel::Thought),
    ("analysis", Channel::Thought),
    ("intent", Channel::Thought),
    ("plan", Channel::Thought),
    ("user", Channel::User),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described(body: Value) -> Vec<String> {
        let update = Update::parse(json!({"sessionId": "s", "update": body})).unwrap();
        let describe = |(channel, piece): &(Channel, Piece<'_>)| match piece {
            Piece::Text(text) => format!("{channel:?} {text}"),
            Piece::Block(block) => format!("{channel:?} {}", block["type"]),
        };
        pieces(&update).iter().map(describe).collect()
    }

    fn chunk(kind: &str, content: Value) -> Value {
        json!({"sessionUpdate": kind, "content": content})
    }

    #[test]
    fn the_kind_sets_the_channel() {
        let text = json!({"type": "text", "text": "> | x"});
        for (kind, expected) in [
            ("agent_message_chunk", "Answer > | x"),
            ("agent_thought_chunk", "Thought > | x"),
            ("user_message_chunk", "User > | x"),
        ] {
            assert_eq!(described(chunk(kind, text.clone())), [expected]);
        }
        assert_eq!(described(chunk("tool_call", text.clone())), [""; 0]);
        assert_eq!(described(chunk("unheard_of", text)), [""; 0]);
    }

    #[test]
    fn labels_only_move_content_out_of_the_answer() {
        let text = |label: Value| {
            let mut block = json!({"type": "text", "text": "x"});
            block.as_object_mut().unwrap().extend(label.as_object().unwrap().clone());
            block
        };
        let rows = [
            (json!({"segment": "thought"}), "Thought x"),
            (json!({"channel": "Analysis"}), "Thought x"),
            (json!({"_meta": {"kind": "plan"}}), "Thought x"),
            (json!({"annotations": {"role": "user"}}), "User x"),
            (json!({"annotations": {"audience": ["assistant"]}}), "Thought x"),
            (json!({"annotations": {"audience": ["assistant", "user"]}}), "Answer x"),
            (json!({"annotations": {"audience": []}}), "Answer x"),
            (json!({"role": "assistant", "kind": 7}), "Answer x"),
            (json!({"channel": "final"}), "Answer x"),
        ];
        for (label, expected) in rows {
            let block = text(label.clone());
            assert_eq!(described(chunk("agent_message_chunk", block)), [expected], "{label}");
        }
        let thought = chunk("agent_thought_chunk", text(json!({"channel": "final"})));
        assert_eq!(described(thought), ["Thought x"]);
        let mut labelled = chunk("agent_message_chunk", text(json!({})));
        labelled["segment"] = json!("intent");
        assert_eq!(described(labelled), ["Thought x"]);
    }

    #[test]
    fn content_has_many_forms() {
        let wrapped = json!({"type": "content", "content": {"type": "text", "text": "x"}});
        let rows: [(Value, &[&str]); 24] = [
            (json!("x"), &["Answer x"]),
            (json!({"text": "x"}), &["Answer x"]),
            (json!({"content": {"type": "text", "text": "x"}}), &["Answer x"]),
            (
                json!([{"type": "text", "text": "x"}, {"type": "image"}, "y"]),
                &["Answer x", "Answer \"image\"", "Answer y"],
            ),
            (json!({"type": "hologram"}), &["Answer \"hologram\""]),
            (wrapped.clone(), &["Answer x"]),
            (json!([wrapped, "y", [[wrapped]]]), &["Answer x", "Answer y", "Answer x"]),
            (
                json!({"type": "content", "content": [wrapped, {"type": "image"}]}),
                &["Answer x", "Answer \"image\""],
            ),
            (json!({"type": "content", "content": "x"}), &["Answer x"]),
            (json!({"type": "content", "text": "x"}), &["Answer x"]),
            (json!({"type": "text", "content": "x"}), &["Answer x"]),
            (json!({"type": "text", "text": {"type": "text", "text": "x"}}), &["Answer x"]),
            (json!({"type": "text", "text": ["x", {"text": "y"}]}), &["Answer x", "Answer y"]),
            (json!({"type": "text", "text": "", "content": ["x"]}), &["Answer x"]),
            (json!({"type": null, "text": null, "content": {"content": "x"}}), &["Answer x"]),
            (
                json!({"type": "resource", "resource": {"text": "x"}, "content": "y"}),
                &["Answer \"resource\""],
            ),
            (json!({"type": "text", "text": ""}), &[]),
            (json!({"type": "text", "text": null}), &[]),
            (json!({"type": "text"}), &[]),
            (json!({"text": 7}), &[]),
            (json!({}), &[]),
            (json!(null), &[]),
            (json!(7), &[]),
            (json!(""), &[]),
        ];
        for (content, expected) in rows {
            assert_eq!(
                described(chunk("agent_message_chunk", content.clone())),
                expected,
                "{content}"
            );
        }
        assert_eq!(described(json!({"sessionUpdate": "agent_message_chunk"})), [""; 0]);
        assert_eq!(
            described(json!({"sessionUpdate": "user_message_chunk", "text": "x"})),
            ["User x"]
        );
        let wrapped = json!({"type": "content", "_meta": {"kind": "thinking"}, "content": wrapped});
        let both = json!([wrapped, {"type": "content", "role": "user", "content": wrapped}, "x"]);
        let expected = ["Thought x", "Thought x", "Answer x"];
        assert_eq!(
            described(chunk("agent_message_chunk", both.clone())),
            expected,
            "the innermost label"
        );
        assert_eq!(described(chunk("agent_thought_chunk", both)), ["Thought x"; 3]);
    }
}
