//! One rule: a pattern of names, ports and options.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use crate::name::{Name, NameError};

/// A rule that permits connections to names.
///
/// `Display` prints it as `spec/network.md#rules` writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub(crate) pattern: Pattern,
    /// The permitted ports. Empty only in a rule that takes away: all ports.
    pub(crate) ports: BTreeSet<u16>,
    pub(crate) options: Options,
}

/// The names of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pattern {
    /// This name.
    Exact(Name),
    /// The names below this one, without itself.
    Below(Name),
}

/// The protocol of a connection, which decides what is checked in its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP/1: `Host` must be the name. The default at port 80.
    Http,
    /// TLS: the server name must be the name. The default at port 443.
    Tls,
    /// Any: nothing is checked. The default at other ports.
    Raw,
}

/// The options of a rule, or of several rules for the same name and port.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Options {
    /// The protocol at all ports of the rule, instead of that of the port.
    pub(crate) protocol: Option<Protocol>,
    /// Private addresses are dialled.
    pub(crate) private: bool,
    /// Addresses that are dialled in place of the name's own, of any class.
    pub(crate) addresses: BTreeSet<IpAddr>,
}

/// Why a text is not a rule. The message has a line `hint: ..`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The name of a rule is invalid.
    #[error("invalid name in network rule '{rule}': {source}\nhint: {}", name_hint(source))]
    Name {
        /// The rule.
        rule: String,
        /// The cause.
        source: NameError,
    },
    /// `*` is not the first of several labels.
    #[error(
        "invalid wildcard in network rule '{rule}': '*' must be the first of several labels\n\
         hint: write '*.registry.example' for the names below registry.example"
    )]
    Wildcard {
        /// The rule.
        rule: String,
    },
    /// A port is not a number from 1 to 65535.
    #[error(
        "invalid port '{port}' in network rule '{rule}'\n\
         hint: write numbers from 1 to 65535, for example 'git.example:22,443'"
    )]
    Port {
        /// The rule.
        rule: String,
        /// The invalid port.
        port: String,
    },
    /// The rule has port 53.
    #[error(
        "network rule '{rule}' has port 53, which is the session's own DNS\n\
         hint: remove the port; names with a rule are resolved without it"
    )]
    DnsPort {
        /// The rule.
        rule: String,
    },
    /// The rule has `localhost`, or a name below it.
    #[error(
        "network rule '{rule}' has localhost, which is the stack itself\n\
         hint: relay a port of this machine with: --host-port PORT"
    )]
    Localhost {
        /// The rule.
        rule: String,
    },
    /// An option does not exist, or is invalid.
    #[error(
        "invalid option '{option}' in network rule '{rule}'\n\
         hint: the options are 'raw', 'tls', 'http', 'private' and 'address=IP'"
    )]
    Option {
        /// The rule.
        rule: String,
        /// The option.
        option: String,
    },
    /// The rule has two protocols.
    #[error("network rule '{rule}' has two protocols\nhint: keep one of 'raw', 'tls' and 'http'")]
    Protocols {
        /// The rule.
        rule: String,
    },
    /// A rule that takes away has options.
    #[error(
        "option '{option}' in network rule '{rule}', which takes away\n\
         hint: write only the name, and ports if the others shall stay"
    )]
    OptionOfDenial {
        /// The rule.
        rule: String,
        /// The option.
        option: String,
    },
    /// There is no such group.
    #[error("unknown group '{group}' in the network rules\nhint: the groups are {}", group_names())]
    Group {
        /// The text.
        group: String,
    },
    /// The rule looks like a URL.
    #[error("network rule '{rule}' is a URL\nhint: write only its host, for example '{host}'")]
    Url {
        /// The rule.
        rule: String,
        /// The URL's host.
        host: String,
    },
}

/// The ports of a rule without ports.
pub(crate) const DEFAULT_PORTS: [u16; 2] = [80, 443];

impl Rule {
    /// Parses `NAME[:PORT[,PORT..]] [OPTION..]`, without groups.
    pub(crate) fn parse(text: &str) -> Result<Rule, RuleError> {
        let mut rule = Rule::parse_subject(text)?;
        if rule.ports.is_empty() {
            rule.ports.extend(DEFAULT_PORTS);
        }
        for option in text.split_whitespace().skip(1) {
            rule.options.parse(text, option)?;
        }
        Ok(rule)
    }

    /// Parses a rule that takes away: without ports it has all ports, and it has no options.
    pub(crate) fn parse_denial(text: &str) -> Result<Rule, RuleError> {
        match text.split_whitespace().nth(1) {
            None => Rule::parse_subject(text),
            Some(option) => {
                Err(RuleError::OptionOfDenial { rule: text.to_owned(), option: option.to_owned() })
            }
        }
    }

    /// Parses pattern and ports.
    fn parse_subject(text: &str) -> Result<Rule, RuleError> {
        let rule = || text.to_owned();
        let subject = text.split_whitespace().next().unwrap_or_default();
        if let Some((_, rest)) = subject.split_once("://") {
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let host = host.rsplit('@').next().unwrap_or_default();
            return Err(RuleError::Url { rule: rule(), host: host.to_owned() });
        }
        if subject.parse::<IpAddr>().is_ok() || subject.starts_with('[') {
            return Err(RuleError::Name { rule: rule(), source: NameError::Address });
        }
        let (host, ports) = match subject.split_once(':') {
            Some((host, ports)) => (host, parse_ports(text, ports)?),
            None => (subject, BTreeSet::new()),
        };
        let parse = |name: &str| {
            Name::parse(name.as_bytes()).map_err(|source| RuleError::Name { rule: rule(), source })
        };
        let pattern = match host.strip_prefix("*.") {
            Some(parent) if !parent.contains('*') => Pattern::Below(parse(parent)?),
            None if !host.contains('*') => Pattern::Exact(parse(host)?),
            _ => return Err(RuleError::Wildcard { rule: rule() }),
        };
        let (Pattern::Exact(name) | Pattern::Below(name)) = &pattern;
        if name.is_localhost() {
            return Err(RuleError::Localhost { rule: rule() });
        }
        Ok(Rule { pattern, ports, options: Options::default() })
    }

    /// Returns the name if the rule has no wildcard.
    pub(crate) fn exact_name(&self) -> Option<&Name> {
        match &self.pattern {
            Pattern::Exact(name) => Some(name),
            Pattern::Below(_) => None,
        }
    }

    /// Returns the protocol of connections to this port.
    pub fn protocol(&self, port: u16) -> Protocol {
        self.options.protocol.unwrap_or(Protocol::of_port(port))
    }

    /// Adds the options of another rule for the same name and port. Different protocols become raw.
    pub(crate) fn add_options(&mut self, other: &Rule, port: u16) {
        if self.protocol(port) != other.protocol(port) {
            self.options.protocol = Some(Protocol::Raw);
        }
        self.options.private |= other.options.private;
        self.options.addresses.extend(&other.options.addresses);
    }

    /// Returns whether the rule permits private addresses.
    pub fn permits_private(&self) -> bool {
        self.options.private
    }

    /// Returns the addresses that are dialled in place of the name's own; usually none.
    pub fn addresses(&self) -> &BTreeSet<IpAddr> {
        &self.options.addresses
    }

    /// Returns whether the rule names this address.
    pub fn names_address(&self, address: IpAddr) -> bool {
        self.options.addresses.contains(&address)
    }
}

impl Pattern {
    /// Returns whether the pattern has this name.
    pub(crate) fn matches(&self, name: &Name) -> bool {
        match self {
            Pattern::Exact(exact) => exact == name,
            Pattern::Below(parent) => name.is_below(parent),
        }
    }
}

impl Protocol {
    /// Returns the protocol of a port without an option.
    pub(crate) fn of_port(port: u16) -> Protocol {
        match port {
            80 => Protocol::Http,
            443 => Protocol::Tls,
            _ => Protocol::Raw,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Tls => "tls",
            Protocol::Raw => "raw",
        }
    }

    fn parse(option: &str) -> Option<Protocol> {
        let all = [Protocol::Http, Protocol::Tls, Protocol::Raw];
        all.into_iter().find(|protocol| protocol.name() == option)
    }
}

impl Options {
    fn parse(&mut self, rule: &str, option: &str) -> Result<(), RuleError> {
        match option.split_once('=') {
            None if option == "private" => self.private = true,
            None if let Some(protocol) = Protocol::parse(option) => {
                if self.protocol.replace(protocol).is_some_and(|other| other != protocol) {
                    return Err(RuleError::Protocols { rule: rule.to_owned() });
                }
            }
            Some(("address", address)) if let Ok(address) = address.parse::<IpAddr>() => {
                self.addresses.insert(address.to_canonical());
            }
            _ => {
                let (rule, option) = (rule.to_owned(), option.to_owned());
                return Err(RuleError::Option { rule, option });
            }
        }
        Ok(())
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Exact(name) => write!(f, "{name}")?,
            Pattern::Below(parent) => write!(f, "*.{parent}")?,
        }
        if !self.ports.iter().copied().eq(DEFAULT_PORTS) {
            for (index, port) in self.ports.iter().enumerate() {
                write!(f, "{}{port}", if index == 0 { ':' } else { ',' })?;
            }
        }
        if let Some(protocol) = self.options.protocol {
            write!(f, " {}", protocol.name())?;
        }
        if self.options.private {
            f.write_str(" private")?;
        }
        self.options.addresses.iter().try_for_each(|address| write!(f, " address={address}"))
    }
}

fn parse_ports(rule: &str, ports: &str) -> Result<BTreeSet<u16>, RuleError> {
    let parse = |port: &str| {
        let is_decimal = port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse::<u16>() {
            Ok(53) => Err(RuleError::DnsPort { rule: rule.to_owned() }),
            Ok(port) if port != 0 && is_decimal => Ok(port),
            _ => Err(RuleError::Port { rule: rule.to_owned(), port: port.to_owned() }),
        }
    };
    ports.split(',').map(parse).collect()
}

fn name_hint(error: &NameError) -> &'static str {
    match error {
        NameError::Address => "write a name; 'NAME address=IP' permits an address for it",
        NameError::Character => "write international names in punycode, 'xn--..'",
        NameError::Empty | NameError::TooLong | NameError::Label | NameError::Option => {
            "write a host name, for example 'registry.example:443'"
        }
    }
}

fn group_names() -> String {
    let names: Vec<&str> = crate::groups::GROUPS.iter().map(|group| group.name).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_print_as_they_are_written() {
        let rows = [
            ("registry.example", "registry.example"),
            ("registry.example:80,443", "registry.example"),
            ("  Registry.Example.:443  ", "registry.example:443"),
            ("git.example:443,22", "git.example:22,443"),
            ("*.a.example raw", "*.a.example raw"),
            (
                "a.example private address=10.0.0.1 raw address=::ffff:10.0.0.2 address=::1",
                "a.example raw private address=10.0.0.1 address=10.0.0.2 address=::1",
            ),
        ];
        for (text, printed) in rows {
            let rule = Rule::parse(text).unwrap();
            assert_eq!(rule.to_string(), printed, "{text}");
            assert_eq!(Rule::parse(printed).unwrap(), rule, "{text}");
        }
    }

    #[test]
    fn errors_have_a_hint() {
        let rows = [
            ("", "the name is empty"),
            ("10.0.0.1", "it is an IP address"),
            ("10.0.0.1:443", "it is an IP address"),
            ("127.1", "it is an IP address"),
            ("0x7f000001", "it is an IP address"),
            ("::1", "it is an IP address"),
            ("[::1]:443", "it is an IP address"),
            ("bücher.example", "a character other than"),
            ("a..example", "a label of the name is empty"),
            ("*", "'*' must be the first"),
            ("*:443", "'*' must be the first"),
            ("a.*.example", "'*' must be the first"),
            ("*.*.example", "'*' must be the first"),
            ("*a.example", "'*' must be the first"),
            ("a.example:", "invalid port ''"),
            ("a.example:0", "invalid port '0'"),
            ("a.example:65536", "invalid port '65536'"),
            ("a.example:+80", "invalid port '+80'"),
            ("a.example:22,", "invalid port ''"),
            ("a.example:https", "invalid port 'https'"),
            ("a.example:53", "port 53"),
            ("localhost:3000", "the stack itself"),
            ("*.localhost", "the stack itself"),
            ("a.example raw tls", "two protocols"),
            ("a.example rew", "invalid option 'rew'"),
            ("a.example address=x", "invalid option 'address=x'"),
            ("a.example address=10.0.0.0/8", "invalid option 'address=10.0.0.0/8'"),
            ("https://a.example/x", "only its host, for example 'a.example'"),
            ("https://me:secret@a.example:8443/x", "for example 'a.example:8443'"),
        ];
        for (text, part) in rows {
            let error = Rule::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert!(error.lines().count() == 2 && error.contains("\nhint: "), "{text}: {error}");
        }
        let error = crate::NetRules::parse(&["@rsut".to_owned()]).unwrap_err().to_string();
        let expected = "unknown group '@rsut' in the network rules\n\
                        hint: the groups are @rust @node @python @go @debian @forges";
        assert_eq!(error, expected);
        let error = Rule::parse_denial("a.example raw").unwrap_err().to_string();
        assert!(error.starts_with("option 'raw' in network rule 'a.example raw'"), "{error}");
    }

    #[test]
    fn ports_have_a_protocol() {
        use Protocol::*;
        let rows = [
            ("a.example:22,80,443,8443", [(22, Raw), (80, Http), (443, Tls), (8443, Raw)]),
            ("a.example raw", [(22, Raw), (80, Raw), (443, Raw), (8443, Raw)]),
            ("a.example:8443 tls", [(22, Tls), (80, Tls), (443, Tls), (8443, Tls)]),
            ("a.example:8080 http http", [(22, Http), (80, Http), (443, Http), (8443, Http)]),
        ];
        for (text, ports) in rows {
            let rule = Rule::parse(text).unwrap();
            for (port, protocol) in ports {
                assert_eq!(rule.protocol(port), protocol, "{text} {port}");
            }
        }
    }
}
