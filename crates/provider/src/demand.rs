//! The most tokens that a request states, and the requests that cannot be counted (`spec/keys.md#limits`).

use hyper::HeaderMap;
use hyper::body::Bytes;
use hyper::header::HeaderName;
use serde::Deserialize;
use serde_json::Number;

use crate::refusal::Refusal;

/// What a request may cost, as far as it shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Bytes of its body.
    pub(crate) sent: u64,
    /// The most tokens of all its answers; `None` if it states none for its one answer.
    pub(crate) stated: Option<u64>,
}

/// Tokens of the longest answers of models.
pub(crate) const LONGEST_ANSWER: u64 = 128 << 10;

/// The members of a body that decide on the tokens of its answers. A member that occurs twice is an error, as
/// servers differ in which one counts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body {
    max_tokens: Option<Number>,
    max_completion_tokens: Option<Number>,
    max_output_tokens: Option<Number>,
    n: Option<Number>,
    best_of: Option<Number>,
    #[serde(alias = "generation_config")]
    #[serde(rename = "generationConfig")]
    generation: Option<GenerationConfig>,
    /// A list has an answer for each item.
    prompt: Option<String>,
    background: Option<bool>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: Option<bool>,
}

/// A request for an answer, which states its longest length by members of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    /// Chat and completions, whose streams have usage if the request wants it.
    Chat,
    Messages,
    Responses,
    Generate,
    /// It has no answer.
    Embed,
}

impl Endpoint {
    fn of_path(path: &str) -> Self {
        let last = path.rsplit('/').next().unwrap_or_default();
        match last.split_once(':').map_or(last, |(_, method)| method) {
            "responses" | "compact" => Endpoint::Responses,
            "messages" => Endpoint::Messages,
            "embeddings" | "embedContent" | "batchEmbedContents" => Endpoint::Embed,
            _ if last.contains(':') => Endpoint::Generate,
            _ => Endpoint::Chat,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GenerationConfig {
    #[serde(alias = "max_output_tokens")]
    max_output_tokens: Option<Number>,
    #[serde(alias = "candidate_count")]
    candidate_count: Option<Number>,
}

/// A body that is ready to be sent, and what it may cost.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CountedBody {
    pub(crate) body: Bytes,
    pub(crate) demand: Demand,
}

impl Demand {
    /// Returns the most that the request says it costs: a token per byte of its body, and its answers.
    pub(crate) fn most(&self) -> u64 {
        self.stated.unwrap_or(LONGEST_ANSWER).saturating_add(self.sent)
    }
}

impl CountedBody {
    /// Reads the body of a request for this path, and makes a stream report its usage if the provider
    /// takes that option. Errors: it is not JSON of the expected types, its answer comes later, or has no
    /// usage.
    pub(crate) fn read(body: Bytes, path: &str, takes_options: bool) -> Result<Self, Refusal> {
        let (demand, reports_usage) = Demand::of_body(&body, Endpoint::of_path(path))?;
        let open = body.iter().position(|byte| *byte == b'{');
        let body = match open.filter(|_| takes_options && !reports_usage) {
            None => body,
            Some(open) => {
                let (start, rest) = body.split_at(open + 1);
                Bytes::from([start, STREAM_WITH_USAGE, rest].concat())
            }
        };
        Ok(CountedBody { body, demand })
    }
}

/// The first member of a body that has others.
const STREAM_WITH_USAGE: &[u8] = br#""stream_options":{"include_usage":true},"#;

impl Demand {
    /// Returns also whether the response reports its usage.
    fn of_body(body: &[u8], endpoint: Endpoint) -> Result<(Demand, bool), Refusal> {
        let sent = body.len() as u64;
        if body.is_empty() {
            return Ok((Demand::default(), true));
        }
        // A list would be read as the members in their order.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(Refusal::Uncounted("its body is no JSON object".to_owned()));
        }
        let parsed: Result<Body, _> = serde_json::from_slice(body);
        let body = parsed.map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Refusal::Uncounted(format!("unexpected JSON at line {line} column {column}"))
        })?;
        if body.background == Some(true) {
            return Err(Refusal::Uncounted("its answer comes later".to_owned()));
        }
        let generation = body.generation.unwrap_or_default();
        let most = |numbers: [Option<Number>; 3]| {
            numbers.into_iter().flatten().map(|number| as_count(&number)).max()
        };
        let tokens = match endpoint {
            Endpoint::Chat => [body.max_tokens, body.max_completion_tokens],
            Endpoint::Messages => [body.max_tokens, None],
            Endpoint::Responses => [body.max_output_tokens, None],
            Endpoint::Generate => [generation.max_output_tokens, None],
            Endpoint::Embed => [Some(Number::from(0)), None],
        };
        let is_embedded = endpoint == Endpoint::Embed;
        let [first, second] = tokens;
        // A provider may take none of them for no maximum.
        let tokens = most([first, second, None]).filter(|tokens| *tokens > 0 || is_embedded);
        let answers = most([body.n, body.best_of, generation.candidate_count]);
        let answers = answers.unwrap_or(1).max(1);
        let tokens = tokens.or((answers > 1).then_some(LONGEST_ANSWER));
        let stated = tokens.map(|tokens| tokens.saturating_mul(answers));
        let is_silent = endpoint == Endpoint::Chat && body.stream == Some(true);
        let reports_usage = match body.stream_options {
            _ if !is_silent => true,
            None => false,
            Some(options) if options.include_usage == Some(true) => true,
            Some(_) => {
                let reason = "its 'stream_options' do not include usage";
                return Err(Refusal::Uncounted(reason.to_owned()));
            }
        };
        Ok((Demand { sent, stated }, reports_usage))
    }
}

fn as_count(number: &Number) -> u64 {
    let float = number.as_f64().unwrap_or(f64::MAX).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    number.as_u64().unwrap_or(float as u64)
}

/// Parameters of requests that are counted. Others of some servers change the form of the response.
const PARAMETERS: [(&str, &[&str]); 3] =
    [("alt", &["json", "sse"]), ("api-version", &[]), ("beta", &[])];

/// Refuses a request whose response could be without usage: in another form, or only a part of it.
pub(crate) fn check_form(query: Option<&str>, headers: &HeaderMap) -> Result<(), Refusal> {
    let is_counted = |parameter: &&str| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let row = PARAMETERS.iter().find(|(known, _)| *known == name);
        row.is_some_and(|(_, values)| values.is_empty() || values.contains(&value))
    };
    let mut parameters = query.into_iter().flat_map(|query| query.split('&'));
    if let Some(other) = parameters.find(|parameter| !is_counted(parameter)) {
        return Err(Refusal::Uncounted(format!("it has '{other}'")));
    }
    let mut names = headers.keys().map(HeaderName::as_str);
    match names.find(|name| name.starts_with("x-goog-") && !OF_GOOGLE.contains(name)) {
        Some(name) => Err(Refusal::Uncounted(format!("it has '{name}'"))),
        None => Ok(()),
    }
}

/// The headers of this form that do not change the response. Others select a part of it, or encode it.
const OF_GOOGLE: [&str; 4] =
    ["x-goog-api-client", "x-goog-api-key", "x-goog-user-project", "x-goog-request-params"];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str, path: &str) -> Result<CountedBody, Refusal> {
        CountedBody::read(Bytes::from(body.to_owned()), path, true)
    }

    const CHAT: &str = "/v1/chat/completions";
    const RESPONSES: &str = "/v1/responses";
    const GENERATE: &str = "/v1beta/models/m:generateContent";

    #[test]
    fn the_most_that_a_body_states() {
        for (path, body, stated) in [
            (CHAT, "", None),
            (CHAT, "{}", None),
            (CHAT, r#"{"max_tokens": 10}"#, Some(10)),
            (CHAT, r#"{"max_\u0074okens": 10}"#, Some(10)),
            (CHAT, r#"{"max_tokens": 1, "max_completion_tokens": 9.5}"#, Some(10)),
            (CHAT, r#"{"max_output_tokens": 1, "generationConfig": {"maxOutputTokens": 1}}"#, None),
            (CHAT, r#"{"max_tokens": 0}"#, None),
            (CHAT, r#"{"max_tokens": -1}"#, None),
            (CHAT, r#"{"max_tokens": 10, "n": 128}"#, Some(1280)),
            ("/v1/completions", r#"{"max_tokens": 10, "n": 2, "best_of": 20}"#, Some(200)),
            (CHAT, r#"{"max_tokens": 10, "n": -3}"#, Some(10)),
            (CHAT, r#"{"max_tokens": 1e300, "n": 2}"#, Some(u64::MAX)),
            (CHAT, r#"{"max_tokens": null, "messages": [{"max_tokens": 7}]}"#, None),
            (CHAT, r#"{"n": 2}"#, Some(2 * LONGEST_ANSWER)),
            ("/v1/messages", r#"{"max_tokens": 9}"#, Some(9)),
            (RESPONSES, r#"{"max_output_tokens": 9}"#, Some(9)),
            (RESPONSES, r#"{"max_tokens": 1}"#, None),
            ("/v1/responses/compact", r#"{"max_tokens": 1}"#, None),
            ("/v1/embeddings", r#"{"input": "x"}"#, Some(0)),
            ("/v1beta/models/m:embedContent", r#"{"content": {}}"#, Some(0)),
            (
                GENERATE,
                r#"{"generationConfig": {"maxOutputTokens": 10, "candidateCount": 8}}"#,
                Some(80),
            ),
            (
                GENERATE,
                r#"{"generation_config": {"max_output_tokens": 10, "candidate_count": 8}}"#,
                Some(80),
            ),
            (GENERATE, r#"{"max_tokens": 1}"#, None),
        ] {
            let counted = read(body, path).unwrap();
            let demand = Demand { sent: body.len() as u64, stated };
            assert_eq!(counted, CountedBody { body: Bytes::from(body), demand }, "{path} {body}");
        }
    }

    #[test]
    fn a_stream_reports_its_usage() {
        let sent = |body: &str, path: &str, takes_options| {
            let body = Bytes::from(body.to_owned());
            let counted = CountedBody::read(body, path, takes_options).ok()?;
            Some(String::from_utf8_lossy(&counted.body).into_owned())
        };
        let silent = r#" {"stream": true, "model": "m"}"#;
        let with_usage =
            r#" {"stream_options":{"include_usage":true},"stream": true, "model": "m"}"#;
        assert_eq!(sent(silent, CHAT, true).as_deref(), Some(with_usage));
        for (body, path, takes_options) in [
            (silent, RESPONSES, true),
            (silent, CHAT, false),
            (r#"{"stream": false}"#, CHAT, true),
            (r#"{"stream": true, "stream_options": {"include_usage": true}}"#, CHAT, true),
        ] {
            assert_eq!(sent(body, path, takes_options).as_deref(), Some(body), "{path}");
        }
        for options in ["{}", r#"{"include_usage": false}"#, r#"{"include_obfuscation": true}"#] {
            let body = format!(r#"{{"stream": true, "stream_options": {options}}}"#);
            assert_eq!(sent(&body, CHAT, true), None, "{body}");
        }
    }

    #[test]
    fn bodies_that_cannot_be_counted() {
        for body in [
            "max_tokens=1",
            "\u{feff}{}",
            "[]",
            "{} {}",
            r#"{"max_tokens": 1, "max_tokens": 100}"#,
            r#"{"max_tokens": 1, "max\u005ftokens": 100}"#,
            r#"{"max_tokens": "100"}"#,
            r#"{"n": [100]}"#,
            r#"{"generationConfig": {}, "generation_config": {"candidateCount": 8}}"#,
            r#"{"generationConfig": {"maxOutputTokens": 1, "max_output_tokens": 8}}"#,
            r#"{"prompt": ["a", "b"]}"#,
            r#"{"background": true}"#,
            &format!("{{\"x\":{}", "[".repeat(1_000_000)),
        ] {
            let refusal = read(body, CHAT).unwrap_err();
            assert!(matches!(refusal, Refusal::Uncounted(_)), "{body:.80}");
        }
    }

    #[test]
    fn responses_have_a_form_with_usage() {
        let check = |query, name| {
            let mut headers = HeaderMap::new();
            headers.insert(name, "x".parse().unwrap());
            check_form(query, &headers).is_ok()
        };
        for query in [None, Some("alt=sse"), Some("alt=json"), Some("beta=true")] {
            assert!(check(query, "x-goog-api-client"), "{query:?}");
            for name in ["x-goog-fieldmask", "x-goog-encode-response-if-executable"] {
                assert!(!check(query, name), "{query:?}");
            }
        }
        for query in [
            "alt=proto",
            "alt=media",
            "alt=sse&alt=proto",
            "alt",
            "ALT=sse",
            "fields=candidates",
            "callback=x",
            "beta=true&prettyPrint=false",
            "generationConfig.candidateCount=8",
        ] {
            assert!(!check(Some(query), "accept"), "{query}");
        }
    }
}
