//! Pushes a result from the repository that received it.

use std::path::Path;

use super::git::{Git, PrivateRepository};
use super::receive::ReceivedResult;
use crate::error::SyncError;

/// A remote repository.
#[derive(Clone, Copy, Debug)]
pub struct Remote<'a> {
    /// Its URL, without a login.
    pub url: &'a str,
    /// A credential helper of git; `None` if it needs no login.
    pub credential_helper: Option<&'a str>,
    /// Further variables of git: those of the helper, of HTTP proxies and certificates.
    pub variables: &'a [(String, String)],
}

/// Pushes the branches of a result that [`receive_result`](crate::receive_result) has written to `repository`. A branch
/// of the remote that is no ancestor is not changed: that is an error.
pub fn push_result(
    git: &Git,
    repository: &Path,
    result: &ReceivedResult,
    remote: Remote<'_>,
) -> Result<(), SyncError> {
    let private = PrivateRepository::of(git, repository);
    let helper = remote.credential_helper.map(|helper| format!("credential.helper={helper}"));
    let mut words: Vec<String> = Vec::new();
    words.extend(helper.into_iter().flat_map(|helper| ["-c".to_owned(), helper]));
    words.extend(["push", "--quiet", "--no-follow-tags", "--", remote.url].map(str::to_owned));
    let names = result.branches.iter().map(|branch| &branch.name);
    words.extend(names.map(|name| format!("refs/heads/{name}:refs/heads/{name}")));
    let mut command = private.command(&words);
    command.envs(remote.variables.iter().map(|(name, value)| (name, value)));
    private.run(command, |_| Ok(()), |stdout| Ok(std::io::copy(stdout, &mut std::io::sink())?))?;
    Ok(())
}

/// Why a push failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushFailure {
    /// The login is missing or wrong, or has no right to push.
    NoRight,
    /// The remote rejects the branch.
    Rejected,
    /// There is no connection, or no repository at the URL.
    Unreachable,
    /// Another one.
    Other,
}

impl PushFailure {
    /// Reads the message of git.
    pub fn of(error: &SyncError) -> Self {
        let SyncError::Git { message, .. } = error else { return PushFailure::Other };
        let message = message.to_lowercase();
        let rows: [(&[&str], PushFailure); 3] = [
            (
                &[
                    "authentication failed",
                    "could not read username",
                    "could not read password",
                    "error: 401",
                    "error: 403",
                    "permission denied",
                    "permission to",
                    "access denied",
                    "not allowed to push",
                ],
                PushFailure::NoRight,
            ),
            (
                &["rejected", "declined", "non-fast-forward", "protected branch"],
                PushFailure::Rejected,
            ),
            (
                &[
                    "could not resolve",
                    "failed to connect",
                    "couldn't connect",
                    "connection",
                    "timed out",
                    "not found",
                    "does not appear to be a git repository",
                    "unable to access",
                    "does not exist",
                ],
                PushFailure::Unreachable,
            ),
        ];
        let row = rows.iter().find(|(parts, _)| parts.iter().any(|part| message.contains(part)));
        row.map_or(PushFailure::Other, |(_, cause)| *cause)
    }

    /// Returns what failed, and the remedy.
    pub fn explanation(self) -> (&'static str, &'static str) {
        match self {
            PushFailure::NoRight => (
                "the remote repository does not accept the login, or gives it no right to push",
                "check the secret of --git-secret",
            ),
            PushFailure::Rejected => {
                ("the remote repository rejects the branch", "push it yourself after the fetch")
            }
            PushFailure::Unreachable => {
                ("the remote repository cannot be reached", "check the URL of --git and --net")
            }
            PushFailure::Other => ("git cannot push", "push it yourself after the fetch"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_read_from_messages() {
        for (message, cause) in [
            ("fatal: Authentication failed for 'https://git.example/p.git/'", PushFailure::NoRight),
            (
                "fatal: could not read Username for 'https://git.example': terminal prompts disabled",
                PushFailure::NoRight,
            ),
            (
                "fatal: unable to access 'https://x/': The requested URL returned error: 403",
                PushFailure::NoRight,
            ),
            ("! [remote rejected] a -> a (pre-receive hook declined)", PushFailure::Rejected),
            ("! [rejected] a -> a (fetch first)", PushFailure::Rejected),
            (
                "fatal: unable to access 'https://x/': Could not resolve host: x",
                PushFailure::Unreachable,
            ),
            ("fatal: '/x' does not appear to be a git repository", PushFailure::Unreachable),
            ("fatal: the remote end hung up unexpectedly", PushFailure::Other),
        ] {
            let error = SyncError::Git { action: "push".to_owned(), message: message.to_owned() };
            assert_eq!(PushFailure::of(&error), cause, "{message}");
        }
        assert_eq!(PushFailure::of(&SyncError::NoGit), PushFailure::Other);
    }
}
