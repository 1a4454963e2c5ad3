//! The host of a URL in the user's settings, as a rule of a network by name
//! (`spec/network.md#settings-of-the-user`).

use std::net::IpAddr;

use aifo_egress::Name;

/// The host and port of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlHost {
    /// A host by name, as a rule: the port of the URL, also at private addresses.
    Rule(String),
    /// A port of this machine's localhost.
    LocalPort(u16),
    /// An IP address, which no rule can name.
    Address(IpAddr),
}

/// Ports of schemes, and the option that checks the protocol at another port.
const SCHEMES: [(&str, u16, &str); 4] =
    [("https", 443, " tls"), ("http", 80, ""), ("ssh", 22, ""), ("git", 9418, "")];

impl UrlHost {
    /// Parses `[PREFIX+]SCHEME://[LOGIN@]HOST[:PORT][/PATH]` and `USER@HOST:PATH`; `None` for anything else.
    /// A login is ignored.
    pub fn parse(url: &str) -> Option<UrlHost> {
        let url = url.trim();
        let Some((scheme, rest)) = url.split_once("://") else { return UrlHost::parse_scp(url) };
        // Cargo writes `sparse+https://..`, pip and npm `git+ssh://..`.
        let scheme = scheme.rsplit('+').next().unwrap_or_default().to_ascii_lowercase();
        let (_, usual, option) = SCHEMES.into_iter().find(|(name, ..)| *name == scheme)?;
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        let (host, port) = match host.strip_prefix('[') {
            Some(address) => address.split_once(']')?,
            None => host.split_once(':').unwrap_or((host, "")),
        };
        let port = match port.trim_start_matches(':') {
            "" => usual,
            port => port.parse().ok().filter(|port| *port != 0)?,
        };
        UrlHost::of(host, port, if port == usual { "" } else { option })
    }

    /// Parses `USER@HOST:PATH`, as git and scp do.
    fn parse_scp(text: &str) -> Option<UrlHost> {
        let (user, rest) = text.split_once('@')?;
        let (host, _) = rest.split_once(':')?;
        let is_plain = |text: &str| !text.contains(['/', ' ']);
        (is_plain(user) && is_plain(host)).then(|| UrlHost::of(host, 22, ""))?
    }

    fn of(host: &str, port: u16, option: &str) -> Option<UrlHost> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(match address.to_canonical().is_loopback() {
                true => UrlHost::LocalPort(port),
                false => UrlHost::Address(address),
            });
        }
        let name = Name::parse(host.as_bytes()).ok()?;
        Some(match name.is_localhost() {
            true => UrlHost::LocalPort(port),
            false => UrlHost::Rule(format!("{name}:{port}{option} private")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_host_and_a_port() {
        let rule = |rule: &str| Some(UrlHost::Rule(rule.to_owned()));
        let rows = [
            ("https://Registry.Example/npm/", rule("registry.example:443 private")),
            ("https://registry.example:443", rule("registry.example:443 private")),
            ("https://registry.example:8443/x", rule("registry.example:8443 tls private")),
            ("http://me:se@cret@registry.example:8080/", rule("registry.example:8080 private")),
            ("sparse+https://index.example/", rule("index.example:443 private")),
            ("ssh://git@git.example:2222/x.git", rule("git.example:2222 private")),
            ("git@git.example:group/x.git", rule("git.example:22 private")),
            ("http://localhost:11434/v1", Some(UrlHost::LocalPort(11434))),
            ("http://127.0.0.1:8080", Some(UrlHost::LocalPort(8080))),
            ("http://[::1]:8080/", Some(UrlHost::LocalPort(8080))),
            ("http://10.0.0.7:8080", Some(UrlHost::Address([10, 0, 0, 7].into()))),
        ];
        for (url, expected) in rows {
            assert_eq!(UrlHost::parse(url), expected, "{url}");
        }
        let none = [
            "",
            "registry.example",
            "file:///srv/packages",
            "ftp://a.example/",
            "https://",
            "https://a b/",
            "https://a.example:0/",
            "https://a.example:x/",
            "https://127.1/",
            "/srv/x@y:z",
            "https://a.example:443\\@b.example/x:1",
        ];
        for url in none {
            let parsed = UrlHost::parse(url);
            // A backslash ends the authority, as for browsers.
            let expected = if url.contains('\\') { rule("a.example:443 private") } else { None };
            assert_eq!(parsed, expected, "{url}");
        }
    }
}
