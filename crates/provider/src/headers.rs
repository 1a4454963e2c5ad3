//! The headers that pass.

use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, COOKIE, EXPECT,
    FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue, IF_RANGE, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, RANGE, SEC_WEBSOCKET_EXTENSIONS, SET_COOKIE, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE, VIA,
};

use crate::key::{Key, PhantomKey};
use crate::providers::KeyHeader;

/// Headers that have a provider key.
const KEY_HEADERS: [&str; 3] = ["api-key", "x-api-key", "x-goog-api-key"];

/// Headers of one connection (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 7] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// Headers by which some servers take another method or path than that of the request line.
const OVERRIDES: [&str; 5] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

/// Headers about the client, which is this proxy, and those that ask for a part of a response.
const OF_CLIENT: [HeaderName; 8] =
    [HOST, AUTHORIZATION, COOKIE, EXPECT, FORWARDED, IF_RANGE, RANGE, VIA];

/// Returns whether the request has the phantom key, and no other one. `in_query` is the key of its query.
pub(crate) fn has_key(headers: &HeaderMap, in_query: Option<&str>, phantom: &PhantomKey) -> bool {
    let bearer = headers.get_all(AUTHORIZATION).into_iter().map(|value| {
        let value = value.as_bytes();
        let (scheme, key) =
            value.split_at(value.iter().position(|&byte| byte == b' ').unwrap_or_default());
        let is_known =
            [&b"bearer"[..], b"token"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
        if is_known { key.get(1..).unwrap_or_default() } else { b"" }
    });
    let named =
        KEY_HEADERS.iter().flat_map(|name| headers.get_all(*name)).map(HeaderValue::as_bytes);
    let keys = bearer.chain(named).chain(in_query.map(str::as_bytes));
    let verdicts: Vec<bool> = keys.map(|key| phantom.is(key)).collect();
    !verdicts.is_empty() && verdicts.iter().all(|&is_phantom| is_phantom)
}

/// Returns the headers of the request to the provider, without `Host`.
pub(crate) fn to_provider(headers: &HeaderMap, header: KeyHeader, key: &Key) -> Option<HeaderMap> {
    let mut sent = without_hop_by_hop(headers);
    for name in OF_CLIENT {
        sent.remove(name);
    }
    let named: Vec<HeaderName> =
        sent.keys().filter(|name| is_of_client(name.as_str())).cloned().collect();
    for name in named {
        sent.remove(name);
    }
    // The body's length is in its framing, which is written anew.
    sent.remove(CONTENT_LENGTH);
    sent.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let (name, text) = match header {
        KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose())),
        KeyHeader::Token => (AUTHORIZATION, format!("token {}", key.expose())),
        KeyHeader::Basic(user) => {
            (AUTHORIZATION, format!("Basic {}", key.with_user(user).expose()))
        }
        KeyHeader::Named(name) => (HeaderName::from_static(name), key.expose().to_owned()),
    };
    let mut value = HeaderValue::from_str(&zeroize::Zeroizing::new(text)).ok()?;
    value.set_sensitive(true);
    sent.insert(name, value);
    Some(sent)
}

fn is_of_client(name: &str) -> bool {
    KEY_HEADERS.contains(&name)
        || OVERRIDES.contains(&name)
        || name.starts_with("x-forwarded-")
        || name == "x-real-ip"
}

/// Returns the headers of the response to the agent.
pub(crate) fn to_agent(headers: &HeaderMap) -> HeaderMap {
    let mut passed = without_hop_by_hop(headers);
    passed.remove(SET_COOKIE);
    passed
}

/// True for a response whose body is in another coding, where neither a key nor usage is found.
pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    let codings = |name: HeaderName, plain: &str| {
        let values = headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
        values.flat_map(|value| value.split(|&byte| byte == b',')).any(|coding| {
            let coding = coding.trim_ascii();
            !coding.is_empty() && !coding.eq_ignore_ascii_case(plain.as_bytes())
        })
    };
    codings(CONTENT_ENCODING, "identity") || codings(TRANSFER_ENCODING, "chunked")
}

/// True for a request or response that changes to a WebSocket.
pub(crate) fn is_web_socket(headers: &HeaderMap) -> bool {
    let is = |value: &HeaderValue, word: &[u8]| value.as_bytes().eq_ignore_ascii_case(word);
    headers.get(UPGRADE).is_some_and(|value| is(value, b"websocket"))
        && listed(headers).any(|name| name.eq_ignore_ascii_case("upgrade"))
}

/// Adds the headers that change to a WebSocket. It has no extensions: a compressed key is not found in it.
pub(crate) fn change_to_web_socket(headers: &mut HeaderMap) {
    headers.remove(SEC_WEBSOCKET_EXTENSIONS);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

fn without_hop_by_hop(headers: &HeaderMap) -> HeaderMap {
    let mut passed = headers.clone();
    for name in listed(headers) {
        passed.remove(name);
    }
    for name in HOP_BY_HOP {
        passed.remove(name);
    }
    passed.remove("keep-alive");
    passed.remove("proxy-connection");
    passed
}

/// The names that `Connection` lists.
fn listed(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::Provider;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap())
        };
        lines.iter().map(pair).collect()
    }

    #[test]
    fn every_key_must_be_the_phantom() {
        let shape = Provider::of("openai").unwrap().shape;
        let phantom = PhantomKey::generate(&shape).unwrap();
        let own = phantom.as_str();
        let bearer = format!("Bearer {own}");
        let has = |lines: &[(&str, &str)], query| has_key(&headers(lines), query, &phantom);
        assert!(has(&[("authorization", &bearer)], None));
        assert!(has(&[("x-api-key", own), ("authorization", &bearer)], Some(own)));
        assert!(!has(&[], None));
        assert!(!has(&[("authorization", own)], None));
        assert!(!has(&[("authorization", "Bearer ")], None));
        assert!(!has(&[("authorization", &bearer), ("authorization", "Bearer x")], None));
        assert!(!has(&[("authorization", &bearer), ("x-goog-api-key", "x")], None));
        assert!(!has(&[("authorization", &bearer)], Some("x")));
    }

    #[test]
    fn headers_of_the_client_and_the_connection_do_not_pass() {
        let key = Key::parse("real").unwrap();
        let given = headers(&[
            ("host", "127.0.0.1:1"),
            ("authorization", "Bearer phantom"),
            ("x-api-key", "phantom"),
            ("cookie", "a"),
            ("connection", "keep-alive, x-dropped"),
            ("x-dropped", "a"),
            ("x-forwarded-for", "a"),
            ("x-http-method-override", "DELETE"),
            ("x-original-url", "/v1/files"),
            ("range", "bytes=0-9"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("content-length", "3"),
            ("accept-encoding", "gzip, br"),
            ("content-type", "application/json"),
            ("anthropic-version", "2023-06-01"),
        ]);
        let sent = to_provider(&given, KeyHeader::Named("x-api-key"), &key).unwrap();
        let expected = headers(&[
            ("content-type", "application/json"),
            ("anthropic-version", "2023-06-01"),
            ("accept-encoding", "identity"),
            ("x-api-key", "real"),
        ]);
        assert_eq!(sent, expected);
        assert!(sent["x-api-key"].is_sensitive() && !format!("{sent:?}").contains("real"));
    }

    #[test]
    fn codings_of_a_response() {
        let is = |lines: &[(&str, &str)]| is_encoded(&headers(lines));
        assert!(!is(&[]) && !is(&[("content-encoding", "Identity, ,IDENTITY")]));
        assert!(!is(&[("transfer-encoding", "Chunked")]));
        assert!(is(&[("content-encoding", "identity"), ("content-encoding", "gzip")]));
        for coding in ["identity,br", "gzip, identity", "GZIP", "x\tgzip"] {
            assert!(is(&[("content-encoding", coding)]), "{coding}");
        }
        assert!(is(&[("transfer-encoding", "gzip, chunked")]));
    }
}
