//! The URL of a provider's API.

use std::fmt;
use std::net::IpAddr;

use aifo_egress::{Addresses, Name};

/// The URL below which a provider's API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamUrl {
    is_tls: bool,
    host: String,
    port: u16,
    /// Host and port, as in the header `Host`.
    authority: String,
    /// The path, without a final slash.
    path: String,
    /// The path stands for `/v1`, as in the base URLs of clients of OpenAI.
    has_version: bool,
    addresses: Addresses,
}

/// A URL cannot be an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It has another form, or credentials, a query or a fragment.
    #[error("invalid URL of a provider\nhint: write 'https://HOST[:PORT][/PATH]'")]
    Form,
    /// `http:` at a host that is not this machine.
    #[error(
        "the key would be sent without TLS\nhint: write 'https://..'; 'http://' is for localhost only"
    )]
    Plain,
}

impl UpstreamUrl {
    /// Parses the URL of a row, whose host has public addresses.
    pub fn of_row(url: &str) -> Result<Self, UrlError> {
        Ok(UpstreamUrl { addresses: Addresses::Public, ..UpstreamUrl::parse(url)? })
    }

    /// Parses a URL that the user chose. Its host may have any address.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = url.trim().split_once("://").ok_or(UrlError::Form)?;
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(UrlError::Form),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = path.trim_end_matches('/');
        let in_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/._~-".contains(&byte);
        let is_clean = !path.split('/').skip(1).any(|segment| matches!(segment, "" | "." | ".."));
        if !path.bytes().all(in_path) || !is_clean {
            return Err(UrlError::Form);
        }
        let (host, port) = split_authority(authority).ok_or(UrlError::Form)?;
        let port = match port {
            Some(port) => port.parse().ok().filter(|&port| port != 0).ok_or(UrlError::Form)?,
            None if is_tls => 443,
            None => 80,
        };
        let address = host.parse::<IpAddr>().ok();
        if address.is_none() && Name::parse(host.as_bytes()).is_err() {
            return Err(UrlError::Form);
        }
        let is_local = host == "localhost" || address.is_some_and(|address| address.is_loopback());
        if !is_tls && !is_local {
            return Err(UrlError::Plain);
        }
        Ok(UpstreamUrl {
            is_tls,
            host: host.to_ascii_lowercase(),
            port,
            authority: authority.to_ascii_lowercase(),
            path: path.to_owned(),
            has_version: false,
            addresses: Addresses::Any,
        })
    }

    /// Returns whether the host is the machine or pod of the process that connects.
    pub fn is_local(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host == "localhost"
            || self.host.ends_with(".localhost")
            || address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
    }

    /// Takes the path in place of `/v1`.
    #[must_use]
    pub fn with_version(mut self) -> Self {
        self.has_version = true;
        self
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Returns the host, in lower case.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns the host as remotes name it: with a port of its own only.
    pub fn host_name(&self) -> String {
        let port = if self.is_tls { 443 } else { 80 };
        match self.port == port {
            true => self.host.clone(),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Returns host and port, as in the header `Host`.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the target of a request for a path of the API.
    pub(crate) fn request_target(&self, path: &str, query: Option<&str>) -> String {
        let below = match path.strip_prefix("/v1").filter(|_| self.has_version) {
            Some(below) => below,
            None => path,
        };
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{below}{query}", self.path)
    }
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// Splits `HOST`, `HOST:PORT` and `[ADDRESS]:PORT`.
fn split_authority(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        return match port {
            "" => Some((address, None)),
            _ => Some((address, Some(port.strip_prefix(':')?))),
        };
    }
    match authority.split_once(':') {
        Some((host, port)) => Some((host, Some(port))),
        None => Some((authority, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (url, target) in [
            ("https://api.example", "/v1/models?a=1"),
            ("https://api.example/openai/", "/openai/v1/models?a=1"),
            ("http://127.0.0.1:11434/x", "/x/v1/models?a=1"),
            ("http://[::1]:1", "/v1/models?a=1"),
            ("HTTPS://API.example:8443", "/v1/models?a=1"),
        ] {
            let url = UpstreamUrl::parse(url).unwrap();
            assert_eq!(url.request_target("/v1/models", Some("a=1")), target);
        }
        let url = UpstreamUrl::parse("https://api.example/paas/v4").unwrap().with_version();
        assert_eq!(url.request_target("/v1/chat/completions", None), "/paas/v4/chat/completions");
        assert_eq!((url.authority(), url.port()), ("api.example", 443));
    }

    #[test]
    fn hosts_of_the_own_machine() {
        for url in ["http://127.0.0.1:1", "http://[::1]", "https://LOCALHOST", "https://0.0.0.0"] {
            assert!(UpstreamUrl::parse(url).unwrap().is_local(), "{url}");
        }
        for url in ["https://api.example", "https://10.0.0.1", "https://localhost.example"] {
            assert!(!UpstreamUrl::parse(url).unwrap().is_local(), "{url}");
        }
    }

    #[test]
    fn invalid_urls() {
        for url in [
            "api.example",
            "ftp://api.example",
            "https://",
            "https://user@api.example",
            "https://api.example:0",
            "https://api.example:x",
            "https://api.example/a/../b",
            "https://api.example/?q",
            "https://api.example/#x",
            "https://a b/",
        ] {
            assert_eq!(UpstreamUrl::parse(url), Err(UrlError::Form), "{url}");
        }
        assert_eq!(UpstreamUrl::parse("http://api.example"), Err(UrlError::Plain));
        assert_eq!(UpstreamUrl::parse("http://10.0.0.1"), Err(UrlError::Plain));
    }
}
