//! Head of the only HTTP/1 request of a connection.
//!
//! In scope: checks its host, and rewrites it for a server that then closes the connection. Out of
//! scope: the response, which passes unchanged, and the body (`body.rs`).
//!
//! The parser is stricter than servers are, so no server reads another host or another end of the
//! request than it does.

use crate::body::{Body, MAX_LENGTH_DIGITS};
use crate::name::Name;

/// A checked request.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// The head for the server: in origin-form, with `Connection: close`.
    pub head: Vec<u8>,
    /// The length of the received head in bytes. The body follows it.
    pub received: usize,
    /// The extent of the body.
    pub body: Body,
}

/// Why a request is refused. The message follows "its request".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The head has more than [`MAX_HEAD`] bytes or [`MAX_HEADERS`] headers.
    #[error("has a head of more than {MAX_HEAD} bytes or {MAX_HEADERS} headers")]
    TooLong,
    /// It is no HTTP/1 request, or a line ends in another way than by CR LF.
    #[error("is not HTTP/1")]
    NotHttp,
    /// It has no `Host`, or several.
    #[error("has {0} Host headers instead of one")]
    Hosts(usize),
    /// `Host`, or the target in absolute-form, has another name than the connection address.
    #[error("names the host '{0}'")]
    OtherHost(String),
    /// The target is a URL of another scheme, or the method is `CONNECT`.
    #[error("asks for a proxy")]
    Proxy,
    /// `Content-Length` and `Transfer-Encoding` contradict each other, or have unknown values.
    #[error("has an ambiguous length")]
    Length,
}

/// The longest head in bytes; nginx and Apache accept 8,192 per line.
pub const MAX_HEAD: usize = 32 * 1024;

/// The maximum number of headers; Apache accepts 100.
pub const MAX_HEADERS: usize = 128;

/// Headers for one hop, and the one that is replaced.
const DROPPED: [&str; 7] = [
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "upgrade",
];

/// Parses the first bytes that a client sends to a host at a port; `None` if the head is incomplete.
pub fn parse_request(
    bytes: &[u8],
    name: &Name,
    port: u16,
) -> Result<Option<Request>, RequestError> {
    let host = &Host { name, port };
    let Some(received) = find_end(bytes)? else { return Ok(None) };
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(&bytes[..received]) {
        Ok(httparse::Status::Complete(length)) if length == received => {}
        Err(httparse::Error::TooManyHeaders) => return Err(RequestError::TooLong),
        _ => return Err(RequestError::NotHttp),
    }
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(RequestError::NotHttp);
    };
    check_host(request.headers, host)?;
    if method == "CONNECT" {
        return Err(RequestError::Proxy);
    }
    let target = origin_form(target, host)?;
    let body = body_of(request.headers, version)?;
    let mut head = format!("{method} {target} HTTP/1.{version}\r\n").into_bytes();
    let is_kept = |name: &str| !DROPPED.iter().any(|other| other.eq_ignore_ascii_case(name));
    for header in request.headers.iter().filter(|header| is_kept(header.name)) {
        head.extend(header.name.as_bytes());
        head.extend(b": ");
        head.extend(header.value);
        head.extend(b"\r\n");
    }
    head.extend(b"Connection: close\r\n\r\n");
    Ok(Some(Request { head, received, body }))
}

/// Returns the length of the head. Every line ends by CR LF, and there is no other CR, LF or NUL.
fn find_end(bytes: &[u8]) -> Result<Option<usize>, RequestError> {
    // A TLS record, or another protocol: no request begins like this.
    if bytes.first().is_some_and(|byte| !byte.is_ascii_alphabetic()) {
        return Err(RequestError::NotHttp);
    }
    let mut line_start = 0;
    for (at, byte) in bytes.iter().enumerate().take(MAX_HEAD) {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        match byte {
            b'\n' if before != Some(b'\r') => return Err(RequestError::NotHttp),
            b'\n' if at == line_start + 1 => return Ok(Some(at + 1)),
            b'\n' => line_start = at + 1,
            0 => return Err(RequestError::NotHttp),
            _ if before == Some(b'\r') => return Err(RequestError::NotHttp),
            _ => {}
        }
    }
    if bytes.len() >= MAX_HEAD { Err(RequestError::TooLong) } else { Ok(None) }
}

/// The dialled host.
struct Host<'n> {
    name: &'n Name,
    port: u16,
}

/// Checks the only `Host`.
fn check_host(headers: &[httparse::Header<'_>], host: &Host<'_>) -> Result<(), RequestError> {
    let mut hosts = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let count = hosts.clone().count();
    match hosts.next() {
        Some(header) if count == 1 => check_authority(header.value, host),
        _ => Err(RequestError::Hosts(count)),
    }
}

/// Checks `NAME:PORT`; port 80 may be omitted.
fn check_authority(authority: &[u8], host: &Host<'_>) -> Result<(), RequestError> {
    let name = match authority.strip_suffix(format!(":{}", host.port).as_bytes()) {
        None if host.port == 80 => Some(authority),
        name => name,
    };
    if name.is_some_and(|name| Name::parse(name).as_ref() == Ok(host.name)) {
        return Ok(());
    }
    let shown: String = String::from_utf8_lossy(authority).chars().take(Name::MAX_LENGTH).collect();
    Err(RequestError::OtherHost(shown.escape_default().to_string()))
}

/// Returns the target in origin-form, or `*`.
fn origin_form<'t>(
    target: &'t str,
    host: &Host<'_>,
) -> Result<std::borrow::Cow<'t, str>, RequestError> {
    if target.starts_with('/') || target == "*" {
        return Ok(target.into());
    }
    let rest = match target.split_at_checked("http://".len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http://") => rest,
        _ => return Err(RequestError::Proxy),
    };
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    check_authority(authority.as_bytes(), host)?;
    if path.starts_with('/') { Ok(path.into()) } else { Ok(format!("/{path}").into()) }
}

/// Returns the extent of the body (RFC 9112, section 6), without any leniency.
fn body_of(headers: &[httparse::Header<'_>], version: u8) -> Result<Body, RequestError> {
    let values = |name: &str| {
        let has = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case(name);
        let values: Vec<&[u8]> = headers.iter().filter(has).map(|header| header.value).collect();
        values
    };
    match (&values("content-length")[..], &values("transfer-encoding")[..]) {
        ([], []) => Ok(Body::of_length(0)),
        ([], [coding]) if version == 1 && coding.eq_ignore_ascii_case(b"chunked") => {
            Ok(Body::chunked())
        }
        ([length], []) => {
            let is_number = length.iter().all(u8::is_ascii_digit) && !length.is_empty();
            let is_short = length.len() <= MAX_LENGTH_DIGITS;
            let length = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
            let length = length.filter(|_| is_number && is_short).ok_or(RequestError::Length)?;
            Ok(Body::of_length(length))
        }
        _ => Err(RequestError::Length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(request: &str) -> Result<Option<Request>, RequestError> {
        parse_request(request.as_bytes(), &Name::parse(b"a.example").unwrap(), 80)
    }

    fn error(request: &str) -> RequestError {
        match parse(request) {
            Err(error) => error,
            other => panic!("{request:?} is not refused: {other:?}"),
        }
    }

    #[test]
    fn the_head_is_rewritten() {
        let rows = [
            (
                "GET /x?y HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n\r\n",
                "GET /x?y HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\nConnection: close\r\n\r\n",
            ),
            (
                "GET / HTTP/1.1\r\nHost: A.Example:80\r\nConnection: keep-alive, x\r\n\
                 Keep-Alive: 5\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nTE: trailers\r\n\
                 Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: A.Example:80\r\nConnection: close\r\n\r\n",
            ),
            (
                "GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n",
                "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
            ),
            (
                "GET HTTP://A.EXAMPLE:80?x HTTP/1.1\r\nHost: a.example.\r\n\r\n",
                "GET /?x HTTP/1.1\r\nHost: a.example.\r\nConnection: close\r\n\r\n",
            ),
            (
                "OPTIONS * HTTP/1.0\r\nhost:a.example\r\n\r\n",
                "OPTIONS * HTTP/1.0\r\nhost: a.example\r\nConnection: close\r\n\r\n",
            ),
        ];
        for (received, sent) in rows {
            let request = parse(received).unwrap().unwrap();
            assert_eq!(String::from_utf8(request.head).unwrap(), sent);
            assert_eq!(request.received, received.len());
            assert!(request.body.is_complete());
            for end in 0..received.len() {
                assert_eq!(parse(&received[..end]), Ok(None), "{:?}", &received[..end]);
            }
            let more = format!("{received}GET / HTTP/1.1\r\nHost: b.example\r\n\r\n");
            assert_eq!(parse(&more).unwrap().unwrap().received, received.len());
        }
    }

    #[test]
    fn other_hosts_are_refused() {
        let other = |host: &str| RequestError::OtherHost(host.to_owned());
        let rows = [
            ("GET / HTTP/1.1\r\nHost: b.example\r\n\r\n", other("b.example")),
            ("GET / HTTP/1.1\r\nHost: a.example:8080\r\n\r\n", other("a.example:8080")),
            ("GET / HTTP/1.1\r\nHost: a.example:080\r\n\r\n", other("a.example:080")),
            ("GET / HTTP/1.1\r\nHost: me@a.example\r\n\r\n", other("me@a.example")),
            ("GET / HTTP/1.1\r\nHost: a.example, b.example\r\n\r\n", other("a.example, b.example")),
            ("GET / HTTP/1.1\r\nHost:\r\n\r\n", other("")),
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", other("127.0.0.1")),
            ("GET / HTTP/1.1\r\n\r\n", RequestError::Hosts(0)),
            ("GET / HTTP/1.0\r\n\r\n", RequestError::Hosts(0)),
            (
                "GET / HTTP/1.1\r\nHost: a.example\r\nhost: b.example\r\n\r\n",
                RequestError::Hosts(2),
            ),
            (
                "GET / HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n",
                RequestError::Hosts(2),
            ),
            ("GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", other("b.example")),
            (
                "GET http://a.example@b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
                other("a.example@b.example"),
            ),
            (
                "GET http://b.example\\@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
                other("b.example"),
            ),
            ("GET http:///b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", other("")),
        ];
        for (request, expected) in rows {
            assert_eq!(error(request), expected, "{request:?}");
        }
    }

    #[test]
    fn another_port_is_named() {
        let name = Name::parse(b"a.example").unwrap();
        let rows = [("a.example:8080", true), ("a.example", false), ("a.example:80", false)];
        for (host, permitted) in rows {
            let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let parsed = parse_request(request.as_bytes(), &name, 8080);
            assert_eq!(parsed.is_ok(), permitted, "{host}");
        }
    }

    #[test]
    fn other_forms_are_refused() {
        let rows = [
            "\r\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "GET / HTTP/1.1\nHost: a.example\n\n",
            "GET / HTTP/1.1\r\nHost: a.example\r\n\n",
            "GET / HTTP/1.1\r\nHost: a.example\rX: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.example\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\n folded: x\r\nHost: a.example\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a.example\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.example\0\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a.example\r\n\r\n",
            "GET /\r\nHost: a.example\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
            "\x16\x03\x01",
            "(GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        ];
        for request in rows {
            assert_eq!(error(request), RequestError::NotHttp, "{request:?}");
        }
        let rows = [
            "CONNECT a.example:80 HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "GET a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
        ];
        for request in rows {
            assert_eq!(error(request), RequestError::Proxy, "{request:?}");
        }
    }

    #[test]
    fn the_length_of_a_body_is_unambiguous() {
        let request = |headers: &str, version: u8| {
            parse(&format!("POST / HTTP/1.{version}\r\nHost: a.example\r\n{headers}\r\n"))
                .map(|request| request.unwrap().body)
        };
        assert_eq!(request("Content-Length: 7\r\n", 1), Ok(Body::of_length(7)));
        assert_eq!(request("Content-Length: 0\r\n", 0), Ok(Body::of_length(0)));
        assert_eq!(request("Transfer-Encoding: Chunked\r\n", 1), Ok(Body::chunked()));
        let rows = [
            ("Content-Length: 7\r\nContent-Length: 7\r\n", 1),
            ("Content-Length: 7, 7\r\n", 1),
            ("Content-Length: +7\r\n", 1),
            ("Content-Length: 0x7\r\n", 1),
            ("Content-Length:\r\n", 1),
            ("Content-Length: 1000000000000000000\r\n", 1),
            ("Content-Length: 7\r\nTransfer-Encoding: chunked\r\n", 1),
            ("Transfer-Encoding: gzip, chunked\r\n", 1),
            ("Transfer-Encoding: chunked, identity\r\n", 1),
            ("Transfer-Encoding: xchunked\r\n", 1),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 1),
            ("Transfer-Encoding: chunked\r\n", 0),
        ];
        for (headers, version) in rows {
            assert_eq!(request(headers, version), Err(RequestError::Length), "{headers:?}");
        }
    }

    #[test]
    fn the_head_is_bounded() {
        let start = "GET / HTTP/1.1\r\nHost: a.example\r\n";
        let many = format!("{start}{}\r\n", "x: y\r\n".repeat(MAX_HEADERS - 1));
        assert!(parse(&many).unwrap().is_some());
        let more = format!("{start}{}\r\n", "x: y\r\n".repeat(MAX_HEADERS));
        assert_eq!(error(&more), RequestError::TooLong);
        let long = format!("{start}x: {}", "y".repeat(MAX_HEAD));
        assert_eq!(parse(&long[..MAX_HEAD - 1]), Ok(None));
        assert_eq!(error(&long[..MAX_HEAD]), RequestError::TooLong);
    }
}
