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

impl Tokens {
    pub(crate) fn sum(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// Reads JSON, or server-sent events with JSON, in parts of any size. It keeps at most [`MAX_OBJECT`] bytes.
#[derive(Debug, Default)]
pub(crate) struct UsageScanner {
    /// A line end begins anew: JSON in events has none.
    lines: bool,
    depth: u32,
    /// The usage in the open object at the top, and in the one within it. `None` in a list, and in members of
    /// the model.
    top: Option<Extent>,
    inner: Option<Extent>,
    string: Option<Text>,
    /// The last string, until another token than `:` follows.
    key: Option<Text>,
    /// The key of the value that may follow.
    member: Member,
    object: Option<Object>,
    tokens: Tokens,
    is_final: bool,
    has_failed: bool,
}

/// The part of the response of which an object has the usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// The object at the top, one of a list at the top, or `response`.
    Whole,
    /// `message`, with which a stream begins.
    Beginning,
}

/// A member whose value counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Member {
    Usage,
    Response,
    Message,
    /// The provider's error, in place of the rest of a stream.
    Error,
    #[default]
    Other,
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
    extent: Extent,
    bytes: Vec<u8>,
}

/// The longest object with usage in bytes. Longer ones are not counted.
const MAX_OBJECT: usize = 8 * 1024;

/// The longest key that is compared.
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
        Some(UsageScanner { lines, ..UsageScanner::default() })
    }

    /// The largest counts so far.
    pub(crate) fn tokens(&self) -> Tokens {
        self.tokens
    }

    /// Returns whether the counts are of the whole response, if it has ended.
    pub(crate) fn is_final(&self) -> bool {
        self.is_final && !self.has_failed
    }

    pub(crate) fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.lines && byte == b'\n' {
            (self.depth, self.string, self.key, self.object) = (0, None, None, None);
            self.member = Member::Other;
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
                let key = self.key.take().map(|key| key.bytes);
                self.member = match key.as_deref().unwrap_or_default() {
                    b"usage" | b"usageMetadata" => Member::Usage,
                    b"response" | b"x_groq" => Member::Response,
                    b"error" if self.depth == 1 => Member::Error,
                    b"message" => Member::Message,
                    _ => Member::Other,
                };
                return;
            }
            b'{' | b'[' => self.open(byte == b'{'),
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if let Some(object) = self.object.take_if(|object| object.depth == self.depth) {
                    self.count(&object);
                }
            }
            b' ' | b'\t' | b'\r' | b'\n' => return,
            _ => {}
        }
        self.has_failed |= self.member == Member::Error && byte != b'n';
        self.member = Member::Other;
        if byte != b'"' {
            self.key = None;
        }
    }

    fn open(&mut self, is_object: bool) {
        let extent = match self.depth {
            1 => self.top,
            2 => self.inner,
            _ => None,
        };
        if let Some(extent) = extent.filter(|_| is_object && self.member == Member::Usage) {
            self.object = Some(Object { depth: self.depth, extent, bytes: vec![b'{'] });
        }
        match self.depth {
            0 => self.top = is_object.then_some(Extent::Whole),
            1 => {
                self.inner = match (self.top, self.member) {
                    (None, _) | (_, Member::Response) => Some(Extent::Whole),
                    (_, Member::Message) => Some(Extent::Beginning),
                    _ => None,
                };
                self.inner = self.inner.filter(|_| is_object);
            }
            _ => {}
        }
        self.depth = self.depth.saturating_add(1);
    }

    fn count(&mut self, object: &Object) {
        let Ok(usage) = serde_json::from_slice::<Value>(&object.bytes) else { return };
        // A count that is none leaves open what the response costs.
        let counts = COUNTS.iter().filter_map(|name| usage.get(name));
        if counts.clone().any(|count| !count.is_null() && !count.is_u64()) {
            self.has_failed = true;
            return;
        }
        // The counts of compactions and of other models are in a list beside those of the answer.
        let iterations = usage.get("iterations").and_then(Value::as_array);
        let within = |names: &[&str], usage: &Value| {
            let counts = names.iter().filter_map(|name| usage.get(name)?.as_u64());
            counts.reduce(u64::saturating_add)
        };
        let sum = |names: &[&str]| {
            let each = iterations.into_iter().flatten().filter_map(|it| within(names, it));
            within(names, &usage).max(each.reduce(u64::saturating_add))
        };
        // A provider has one of these groups; the parts of a group add up.
        let input =
            sum(&["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"])
                .max(sum(&["prompt_tokens"]))
                .max(sum(&["promptTokenCount", "toolUsePromptTokenCount"]));
        let output = sum(&["output_tokens"])
            .max(sum(&["completion_tokens"]))
            .max(sum(&["candidatesTokenCount", "thoughtsTokenCount"]));
        let all = sum(&["total_tokens"]).max(sum(&["totalTokenCount"]));
        self.is_final |= object.extent == Extent::Whole && input.max(output).max(all).is_some();
        let input = input.unwrap_or(0);
        // Some providers have thoughts in the total only.
        let output = output.max(all.map(|all| all.saturating_sub(input))).unwrap_or(0);
        self.tokens.input = self.tokens.input.max(input);
        self.tokens.output = self.tokens.output.max(output);
    }
}

const COUNTS: [&str; 12] = [
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "prompt_tokens",
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "output_tokens",
    "completion_tokens",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "total_tokens",
    "totalTokenCount",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens of a text, if they are final.
    fn final_tokens(content_type: &str, text: &str) -> Option<(u64, u64)> {
        let mut scanner = UsageScanner::of(content_type).unwrap();
        scanner.read(text.as_bytes());
        scanner.is_final().then(|| tokens(content_type, text))
    }

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
    fn only_the_usage_of_a_whole_response_is_final() {
        for (text, expected) in [
            (r#"{"usage": {"prompt_tokens": 1}}"#, Some((1, 0))),
            (
                r#"{"usage": {"total_tokens": 9, "prompt_tokens": 1, "completion_tokens": 2}}"#,
                Some((1, 8)),
            ),
            (r#"{"us\u0061ge": {"prompt_tokens": 1}}"#, None),
            (r#"{"message": {"usage": {"input_tokens": 1}}}"#, None),
            (r#"{"response": {"usage": {"input_tokens": 1}}}"#, Some((1, 0))),
            (r#"{"response": {"usage": null, "x": {"usage": {"input_tokens": 1}}}}"#, None),
            (r#"[{"usageMetadata": {"promptTokenCount": 1}},"#, Some((1, 0))),
            (r#"[[{"usageMetadata": {"promptTokenCount": 1}}]]"#, None),
            (r#"{"metadata": {"usage": {"input_tokens": 1}}}"#, None),
            (r#"{"content": [{"usage": {"input_tokens": 1}}]}"#, None),
            (r#"{"text": "\"usage\":{\"input_tokens\":1}", "usage": {}}"#, None),
            (r#"{"usage": {"input_tokens": -1, "output_tokens": 1e9}}"#, None),
            (r#"{"usage": {"input_tokens": "1"}}"#, None),
            (r#"{"usage": [{"input_tokens": 1}]}"#, None),
            (
                r#"{"usage": {"input_tokens": 18446744073709551615, "cache_read_input_tokens": 9}}"#,
                Some((u64::MAX, 0)),
            ),
            (r#"{"usage": {"input_tokens": 1"#, None),
            (r#"{"usage": {"input_tokens": 7e4, "output_tokens": 5}}"#, None),
            (r#"{"usage": {"input_tokens": "7", "output_tokens": 5}}"#, None),
            (r#"{"usage": {"input_tokens": 1}, "error": {"code": 504}}"#, None),
            (r#"{"usage": {"input_tokens": 1}, "error": null}"#, Some((1, 0))),
            (r#"{"x_groq": {"usage": {"prompt_tokens": 1}}}"#, Some((1, 0))),
            (
                r#"{"usage": {"input_tokens": 23, "output_tokens": 1, "iterations":
                [{"input_tokens": 180, "output_tokens": 3}, {"input_tokens": 23, "output_tokens": 1}]}}"#,
                Some((203, 4)),
            ),
        ] {
            assert_eq!(final_tokens(JSON, text), expected, "{text}");
            let line = text.replace('\n', "");
            let event = format!("data: {line}\r\n\r\ndata: [DONE]\n\n");
            assert_eq!(final_tokens(EVENTS, &event), expected, "{event}");
        }
    }

    #[test]
    fn other_content_is_not_read() {
        assert!(UsageScanner::of("application/octet-stream").is_none());
    }
}
