//! The remotes of a repository, and the settings by which git reaches them at another URL.

use std::collections::BTreeSet;

use crate::request::RepositoryPath;

/// A repository on a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemoteUrl {
    /// The host in lower case, with its port if the URL is of HTTP and has one.
    pub host: String,
    /// The path there.
    pub repository: RepositoryPath,
    /// The URL as configured.
    url: String,
}

impl RemoteUrl {
    /// Parses a URL of git: `https://HOST/PATH`, `ssh://USER@HOST/PATH` or `USER@HOST:PATH`. `None` for other forms, for a
    /// port of ssh, and for a password in it.
    pub fn parse(url: &str) -> Option<RemoteUrl> {
        let (host, path) = match url.split_once("://") {
            Some(("https" | "http", rest)) => rest.split_once('/')?,
            Some(("ssh" | "git+ssh", rest)) => {
                let (host, path) = rest.split_once('/')?;
                (host.strip_suffix(":22").unwrap_or(host), path)
            }
            Some(_) => return None,
            None => {
                let (host, path) = url.split_once(':')?;
                (host, path.strip_prefix('/').unwrap_or(path))
            }
        };
        let (user, host) = host.rsplit_once('@').unwrap_or(("", host));
        let is_http = url.starts_with("http");
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
        let (name, port) = host.split_once(':').unwrap_or((host, ""));
        let is_valid = !user.contains(':')
            && !name.is_empty()
            && name.bytes().all(is_host)
            && port.bytes().all(|byte| byte.is_ascii_digit())
            && (is_http || port.is_empty())
            && !url.chars().any(|character| character.is_control() || character == ' ');
        let host = host.strip_suffix(":443").filter(|_| is_http).unwrap_or(host);
        let repository = RepositoryPath::parse(path).filter(|_| is_valid)?;
        Some(RemoteUrl { host: host.to_ascii_lowercase(), repository, url: url.to_owned() })
    }

    /// Returns the remote of a repository that is named without a URL.
    pub fn at(host: &str, repository: &RepositoryPath) -> RemoteUrl {
        let (url, repository) =
            (format!("https://{host}/{}", repository.as_str()), repository.clone());
        RemoteUrl { host: host.to_owned(), repository, url }
    }

    /// Returns the URLs by which git and its users name the repository, the configured one first.
    fn urls(&self) -> BTreeSet<String> {
        let (host, path) = (&self.host, self.repository.as_str());
        let forms = [
            format!("https://{host}/{path}"),
            format!("ssh://git@{host}/{path}"),
            format!("git@{host}:{path}"),
        ];
        let with_end = forms.iter().map(|url| format!("{url}.git"));
        with_end.chain(forms.iter().cloned()).chain([self.url.clone()]).collect()
    }
}

/// Returns the settings by which git reaches remotes of one host at `base`, a URL without a slash at its end, with the value
/// of a header `Authorization`. With `keeps_end` the path at `base` has the `.git` that a remote has. Each URL is named whole: of several that match, git takes the longest.
pub fn git_settings(
    base: &str,
    authorization: &str,
    remotes: &[RemoteUrl],
    keeps_end: bool,
) -> Vec<(String, String)> {
    let header = format!("Authorization: {authorization}");
    let mut settings = vec![(format!("http.{base}/.extraHeader"), header)];
    let mut seen = BTreeSet::new();
    for remote in remotes {
        let has_end = keeps_end && remote.url.trim_end_matches('/').ends_with(".git");
        let end = if has_end { ".git" } else { "" };
        let to = format!("{base}/{}{end}", remote.repository.as_str());
        for url in remote.urls() {
            if !seen.insert(url.clone()) {
                continue;
            }
            for key in ["insteadOf", "pushInsteadOf"] {
                settings.push((format!("url.{to}.{key}"), url.clone()));
            }
        }
    }
    settings
}

/// Returns the remotes that the text of a repository's configuration names, each repository once. Lines in other forms are
/// ignored.
pub fn remotes_of_config(text: &str) -> Vec<RemoteUrl> {
    let (mut is_remote, mut found) = (false, Vec::<RemoteUrl>::new());
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_remote = line.starts_with("[remote ") || line.starts_with("[submodule ");
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| is_remote) else { continue };
        if !["url", "pushurl"].contains(&key.trim().to_ascii_lowercase().as_str()) {
            continue;
        }
        let Some(remote) = RemoteUrl::parse(value.trim().trim_matches('"')) else { continue };
        let is_same = |known: &RemoteUrl| known.url == remote.url;
        if found.len() < MAX_REMOTES && !found.iter().any(is_same) {
            found.push(remote);
        }
    }
    found
}

/// Further remotes do not count.
const MAX_REMOTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Option<String> {
        RemoteUrl::parse(url).map(|it| format!("{} {}", it.host, it.repository.as_str()))
    }

    #[test]
    fn the_forms_of_a_url() {
        for url in [
            "https://forge.example/o/r.git",
            "https://forge.example/o/r",
            "https://me@Forge.Example:443/o/r/",
            "ssh://git@forge.example/o/r.git",
            "ssh://git@forge.example:22/o/r.git",
            "git@forge.example:o/r.git",
            "git@forge.example:/o/r",
        ] {
            assert_eq!(parsed(url).as_deref(), Some("forge.example o/r"), "{url}");
        }
        assert_eq!(parsed("http://127.0.0.1:8080/o/r").as_deref(), Some("127.0.0.1:8080 o/r"));
        for url in [
            "/srv/git/r.git",
            "file:///srv/r.git",
            "ext::sh -c x",
            "https://me:token@forge.example/o/r",
            "ssh://git@forge.example:2222/o/r",
            "https://forge.example/r",
            "https://forge.example/o/../r",
            "https://forge.example/o/r?x",
            "git@forge.example:o/r x",
            "https:///o/r",
        ] {
            assert_eq!(parsed(url), None, "{url}");
        }
    }

    #[test]
    fn remotes_of_a_configuration() {
        let text = "[core]\n\turl = https://x.example/no/no\n[remote \"origin\"]\n\
                    \turl = git@forge.example:o/r.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                    [remote \"up\"]\n\tURL = \"https://forge.example/up/r\"\n\tpushurl = /srv/r\n\
                    [submodule \"s\"]\n\turl = https://forge.example/o/s\n[branch \"main\"]\n";
        let found = remotes_of_config(text);
        let found: Vec<_> = found.iter().map(|remote| remote.repository.as_str()).collect();
        assert_eq!(found, ["o/r", "up/r", "o/s"]);
    }

    #[test]
    fn every_spelling_of_a_remote_is_named_whole() {
        let remote = RemoteUrl::parse("https://me@forge.example/o/r").unwrap();
        let settings = git_settings("http://127.0.0.1:1", "Basic eA==", &[remote], false);
        assert_eq!(settings[0].0, "http.http://127.0.0.1:1/.extraHeader");
        let to = "url.http://127.0.0.1:1/o/r.insteadOf";
        for url in [
            "git@forge.example:o/r.git",
            "ssh://git@forge.example/o/r",
            "https://me@forge.example/o/r",
        ] {
            assert!(settings.contains(&(to.to_owned(), url.to_owned())), "{url}: {settings:?}");
        }
        let pushes = settings.iter().filter(|(key, _)| key.ends_with(".pushInsteadOf"));
        assert_eq!(pushes.count(), 7);
    }
}
