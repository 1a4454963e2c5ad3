//! The proxy address, as in `AIFO_TOOLEEXEC_URL`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A proxy address.
///
/// `unix:///path/to.sock` with the request paths `/exec`, `/signal` and `/notify`, or
/// `http://host:port/exec`, where these replace the last `/exec` of the URL's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket, by absolute path.
    Unix(PathBuf),
    /// A TCP address.
    Tcp {
        /// Host name or address, without the brackets of an IPv6 literal.
        host: String,
        /// Port; never 0 in a client URL.
        port: u16,
        /// The URL's path before `/exec`, usually empty.
        prefix: String,
    },
}

impl Endpoint {
    /// Returns the request path of `endpoint`: `exec`, `signal` or `notify`.
    pub fn path(&self, endpoint: &str) -> String {
        match self {
            Endpoint::Unix(_) => format!("/{endpoint}"),
            Endpoint::Tcp { prefix, .. } => format!("{prefix}/{endpoint}"),
        }
    }

    /// Returns the value of the `Host` header, without a port.
    pub fn host_header(&self) -> &str {
        match self {
            Endpoint::Unix(_) => "localhost",
            Endpoint::Tcp { host, .. } => host,
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(url: &str) -> Result<Self, EndpointError> {
        let invalid = |why| EndpointError { url: url.to_owned(), why };
        if let Some(path) = url.strip_prefix("unix://") {
            if !path.starts_with('/') || path.contains('\0') {
                return Err(invalid("the path must be absolute: unix:///path/to.sock"));
            }
            return Ok(Endpoint::Unix(PathBuf::from(path)));
        }
        let rest = url
            .strip_prefix("http://")
            .or_else(|| url.strip_prefix("tcp://"))
            .ok_or_else(|| invalid("it must start with unix://, http:// or tcp://"))?;
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        let (host, port) =
            authority.rsplit_once(':').ok_or_else(|| invalid("the port is missing"))?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || host.bytes().any(|b| b.is_ascii_control() || b == b' ') {
            return Err(invalid("the host is missing or malformed"));
        }
        if !port.bytes().all(|b| b.is_ascii_digit()) {
            return Err(invalid("the port is not a number"));
        }
        let port = port.parse().map_err(|_| invalid("the port is not a number below 65536"))?;
        if path.bytes().any(|b| !(0x21..=0x7e).contains(&b)) {
            return Err(invalid("the path contains a character not allowed in a request line"));
        }
        let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        let prefix = path.strip_suffix("/exec").unwrap_or(path).to_owned();
        Ok(Endpoint::Tcp { host: host.to_owned(), port, prefix })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix://{}", path.display()),
            Endpoint::Tcp { host, port, prefix } if host.contains(':') => {
                write!(f, "http://[{host}]:{port}{prefix}/exec")
            }
            Endpoint::Tcp { host, port, prefix } => write!(f, "http://{host}:{port}{prefix}/exec"),
        }
    }
}

/// A URL that is not a proxy address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointError {
    url: String,
    why: &'static str,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a proxy address: {}", self.url, self.why)
    }
}

impl std::error::Error for EndpointError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16, prefix: &str) -> Endpoint {
        Endpoint::Tcp { host: host.into(), port, prefix: prefix.into() }
    }

    #[test]
    fn valid_urls() {
        let rows = [
            ("unix:///run/a.sock", Endpoint::Unix("/run/a.sock".into()), "/signal"),
            ("http://127.0.0.1:8080/exec", tcp("127.0.0.1", 8080, ""), "/signal"),
            ("http://host:1/a/exec", tcp("host", 1, "/a"), "/a/signal"),
            ("http://host:1/exec/exec", tcp("host", 1, "/exec"), "/exec/signal"),
            ("http://host:1", tcp("host", 1, ""), "/signal"),
            ("http://host:1/", tcp("host", 1, ""), "/signal"),
            ("http://[::1]:9/exec", tcp("::1", 9, ""), "/signal"),
            ("tcp://127.0.0.1:0", tcp("127.0.0.1", 0, ""), "/signal"),
        ];
        for (url, endpoint, signal_path) in rows {
            let parsed: Endpoint = url.parse().unwrap();
            assert_eq!(parsed, endpoint, "{url}");
            assert_eq!(parsed.path("signal"), signal_path, "{url}");
            assert_eq!(parsed.to_string().parse(), Ok(endpoint), "{url} survives printing");
        }
    }

    #[test]
    fn invalid_urls() {
        for url in [
            "",
            "http://",
            "http://host",
            "http://host:x/exec",
            "http://host:65536/exec",
            "http://:1/exec",
            "unix://relative",
            "unix://",
            "https://host:1/exec",
            "http://h:+5/",
            "http://h:1/a b",
            "http://h\r\n:1/exec",
        ] {
            assert!(url.parse::<Endpoint>().is_err(), "{url}");
        }
    }
}
