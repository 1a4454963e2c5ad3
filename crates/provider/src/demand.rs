//! The most tokens that a request states, and the requests that cannot be counted (`spec/keys.md#limits`).

use hyper::HeaderMap;
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
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GenerationConfig {
    #[serde(alias = "max_output_tokens")]
    max_output_tokens: Option<Number>,
    #[serde(alias = "candidate_count")]
    candidate_count: Option<Number>,
}

impl Demand {
    /// Reads a body. Errors: it is not JSON of the expected types, or its answer comes later.
    pub(crate) fn of_body(body: &[u8]) -> Result<Demand, Refusal> {
        let sent = body.len() as u64;
        if body.is_empty() {
            return Ok(Demand::default());
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
        let most = |numbers: [Option<Number>; 4]| {
            numbers.into_iter().flatten().map(|number| as_count(&number)).max()
        };
        let tokens = most([
            body.max_tokens,
            body.max_completion_tokens,
            body.max_output_tokens,
            generation.max_output_tokens,
        ]);
        let answers = most([body.n, body.best_of, generation.candidate_count, None]);
        let answers = answers.unwrap_or(1).max(1);
        let tokens = tokens.or((answers > 1).then_some(LONGEST_ANSWER));
        let stated = tokens.map(|tokens| tokens.saturating_mul(answers));
        Ok(Demand { sent, stated })
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
    match headers.contains_key(FIELD_MASK) {
        true => Err(Refusal::Uncounted(format!("it has '{FIELD_MASK}'"))),
        false => Ok(()),
    }
}

const FIELD_MASK: &str = "x-goog-fieldmask";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_a_body_states() {
        for (body, stated) in [
            ("", None),
            ("{}", None),
            (r#"{"max_tokens": 10}"#, Some(10)),
            (r#"{"max_\u0074okens": 10}"#, Some(10)),
            (
                r#"{"max_tokens": 1, "max_completion_tokens": 9.5, "max_output_tokens": 3}"#,
                Some(10),
            ),
            (r#"{"max_tokens": 10, "n": 128}"#, Some(1280)),
            (r#"{"max_tokens": 10, "n": 2, "best_of": 20}"#, Some(200)),
            (r#"{"max_tokens": 10, "n": -3}"#, Some(10)),
            (r#"{"max_tokens": 1e300, "n": 2}"#, Some(u64::MAX)),
            (r#"{"max_tokens": null, "messages": [{"max_tokens": 7}]}"#, None),
            (r#"{"n": 2}"#, Some(2 * LONGEST_ANSWER)),
            (r#"{"generationConfig": {"maxOutputTokens": 10, "candidateCount": 8}}"#, Some(80)),
            (r#"{"generation_config": {"max_output_tokens": 10, "candidate_count": 8}}"#, Some(80)),
        ] {
            let demand = Demand::of_body(body.as_bytes()).unwrap();
            assert_eq!(demand, Demand { sent: body.len() as u64, stated }, "{body}");
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
            let refusal = Demand::of_body(body.as_bytes()).unwrap_err();
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
            assert!(!check(query, "x-goog-fieldmask"), "{query:?}");
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
