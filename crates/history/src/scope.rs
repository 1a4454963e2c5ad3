//! Which objects of a workspace are covered (`spec/history.md#what-is-covered`).

use aifo_types::names_secret;

use crate::path::name;

/// Why an object is not covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Uncovered {
    /// It is larger than 64 MiB, or if git ignores it, than 1 MiB.
    Large,
    /// Its name is that of a secret.
    Secret,
    /// A directory of a package manager or cache.
    Cache,
    /// An ignored directory with too many or too large files.
    Ignored,
    /// The repository directory of another repository.
    Repository,
    /// A device, FIFO or socket.
    Special,
    /// It cannot be read, or it is large and written all the time.
    Unreadable,
}

impl Uncovered {
    const ALL: [Self; 7] = [
        Uncovered::Large,
        Uncovered::Secret,
        Uncovered::Cache,
        Uncovered::Ignored,
        Uncovered::Repository,
        Uncovered::Special,
        Uncovered::Unreadable,
    ];

    /// Returns the word in the store.
    pub fn word(self) -> &'static str {
        match self {
            Uncovered::Large => "large",
            Uncovered::Secret => "secret",
            Uncovered::Cache => "cache",
            Uncovered::Ignored => "ignored",
            Uncovered::Repository => "repository",
            Uncovered::Special => "special",
            Uncovered::Unreadable => "unreadable",
        }
    }

    /// Returns it for a user, as the end of `it is not covered:`.
    pub fn reason(self) -> &'static str {
        match self {
            Uncovered::Large => "it is too large",
            Uncovered::Secret => "its name is that of a secret",
            Uncovered::Cache => "it is a cache",
            Uncovered::Ignored => "it is ignored and large",
            Uncovered::Repository => "it is another repository",
            Uncovered::Special => "it is a device, FIFO or socket",
            Uncovered::Unreadable => "it cannot be read, or is written all the time",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Uncovered::ALL.into_iter().find(|it| it.word() == word)
    }
}

/// Bytes; a larger file is not covered: each version of it is stored whole.
pub(crate) const MAX_FILE: u64 = 64 << 20;
/// The same, for an ignored file.
pub(crate) const MAX_IGNORED_FILE: u64 = 1 << 20;
/// Objects; an ignored directory with more is not covered.
pub(crate) const MAX_IGNORED_OBJECTS: usize = 2_000;
/// Bytes; the same.
pub(crate) const MAX_IGNORED_BYTES: u64 = 64 << 20;

/// The directory of the workspace's repository.
pub(crate) const REPOSITORY: &[u8] = b".git";
/// The start of names of aifo's own files.
pub(crate) const OWN: &[u8] = b".aifo-";

/// Directories that package managers and tools fill.
const CACHES: &str = "node_modules bower_components .venv __pycache__ .tox .nox .mypy_cache .pytest_cache \
    .ruff_cache .gradle .terraform .direnv .parcel-cache .turbo";
/// Directories that are a cache only if git ignores them.
const IGNORED_CACHES: &str = "target build dist out venv vendor _build deps .next .nuxt .cache";

/// Parts of the repository that are covered; what a `/` ends stands for all below it.
const REPOSITORY_PARTS: &str = "HEAD index packed-refs refs/ logs/refs/stash ORIG_HEAD MERGE_HEAD MERGE_MSG \
    MERGE_MODE CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD AUTO_MERGE rebase-merge/ \
    rebase-apply/ sequencer/";

/// Returns the part of a path below the workspace's repository directory; empty for that itself.
pub(crate) fn in_repository(path: &[u8]) -> Option<&[u8]> {
    match path.strip_prefix(REPOSITORY)? {
        b"" => Some(b""),
        rest => rest.strip_prefix(b"/"),
    }
}

/// Returns whether an object of the workspace's repository is covered. `path` is relative to it.
pub(crate) fn covers_in_repository(path: &[u8]) -> bool {
    path.is_empty()
        || !path.ends_with(b".lock")
            && REPOSITORY_PARTS.split(' ').map(str::as_bytes).any(|part| {
                let is_within = part.ends_with(b"/") && path.starts_with(part);
                // The directories on the way to a part, too.
                let is_above =
                    part.strip_prefix(path).is_some_and(|rest| rest.first() == Some(&b'/'));
                is_within || path == part || is_above
            })
}

/// Returns why a directory is not covered, by its name.
pub(crate) fn directory_rule(path: &[u8], is_ignored: bool) -> Option<Uncovered> {
    let name = name(path);
    let is_one_of = |names: &str| names.split(' ').any(|it| it.as_bytes() == name);
    match () {
        () if name == REPOSITORY && path != REPOSITORY => Some(Uncovered::Repository),
        () if is_one_of(CACHES) || (is_ignored && is_one_of(IGNORED_CACHES)) => {
            Some(Uncovered::Cache)
        }
        () => None,
    }
}

/// Returns why a file is not covered, by its name and size.
pub(crate) fn file_rule(
    path: &[u8],
    size: u64,
    is_ignored: bool,
    with_secrets: bool,
) -> Option<Uncovered> {
    let limit = if is_ignored { MAX_IGNORED_FILE } else { MAX_FILE };
    match () {
        () if in_repository(path).is_none() && !with_secrets && is_secret(path) => {
            Some(Uncovered::Secret)
        }
        () if size > limit => Some(Uncovered::Large),
        () => None,
    }
}

/// Returns whether an object is one of aifo's own, such as a file that is being restored.
pub(crate) fn is_own(path: &[u8]) -> bool {
    name(path).starts_with(OWN)
}

/// Directories with secrets.
const SECRET_DIRECTORIES: &str =
    ".ssh/ .gnupg/ .aws/ .azure/ .kube/ .docker/ .config/gh/ .config/gcloud/";
/// Names of files with secrets. The endings are those of keys.
const SECRET_NAMES: &str = ".env .envrc .netrc .npmrc .pypirc .pgpass .git-credentials kubeconfig \
    service-account.json service_account.json";
const SECRET_ENDINGS: &[&str] =
    &["pem", "key", "p12", "pfx", "jks", "keystore", "kdbx", "keytab", "tfvars", "env"];
/// The endings of settings. Programs such as `auth.rs` are no secrets.
const SETTINGS: &[&str] =
    &["", "json", "yaml", "yml", "toml", "ini", "cfg", "conf", "txt", "xml", "properties", "env"];

/// Returns whether a file name is that of a secret: one of the names above, or one that by the rules of
/// `spec/environment.md#secrets` names a secret and has the ending of settings.
pub(crate) fn is_secret(path: &[u8]) -> bool {
    let Ok(path) = std::str::from_utf8(path) else { return false };
    let path = path.to_ascii_lowercase();
    let in_directory = |known: &str| path.starts_with(known) || path.contains(&format!("/{known}"));
    if SECRET_DIRECTORIES.split(' ').any(in_directory) {
        return true;
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    // The copies of editors.
    let name = name.trim_matches(['#', '~']);
    let endings = [".bak", ".orig", ".old", ".save", ".swp"];
    let lower = endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    let (stem, ending) =
        lower.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).unwrap_or((lower, ""));
    let is_environment = lower.strip_prefix(".env").is_some_and(|rest| {
        let is_copy = rest.starts_with(|c: char| ".-_".contains(c) || c.is_ascii_digit());
        is_copy && !matches!(rest, ".example" | ".sample" | ".template")
    });
    // An editor's copy begins with a dot.
    let is_ssh_key = lower.trim_start_matches('.').strip_prefix("id_").is_some_and(|kind| {
        let is_key = ["rsa", "dsa", "ecdsa", "ed25519"].iter().any(|it| kind.starts_with(it));
        is_key && !kind.ends_with(".pub")
    });
    SECRET_NAMES.split(' ').any(|it| it == lower)
        || is_environment
        || is_ssh_key
        || SECRET_ENDINGS.contains(&ending)
        || (SETTINGS.contains(&ending) && names_secret(stem.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_covered_in_part() {
        for path in [
            "",
            "HEAD",
            "index",
            "refs",
            "refs/heads/main",
            "logs",
            "logs/refs",
            "logs/refs/stash",
            "rebase-merge/done",
        ] {
            assert!(covers_in_repository(path.as_bytes()), "{path}");
        }
        for path in [
            "config",
            "hooks",
            "hooks/pre-commit",
            "objects/ab/cd",
            "logs/HEAD",
            "logs/refs/heads",
            "index.lock",
            "refs/heads/main.lock",
            "info",
        ] {
            assert!(!covers_in_repository(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn secrets_are_known_by_name() {
        for name in [
            ".env",
            ".env.local",
            "server.pem",
            "id_ed25519",
            ".env-prod",
            ".env2",
            "id_ecdsa_sk",
            ".id_rsa.swp",
            "id_rsa (copy)",
            "kubeconfig",
            "credentials.json",
            "api-token",
            "auth.toml",
        ] {
            assert!(is_secret(name.as_bytes()), "{name}");
        }
        for name in [
            "auth.rs",
            "tokens.py",
            ".env.example",
            ".environment",
            "id_ed25519.pub",
            "keyboard.json",
            "main.rs",
            "Cargo.toml",
        ] {
            assert!(!is_secret(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn directories_are_known_by_name() {
        for (path, is_ignored, expected) in [
            ("a/node_modules", false, Some(Uncovered::Cache)),
            ("target", true, Some(Uncovered::Cache)),
            ("target", false, None),
            (".git", false, None),
            ("a/.git", false, Some(Uncovered::Repository)),
            ("src", false, None),
        ] {
            assert_eq!(directory_rule(path.as_bytes(), is_ignored), expected, "{path}");
        }
    }
}
