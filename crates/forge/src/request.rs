//! Requests of git over HTTP (gitprotocol-http(5), `spec/forges.md#requests`).

/// The path of a repository on its forge, `OWNER/NAME`, without `.git`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepositoryPath(String);

/// A request of git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitRequest {
    /// The refs, before a fetch or a push.
    Refs(GitService),
    /// A fetch's negotiation, or a push.
    Exchange(GitService),
    /// Where git-lfs gets files, or puts them.
    LfsBatch,
    /// Which files are locked by others, before a push of git-lfs.
    LfsLocks,
}

/// The program that answers on the forge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitService {
    /// A fetch.
    UploadPack,
    /// A push.
    ReceivePack,
}

impl RepositoryPath {
    /// Parses a path without a slash at its beginning; one at its end and `.git` do not count. `None` for one segment,
    /// and for characters that a server could decode to others.
    pub fn parse(path: &str) -> Option<RepositoryPath> {
        let path = path.strip_suffix('/').unwrap_or(path);
        let path = path.strip_suffix(".git").unwrap_or(path);
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._~+-".contains(&byte);
        let is_segment = |segment: &str| {
            !segment.is_empty()
                && segment.bytes().all(is_allowed)
                && segment.bytes().any(|byte| byte != b'.')
        };
        let is_path =
            path.contains('/') && path.len() <= MAX_PATH && path.split('/').all(is_segment);
        is_path.then(|| RepositoryPath(path.to_owned()))
    }

    /// Returns the path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const MAX_PATH: usize = 512;

impl GitRequest {
    /// Parses method, path and query of a request. Returns the repository, and the path behind it. `None` if git makes no such
    /// request.
    pub fn parse<'a>(
        method: &str,
        path: &'a str,
        query: Option<&str>,
    ) -> Option<(RepositoryPath, &'a str, GitRequest)> {
        let path = path.strip_prefix('/')?;
        for (end, service) in ENDS {
            let Some(repository) = path.strip_suffix(end) else { continue };
            if repository.ends_with('/') {
                return None;
            }
            let request = match (*end, method, query) {
                (REFS, "GET", Some(query)) => GitRequest::Refs(GitService::of_query(query)?),
                (LFS_BATCH, "POST", None) => GitRequest::LfsBatch,
                (LFS_LOCKS, "POST", None) => GitRequest::LfsLocks,
                (_, "POST", None) => GitRequest::Exchange((*service)?),
                _ => return None,
            };
            return Some((
                RepositoryPath::parse(repository)?,
                path.get(repository.len()..)?,
                request,
            ));
        }
        None
    }

    /// Returns whether it belongs to a push.
    pub fn is_of_push(self) -> bool {
        match self {
            GitRequest::Refs(service) | GitRequest::Exchange(service) => {
                service == GitService::ReceivePack
            }
            GitRequest::LfsBatch | GitRequest::LfsLocks => false,
        }
    }
}

const REFS: &str = "/info/refs";
const LFS_BATCH: &str = "/info/lfs/objects/batch";
const LFS_LOCKS: &str = "/info/lfs/locks/verify";

/// The ends of paths, with their services.
const ENDS: &[(&str, Option<GitService>)] = &[
    (REFS, None),
    (LFS_BATCH, None),
    (LFS_LOCKS, None),
    ("/git-upload-pack", Some(GitService::UploadPack)),
    ("/git-receive-pack", Some(GitService::ReceivePack)),
];

impl GitService {
    fn of_query(query: &str) -> Option<GitService> {
        match query {
            "service=git-upload-pack" => Some(GitService::UploadPack),
            "service=git-receive-pack" => Some(GitService::ReceivePack),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, target: &str) -> Option<(String, GitRequest)> {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let (repository, _, request) = GitRequest::parse(method, path, query)?;
        Some((repository.0, request))
    }

    #[test]
    fn only_requests_of_git_are_known() {
        use GitService::{ReceivePack, UploadPack};
        let name = |name: &str| name.to_owned();
        for (method, target, expected) in [
            ("GET", "/o/r/info/refs?service=git-upload-pack", GitRequest::Refs(UploadPack)),
            ("GET", "/o/r.git/info/refs?service=git-receive-pack", GitRequest::Refs(ReceivePack)),
            ("POST", "/o/r.git/git-upload-pack", GitRequest::Exchange(UploadPack)),
            ("POST", "/o/r/git-receive-pack", GitRequest::Exchange(ReceivePack)),
            ("POST", "/o/r.git/info/lfs/objects/batch", GitRequest::LfsBatch),
        ] {
            assert_eq!(parse(method, target), Some((name("o/r"), expected)), "{target}");
        }
        let nested = parse("POST", "/group/sub/r.git/git-upload-pack").unwrap();
        assert_eq!(nested.0, "group/sub/r");
        for (method, target) in [
            ("GET", "/o/r/info/refs"),
            ("GET", "/o/r/info/refs?service=git-upload-archive"),
            ("GET", "/o/r/info/refs?service=git-upload-pack&x=y"),
            ("POST", "/o/r/info/refs?service=git-upload-pack"),
            ("GET", "/o/r/HEAD"),
            ("GET", "/o/r.git/info/lfs/objects/batch"),
            ("POST", "/o/r.git/info/lfs/locks"),
            ("GET", "/o/r/git-receive-pack"),
            ("POST", "/o/r/git-receive-pack?x"),
            ("POST", "/r/git-receive-pack"),
            ("POST", "/o/../r/git-receive-pack"),
            ("POST", "/o/%72/git-receive-pack"),
            ("POST", "/o//r/git-receive-pack"),
            ("POST", "//o/r/git-receive-pack"),
            ("POST", "/o/r//git-receive-pack"),
            ("POST", "/o/r;x/git-receive-pack"),
            ("POST", "/o/.git/git-receive-pack"),
            ("POST", "o/r/git-receive-pack"),
        ] {
            assert_eq!(parse(method, target), None, "{method} {target}");
        }
    }
}
