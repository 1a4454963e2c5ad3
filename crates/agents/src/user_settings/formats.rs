//! Formats of settings: the hosts that they name.

use aifo_network::UrlHost;

/// A host, and the line of its file if the format counts lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) host: UrlHost,
    pub(super) line: Option<usize>,
}

/// Returns the hosts of URLs, separated by whitespace; `NAME=URL` is uv's.
pub(super) fn urls(text: &str, line: Option<usize>) -> Vec<Setting> {
    let url = |word: &str| {
        let (start, _) = word.split_once("://")?;
        let named = start.rfind('=').and_then(|at| word.get(at + 1..));
        UrlHost::parse(named.unwrap_or(word))
    };
    text.split_whitespace().filter_map(url).map(|host| Setting { host, line }).collect()
}

/// `registry = URL` and `@scope:registry = URL` of npm.
pub(super) fn npmrc(text: &str) -> Vec<Setting> {
    let is_registry = |key: &str| key == "registry" || key.ends_with(":registry");
    keys(text, '=').filter(|(_, key, _)| is_registry(key)).flat_map(host_of_key).collect()
}

/// `npmRegistryServer: URL` of yarn, at any level.
pub(super) fn yarnrc(text: &str) -> Vec<Setting> {
    keys(text, ':')
        .filter(|(_, key, _)| *key == "npmRegistryServer")
        .flat_map(host_of_key)
        .collect()
}

/// The indexes of pip, with values that continue on indented lines.
pub(super) fn pip(text: &str) -> Vec<Setting> {
    let mut found = Vec::new();
    let mut is_index = false;
    for (number, line) in text.lines().enumerate() {
        let continues = line.starts_with([' ', '\t']);
        let value = match line.split_once(['=', ':']) {
            Some((key, value)) if !continues => {
                let key = key.trim().replace('_', "-");
                is_index = ["index-url", "extra-index-url", "find-links"].contains(&key.as_str());
                value
            }
            _ if continues => line,
            _ => {
                is_index = false;
                continue;
            }
        };
        if is_index {
            found.extend(urls(value, Some(number + 1)));
        }
    }
    found
}

/// The indexes of uv, of the table `pip` too.
pub(super) fn uv(text: &str) -> Vec<Setting> {
    let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
    let pip = table.get("pip").and_then(toml::Value::as_table);
    let keys = ["index-url", "extra-index-url", "find-links", "index"];
    let tables = std::iter::once(&table).chain(pip);
    let values = tables.flat_map(|table| keys.iter().filter_map(|key| table.get(*key)));
    values.flat_map(|value| toml_urls(value, &["url"])).collect()
}

/// The registries and replaced sources of cargo.
pub(super) fn cargo(text: &str) -> Vec<Setting> {
    let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
    let below = |name: &str| table.get(name).and_then(toml::Value::as_table);
    let registries = below("registries").into_iter().chain(below("source"));
    let registry = table.get("registry").into_iter();
    let all = registries.flat_map(|table| table.values()).chain(registry);
    all.flat_map(|value| toml_urls(value, &["index", "registry", "git"])).collect()
}

/// The module proxies, the checksum database and the private modules of go, `KEY=VALUE`.
pub(super) fn go(text: &str) -> Vec<Setting> {
    let mut found = Vec::new();
    for (number, key, value) in keys(text, '=') {
        let line = Some(number);
        let hosts: Vec<UrlHost> = match key {
            "GOPROXY" => value.split([',', '|']).filter_map(UrlHost::parse).collect(),
            // A name, or a key and a URL.
            "GOSUMDB" => match value.split_whitespace().last() {
                Some(word) if word.contains("://") => UrlHost::parse(word).into_iter().collect(),
                Some(name) => UrlHost::parse(&format!("https://{name}")).into_iter().collect(),
                None => Vec::new(),
            },
            "GOPRIVATE" => {
                let hosts = value.split(',').filter_map(|pattern| pattern.trim().split('/').next());
                let is_host = |host: &&str| host.contains('.');
                let rule = |host: &str| UrlHost::Rule(format!("{host}:22,443 private"));
                hosts.filter(is_host).map(rule).collect()
            }
            _ => continue,
        };
        found.extend(hosts.into_iter().map(|host| Setting { host, line }));
    }
    found
}

/// The sections `[url "URL"]` and `[credential "URL"]` of git.
pub(super) fn git(text: &str) -> Vec<Setting> {
    let host = |(number, line): (usize, &str)| {
        let (section, rest) = line.trim().strip_prefix('[')?.split_once('"')?;
        let url = rest.split('"').next()?;
        let is_named = ["url", "credential"].contains(&section.trim().to_lowercase().as_str());
        let host = UrlHost::parse(url).filter(|_| is_named)?;
        Some(Setting { host, line: Some(number + 1) })
    };
    text.lines().enumerate().filter_map(host).collect()
}

/// Returns the lines `KEY SEPARATOR VALUE` with their numbers, without comments and quotes.
fn keys(text: &str, separator: char) -> impl Iterator<Item = (usize, &str, &str)> {
    text.lines().enumerate().filter_map(move |(number, line)| {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            return None;
        }
        // The key of a scope has a colon, but before the last one.
        let (key, value) = line.split_once(separator)?;
        Some((number + 1, key.trim(), value.trim().trim_matches(['"', '\''])))
    })
}

fn host_of_key((line, _, value): (usize, &str, &str)) -> Vec<Setting> {
    let line = Some(line);
    UrlHost::parse(value).map(|host| Setting { host, line }).into_iter().collect()
}

/// Returns the hosts of a URL, of a list of them, or of tables with these keys.
fn toml_urls(value: &toml::Value, names: &[&str]) -> Vec<Setting> {
    match value {
        toml::Value::String(url) => urls(url, None),
        toml::Value::Array(list) => list.iter().flat_map(|it| toml_urls(it, names)).collect(),
        toml::Value::Table(table) => {
            let values = names.iter().filter_map(|name| table.get(*name)?.as_str());
            values.flat_map(|url| urls(url, None)).collect()
        }
        _ => Vec::new(),
    }
}
