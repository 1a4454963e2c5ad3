//! Properties for any agent output: splits change nothing, nothing panics, memory is bounded,
//! each request completes once, and the order of tool call updates does not matter.

#[path = "checked/client.rs"]
mod checked;
#[path = "../../wire/tests/strategy/pieces.rs"]
mod pieces;
mod strategy;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aifo_acp::{
    CallState, Channel, Completion, Frame, FrameReader, Id, Inbound, Limits, Message,
    MessageReader, Pending, Piece, PushOutcome, Streaming, Timeline, ToolCalls, Traffic, classify,
    encode_line, parse_json, rewrite_data_uris,
};
use checked::CheckedClient;
use pieces::pieces;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use strategy::{agent_message, id, json_value, lines, updates};

/// Limits so small that random bytes reach them.
fn small() -> Limits {
    Limits {
        frame: 160,
        frame_head: 40,
        values: 24,
        non_json_tail: 64,
        requests: 3,
        early_updates: 4,
        early_bytes: 4096,
        turn_updates: 20,
        turn_bytes: 4096,
        turn_kinds: 3,
        tool_calls: 4,
        tool_bytes: 8192,
        ..Limits::default()
    }
}

/// Returns all frames of the bytes.
fn frames(bytes: &[u8], lengths: &[usize]) -> Vec<String> {
    let mut reader = FrameReader::new(160, 40);
    let mut read = Vec::new();
    let mut take = |reader: &mut FrameReader, most: usize| {
        for _ in 0..=most {
            match reader.next_frame() {
                Some(Frame::Eof) | None => return,
                Some(frame) => read.push(format!("{frame:?}")),
            }
        }
        panic!("more frames than bytes");
    };
    for piece in pieces(bytes, lengths) {
        reader.receive(piece);
        take(&mut reader, bytes.len());
        assert!(reader.held() <= 160 + 40, "{}", reader.held());
    }
    reader.receive_eof();
    take(&mut reader, bytes.len());
    read
}

/// Returns all messages of the bytes, and the tail of other output.
fn messages(bytes: &[u8], lengths: &[usize]) -> (Vec<Inbound>, Traffic, String) {
    let mut reader = MessageReader::new(&small());
    let mut read = Vec::new();
    for piece in pieces(bytes, lengths) {
        reader.receive(piece);
        read.extend(std::iter::from_fn(|| reader.next_message()));
        assert!(reader.held() <= 200 && reader.non_json().len() <= 64);
    }
    reader.receive_eof();
    read.extend(std::iter::from_fn(|| {
        reader.next_message().filter(|inbound| *inbound != Inbound::Eof)
    }));
    (read, reader.traffic(), reader.non_json().to_owned())
}

proptest! {
    #[test]
    fn splits_change_nothing(bytes in lines(), lengths in vec(1..40usize, 1..8)) {
        let whole = [bytes.len().max(1)];
        prop_assert_eq!(frames(&bytes, &whole), frames(&bytes, &lengths));
        prop_assert_eq!(messages(&bytes, &whole), messages(&bytes, &lengths));
    }

    #[test]
    fn values_match_serde_json(value in json_value()) {
        let line = encode_line(&value, usize::MAX).unwrap();
        let text = std::str::from_utf8(&line).unwrap().trim_end();
        prop_assert_eq!(text.lines().count(), 1);
        // Not the value itself: serde_json reads some numbers slightly differently.
        let expected: Value = serde_json::from_str(text).unwrap();
        prop_assert_eq!(parse_json(text, 1 << 20).unwrap(), expected);
    }

    #[test]
    fn escapes_of_any_code_units_are_text(
        units in vec(prop_oneof![any::<u16>(), 0xd7fe..0xe002u16, 0xdbfe..0xdc02u16], 0..12),
        other in prop_oneof![Just(""), Just("\\\\"), Just("\\\""), Just("d"), Just("é")],
    ) {
        let escaped: Vec<String> = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
        let escaped = escaped.join(other);
        let other = other.replace("\\\\", "\\").replace("\\\"", "\"");
        let texts: Vec<u16> = match other.as_str() {
            "" => units,
            other => {
                let other: Vec<u16> = other.encode_utf16().collect();
                units.chunks(1).collect::<Vec<_>>().join(&other[..])
            }
        };
        let expected = String::from_utf16_lossy(&texts);
        let line = format!("{{\"{escaped}\": [\"{escaped}\"]}}");
        prop_assert_eq!(parse_json(&line, 3).unwrap(), json!({&*expected: [&*expected]}));
        prop_assert!(parse_json(&line, 2).is_err());
    }

    #[test]
    fn each_item_of_a_batch_is_a_message(value in json_value()) {
        let expected = value.as_array().map_or(1, |batch| batch.len().max(1));
        prop_assert_eq!(classify(value).len(), expected);
    }

    #[test]
    fn encoded_messages_are_classified_as_before(id in id(), method in "[a-z/_$]{1,12}", value in json_value()) {
        let messages = [
            Message::Request { id: id.clone(), method: method.clone(), params: value.clone() },
            Message::Notification { method, params: value.clone() },
            Message::Response { id, outcome: Ok(value) },
        ];
        for message in messages {
            prop_assert_eq!(classify(message.to_value()), vec![message]);
        }
    }

    #[test]
    fn each_request_is_completed_once(steps in vec((0..6u64, any::<bool>()), 0..60)) {
        let start = Instant::now();
        let mut pending = Pending::default();
        let mut completed: HashMap<u64, u32> = HashMap::new();
        for (step, (number, times_out)) in steps.into_iter().enumerate() {
            let now = start + Duration::from_secs(step as u64);
            let deadline = times_out.then(|| now + Duration::from_secs(number));
            completed.insert(pending.enter((), deadline), 0);
            let answer = pending.complete(&Id::from(number));
            let answered = match answer { Completion::Known(id, ()) => Some(id), _ => None };
            for id in answered.into_iter().chain(std::iter::from_fn(|| Some(pending.expire(now)?.0))) {
                *completed.get_mut(&id).unwrap() += 1;
            }
        }
        for (id, ()) in std::iter::from_fn(|| pending.pop()) {
            *completed.get_mut(&id).unwrap() += 1;
        }
        prop_assert!(completed.values().all(|count| *count == 1));
    }

    #[test]
    fn call_updates_in_any_order_give_the_same_result(
        (updates, shuffled) in updates().prop_flat_map(|updates| {
            let twice: Vec<Value> = updates.iter().chain(&updates).cloned().collect();
            (Just(updates), Just(twice).prop_shuffle())
        })
    ) {
        let end = |updates: &[Value]| {
            let mut calls = ToolCalls::new(100, 1 << 20);
            for update in updates {
                calls.upsert(update);
            }
            let mut calls: Vec<_> = calls.iter().cloned().collect();
            calls.sort_by(|a, b| a.id().cmp(b.id()));
            let updates: Vec<(String, CallState, Vec<Option<Value>>)> = calls
                .iter()
                .map(|call| {
                    let members = ["title", "kind", "rawInput", "content"];
                    let members = members.map(|name| call.member(name).cloned());
                    (call.id().to_owned(), call.state(), members.to_vec())
                })
                .collect();
            updates
        };
        prop_assert_eq!(end(&updates), end(&shuffled));
    }

    #[test]
    fn interleaved_texts_give_the_same_answer(
        chunks in vec((0..2usize, "[a-z]{1,3}", any::<bool>()), 0..40),
    ) {
        let channels = [Channel::Answer, Channel::Thought];
        let mut timeline = Timeline::new(Streaming::Delta, 1 << 20);
        let mut expected = String::new();
        for (index, (channel, text, has_tool)) in chunks.iter().enumerate() {
            let channel = channels[*channel];
            prop_assert_eq!(timeline.push(channel, None, Piece::Text(text)), PushOutcome::Stored);
            if channel == Channel::Answer {
                expected.push_str(text);
            }
            if *has_tool {
                prop_assert_eq!(timeline.push_tool(&format!("t{index}")), PushOutcome::Stored);
            }
        }
        prop_assert_eq!(timeline.draft(), expected);
    }

    #[test]
    fn snapshots_give_the_last_and_deltas_all(
        text in "[a-zé\n|-]{3,40}", cuts in vec(any::<prop::sample::Index>(), 2..8),
    ) {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len()) + 1).collect();
        ends.retain(|end| text.is_char_boundary(*end));
        ends.push(text.len());
        ends.sort_unstable();
        ends.dedup();
        let updates = |streaming: Streaming, chunks: &mut dyn Iterator<Item = &str>| {
            let mut timeline = Timeline::new(streaming, 1 << 20);
            for chunk in chunks {
                assert_eq!(timeline.push(Channel::Answer, None, Piece::Text(chunk)), PushOutcome::Stored);
            }
            timeline.draft()
        };
        let snapshots = || ends.iter().map(|end| &text[..*end]);
        prop_assert_eq!(&updates(Streaming::Snapshot, &mut snapshots()), &text);
        if ends.len() > 2 {
            prop_assert_eq!(&updates(Streaming::Auto, &mut snapshots()), &text);
        }
        let begins = std::iter::once(0).chain(ends.iter().copied());
        let mut parts = begins.zip(&ends).map(|(begin, end)| &text[begin..*end]);
        prop_assert_eq!(&updates(Streaming::Delta, &mut parts), &text);
    }

    #[test]
    fn text_without_a_data_uri_stays(text in "[a-z:;,=/ é]{0,80}") {
        let rewritten = rewrite_data_uris(&text, 1 << 20, |_| Some("/media/x".to_owned()));
        if !text.contains("data:image/") {
            prop_assert_eq!(rewritten.as_ref(), text.as_str());
        }
    }

    #[test]
    fn any_agent_output_is_handled(
        script in vec((agent_message(), 0..6u8, 0..200u64), 0..60),
        lengths in vec(1..200usize, 1..4),
    ) {
        let mut client = CheckedClient::new(small(), Streaming::default());
        for (line, action, seconds) in script {
            for piece in pieces(format!("{line}\n").as_bytes(), &lengths) {
                client.receive(piece);
            }
            client.act(action);
            client.pass(Duration::from_secs(seconds));
        }
        client.end();
    }
}
