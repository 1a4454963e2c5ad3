//! The host's proxy variables in containers (`spec/containers.md#proxies`).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use aifo_engine::Value;

/// The names of proxy variables.
pub const PROXY_VARIABLES: [&str; 10] = [
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// A login for a proxy, in the variable's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyLogin {
    /// Containers get the URL without it.
    Removed,
    /// Containers get the URL as it is.
    Kept,
}

/// Returns the proxy variables for containers. `variable` reads the host's environment. A URL whose
/// login cannot be told from its host is left out.
pub fn proxy_variables(
    login: ProxyLogin,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Vec<(OsString, Value)> {
    let set = PROXY_VARIABLES.into_iter().filter_map(|name| Some((name, variable(name)?)));
    let passed = set.filter_map(|(name, value)| {
        let value = match login {
            ProxyLogin::Kept => value,
            ProxyLogin::Removed => without_login(&value)?,
        };
        Some((OsString::from(name), Value::Hidden(value)))
    });
    passed.collect()
}

/// Returns the names of the proxy variables that contain a login.
pub fn proxy_logins(variable: impl Fn(&str) -> Option<OsString>) -> Vec<&'static str> {
    let has_login =
        |name: &&str| variable(name).is_some_and(|value| value.as_bytes().contains(&b'@'));
    PROXY_VARIABLES.into_iter().filter(has_login).collect()
}

fn without_login(url: &OsStr) -> Option<OsString> {
    let url = url.as_bytes();
    let start = url.windows(3).position(|part| part == b"://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(start);
    let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.iter().rposition(|byte| *byte == b'@').map_or(0, |at| at + 1);
    let url = [scheme, &authority[host..], path].concat();
    (!url.contains(&b'@')).then(|| OsString::from_vec(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_removed_unless_it_is_kept() {
        for (url, expected) in [
            ("http://proxy:3128/", Some("http://proxy:3128/")),
            ("http://me:pw@proxy:3128", Some("http://proxy:3128")),
            ("http://me:p@w@proxy", Some("http://proxy")),
            ("me:pw@proxy:3128", Some("proxy:3128")),
            ("socks5h://me@[::1]:1080/x", Some("socks5h://[::1]:1080/x")),
            // The password contains a slash, so the host is not where a parser sees it.
            ("http://me:p/w@proxy", None),
            ("localhost,.example.org", Some("localhost,.example.org")),
        ] {
            let variable = |name: &str| (name == "http_proxy").then(|| OsString::from(url));
            let value = |url: &str| vec![("http_proxy".into(), Value::Hidden(url.into()))];
            let removed = proxy_variables(ProxyLogin::Removed, variable);
            assert_eq!(removed, expected.map(value).unwrap_or_default(), "{url}");
            assert_eq!(proxy_variables(ProxyLogin::Kept, variable), value(url));
            let named: &[&str] = if url.contains('@') { &["http_proxy"] } else { &[] };
            assert_eq!(proxy_logins(variable), named);
        }
    }
}
