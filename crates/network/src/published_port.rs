//! Values of `--publish` (`spec/network.md#published-ports`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// A port of the tools that this machine serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedPort {
    /// The address on this machine; port 0 chooses one.
    pub address: SocketAddr,
    /// True if another port of this machine will do.
    pub or_any: bool,
    /// The port of the tools.
    pub port: u16,
}

/// A value that is not `[[ADDR:]HOST:]PORT`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid port '{value}': {reason}\nhint: write PORT, HOST:PORT or ADDR:HOST:PORT")]
pub struct InvalidPort {
    value: String,
    reason: &'static str,
}

impl FromStr for PublishedPort {
    type Err = InvalidPort;

    fn from_str(value: &str) -> Result<Self, InvalidPort> {
        let invalid = |reason| InvalidPort { value: value.to_owned(), reason };
        let value = value.strip_suffix("/tcp").unwrap_or(value);
        let (address, host, port) = split(value);
        let address = match address {
            Some(address) => address.parse().map_err(|_| invalid("expected an IP address"))?,
            None => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let number = |text: &str| text.parse::<u16>().ok();
        let or_any = host.is_empty();
        let host = match host {
            "" => None,
            host => Some(number(host).ok_or(invalid("expected a port of this machine"))?),
        };
        let port = number(port).filter(|port| *port != 0);
        let port = port.ok_or(invalid("expected a TCP port of the tools"))?;
        Ok(PublishedPort { address: (address, host.unwrap_or(port)).into(), or_any, port })
    }
}

impl fmt::Display for PublishedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.or_any {
            true if self.address.is_ipv6() => write!(f, "[{}]::{}", self.address.ip(), self.port),
            true => write!(f, "{}::{}", self.address.ip(), self.port),
            false => write!(f, "{}:{}", self.address, self.port),
        }
    }
}

/// Returns a value for an engine's `--publish`, at 127.0.0.1 unless it has an address. Other syntax is the
/// engine's.
pub fn engine_value(value: &str) -> String {
    match split(value) {
        (Some(_), _, _) => value.to_owned(),
        (None, "" | "0", port) => format!("{}::{port}", Ipv4Addr::LOCALHOST),
        (None, host, port) => format!("{}:{host}:{port}", Ipv4Addr::LOCALHOST),
    }
}

/// Checks a value for `--publish` of any network. Errors: neither aifo nor an engine publishes it. Ranges
/// and other protocols are the engine's.
pub fn check_published(value: &str) -> Result<(), InvalidPort> {
    let invalid = |reason| InvalidPort { value: value.to_owned(), reason };
    let (ports, protocol) = value.split_once('/').unwrap_or((value, "tcp"));
    if !["tcp", "udp", "sctp"].contains(&protocol) {
        return Err(invalid("expected tcp, udp or sctp after '/'"));
    }
    let (address, host, port) = split(ports);
    if address.is_some_and(|address| address.parse::<IpAddr>().is_err()) {
        return Err(invalid("expected an IP address"));
    }
    let is_range = |text: &str, lowest: u16| {
        let mut ends = text.splitn(2, '-').map(|end| end.parse::<u16>());
        ends.all(|end| end.is_ok_and(|end| end >= lowest))
    };
    if !host.is_empty() && !is_range(host, 0) {
        return Err(invalid("expected a port of this machine"));
    }
    if !is_range(port, 1) {
        return Err(invalid("expected a port of the tools"));
    }
    Ok(())
}

/// Splits a value into the address, which may be in brackets, the port of the host, empty if it has none,
/// and the port of the tools.
fn split(value: &str) -> (Option<&str>, &str, &str) {
    let Some((rest, port)) = value.rsplit_once(':') else { return (None, "", value) };
    match rest.rsplit_once(':') {
        Some((address, host)) => {
            let inner = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            (Some(inner.unwrap_or(address)), host, port)
        }
        None => (None, rest, port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_at_localhost_unless_it_has_an_address() {
        let rows = [
            ("3000", "127.0.0.1:3000", true, "127.0.0.1::3000"),
            ("0:3000", "127.0.0.1:0", false, "127.0.0.1::3000"),
            (":3000", "127.0.0.1:3000", true, "127.0.0.1::3000"),
            ("8080:3000", "127.0.0.1:8080", false, "127.0.0.1:8080:3000"),
            ("8080:3000/tcp", "127.0.0.1:8080", false, "127.0.0.1:8080:3000/tcp"),
            ("0.0.0.0:8080:3000", "0.0.0.0:8080", false, "0.0.0.0:8080:3000"),
            ("192.0.2.1::3000", "192.0.2.1:3000", true, "192.0.2.1::3000"),
            ("[::1]:8080:3000", "[::1]:8080", false, "[::1]:8080:3000"),
        ];
        for (value, address, or_any, engine) in rows {
            let address = address.parse().unwrap();
            let expected = PublishedPort { address, or_any, port: 3000 };
            assert_eq!(value.parse(), Ok(expected), "{value}");
            assert_eq!(expected.to_string().parse(), Ok(expected), "{value}");
            assert_eq!(engine_value(value), engine, "{value}");
        }
        // Valid for engines only.
        assert_eq!(engine_value("3000-3005:3000-3005"), "127.0.0.1:3000-3005:3000-3005");
        assert_eq!(engine_value("5000:53/udp"), "127.0.0.1:5000:53/udp");
    }

    #[test]
    fn values_of_engines_are_checked_as_far_as_they_are_the_same() {
        for value in [
            "3000",
            ":3000",
            "0:3000",
            "8080:3000",
            "[::1]:8080:3000",
            "192.0.2.1::3000",
            "3000-3005:3000-3005",
            "5000:53/udp",
            "3000/tcp",
        ] {
            assert_eq!(check_published(value), Ok(()), "{value}");
        }
        for value in [
            "",
            "x",
            "0",
            "-1",
            "99999",
            "99999:1",
            "1:99999",
            "1:0",
            "localhost:1:1",
            "1:1/x",
            "1-",
            "1-x",
            "1-99999:1",
            "a b",
            "1:1/",
        ] {
            let error = check_published(value).map_err(|error| error.to_string());
            let text = error.expect_err(value);
            assert!(text.contains("\nhint: write PORT"), "{text}");
        }
    }

    #[test]
    fn other_values_have_a_reason_and_a_hint() {
        let rows = [
            ("", "a TCP port of the tools"),
            ("0", "a TCP port of the tools"),
            ("8080:0", "a TCP port of the tools"),
            ("5000:53/udp", "a TCP port of the tools"),
            ("3000-3005:3000-3005", "a port of this machine"),
            ("65536:1", "a port of this machine"),
            ("localhost:1:1", "an IP address"),
        ];
        for (value, reason) in rows {
            let error = value.parse::<PublishedPort>().unwrap_err().to_string();
            let expected = format!("invalid port '{value}': expected {reason}\nhint: write ");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
