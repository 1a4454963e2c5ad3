//! Failures of kubectl, by its stderr. Kubernetes has no other form for them: the exit code is 1.

use std::fmt;

/// A failed command of kubectl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiFailure {
    /// The cause.
    pub cause: FailureCause,
    /// The message of kubectl or the API server.
    pub message: String,
}

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// The kubeconfig has no such context, or no cluster at all.
    NoContext,
    /// The server does not accept the user's login.
    Unauthorized,
    /// The user's roles do not permit it.
    Forbidden,
    /// A quota of the namespace is exceeded.
    Quota,
    /// A quota of the namespace requires limits of every container.
    LimitsMissing,
    /// A limit is outside of the range of the namespace.
    LimitRange,
    /// An admission webhook or policy of the cluster denies the pod.
    Denied,
    /// The namespace enforces a Pod Security level that the pod does not have.
    PodSecurity,
    /// The API server does not answer, for now.
    Away,
    /// The namespace does not exist.
    NoNamespace,
    /// The object does not exist.
    NotFound,
    /// The object exists.
    AlreadyExists,
    /// The container does not run, not yet or no longer.
    NotRunning,
    /// The server rejects a field of the manifest.
    Invalid,
    /// Another one.
    Other,
}

/// Parts of messages, in lower case, in the order of their search. All parts of a row must be there.
const MESSAGES: [(&[&str], FailureCause); 57] = [
    (&["context", "does not exist"], FailureCause::NoContext),
    (&["context was not found"], FailureCause::NoContext),
    (&["no configuration has been provided"], FailureCause::NoContext),
    (&["current-context is not set"], FailureCause::NoContext),
    (&["error loading config file"], FailureCause::NoContext),
    // Without a kubeconfig, kubectl connects to this address.
    (&["connection to the server localhost:8080 was refused"], FailureCause::NoContext),
    (&["localhost:8080", "connection refused"], FailureCause::NoContext),
    (&["you must be logged in"], FailureCause::Unauthorized),
    (&["(unauthorized)"], FailureCause::Unauthorized),
    (&["error: unauthorized"], FailureCause::Unauthorized),
    (&["getting credentials"], FailureCause::Unauthorized),
    (&["plugin", "not allowed: policy set to"], FailureCause::Unauthorized),
    (&["x509:"], FailureCause::Unauthorized),
    (&["tls: failed to verify"], FailureCause::Unauthorized),
    (&["exceeded quota"], FailureCause::Quota),
    (&["failed quota", "must specify"], FailureCause::LimitsMissing),
    (&["failed quota"], FailureCause::Quota),
    (&["usage per container is"], FailureCause::LimitRange),
    (&["usage per pod is"], FailureCause::LimitRange),
    (&["limit to request ratio per"], FailureCause::LimitRange),
    (&["admission webhook", "denied"], FailureCause::Denied),
    (&["validatingadmissionpolicy", "denied"], FailureCause::Denied),
    (&["looking up service account"], FailureCause::NoNamespace),
    (&["violates podsecurity"], FailureCause::PodSecurity),
    (&["(forbidden)", "podsecuritypolic"], FailureCause::PodSecurity),
    (&["(forbidden)", "because it is being terminated"], FailureCause::NoNamespace),
    (&["forbidden"], FailureCause::Forbidden),
    (&["namespaces \"", "not found"], FailureCause::NoNamespace),
    (&["unable to upgrade connection: container not found"], FailureCause::NotRunning),
    (&["completed pod"], FailureCause::NotRunning),
    (&["container", "is not running"], FailureCause::NotRunning),
    (&["container", "not found in pod"], FailureCause::NotRunning),
    (&["container not created"], FailureCause::NotRunning),
    (&["does not have a host assigned"], FailureCause::NotRunning),
    (&["container is in created state"], FailureCause::NotRunning),
    (&["(notfound)"], FailureCause::NotFound),
    (&["(alreadyexists)"], FailureCause::AlreadyExists),
    (&["unable to connect to the server"], FailureCause::Away),
    (&["connection to the server", "was refused"], FailureCause::Away),
    (&["error dialing backend"], FailureCause::Away),
    (&["connection refused"], FailureCause::Away),
    (&["connection reset by peer"], FailureCause::Away),
    (&["client connection lost"], FailureCause::Away),
    (&["i/o timeout"], FailureCause::Away),
    (&["tls handshake timeout"], FailureCause::Away),
    (&["timed out"], FailureCause::Away),
    (&["timeout exceeded"], FailureCause::Away),
    (&["no route to host"], FailureCause::Away),
    (&["unexpected eof"], FailureCause::Away),
    (&["error reading from error stream"], FailureCause::Away),
    (&["websocket: close"], FailureCause::Away),
    (&["serviceunavailable"], FailureCause::Away),
    (&["(toomanyrequests)"], FailureCause::Away),
    (&["etcdserver:"], FailureCause::Away),
    (&["currently unable to handle the request"], FailureCause::Away),
    (&["is invalid:"], FailureCause::Invalid),
    (&["error validating"], FailureCause::Invalid),
];

impl ApiFailure {
    /// Reads the stderr of a failed command.
    pub fn of(stderr: &str) -> Self {
        let lower = stderr.to_lowercase();
        let row = MESSAGES.iter().find(|(parts, _)| parts.iter().all(|part| lower.contains(part)));
        let cause = row.map_or(FailureCause::Other, |(_, cause)| *cause);
        ApiFailure { cause, message: message(stderr) }
    }

    /// Returns the remedy, if there is one that every user can apply.
    fn hint(&self) -> Option<&'static str> {
        Some(match self.cause {
            FailureCause::NoContext => {
                "list the contexts with: kubectl config get-contexts; then --context NAME"
            }
            FailureCause::Unauthorized => "log in to the cluster again, then try: kubectl get pods",
            FailureCause::Forbidden => {
                "print the role for its administrator: aifo-coder kube rbac --namespace NAME --user USER"
            }
            FailureCause::Quota => {
                "end other sessions (aifo-coder ps --backend kubernetes), or request less with \
                 --memory and --cpus"
            }
            FailureCause::LimitsMissing => {
                "give every container limits with --memory and --cpus, such as: --memory 2G --cpus 1"
            }
            FailureCause::LimitRange => {
                "choose limits within the namespace's range with --memory and --cpus; see: kubectl describe \
                 limitrange"
            }
            FailureCause::Denied => {
                "the message names the cluster's rule; its administrator can except the namespace"
            }
            FailureCause::PodSecurity => {
                "sessions obey Pod Security \"restricted\"; the message names a stricter rule of the cluster"
            }
            FailureCause::Away => "check the connection to the cluster: kubectl cluster-info",
            FailureCause::NoNamespace => "name another with --namespace, or create it",
            _ => return None,
        })
    }
}

impl fmt::Display for ApiFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lead = match self.cause {
            FailureCause::NoContext => "kubectl has no such cluster",
            FailureCause::Unauthorized => "the cluster does not accept your login",
            FailureCause::Forbidden => "your role in the cluster does not permit it",
            FailureCause::Quota => "the quota of the namespace is exceeded",
            FailureCause::LimitsMissing => "the quota of the namespace requires limits",
            FailureCause::LimitRange => "the namespace does not admit the pod's limits",
            FailureCause::Denied => "the cluster does not admit the pod",
            FailureCause::PodSecurity => "the namespace does not admit the pod",
            FailureCause::Away => "the cluster's API server does not answer",
            FailureCause::NoNamespace => "the namespace cannot be used",
            FailureCause::NotFound => "the cluster has no such object",
            FailureCause::AlreadyExists => "the object exists already",
            FailureCause::NotRunning => "the container does not run",
            FailureCause::Invalid => "the cluster rejects the manifest",
            FailureCause::Other => "kubectl failed",
        };
        write!(f, "{lead}: {}", self.message)?;
        self.hint().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl std::error::Error for ApiFailure {}

/// Returns the lines that are no log lines of kubectl or warnings, as one.
fn message(stderr: &str) -> String {
    let is_log = |line: &&str| {
        let mut bytes = line.bytes();
        let is_level = matches!(bytes.next(), Some(b'E' | b'W' | b'I'));
        (is_level && bytes.take(4).all(|byte| byte.is_ascii_digit()))
            || line.starts_with("Warning:")
    };
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let kept: Vec<&str> = lines.iter().copied().filter(|line| !is_log(line)).collect();
    let kept = if kept.is_empty() { lines } else { kept };
    let mut text = kept.join("; ");
    for prefix in ["error: ", "Error: "] {
        if let Some(rest) = text.strip_prefix(prefix) {
            text = rest.to_owned();
        }
    }
    match text.is_empty() {
        true => "it printed no reason".to_owned(),
        false => text.chars().take(MAX_MESSAGE).collect(),
    }
}

/// Messages of Pod Security name every container.
const MAX_MESSAGE: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_read_from_messages() {
        for (stderr, cause) in [
            (r#"error: context "x" does not exist"#, FailureCause::NoContext),
            (
                "The connection to the server localhost:8080 was refused - did you specify the right \
                 host or port?",
                FailureCause::NoContext,
            ),
            (
                "error: You must be logged in to the server (Unauthorized)",
                FailureCause::Unauthorized,
            ),
            (
                "Unable to connect to the server: getting credentials: exec: executable aws not found",
                FailureCause::Unauthorized,
            ),
            (
                "Unable to connect to the server: x509: certificate signed by unknown authority",
                FailureCause::Unauthorized,
            ),
            (
                r#"Error from server (Forbidden): pods is forbidden: User "u" cannot list resource "pods""#,
                FailureCause::Forbidden,
            ),
            (
                r#"Error from server (Forbidden): error when creating "STDIN": pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"#,
                FailureCause::Quota,
            ),
            (
                r#"Error from server (Forbidden): error when creating "STDIN": pods "p" is forbidden: failed quota: q: must specify limits.cpu"#,
                FailureCause::LimitsMissing,
            ),
            (
                r#"Error from server (Forbidden): error when creating "STDIN": pods "p" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2G"#,
                FailureCause::LimitRange,
            ),
            (
                r#"Error from server: error when creating "STDIN": admission webhook "p.example" denied the request: no"#,
                FailureCause::Denied,
            ),
            (
                r#"Error from server (Forbidden): pods "p" is forbidden: error looking up service account n/default: serviceaccount "default" not found"#,
                FailureCause::NoNamespace,
            ),
            (
                r#"Error from server (Forbidden): error when creating "STDIN": pods "p" is forbidden: violates PodSecurity "restricted:latest": x"#,
                FailureCause::PodSecurity,
            ),
            (
                r#"Error from server (NotFound): namespaces "n" not found"#,
                FailureCause::NoNamespace,
            ),
            (r#"Error from server (NotFound): pods "p" not found"#, FailureCause::NotFound),
            (
                r#"Error from server (AlreadyExists): error when creating "STDIN": pods "p" already exists"#,
                FailureCause::AlreadyExists,
            ),
            (
                "The connection to the server 10.0.0.1:6443 was refused - did you specify the right \
                 host or port?",
                FailureCause::Away,
            ),
            (
                "Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout",
                FailureCause::Away,
            ),
            ("error: error dialing backend: dial tcp 10.0.0.1:10250: connect", FailureCause::Away),
            (
                "E1123 22:17:38.297053   19340 v2.go:168] \"Copying stderr failed\" err=\"next reader: \
                 websocket: close 1001 (going away)\"\nerror: error reading from error stream: next \
                 reader: websocket: close 1001 (going away)",
                FailureCause::Away,
            ),
            (
                r#"error: Internal error occurred: unable to upgrade connection: container not found ("aifo")"#,
                FailureCause::NotRunning,
            ),
            (
                r#"error: unable to upgrade connection: pods "p" is forbidden: User "u" cannot create resource "pods/exec""#,
                FailureCause::Forbidden,
            ),
            (
                "Error from server (ServiceUnavailable): apiserver is shutting down",
                FailureCause::Away,
            ),
            (
                r#"error: unable to upgrade connection: container not found ("aifo")"#,
                FailureCause::NotRunning,
            ),
            (
                "error: cannot exec into a container in a completed pod; current phase is Succeeded",
                FailureCause::NotRunning,
            ),
            (r#"The Pod "p" is invalid: spec.x: Invalid value"#, FailureCause::Invalid),
            ("error: unknown flag", FailureCause::Other),
            ("", FailureCause::Other),
        ] {
            assert_eq!(ApiFailure::of(stderr).cause, cause, "{stderr}");
        }
    }

    #[test]
    fn messages_have_a_lead_and_no_log_lines() {
        let stderr = "E1123 13:00:00.1 1 memcache.go:265] couldn't get current server API\n\
                      error: You must be logged in to the server (Unauthorized)\n";
        assert_eq!(
            ApiFailure::of(stderr).to_string(),
            "the cluster does not accept your login: You must be logged in to the server \
             (Unauthorized)\nhint: log in to the cluster again, then try: kubectl get pods"
        );
        assert_eq!(ApiFailure::of("").to_string(), "kubectl failed: it printed no reason");
    }
}
