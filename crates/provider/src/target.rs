//! The target of a request: which provider, and whether its path is one of that provider's.

use crate::providers::{Provider, RouteMethod};

/// A judged target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// The first segment.
    pub(crate) provider: &'a str,
    /// The rest of the path, with a leading slash.
    pub(crate) path: &'a str,
    /// The query without `key`, without `?`.
    pub(crate) query: Option<String>,
    /// The key of the query.
    pub(crate) key: Option<&'a str>,
}

/// The target is not in the form of this proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidTarget;

impl<'a> Target<'a> {
    /// Splits path and query.
    pub(crate) fn parse(
        path: &'a str,
        query: Option<&'a str>,
    ) -> Result<Target<'a>, InvalidTarget> {
        let rest = path.strip_prefix('/').ok_or(InvalidTarget)?;
        let (provider, below) = rest.split_once('/').ok_or(InvalidTarget)?;
        if !rest.split('/').all(is_segment) {
            return Err(InvalidTarget);
        }
        let path = path.get(path.len() - below.len() - 1..).ok_or(InvalidTarget)?;
        let (mut kept, mut key) = (Vec::new(), None);
        for field in query.into_iter().flat_map(|query| query.split('&')) {
            if !field.bytes().all(|byte| byte.is_ascii_graphic() && !b"#;".contains(&byte)) {
                return Err(InvalidTarget);
            }
            match field.split_once('=').unwrap_or((field, "")) {
                // Two keys: the provider might read the other one.
                ("key", _) if key.is_some() => return Err(InvalidTarget),
                ("key", value) => key = Some(value),
                (name, _) if is_parameter(name) => kept.push(field),
                _ => return Err(InvalidTarget),
            }
        }
        let query = (!kept.is_empty()).then(|| kept.join("&"));
        Ok(Target { provider, path, query, key })
    }
}

/// True for segments that no server decodes to others.
fn is_segment(segment: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._~:@+,=-".contains(&byte);
    !segment.is_empty() && segment.bytes().all(allowed) && segment != "." && segment != ".."
}

/// False for the name of a parameter that is a credential, or that changes the request's method or headers, such
/// as `$httpMethod`. Of escapes only those of brackets are allowed: others could spell such a name.
fn is_parameter(name: &str) -> bool {
    let credentials = ["key", "api_key", "access_token", "oauth_token"];
    let is_bracket =
        |rest: &str| rest.get(..2).is_some_and(|code| matches!(code, "5B" | "5D" | "5b" | "5d"));
    !name.contains('$')
        && name.split('%').skip(1).all(is_bracket)
        && !credentials.iter().any(|credential| name.eq_ignore_ascii_case(credential))
}

/// Result of looking for a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteMatch {
    Permitted {
        /// Whether a request costs tokens.
        is_counted: bool,
    },
    /// The path is known, with another method.
    OtherMethod,
    Unknown,
}

/// Judges method and path by the provider row.
pub(crate) fn judge_route(
    provider: &Provider,
    method: Option<RouteMethod>,
    path: &str,
) -> RouteMatch {
    let routes = provider.routes.iter().copied().flatten();
    let mut verdict = RouteMatch::Unknown;
    for route in routes.filter(|route| route.paths.iter().any(|pattern| matches(pattern, path))) {
        if Some(route.method) == method {
            return RouteMatch::Permitted { is_counted: route.is_counted };
        }
        verdict = RouteMatch::OtherMethod;
    }
    verdict
}

fn matches(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some(expected), Some(segment)) => match expected.strip_prefix('*') {
                Some(end) if segment.ends_with(end) => {}
                None if expected == segment => {}
                _ => return false,
            },
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(method: RouteMethod, target: &str) -> Result<RouteMatch, InvalidTarget> {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let target = Target::parse(path, query)?;
        let provider = Provider::of(target.provider).ok_or(InvalidTarget)?;
        Ok(judge_route(provider, Some(method), target.path))
    }

    #[test]
    fn only_the_providers_own_paths_are_permitted() {
        use RouteMethod::{Get, Post, WebSocket};
        let counted = RouteMatch::Permitted { is_counted: true };
        let free = RouteMatch::Permitted { is_counted: false };
        for (method, target, expected) in [
            (Post, "/openai/v1/responses", counted),
            (Post, "/openai/v1/responses/input_tokens", free),
            (WebSocket, "/openai/v1/responses", counted),
            (Get, "/openai/v1/responses", RouteMatch::OtherMethod),
            (Get, "/openai/v1/models/gpt-9", free),
            (Get, "/openai/v1/models/a/b", RouteMatch::Unknown),
            (Get, "/openai/v1/files", RouteMatch::Unknown),
            (Post, "/openai/v1/organization/admin_api_keys", RouteMatch::Unknown),
            (Post, "/anthropic/v1/messages?beta=true", counted),
            (Post, "/anthropic/v1/messages/count_tokens", free),
            (Post, "/anthropic/v1/complete", RouteMatch::Unknown),
            (Post, "/gemini/v1beta/models/gemini-9:generateContent?alt=sse", counted),
            (Post, "/gemini/v1/models/m:countTokens", free),
            (Post, "/gemini/v1/models/m:countTokens:generateContent", counted),
            (Post, "/gemini/v1/models/m:batchGenerateContent", RouteMatch::OtherMethod),
            (Post, "/gemini/v1/models/m:predictLongRunning", RouteMatch::OtherMethod),
            (Post, "/gemini/upload/v1beta/files", RouteMatch::Unknown),
            (Get, "/openrouter/v1/models/a/b/endpoints", free),
        ] {
            assert_eq!(verdict(method, target), Ok(expected), "{target}");
        }
    }

    #[test]
    fn targets_that_a_server_could_read_differently_are_refused() {
        for target in [
            "/openai/v1/models/../files",
            "/openai/v1/models/%2e%2e/files",
            "/openai/v1/models/..%2ffiles",
            "/openai/./v1/models",
            "/openai//v1/models",
            "/openai/v1/models/",
            "/openai/v1/models\\..\\files",
            "/openai/v1/models;x",
            "/openai/v1/models/a\u{e9}",
            "/openai",
            "openai/v1/models",
            "//openai/v1/models",
            "/openai/v1/models?a=1 2",
            "/gemini/v1/models?key=a&key=b",
            "/gemini/v1/models?%6bey=a",
            "/gemini/v1/models?k%65y=a",
            "/gemini/v1/models?a=1;key=a",
            "/gemini/v1/models?$key=a",
            "/gemini/v1/models?%24httpMethod=DELETE",
            "/gemini/v1/models?access_token=a",
            "http://evil.example/openai/v1/models",
        ] {
            assert_eq!(verdict(RouteMethod::Get, target), Err(InvalidTarget), "{target}");
        }
    }

    #[test]
    fn the_key_is_taken_out_of_the_query() {
        let target = Target::parse("/gemini/v1/models", Some("a[]=1&key=K&b%5B%5D")).unwrap();
        assert_eq!((target.key, target.query.as_deref()), (Some("K"), Some("a[]=1&b%5B%5D")));
        let target = Target::parse("/gemini/v1/models", Some("key=K")).unwrap();
        assert_eq!((target.key, target.query, target.path), (Some("K"), None, "/v1/models"));
    }
}
