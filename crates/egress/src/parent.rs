//! Parent proxy: connections through an HTTP proxy of the launcher environment (RFC 9110).
//!
//! In scope: the URL, the names that bypass the proxy, the requests, and the head of the response to CONNECT. Out of
//! scope: sockets (`dial.rs`). The URL's credentials are in no error and no `Debug` output.
//!
//! Proves `spec/network.md#parent-proxy`.

use std::fmt;
use std::net::IpAddr;

use aifo_types::proxy_variables::{ALL_PROXY, HTTP_PROXY, HTTPS_PROXY, NO_PROXY};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::name::Name;

/// An HTTP proxy of the environment, and the names that bypass it.
#[derive(Clone, PartialEq, Eq)]
pub struct ParentProxy {
    host: String,
    port: u16,
    /// The value of `Proxy-Authorization`.
    authorization: Option<String>,
    /// Domains without a leading dot; `*` for all.
    bypass: Vec<String>,
}

/// A parent proxy is unusable, refused, or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParentError {
    /// The URL is invalid.
    #[error("invalid URL of an HTTP proxy\nhint: write 'http://[USER:PASSWORD@]HOST:PORT'")]
    Url,
    /// The URL has a scheme that is not supported.
    #[error(
        "unsupported scheme '{0}' of an HTTP proxy\n\
         hint: write 'http://[USER:PASSWORD@]HOST:PORT'; HTTPS passes through it as well"
    )]
    Scheme(String),
    /// It answered CONNECT with this status.
    #[error("the parent proxy answered with status {0}")]
    Status(u16),
    /// Its response is no HTTP/1 head of at most 16 KiB.
    #[error("the parent proxy's response is invalid")]
    Response,
    /// No connection to it, or none in time.
    #[error("cannot reach the parent proxy: {0}")]
    Unreachable(String),
}

/// The longest head of a response in bytes.
pub(crate) const MAX_RESPONSE: usize = 16 * 1024;

impl ParentProxy {
    /// Parses the value of a variable such as `https_proxy`: `[http://][USER[:PASSWORD]@]HOST[:PORT]`.
    /// The default port is 80 with a scheme and 1080 without, as curl's.
    ///
    /// ```
    /// use aifo_egress::ParentProxy;
    ///
    /// let proxy = ParentProxy::parse("http://me:secret@proxy.example:3128").unwrap();
    /// assert_eq!(format!("{proxy:?}"), "ParentProxy(proxy.example:3128, with credentials)");
    /// ```
    pub fn parse(url: &str) -> Result<ParentProxy, ParentError> {
        let (scheme, rest) = match url.trim().split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, url.trim()),
        };
        if let Some(scheme) = scheme.filter(|scheme| !scheme.eq_ignore_ascii_case("http")) {
            let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let shown = if is_scheme { scheme } else { "?" };
            return Err(ParentError::Scheme(shown.to_owned()));
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (credentials, authority) = match rest[..end].rsplit_once('@') {
            Some((credentials, authority)) => (Some(credentials), authority),
            None => (None, &rest[..end]),
        };
        let default_port = if scheme.is_some() { 80 } else { 1080 };
        let (host, port) = split_port(authority, default_port).ok_or(ParentError::Url)?;
        let is_host =
            |host: &str| Name::parse(host.as_bytes()).is_ok() || host.parse::<IpAddr>().is_ok();
        if !is_host(host) {
            return Err(ParentError::Url);
        }
        let authorization = match credentials {
            None => None,
            Some(credentials) => {
                let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
                let mut login = percent_decode(user).ok_or(ParentError::Url)?;
                login.push(b':');
                login.extend(percent_decode(password).ok_or(ParentError::Url)?);
                Some(format!("Basic {}", STANDARD.encode(login)))
            }
        };
        Ok(ParentProxy { host: host.to_owned(), port, authorization, bypass: Vec::new() })
    }

    /// Returns the parent proxy of an environment: the first of `https_proxy`, `HTTPS_PROXY`, `all_proxy`
    /// and `ALL_PROXY` that is not empty, without the names of `no_proxy` or `NO_PROXY`.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<ParentProxy>, ParentError> {
        ParentProxy::first_of([HTTPS_PROXY, ALL_PROXY].as_flattened(), variable)
    }

    /// Returns the parent proxy of an environment for HTTP without TLS: the first of `http_proxy` and
    /// `HTTP_PROXY` that is not empty, without the same names.
    pub fn for_requests(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<ParentProxy>, ParentError> {
        ParentProxy::first_of(&HTTP_PROXY, variable)
    }

    fn first_of(
        names: &[&str],
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<ParentProxy>, ParentError> {
        let first = |names: &[&str]| {
            let values = names.iter().filter_map(|name| variable(name));
            values.into_iter().find(|value| !value.trim().is_empty())
        };
        let Some(url) = first(names) else { return Ok(None) };
        let bypass = first(&NO_PROXY).unwrap_or_default();
        Ok(Some(ParentProxy::parse(&url)?.with_bypass(&bypass)))
    }

    /// Adds the value of `no_proxy`: domains, separated by commas, or `*`. Addresses and networks in it
    /// have no effect, since connections are made by name.
    #[must_use]
    pub fn with_bypass(mut self, no_proxy: &str) -> ParentProxy {
        let domains = no_proxy.split([',', ' ']).map(|domain| {
            let domain = domain.trim().trim_start_matches("*.").trim_start_matches('.');
            domain.to_ascii_lowercase()
        });
        self.bypass.extend(domains.filter(|domain| !domain.is_empty()));
        self
    }

    /// Returns whether a name is dialled through the proxy.
    pub(crate) fn serves(&self, name: &Name) -> bool {
        let bypasses = |domain: &String| {
            domain == "*"
                || Name::parse(domain.as_bytes())
                    .is_ok_and(|domain| *name == domain || name.is_below(&domain))
        };
        !self.bypass.iter().any(bypasses)
    }

    /// Returns the proxy's own host and port.
    pub(crate) fn endpoint(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// Returns the request for a connection.
    pub(crate) fn connect_request(&self, name: &Name, port: u16) -> Vec<u8> {
        let mut request = format!("CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n");
        if let Some(authorization) = &self.authorization {
            request += &format!("Proxy-Authorization: {authorization}\r\n");
        }
        request += "\r\n";
        request.into_bytes()
    }

    /// Returns the head of a checked request for the proxy: in absolute-form (RFC 9112, section 3.2.2), with
    /// the proxy's login.
    pub(crate) fn request_head(&self, head: &[u8], name: &Name, port: u16) -> Vec<u8> {
        let target = head.iter().position(|byte| *byte == b' ').map_or(0, |space| space + 1);
        let (method, rest) = head.split_at(target);
        // `OPTIONS *` has no path in absolute-form.
        let rest = rest.strip_prefix(b"*").unwrap_or(rest);
        let host = match port {
            80 => format!("http://{name}"),
            _ => format!("http://{name}:{port}"),
        };
        let login = match &self.authorization {
            Some(authorization) => format!("Proxy-Authorization: {authorization}\r\n"),
            None => String::new(),
        };
        let fields = rest.strip_suffix(b"\r\n").unwrap_or(rest);
        [method, host.as_bytes(), fields, login.as_bytes(), b"\r\n"].concat()
    }
}

impl fmt::Debug for ParentProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = if self.authorization.is_some() { ", with credentials" } else { "" };
        write!(f, "ParentProxy({}:{}{with})", self.host, self.port)
    }
}

/// Parses the head of the response to CONNECT. Returns its length in bytes, after which the host's bytes
/// begin; `None` if it is incomplete.
pub(crate) fn parse_response(bytes: &[u8]) -> Result<Option<usize>, ParentError> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => match response.code {
            Some(200..=299) => Ok(Some(length)),
            Some(code) => Err(ParentError::Status(code)),
            None => Err(ParentError::Response),
        },
        Ok(httparse::Status::Partial) if bytes.len() < MAX_RESPONSE => Ok(None),
        _ => Err(ParentError::Response),
    }
}

/// Splits `HOST[:PORT]`; an IPv6 address is in brackets.
fn split_port(authority: &str, default: u16) -> Option<(&str, u16)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            authority.split_at(end)
        }
    };
    match rest.strip_prefix(':') {
        Some("") => Some((host, default)),
        Some(port) => Some((host, port.parse().ok().filter(|port| *port != 0)?)),
        None if rest.is_empty() => Some((host, default)),
        None => None,
    }
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        decoded.push((digit()? << 4 | digit()?) as u8);
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn urls_are_parsed() {
        let rows = [
            ("http://proxy.example:3128", "proxy.example", 3128, None),
            ("HTTP://proxy.example/", "proxy.example", 80, None),
            ("proxy.example", "proxy.example", 1080, None),
            (" http://10.0.0.1:8080/x ", "10.0.0.1", 8080, None),
            ("http://[fd00::1]:8080", "fd00::1", 8080, None),
            ("http://me:p%40ss@proxy.example:1", "proxy.example", 1, Some("me:p@ss")),
            ("http://me@proxy.example:1", "proxy.example", 1, Some("me:")),
            ("http://a@b:c@proxy.example:1", "proxy.example", 1, Some("a@b:c")),
        ];
        for (url, host, port, login) in rows {
            let proxy = ParentProxy::parse(url).unwrap();
            assert_eq!(proxy.endpoint(), (host, port), "{url}");
            let authorization = login.map(|login| format!("Basic {}", STANDARD.encode(login)));
            assert_eq!(proxy.authorization, authorization, "{url}");
        }
    }

    #[test]
    fn invalid_urls_show_no_credentials() {
        let rows = [
            ("https://me:secret@proxy.example", "unsupported scheme 'https'"),
            ("socks5://me:secret@proxy.example", "unsupported scheme 'socks5'"),
            ("me:secret@x://proxy.example", "unsupported scheme '?'"),
            ("http://me:secret@proxy.example:x", "invalid URL"),
            ("http://me:secret@proxy.example:0", "invalid URL"),
            ("http://me:secret@", "invalid URL"),
            ("http://me:%zz@proxy.example", "invalid URL"),
            ("http://me:secret@a b", "invalid URL"),
            ("http://me:secret@[::1", "invalid URL"),
            ("http://me:secret@[::1]x", "invalid URL"),
            ("", "invalid URL"),
        ];
        for (url, part) in rows {
            let error = ParentProxy::parse(url).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("\nhint: "), "{url}: {error}");
            assert!(!error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn the_request_has_name_port_and_login() {
        let proxy = ParentProxy::parse("http://me:secret@proxy.example").unwrap();
        let request = proxy.connect_request(&name("a.example"), 80);
        let expected = "CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\
                        Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n";
        assert_eq!(String::from_utf8(request).unwrap(), expected);
        assert!(!format!("{proxy:?}").contains("bWU6"));
    }

    #[test]
    fn requests_have_the_absolute_form_and_the_login() {
        let login = "Proxy-Authorization: Basic bWU6c2VjcmV0\r\n";
        let rows = [
            ("http://p", 80, "GET /x?y HTTP/1.1", "GET http://a.example/x?y HTTP/1.1", ""),
            ("http://me:secret@p", 80, "GET / HTTP/1.1", "GET http://a.example/ HTTP/1.1", login),
            ("http://p", 8080, "PUT //b HTTP/1.0", "PUT http://a.example:8080//b HTTP/1.0", ""),
            ("http://p", 80, "OPTIONS * HTTP/1.1", "OPTIONS http://a.example HTTP/1.1", ""),
        ];
        for (url, port, line, expected, login) in rows {
            let head = format!("{line}\r\nHost: a.example\r\nConnection: close\r\n\r\n");
            let proxy = ParentProxy::parse(url).unwrap();
            let sent = proxy.request_head(head.as_bytes(), &name("a.example"), port);
            let expected =
                format!("{expected}\r\nHost: a.example\r\nConnection: close\r\n{login}\r\n");
            assert_eq!(String::from_utf8(sent).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn some_names_bypass_it() {
        let proxy = ParentProxy::parse("http://proxy.example").unwrap();
        let rows = [
            ("", "a.example", true),
            ("a.example", "a.example", false),
            ("a.example", "x.a.example", false),
            (".a.example", "a.example", false),
            ("*.A.Example, b", "x.a.example", false),
            ("a.example", "sub-a.example", true),
            ("10.0.0.0/8,127.0.0.1", "a.example", true),
            ("b,*", "a.example", false),
        ];
        for (no_proxy, text, served) in rows {
            let proxy = proxy.clone().with_bypass(no_proxy);
            assert_eq!(proxy.serves(&name(text)), served, "{no_proxy} {text}");
        }
    }

    #[test]
    fn the_environment_names_it() {
        let variables = |list: &'static [(&str, &str)]| {
            move |name: &str| {
                let found = list.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            }
        };
        let host = |list: &'static [(&str, &str)]| {
            let proxy = ParentProxy::from_environment(variables(list)).unwrap();
            proxy.map(|proxy| (proxy.host.clone(), proxy.serves(&name("a.example"))))
        };
        let found = |host: &str, served| Some((host.to_owned(), served));
        assert_eq!(host(&[]), None);
        assert_eq!(host(&[("http_proxy", "http://p")]), None);
        assert_eq!(host(&[("https_proxy", ""), ("ALL_PROXY", "http://p")]), found("p", true));
        assert_eq!(
            host(&[("HTTPS_PROXY", "http://p"), ("https_proxy", "http://q")]),
            found("q", true)
        );
        assert_eq!(host(&[("https_proxy", "p:1"), ("NO_PROXY", "example")]), found("p", false));
        let invalid = variables(&[("https_proxy", "socks5://p")]);
        assert!(ParentProxy::from_environment(invalid).is_err());
        let of_requests = |list: &'static [(&str, &str)]| {
            let proxy = ParentProxy::for_requests(variables(list)).unwrap();
            proxy.map(|proxy| (proxy.host.clone(), proxy.serves(&name("a.example"))))
        };
        assert_eq!(of_requests(&[("https_proxy", "http://p"), ("all_proxy", "http://p")]), None);
        assert_eq!(
            of_requests(&[("http_proxy", ""), ("HTTP_PROXY", "http://p")]),
            found("p", true)
        );
        const WITHOUT: &[(&str, &str)] = &[("http_proxy", "p:1"), ("no_proxy", "a.example")];
        assert_eq!(of_requests(WITHOUT), found("p", false));
    }

    #[test]
    fn responses_are_parsed() {
        let rows = [
            (&b"HTTP/1.1 200 Connection established\r\n\r\nSSH-"[..], Ok(Some(39))),
            (b"HTTP/1.1 200", Ok(None)),
            (b"", Ok(None)),
            (b"HTTP/1.1 407 Auth\r\n\r\n", Err(ParentError::Status(407))),
            (b"HTTP/1.1 101 Switching\r\n\r\n", Err(ParentError::Status(101))),
            (b"SSH-2.0\r\n", Err(ParentError::Response)),
        ];
        for (bytes, expected) in rows {
            assert_eq!(parse_response(bytes), expected, "{bytes:?}");
        }
        let endless = [&b"HTTP/1.1 200 OK\r\nx: "[..], &[b'y'; MAX_RESPONSE]].concat();
        assert_eq!(parse_response(&endless), Err(ParentError::Response));
    }
}
