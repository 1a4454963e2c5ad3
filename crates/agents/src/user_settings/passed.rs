//! The settings of package managers that tools in containers get (`spec/containers.md#registries-of-the-user`).
//!
//! Only the listed keys pass, only to the tools of their kind, and no URL with a login.

use toml::{Table, Value};

/// The part of a text that passes, in the same format.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// Empty if nothing does.
    pub(super) text: String,
    /// The keys that do not, for people.
    pub(super) left_out: Vec<String>,
    /// True for tokens and logins beside the URLs.
    pub(super) has_secrets: bool,
}

impl Passed {
    /// Returns a URL without its login. `None` if it does not pass; both are noted.
    fn url(&mut self, key: &str, text: &str) -> Option<String> {
        match without_login(text) {
            Ok((url, false)) => Some(url),
            Ok((url, true)) => {
                self.left_out.push(format!("the login in {key}"));
                Some(url)
            }
            Err(why) => {
                self.left_out.push(format!("{key}, {why}"));
                None
            }
        }
    }

    fn line(&mut self, key: &str, value: &str) {
        self.text += &format!("{key}={value}\n");
    }
}

/// Returns a URL without login, query and fragment, and whether it had one. Errors: it is none of a registry, or
/// parts of it are not known.
fn without_login(text: &str) -> Result<(String, bool), &'static str> {
    const SCHEMES: [&str; 4] = ["https", "http", "ssh", "git"];
    let text = text.trim();
    let (scheme, rest) = text.split_once("://").ok_or("which is no URL")?;
    let last = scheme.rsplit('+').next().unwrap_or_default().to_ascii_lowercase();
    if !SCHEMES.contains(&last.as_str()) {
        return Err("which is on this machine");
    }
    if text.contains(['$', '`', '"', '\'', '\\']) || text.contains(char::is_control) {
        return Err("which has a variable");
    }
    let (rest, had_query) = match rest.find(['?', '#']) {
        Some(at) => (rest.get(..at).unwrap_or_default(), true),
        None => (rest, false),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (login, host) = match authority.rsplit_once('@') {
        // The user of ssh is no secret.
        Some((login, host)) if last == "ssh" && !login.contains(':') => {
            return Ok((format!("{scheme}://{login}@{host}{path}"), had_query));
        }
        Some((_, host)) => (true, host),
        None => (false, authority),
    };
    Ok((format!("{scheme}://{host}{path}"), login || had_query))
}

/// `registry` and `@scope:registry` of npm.
pub(super) fn npmrc(text: &str) -> Passed {
    let mut passed = Passed::default();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim().trim_matches(['"', '\'']));
        let is_scope = key.strip_prefix('@').and_then(|key| key.strip_suffix(":registry"));
        let is_name = |name: &str| {
            name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~'))
        };
        if key == "registry" || is_scope.is_some_and(is_name) {
            if let Some(url) = passed.url(key, value) {
                passed.line(key, &url);
            }
        } else if key.contains("_auth") || key.contains("_password") {
            passed.has_secrets = true;
        }
    }
    passed
}

/// `npmRegistryServer` of yarn, for all packages.
pub(super) fn yarnrc(text: &str) -> Passed {
    let mut passed = Passed::default();
    for line in text.lines() {
        let Some(value) = line.strip_prefix("npmRegistryServer:") else { continue };
        if let Some(url) = passed.url("npmRegistryServer", value.trim().trim_matches(['"', '\''])) {
            passed.text += &format!("npmRegistryServer: \"{url}\"\n");
        }
    }
    passed
}

/// The indexes of pip, and the hosts that it trusts.
pub(super) fn pip(text: &str) -> Passed {
    let mut passed = Passed::default();
    let (mut key, mut is_first) = (None, true);
    for line in text.lines() {
        let continues = line.starts_with([' ', '\t']);
        let trimmed = line.trim();
        let value = match trimmed.split_once(['=', ':']) {
            _ if trimmed.is_empty() || trimmed.starts_with(['#', ';']) => continue,
            _ if trimmed.starts_with('[') => {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
                let name = trimmed.trim_start_matches('[').trim_end_matches(']');
                if name.chars().all(is_plain) {
                    passed.text += &format!("[{name}]\n");
                }
                key = None;
                continue;
            }
            Some((name, value)) if !continues => {
                let name = name.trim().replace('_', "-");
                let known = ["index-url", "extra-index-url", "find-links", "trusted-host"];
                key = known.into_iter().find(|known| *known == name);
                is_first = true;
                value
            }
            _ => trimmed,
        };
        let Some(key) = key else { continue };
        for word in value.split_whitespace() {
            let word = match key {
                "trusted-host" => Some(word.to_owned()).filter(|host| is_host(host)),
                key => passed.url(key, word),
            };
            if let Some(word) = word {
                let before = if is_first { format!("{key} = ") } else { "    ".to_owned() };
                passed.text += &format!("{before}{word}\n");
                is_first = false;
            }
        }
    }
    // Headings alone are nothing.
    if passed.text.lines().all(|line| line.starts_with('[')) {
        passed.text.clear();
    }
    passed
}

fn is_host(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']'))
}

/// The indexes of uv.
pub(super) fn uv(text: &str) -> Passed {
    let mut passed = Passed::default();
    let Ok(table) = text.parse::<Table>() else { return passed };
    let mut kept = Table::new();
    for key in ["index-url", "extra-index-url", "find-links"] {
        let value = match table.get(key) {
            Some(Value::String(url)) => passed.url(key, url).map(Value::String),
            Some(Value::Array(list)) => {
                let urls = list.iter().filter_map(|url| passed.url(key, url.as_str()?));
                let urls: Vec<Value> = urls.map(Value::String).collect();
                Some(Value::Array(urls))
                    .filter(|urls| urls.as_array().is_some_and(|it| !it.is_empty()))
            }
            _ => None,
        };
        kept.extend(value.map(|value| (key.to_owned(), value)));
    }
    let mut indexes = Vec::new();
    for index in table.get("index").and_then(Value::as_array).into_iter().flatten() {
        let Some(index) = index.as_table() else { continue };
        let url = index.get("url").and_then(Value::as_str).unwrap_or_default();
        let Some(url) = passed.url("index", url) else { continue };
        let mut row = only(index, &["name", "default", "explicit"]);
        row.insert("url".to_owned(), Value::String(url));
        indexes.push(Value::Table(row));
    }
    if !indexes.is_empty() {
        kept.insert("index".to_owned(), Value::Array(indexes));
    }
    passed.text = text_of(&kept);
    passed
}

/// The registries and replaced sources of cargo.
pub(super) fn cargo(text: &str) -> Passed {
    let mut passed = Passed::default();
    let Ok(table) = text.parse::<Table>() else { return passed };
    let below = |name: &str| table.get(name).and_then(Value::as_table).cloned().unwrap_or_default();
    let mut kept = Table::new();
    let mut sources = Table::new();
    for (name, source) in below("source") {
        let Value::Table(source) = source else { continue };
        let mut row = only(&source, &["replace-with", "branch", "tag", "rev"]);
        for key in ["registry", "git"] {
            let Some(url) = source.get(key).and_then(Value::as_str) else { continue };
            if let Some(url) = passed.url(&format!("source.{name}.{key}"), url) {
                row.insert(key.to_owned(), Value::String(url));
            }
        }
        if let Some(key) =
            ["directory", "local-registry"].iter().find(|key| source.contains_key(**key))
        {
            passed.left_out.push(format!("source.{name}.{key}, which is on this machine"));
        }
        if !row.is_empty() {
            sources.insert(name, Value::Table(row));
        }
    }
    let mut registries = Table::new();
    for (name, registry) in below("registries") {
        let Value::Table(registry) = registry else { continue };
        passed.has_secrets |= registry.contains_key("token");
        let Some(url) = registry.get("index").and_then(Value::as_str) else { continue };
        let Some(url) = passed.url(&format!("registries.{name}.index"), url) else { continue };
        let mut row = only(&registry, &["protocol"]);
        row.insert("index".to_owned(), Value::String(url));
        registries.insert(name, Value::Table(row));
    }
    // A source that is replaced by one that does not pass stays what it is.
    let known: Vec<String> = sources.keys().chain(registries.keys()).cloned().collect();
    for (_, source) in sources.iter_mut() {
        let Value::Table(source) = source else { continue };
        let target = source.get("replace-with").and_then(Value::as_str).unwrap_or_default();
        if !known.iter().any(|name| name == target) {
            source.remove("replace-with");
        }
    }
    sources.retain(|_, source| source.as_table().is_some_and(|source| !source.is_empty()));
    let registry = only(&below("registry"), &["default"]);
    for (name, table) in [("source", sources), ("registries", registries), ("registry", registry)] {
        if !table.is_empty() {
            kept.insert(name.to_owned(), Value::Table(table));
        }
    }
    passed.text = text_of(&kept);
    passed
}

/// The proxies, the checksum database and the private modules of go, as variables.
pub(super) fn go(text: &str) -> Passed {
    let mut passed = Passed::default();
    for line in text.lines() {
        let Some((key, value)) = line.trim().split_once('=') else { continue };
        let value = value.trim().trim_matches(['"', '\'']);
        match key.trim() {
            key @ ("GOPRIVATE" | "GONOPROXY" | "GONOSUMDB" | "GOINSECURE") => {
                passed.line(key, value);
            }
            "GOPROXY" => {
                let mut kept = String::new();
                for part in value.split_inclusive([',', '|']) {
                    let (word, end) = match part.strip_suffix([',', '|']) {
                        Some(word) => (word, part.get(word.len()..).unwrap_or_default()),
                        None => (part, ""),
                    };
                    let word = match word.trim() {
                        word @ ("direct" | "off") => Some(word.to_owned()),
                        word => passed.url("GOPROXY", word),
                    };
                    kept += &word.map(|word| word + end).unwrap_or_default();
                }
                let kept = kept.trim_end_matches([',', '|']).to_owned();
                if !kept.is_empty() {
                    passed.line("GOPROXY", &kept);
                }
            }
            "GOSUMDB" if !value.contains('@') => passed.line("GOSUMDB", value),
            _ => {}
        }
    }
    passed
}

/// The URLs in a variable, separated by blanks; `NAME=URL` is uv's.
pub(super) fn urls(name: &str, text: &str) -> Passed {
    let mut passed = Passed::default();
    let mut kept = Vec::new();
    for word in text.split_whitespace() {
        let (start, _) = word.split_once("://").unwrap_or((word, ""));
        let (label, url) = word.split_at(start.rfind('=').map_or(0, |at| at + 1));
        kept.extend(passed.url(name, url).map(|url| format!("{label}{url}")));
    }
    if !kept.is_empty() {
        passed.line(name, &kept.join(" "));
    }
    passed
}

fn only(table: &Table, keys: &[&str]) -> Table {
    let kept = table
        .iter()
        .filter(|(key, value)| keys.contains(&key.as_str()) && (value.is_str() || value.is_bool()));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn text_of(table: &Table) -> String {
    toml::to_string(table).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_passes_without_its_login() {
        let rows = [
            ("https://npm.example/x/", Ok(("https://npm.example/x/", false))),
            ("https://me:se@cret@npm.example:8443/x", Ok(("https://npm.example:8443/x", true))),
            ("https://token@npm.example", Ok(("https://npm.example", true))),
            ("https://npm.example/x?token=1", Ok(("https://npm.example/x", true))),
            ("sparse+https://index.example/", Ok(("sparse+https://index.example/", false))),
            ("ssh://git@git.example/x", Ok(("ssh://git@git.example/x", false))),
            ("ssh://git:pw@git.example/x", Ok(("ssh://git.example/x", true))),
            ("https://${TOKEN}@npm.example/", Err("which has a variable")),
            ("file:///home/me/packages", Err("which is on this machine")),
            ("/home/me/packages", Err("which is no URL")),
        ];
        for (text, expected) in rows {
            let expected = expected.map(|(url, lost): (&str, bool)| (url.to_owned(), lost));
            assert_eq!(without_login(text), expected, "{text}");
        }
    }

    #[test]
    fn only_listed_keys_pass() {
        let npm = npmrc(
            "; c\nregistry = \"https://npm.example/\"\n@own:registry=https://me:pw@own.example/\n\
             //npm.example/:_authToken=secret\ncafile=/home/me/ca.pem\n@a b:registry=https://x.example\n\
             script-shell=/tmp/evil\n",
        );
        assert_eq!(npm.text, "registry=https://npm.example/\n@own:registry=https://own.example/\n");
        assert_eq!(npm.left_out, ["the login in @own:registry"]);
        assert!(npm.has_secrets);

        let pip = pip(
            "[global]\nindex-url = https://me:pw@pip.example/simple\nextra_index_url =\n    https://one.example/\n    https://two.example/\n\
             \n    file:///srv/packages\ntrusted-host: pip.example\ntimeout = 60\n[install]\nprefix = /x\n",
        );
        let expected = "[global]\nindex-url = https://pip.example/simple\n\
                        extra-index-url = https://one.example/\n    https://two.example/\n\
                        trusted-host = pip.example\n[install]\n";
        assert_eq!(pip.text, expected);
        assert_eq!(
            pip.left_out,
            ["the login in index-url", "extra-index-url, which is on this machine"]
        );
        assert_eq!(super::pip("[global]\ntimeout = 3\n"), Passed::default());

        let uv = uv(
            "python-preference = \"system\"\nextra-index-url = [\"https://extra.example/\"]\n\
                     [[index]]\nname = \"own\"\nurl = \"https://me:pw@list.example\"\ndefault = true\n",
        );
        let expected = "extra-index-url = [\"https://extra.example/\"]\n\n[[index]]\nname = \"own\"\n\
                        default = true\nurl = \"https://list.example\"\n";
        assert_eq!(uv.text.parse::<Table>(), expected.parse::<Table>());

        let yarn = yarnrc("npmRegistryServer: 'https://yarn.example'\nplugins:\n  - x\n");
        assert_eq!(yarn.text, "npmRegistryServer: \"https://yarn.example\"\n");

        let go = go(
            "GOPROXY=https://me:pw@go.example,file:///x|direct\nGOPRIVATE=*.corp.example\nGOFLAGS=-x\n",
        );
        assert_eq!(go.text, "GOPROXY=https://go.example,direct\nGOPRIVATE=*.corp.example\n");

        let uv = urls("UV_INDEX", "own=https://me:pw@uv.example/simple https://second.example/");
        assert_eq!(uv.text, "UV_INDEX=own=https://uv.example/simple https://second.example/\n");
    }

    #[test]
    fn cargo_keeps_registries_and_replacements_by_them() {
        let cargo = cargo(
            "[build]\nrustc-wrapper = \"/tmp/evil\"\n[registry]\ndefault = \"own\"\n\
             credential-provider = \"evil\"\n[registries.own]\nindex = \"sparse+https://me:pw@own.example/\"\n\
             token = \"secret\"\ncredential-provider = [\"evil\"]\n\
             [source.crates-io]\nreplace-with = \"mirror\"\n\
             [source.mirror]\nregistry = \"sparse+https://mirror.example/\"\n\
             [source.vendored]\ndirectory = \"/home/me/vendor\"\n\
             [source.\"https://git.example/x\"]\ngit = \"https://git.example/x\"\nreplace-with = \"vendored\"\n",
        );
        let expected = "[registries.own]\nindex = \"sparse+https://own.example/\"\n[registry]\ndefault = \"own\"\n\
                        [source.crates-io]\nreplace-with = \"mirror\"\n\
                        [source.mirror]\nregistry = \"sparse+https://mirror.example/\"\n\
                        [source.\"https://git.example/x\"]\ngit = \"https://git.example/x\"\n";
        assert_eq!(cargo.text.parse::<Table>(), expected.parse::<Table>());
        assert!(cargo.has_secrets);
        assert_eq!(
            cargo.left_out,
            [
                "source.vendored.directory, which is on this machine",
                "the login in registries.own.index"
            ]
        );
    }
}
