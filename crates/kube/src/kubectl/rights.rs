//! The rights of the user.

use super::{ApiFailure, Kubectl, KubectlError, REQUEST_TIMEOUT, completed};

impl Kubectl {
    /// Returns whether the user may do `verb` to a resource of an API group in the namespace. The resource can
    /// have a part, as `pods/exec` has.
    pub async fn may(&self, verb: &str, group: &str, resource: &str) -> Result<bool, KubectlError> {
        // `kubectl auth can-i get pods/exec` would be about a pod `exec`.
        let (kind, part) = resource.split_once('/').unwrap_or((resource, ""));
        let kind = match group {
            "" => kind.to_owned(),
            _ => format!("{kind}.{group}"),
        };
        let mut command = self.command([REQUEST_TIMEOUT, "auth", "can-i", verb, &kind]);
        if !part.is_empty() {
            command.arg(format!("--subresource={part}"));
        }
        let output = completed(command, b"").await?;
        // The exit code of "no" is that of an error.
        match output.stdout.trim_ascii_start() {
            answer if answer.starts_with(b"no") => Ok(false),
            answer if answer.starts_with(b"yes") && output.status.success() => Ok(true),
            _ => Err(ApiFailure::of(&String::from_utf8_lossy(&output.stderr)).into()),
        }
    }
}
