//! Requests of GitHub's REST API, judged by method and path (`spec/forges.md#gh`).

use crate::request::RepositoryPath;

/// An API request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiRequest {
    /// GraphQL, which its body decides.
    GraphQl,
    /// A path about the user or the server, which is read.
    General,
    /// Beneath a repository.
    Repository {
        /// The repository, as the request writes it.
        repository: RepositoryPath,
        /// The change; `None` for reading.
        change: Option<ApiChange>,
    },
}

/// A change by the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiChange {
    /// Its effect, as of "it ..".
    pub effect: &'static str,
    /// True if an answer covers no further change of this kind.
    pub is_each: bool,
}

impl ApiChange {
    /// A change of which one answer covers those of a session.
    pub const fn of_session(effect: &'static str) -> ApiChange {
        ApiChange { effect, is_each: false }
    }

    /// A change that is asked each time.
    pub const fn each(effect: &'static str) -> ApiChange {
        ApiChange { effect, is_each: true }
    }
}

impl ApiRequest {
    /// Parses method and path, which begins with `/api/`. `None` for one that the table has not.
    pub fn parse(method: &str, path: &str) -> Option<ApiRequest> {
        if path == "/api/graphql" {
            return (method == "POST").then_some(ApiRequest::GraphQl);
        }
        let path = path.strip_prefix("/api/v3/")?;
        if GENERAL.contains(&path) {
            return (method == "GET").then_some(ApiRequest::General);
        }
        let mut parts = path.strip_prefix("repos/")?.splitn(3, '/');
        let (owner, name) = (parts.next()?, parts.next()?);
        let path = parts.next();
        if path == Some("") {
            return None;
        }
        let path = path.unwrap_or_default();
        let repository = RepositoryPath::parse(&format!("{owner}/{name}"))
            .filter(|parsed| parsed.as_str().len() == owner.len() + name.len() + 1)?;
        if !path.is_empty() && !path.split('/').all(is_segment) {
            return None;
        }
        let change = match method {
            "GET" | "HEAD" => is_read(path).then_some(None)?,
            _ => Some(change_of(method, path)?),
        };
        Some(ApiRequest::Repository { repository, change })
    }
}

/// Returns the repository with this path: of the API, upper and lower case are the same.
pub fn repository_named<'a>(
    repositories: &'a [RepositoryPath],
    path: &str,
) -> Option<&'a RepositoryPath> {
    repositories.iter().find(|own| own.as_str().eq_ignore_ascii_case(path))
}

/// Returns text of a header `Link` whose URLs name `repository` as requests do: GitHub's have its number.
pub fn own_links(links: &str, repository: &RepositoryPath) -> String {
    const NUMBERED: &str = "/repositories/";
    let mut parts = links.split(NUMBERED);
    let mut own = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|character: char| character.is_ascii_digit());
        own += &match rest.len() < part.len() {
            true => format!("/repos/{}{rest}", repository.as_str()),
            false => format!("{NUMBERED}{part}"),
        };
    }
    own
}

/// Returns whether a server takes the segment as one, however often it decodes it.
fn is_segment(segment: &str) -> bool {
    let mut decoded = Vec::new();
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        decoded.push(match byte {
            b'%' => match (digit(bytes.next()), digit(bytes.next())) {
                (Some(high), Some(low)) => u8::try_from(high * 16 + low).unwrap_or_default(),
                _ => return false,
            },
            byte => byte,
        });
    }
    let is_other = |byte: &u8| byte.is_ascii_control() || b"/\\%?#;".contains(byte);
    !matches!(decoded.as_slice(), b"" | b"." | b"..") && !decoded.iter().any(is_other)
}

fn is_read(path: &str) -> bool {
    let is_below = |read: &str| {
        path.strip_prefix(read).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    path.is_empty() || READ.split_ascii_whitespace().any(is_below)
}

fn change_of(method: &str, path: &str) -> Option<ApiChange> {
    let is_match = |pattern: &str| {
        let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
        loop {
            match (pattern.next(), path.next()) {
                (None, None) => return true,
                (Some(pattern), Some(path)) if pattern == "*" || pattern == path => {}
                _ => return false,
            }
        }
    };
    let row = CHANGES.iter().find(|(of, pattern, _)| *of == method && is_match(pattern));
    row.map(|(_, _, change)| *change)
}

/// Paths about the user and the server.
const GENERAL: &[&str] = &["", "meta", "rate_limit", "user"];

/// The beginnings of paths that are read. Keys, secrets, variables, hooks and settings are not here.
const READ: &str = "\
    actions/artifacts actions/caches actions/jobs actions/runs actions/workflows assignees \
    branches check-runs check-suites comments commits compare contents contributors events git \
    issues labels languages license milestones pulls readme releases stats status statuses tags \
    topics";

/// Changes by method and path; `*` is one segment. References and files are not here: they are pushed.
const CHANGES: &[(&str, &str, ApiChange)] = &[
    ("POST", "issues", ApiChange::of_session(CREATES_ISSUE)),
    ("POST", "pulls", ApiChange::of_session(CREATES_PULL_REQUEST)),
    ("POST", "issues/*/comments", ApiChange::of_session(COMMENTS)),
    ("POST", "pulls/*/comments", ApiChange::of_session(COMMENTS)),
    ("POST", "pulls/*/comments/*/replies", ApiChange::of_session(COMMENTS)),
    ("PATCH", "issues/comments/*", ApiChange::each("changes a comment")),
    ("PATCH", "pulls/comments/*", ApiChange::each("changes a comment")),
    ("DELETE", "issues/comments/*", ApiChange::each("DELETES a comment")),
    ("DELETE", "pulls/comments/*", ApiChange::each("DELETES a comment")),
    ("PATCH", "issues/*", ApiChange::each("changes an issue")),
    ("POST", "issues/*/labels", ApiChange::each("changes labels")),
    ("PUT", "issues/*/labels", ApiChange::each("changes labels")),
    ("DELETE", "issues/*/labels/*", ApiChange::each("changes labels")),
    ("POST", "labels", ApiChange::each("changes labels")),
    ("PATCH", "labels/*", ApiChange::each("changes labels")),
    ("DELETE", "labels/*", ApiChange::each("changes labels")),
    ("POST", "issues/*/assignees", ApiChange::each("changes assignees")),
    ("DELETE", "issues/*/assignees", ApiChange::each("changes assignees")),
    ("PATCH", "pulls/*", ApiChange::each("changes a pull request")),
    ("PUT", "pulls/*/merge", ApiChange::each("MERGES a pull request")),
    ("POST", "pulls/*/reviews", ApiChange::each("reviews a pull request")),
    ("POST", "pulls/*/requested_reviewers", ApiChange::each("asks for a review")),
    ("DELETE", "pulls/*/requested_reviewers", ApiChange::each("takes back the wish for a review")),
    ("POST", "releases", ApiChange::each("creates a RELEASE")),
    ("PATCH", "releases/*", ApiChange::each("changes a RELEASE")),
    ("DELETE", "releases/*", ApiChange::each("DELETES a release")),
    ("POST", "actions/workflows/*/dispatches", ApiChange::each("starts a WORKFLOW")),
    ("POST", "actions/runs/*/rerun", ApiChange::each("starts a WORKFLOW")),
    ("POST", "actions/runs/*/rerun-failed-jobs", ApiChange::each("starts a WORKFLOW")),
    ("POST", "actions/runs/*/cancel", ApiChange::each("cancels a workflow")),
    ("POST", "statuses/*", ApiChange::each("sets the status of a commit")),
];

pub(crate) const CREATES_ISSUE: &str = "creates an issue";
pub(crate) const CREATES_PULL_REQUEST: &str = "creates a pull request";
pub(crate) const COMMENTS: &str = "adds a comment";

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, path: &str) -> Option<Option<&'static str>> {
        match ApiRequest::parse(method, path)? {
            ApiRequest::Repository { repository, change } => {
                assert_eq!(repository.as_str(), "o/r");
                Some(change.map(|change| change.effect))
            }
            _ => Some(None),
        }
    }

    #[test]
    fn the_table_says_what_is_read_and_changed() {
        for path in [
            "/api/v3/",
            "/api/v3/user",
            "/api/v3/repos/o/r",
            "/api/v3/repos/o/r/pulls/1/files",
            "/api/v3/repos/o/r/contents/a%20b/c.d",
            "/api/v3/repos/o/r/actions/runs/1/jobs",
        ] {
            assert_eq!(of("GET", path), Some(None), "{path}");
        }
        for (method, path, effect) in [
            ("POST", "/api/v3/repos/o/r/pulls", CREATES_PULL_REQUEST),
            ("POST", "/api/v3/repos/o/r/issues/1/comments", COMMENTS),
            ("PUT", "/api/v3/repos/o/r/pulls/1/merge", "MERGES a pull request"),
            ("POST", "/api/v3/repos/o/r/actions/workflows/x.yml/dispatches", "starts a WORKFLOW"),
        ] {
            assert_eq!(of(method, path), Some(Some(effect)), "{path}");
        }
        assert_eq!(of("HEAD", "/api/v3/repos/o/r"), Some(None));
        assert_eq!(ApiRequest::parse("POST", "/api/graphql"), Some(ApiRequest::GraphQl));
    }

    #[test]
    fn links_name_the_repository() {
        let links = "<https://api.github.com/repositories/12/issues?page=2>; rel=\"next\", \
            <https://x/repositories/12/issues?page=5>; rel=\"last\"";
        let own = own_links(links, &RepositoryPath::parse("o/r").unwrap());
        assert!(own.starts_with("<https://api.github.com/repos/o/r/issues?page=2>;"), "{own}");
        assert!(own.contains(" <https://x/repos/o/r/issues?page=5>;"), "{own}");
    }

    #[test]
    fn nothing_else_passes() {
        for (method, path) in [
            ("GET", "/api/graphql"),
            ("GET", "/api/graphql/"),
            ("POST", "/api/v3/graphql"),
            ("GET", "/graphql"),
            ("POST", "/api/v3/user"),
            ("GET", "/api/v3/user/repos"),
            ("GET", "/api/v3/users/x"),
            ("GET", "/api/v3/search/code"),
            ("GET", "/api/v3/repositories/1"),
            ("GET", "/api/v3//repos/o/r"),
            ("GET", "/api/v3/repos/o"),
            ("GET", "/api/v3/repos/o/r/"),
            ("GET", "/api/v3/repos/o/r//pulls"),
            ("GET", "/api/v3/repos/o/r.git/pulls"),
            ("GET", "/api/v3/repos/o/../pulls"),
            ("GET", "/api/v3/repos/o/r/contents/../../x"),
            ("GET", "/api/v3/repos/o/r/contents/%2e%2E/x"),
            ("GET", "/api/v3/repos/o/r/contents/%2fx"),
            ("GET", "/api/v3/repos/o/r/contents/%252e"),
            ("GET", "/api/v3/repos/o/r/contents/%zz"),
            ("GET", "/api/v3/repos/o/r/contents/a;b"),
            ("GET", "/api/v3/repos/o/%72/pulls"),
            ("GET", "/api/v3/repos/o/r/keys"),
            ("GET", "/api/v3/repos/o/r/hooks"),
            ("GET", "/api/v3/repos/o/r/environments/x/secrets"),
            ("GET", "/api/v3/repos/o/r/forks"),
            ("GET", "/api/v3/repos/o/r/actions/secrets"),
            ("GET", "/api/v3/repos/o/r/pullsx"),
            ("PATCH", "/api/v3/repos/o/r"),
            ("DELETE", "/api/v3/repos/o/r"),
            ("PUT", "/api/v3/repos/o/r/contents/x"),
            ("POST", "/api/v3/repos/o/r/git/refs"),
            ("PATCH", "/api/v3/repos/o/r/git/refs/heads/main"),
            ("POST", "/api/v3/repos/o/r/merges"),
            ("POST", "/api/v3/repos/o/r/merge-upstream"),
            ("PUT", "/api/v3/repos/o/r/pulls/1/update-branch"),
            ("PUT", "/api/v3/repos/o/r/actions/secrets/x"),
            ("POST", "/api/v3/repos/o/r/dispatches"),
            ("POST", "/api/v3/repos/o/r/pulls/1/merge"),
            ("post", "/api/v3/repos/o/r/pulls"),
        ] {
            assert_eq!(ApiRequest::parse(method, path), None, "{method} {path}");
        }
    }
}
