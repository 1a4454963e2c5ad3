//! Access to the page: host names, origins, one-time links, cookies and keys (`spec/web.md#access`).

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use aifo_process::random_bits;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::journal::private;
use crate::media::hex;

/// The address under which the page is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Accepted values of `Host`.
    hosts: Vec<String>,
    /// Accepted values of `Origin`; the first is the page's own.
    origins: Vec<String>,
}

/// Browsers with access, and links that give it. Only hashes are stored.
#[derive(Debug)]
pub(crate) struct Access {
    address: Address,
    is_secure: bool,
    file: PathBuf,
    saved: Saved,
    /// Unused links by the hash of their secret, with their expiry; `None` for the first.
    links: HashMap<String, Option<u64>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Saved {
    /// The random part of the host name. It stays, so that open pages connect again.
    label: String,
    #[serde(default)]
    browsers: Vec<Browser>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Browser {
    /// SHA-256 of the cookie.
    cookie: String,
    /// SHA-256 of the key.
    key: String,
    /// Milliseconds since 1970.
    since: u64,
}

/// The secrets of a browser. Both are needed: a cookie also reaches servers on other ports of the
/// same host, the key never leaves the page's origin.
#[derive(Debug)]
pub(crate) struct Granted {
    /// The value of `Set-Cookie`.
    pub(crate) set_cookie: String,
    pub(crate) key: String,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error("this server has another name")]
    Host,
    #[error("the request comes from another page")]
    Origin,
    #[error("not signed in")]
    Credentials,
}

/// The part of a request that decides on access.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credentials<'a> {
    pub(crate) host: Option<&'a str>,
    pub(crate) origin: Option<&'a str>,
    pub(crate) fetch_site: Option<&'a str>,
    pub(crate) cookie: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Loads the empty page or its files.
    Page,
    /// Exchanges a link.
    SignIn,
    /// Loads an image, with the cookie alone.
    Media,
    /// Reads or changes a session.
    Session,
}

impl Address {
    /// Returns the address for a port, or for an origin given by the user.
    pub(crate) fn new(label: &str, port: u16, origin: Option<&str>) -> Self {
        let loopback = format!("127.0.0.1:{port}");
        match origin {
            Some(origin) => {
                let host = origin.split_once("://").map_or(origin, |(_, host)| host);
                let hosts = vec![host.to_owned(), loopback, format!("localhost:{port}")];
                Address { hosts, origins: vec![origin.to_owned()] }
            }
            None => {
                let hosts = vec![format!("{label}.localhost:{port}"), loopback];
                let origins = hosts.iter().map(|host| format!("http://{host}")).collect();
                Address { hosts, origins }
            }
        }
    }

    /// Returns the origins of the page, the best first.
    pub(crate) fn origins(&self) -> &[String] {
        &self.origins
    }
}

impl Access {
    /// Reads the browsers of earlier servers.
    pub(crate) fn open(file: &Path, port: u16, origin: Option<&str>) -> io::Result<Self> {
        let saved: Option<Saved> =
            fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let mut saved = saved.unwrap_or_default();
        let is_label = |label: &str| {
            let random = label.strip_prefix("aifo-").unwrap_or_default();
            random.len() == 12 && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        if !is_label(&saved.label) {
            let random: String = secret()?.chars().take(12).collect();
            saved = Saved { label: format!("aifo-{random}"), browsers: Vec::new() };
        }
        let access = Access {
            address: Address::new(&saved.label, port, origin),
            is_secure: origin.is_some_and(|origin| origin.starts_with("https://")),
            file: file.to_owned(),
            saved,
            links: HashMap::new(),
        };
        access.write()?;
        Ok(access)
    }

    /// Returns the address.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Creates a link's secret, valid once, and until this time.
    pub(crate) fn new_link(&mut self, expires: Option<u64>, now: u64) -> io::Result<String> {
        self.links.retain(|_, expires| expires.is_none_or(|expires| expires > now));
        if self.links.len() >= MOST_LINKS {
            return Err(io::Error::other("too many unused links"));
        }
        let secret = secret()?;
        self.links.insert(hash(&secret), expires);
        Ok(secret)
    }

    /// Exchanges a link's secret, once. `None` for an unknown, used or expired one.
    pub(crate) fn exchange(&mut self, link: &str, now: u64) -> io::Result<Option<Granted>> {
        let Some(expires) = self.links.remove(&hash(link)) else { return Ok(None) };
        if expires.is_some_and(|expires| expires <= now) {
            return Ok(None);
        }
        let (cookie, key) = (secret()?, secret()?);
        let browser = Browser { cookie: hash(&cookie), key: hash(&key), since: now };
        self.saved.browsers.push(browser);
        let surplus = self.saved.browsers.len().saturating_sub(MOST_BROWSERS);
        self.saved.browsers.drain(..surplus);
        self.write()?;
        let name = self.cookie_name();
        let secure = if self.is_secure { "; Secure" } else { "" };
        let age = LIFETIME_MS / 1000;
        let set_cookie =
            format!("{name}={cookie}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
        Ok(Some(Granted { set_cookie, key }))
    }

    /// Removes all browsers and links.
    pub(crate) fn revoke(&mut self) -> io::Result<()> {
        self.saved.browsers.clear();
        self.links.clear();
        self.write()
    }

    /// Checks a request.
    pub(crate) fn check(
        &self,
        request: Credentials<'_>,
        purpose: Purpose,
        now: u64,
    ) -> Result<(), Denied> {
        let host = request.host.unwrap_or_default();
        if !self.address.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) {
            return Err(Denied::Host);
        }
        if purpose == Purpose::Page {
            return Ok(());
        }
        let is_own = |origin: &str| self.address.origins.iter().any(|own| own == origin);
        if request.origin.is_some_and(|origin| !is_own(origin)) {
            return Err(Denied::Origin);
        }
        // A browser sends one of both with everything that another page causes.
        if request.fetch_site.is_some_and(|site| !["same-origin", "none"].contains(&site)) {
            return Err(Denied::Origin);
        }
        if purpose == Purpose::SignIn {
            return Ok(());
        }
        let name = self.cookie_name();
        let cookies = request.cookie.unwrap_or_default().split(';').map(str::trim);
        let mut cookies = cookies.filter_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let key = request.key.map(hash);
        let is_known = |cookie: &str| {
            let cookie = hash(cookie);
            self.saved.browsers.iter().any(|browser| {
                browser.cookie == cookie
                    && (purpose == Purpose::Media || Some(&browser.key) == key.as_ref())
                    && now.saturating_sub(browser.since) < LIFETIME_MS
            })
        };
        if !cookies.any(is_known) {
            return Err(Denied::Credentials);
        }
        Ok(())
    }

    fn cookie_name(&self) -> &'static str {
        if self.is_secure { "__Host-aifo-web" } else { "aifo-web" }
    }

    fn write(&self) -> io::Result<()> {
        let new = self.file.with_extension("new");
        let _ = fs::remove_file(&new);
        let mut file = private().write(true).create_new(true).open(&new)?;
        file.write_all(&serde_json::to_vec(&self.saved)?)?;
        fs::rename(new, &self.file)
    }
}

/// Returns 256 random bits in hex.
pub(crate) fn secret() -> io::Result<String> {
    Ok(hex(&random_bits()?) + &hex(&random_bits()?))
}

/// Secrets are compared by their hashes, so the time of a comparison shows nothing.
fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// Unused links.
const MOST_LINKS: usize = 32;
/// Browsers with access; the oldest loses it.
const MOST_BROWSERS: usize = 64;
/// How long a browser has access: 30 days.
const LIFETIME_MS: u64 = 30 * 24 * 3600 * 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn open(name: &str, origin: Option<&str>) -> (PathBuf, Access) {
        let path =
            std::env::temp_dir().join(format!("aifo-web-access-{name}-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let access = Access::open(&path, 80, origin).unwrap();
        (path, access)
    }

    fn cookie(granted: &Granted) -> String {
        granted.set_cookie.split(';').next().unwrap().to_owned()
    }

    #[test]
    fn a_link_works_once_and_until_it_expires() {
        let (path, mut access) = open("link", None);
        let link = access.new_link(None, 0).unwrap();
        assert!(access.exchange("wrong", 0).unwrap().is_none());
        assert!(access.exchange(&link, 0).unwrap().is_some());
        assert!(access.exchange(&link, 0).unwrap().is_none(), "replayed");
        let late = access.new_link(Some(100), 0).unwrap();
        assert!(access.exchange(&late, 100).unwrap().is_none(), "expired");
        let stored = fs::read_to_string(&path).unwrap();
        assert!(!stored.contains(&link), "only hashes are stored");
        for _ in 0..MOST_LINKS {
            access.new_link(None, 0).unwrap();
        }
        assert!(access.new_link(None, 0).is_err());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn requests_need_host_origin_cookie_and_key() {
        let (path, mut access) = open("check", None);
        let link = access.new_link(None, 0).unwrap();
        let granted = access.exchange(&link, 0).unwrap().unwrap();
        assert!(granted.set_cookie.ends_with("; HttpOnly; SameSite=Strict"));
        assert!(!granted.set_cookie.contains("Domain"));
        let own = access.address().origins()[0].clone();
        assert!(own.starts_with("http://aifo-") && own.ends_with(".localhost:80"), "{own}");
        let host = own.strip_prefix("http://").unwrap();
        let jar = format!("other=1; {}", cookie(&granted));
        let good = Credentials {
            host: Some(host),
            origin: Some(&own),
            fetch_site: Some("same-origin"),
            cookie: Some(&jar),
            key: Some(&granted.key),
        };
        let other_port = own.replace(":80", ":81");
        let rows = [
            (good, Ok(())),
            (Credentials { origin: None, fetch_site: None, ..good }, Ok(())),
            (Credentials { host: Some("127.0.0.1:80"), ..good }, Ok(())),
            (Credentials { host: Some("evil.example:80"), ..good }, Err(Denied::Host)),
            (Credentials { host: Some("localhost:80"), ..good }, Err(Denied::Host)),
            (Credentials { host: None, ..good }, Err(Denied::Host)),
            (Credentials { origin: Some("http://evil.example"), ..good }, Err(Denied::Origin)),
            (Credentials { origin: Some(&other_port), ..good }, Err(Denied::Origin)),
            (Credentials { origin: Some("null"), ..good }, Err(Denied::Origin)),
            (Credentials { fetch_site: Some("same-site"), ..good }, Err(Denied::Origin)),
            (Credentials { fetch_site: Some("cross-site"), ..good }, Err(Denied::Origin)),
            (Credentials { cookie: None, ..good }, Err(Denied::Credentials)),
            (Credentials { cookie: Some("aifo-web=x"), ..good }, Err(Denied::Credentials)),
            (Credentials { key: None, ..good }, Err(Denied::Credentials)),
            (Credentials { key: Some("x"), ..good }, Err(Denied::Credentials)),
        ];
        for (request, expected) in rows {
            assert_eq!(access.check(request, Purpose::Session, 1), expected, "{request:?}");
        }
        let image = Credentials { key: None, ..good };
        assert_eq!(access.check(image, Purpose::Media, 1), Ok(()));
        assert_eq!(access.check(good, Purpose::Session, LIFETIME_MS), Err(Denied::Credentials));
        let again = Access::open(&path, 80, None).unwrap();
        assert_eq!(again.check(good, Purpose::Session, 1), Ok(()), "after a restart");
        access.revoke().unwrap();
        assert_eq!(access.check(good, Purpose::Session, 1), Err(Denied::Credentials));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn an_origin_of_the_user_has_a_secure_cookie() {
        let (path, mut access) = open("origin", Some("https://aifo.example"));
        let link = access.new_link(None, 0).unwrap();
        let granted = access.exchange(&link, 0).unwrap().unwrap();
        assert!(granted.set_cookie.starts_with("__Host-aifo-web="), "{}", granted.set_cookie);
        assert!(granted.set_cookie.ends_with("; Secure"));
        let jar = cookie(&granted);
        let good = Credentials {
            host: Some("aifo.example"),
            origin: Some("https://aifo.example"),
            fetch_site: None,
            cookie: Some(&jar),
            key: Some(&granted.key),
        };
        assert_eq!(access.check(good, Purpose::Session, 1), Ok(()));
        let plain = Credentials { origin: Some("http://127.0.0.1:80"), ..good };
        assert_eq!(access.check(plain, Purpose::Session, 1), Err(Denied::Origin));
        fs::remove_file(path).unwrap();
    }
}
