//! Finds the counts of tokens in a response, as it passes.

use serde_json::Value;

/// Tokens of one response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Of the prompt, including those that the provider had cached.
    pub input: u64,
    /// Of the answer, including its thoughts.
    pub output: u64,
}

/// Reads JSON, or server-sent events with JSON, in parts of any size. It keeps at most [`MAX_OBJECT`] bytes.
#[derive(Debug)]
pub(crate) struct UsageScanner {
    /// A line end begins anew: JSON in events has none.
    lines: bool,
    depth: u32,
    string: Option<Text>,
    /// The last string, until another token than `:` follows.
    key: Option<Text>,
    /// The key `usage` was read, and its value may follow.
    expected: bool,
    object: Option<Object>,
    tokens: Tokens,
}

/// A string that may be a key.
#[derive(Debug, Default)]
struct Text {
    bytes: Vec<u8>,
    escaped: bool,
}

#[derive(Debug)]
struct Object {
    depth: u32,
    bytes: Vec<u8>,
}

/// The longest object with usage in bytes. Longer ones are not counted.
const MAX_OBJECT: usize = 8 * 1024;

/// Keys of usage, and their depth: at the top, or within `response` or `message`. Deeper ones are the model's.
const KEYS: [&[u8]; 2] = [b"usage", b"usageMetadata"];
const MAX_DEPTH: u32 = 2;
const MAX_KEY: usize = 16;

impl UsageScanner {
    /// Returns a scanner for this type of content; `None` for one without usage.
    pub(crate) fn of(content_type: &str) -> Option<Self> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let lines = match essence {
            "application/json" => false,
            "text/event-stream" | "application/x-ndjson" => true,
            _ => return None,
        };
        let tokens = Tokens::default();
        let (string, key, object) = (None, None, None);
        Some(UsageScanner { lines, depth: 0, string, key, expected: false, object, tokens })
    }

    /// The largest counts so far.
    pub(crate) fn tokens(&self) -> Tokens {
        self.tokens
    }

    pub(crate) fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.lines && byte == b'\n' {
            (self.depth, self.string, self.key, self.object) = (0, None, None, None);
            self.expected = false;
            return;
        }
        if let Some(object) = &mut self.object {
            object.bytes.push(byte);
            if object.bytes.len() > MAX_OBJECT {
                self.object = None;
            }
        }
        if let Some(text) = &mut self.string {
            match byte {
                _ if text.escaped => text.escaped = false,
                b'\\' => text.escaped = true,
                b'"' => self.key = self.string.take(),
                _ => {}
            }
            // A longer text is not a key; its beginning is not one either.
            if let Some(text) = &mut self.string
                && text.bytes.len() <= MAX_KEY
            {
                text.bytes.push(byte);
            }
            return;
        }
        match byte {
            b'"' => self.string = Some(Text::default()),
            b':' => {
                let key = self.key.take();
                let is_usage = key.is_some_and(|key| KEYS.contains(&key.bytes.as_slice()));
                self.expected = is_usage && self.depth <= MAX_DEPTH && self.object.is_none();
                return;
            }
            b'{' | b'[' => {
                if self.expected && byte == b'{' {
                    self.object = Some(Object { depth: self.depth, bytes: vec![b'{'] });
                }
                self.depth = self.depth.saturating_add(1);
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if let Some(object) = self.object.take_if(|object| object.depth == self.depth) {
                    self.count(&object.bytes);
                }
            }
            b' ' | b'\t' | b'\r' | b'\n' => return,
            _ => {}
        }
        self.expected = false;
        if byte != b'"' {
            self.key = None;
        }
    }

    fn count(&mut self, object: &[u8]) {
        let Ok(usage) = serde_json::from_slice::<Value>(object) else { return };
        let sum = |names: &[&str]| {
            let counts = names.iter().filter_map(|name| usage.get(name)?.as_u64());
            counts.fold(0, u64::saturating_add)
        };
        // A provider has one of these groups; the parts of a group add up.
        let input =
            sum(&["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"])
                .max(sum(&["prompt_tokens"]))
                .max(sum(&["promptTokenCount", "toolUsePromptTokenCount"]));
        let output = sum(&["output_tokens"])
            .max(sum(&["completion_tokens"]))
            .max(sum(&["candidatesTokenCount", "thoughtsTokenCount"]));
        self.tokens.input = self.tokens.input.max(input);
        self.tokens.output = self.tokens.output.max(output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens of a text, read in parts of each size.
    fn tokens(content_type: &str, text: &str) -> (u64, u64) {
        let read = |size: usize| {
            let mut scanner = UsageScanner::of(content_type).unwrap();
            text.as_bytes().chunks(size).for_each(|part| scanner.read(part));
            scanner.tokens()
        };
        let all = read(text.len().max(1));
        for size in [1, 2, 7] {
            assert_eq!(read(size), all);
        }
        (all.input, all.output)
    }

    const JSON: &str = "application/json; charset=utf-8";
    const EVENTS: &str = "text/event-stream";

    #[test]
    fn answers_in_one_piece() {
        let chat = r#"{"id": "x", "choices": [{"message": {"content": "\"usage\": {"}}],
            "usage" : {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21,
            "prompt_tokens_details": {"cached_tokens": 4}}}"#;
        assert_eq!(tokens(JSON, chat), (9, 12));
        let gemini = r#"{"candidates": [], "usageMetadata": {"promptTokenCount": 5,
            "candidatesTokenCount": 7, "thoughtsTokenCount": 2, "totalTokenCount": 14}}"#;
        assert_eq!(tokens(JSON, gemini), (5, 9));
    }

    #[test]
    fn events() {
        let anthropic = "event: message_start\n\
            data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\
            \"cache_read_input_tokens\":5,\"output_tokens\":1}}}\n\n\
            event: message_delta\n\
            data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\n\n";
        assert_eq!(tokens(EVENTS, anthropic), (15, 15));
        let responses = "data: {\"type\":\"response.completed\",\"response\":{\"usage\":\
            {\"input_tokens\":3,\"output_tokens\":4}}}\n\ndata: [DONE]\n\n";
        assert_eq!(tokens(EVENTS, responses), (3, 4));
        let broken = "data: {\"cut\": \"\n\ndata: {\"usage\":{\"prompt_tokens\":1}}\n\n";
        assert_eq!(tokens(EVENTS, broken), (1, 0));
    }

    #[test]
    fn a_models_own_words_are_not_counted() {
        let input = r#"{"content": [{"type": "tool_use", "input": {"usage": {"input_tokens": 999}}}],
            "note": "usage", "usage": null, "other": {"x": {"usage": {"input_tokens": 999}}}}"#;
        assert_eq!(tokens(JSON, input), (0, 0));
        let long = format!(
            "{{\"usage\": {{\"a\": \"{}\", \"input_tokens\": 1}}}}",
            "x".repeat(MAX_OBJECT)
        );
        assert_eq!(tokens(JSON, &long), (0, 0));
        assert_eq!(tokens(JSON, "]]}}{\"usage\":{\"input_tokens\":-1}}"), (0, 0));
    }

    #[test]
    fn other_content_is_not_read() {
        assert!(UsageScanner::of("application/octet-stream").is_none());
    }
}
