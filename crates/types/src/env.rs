//! The environment contract between launcher, agent, shim and proxy.
//!
//! `AIFO_TOOLEEXEC_*` is spelled with a double E. It began as a slip and is the contract now: every
//! deployed shim and launcher reads these names, so no other spelling is ever looked up.

/// Where the proxy listens: `unix:///path.sock` or `http://host:port/exec`.
pub const URL: &str = "AIFO_TOOLEEXEC_URL";
/// The session's bearer token.
pub const TOKEN: &str = "AIFO_TOOLEEXEC_TOKEN";
/// A file that holds the token, for launchers that keep it out of the environment.
pub const TOKEN_FILE: &str = "AIFO_TOOLEEXEC_TOKEN_FILE";
/// The workspace root as tools see it.
pub const WORKSPACE: &str = "AIFO_WORKSPACE";
/// The agent's name, set for every agent.
pub const AGENT_NAME: &str = "AIFO_AGENT_NAME";
/// Tell decisions on stderr.
pub const VERBOSE: &str = "AIFO_TOOLCHAIN_VERBOSE";

/// The exec id a shim is to use instead of one it makes.
pub const EXEC_ID: &str = "AIFO_EXEC_ID";
/// The variables that pass to a tool besides those of the table, separated by commas: names, and
/// beginnings of names with a `*`.
pub const FORWARDED: &str = "AIFO_SHIM_ENV";
/// Which protocol version a shim begins with: 3 by default, 2 for the older one.
pub const PROTO: &str = "AIFO_SHIM_PROTO";
/// No descriptor is passed: all bytes go through the connection.
pub const RELAY: &str = "AIFO_SHIM_RELAY";
/// An interrupted call exits 0, as old shims did.
pub const EXIT_ZERO_ON_SIGINT: &str = "AIFO_SHIM_EXIT_ZERO_ON_SIGINT";
/// A lost connection exits 0, as old shims did.
pub const EXIT_ZERO_ON_DISCONNECT: &str = "AIFO_SHIM_EXIT_ZERO_ON_DISCONNECT";
/// `0` keeps the shim from ending its interactive parent shell when the proxy is lost.
pub const KILL_PARENT_SHELL: &str = "AIFO_SHIM_KILL_PARENT_SHELL_ON_SIGINT";

/// Seconds a tool may run; no limit when unset.
pub const MAX_SECS: &str = "AIFO_TOOLEEXEC_MAX_SECS";
/// The older name of [`MAX_SECS`].
pub const TIMEOUT_SECS: &str = "AIFO_TOOLEEXEC_TIMEOUT_SECS";
/// How many tools may run at once.
pub const MAX_CONNECTIONS: &str = "AIFO_TOOLEEXEC_MAX_CONNECTIONS";
/// The address a TCP listener binds to.
pub const BIND_HOST: &str = "AIFO_TOOLEEXEC_BIND_HOST";
/// Whether the proxy listens on a unix socket.
pub const USE_UNIX: &str = "AIFO_TOOLEEXEC_USE_UNIX";

/// The shim does not wait for a notification's end.
pub const NOTIFY_ASYNC: &str = "AIFO_SHIM_NOTIFY_ASYNC";
/// The names under which a shim notifies instead of running a tool, separated by commas; `say` when
/// unset.
pub const NOTIFY_TOOLS: &str = "AIFO_SHIM_NOTIFY_TOOLS";
/// Smart decisions: local or proxied.
pub const SMART: &str = "AIFO_SHIM_SMART";
/// Smart decisions for node; counts only with [`SMART`].
pub const SMART_NODE: &str = "AIFO_SHIM_SMART_NODE";
/// Smart decisions for python; counts only with [`SMART`].
pub const SMART_PYTHON: &str = "AIFO_SHIM_SMART_PYTHON";
/// The agent's own python, for what must run locally.
pub const LOCAL_PYTHON: &str = "AIFO_SHIM_LOCAL_PYTHON";
/// Set to its own pid by a shim that becomes a local runtime: a shim that finds its own pid there
/// was reached through that runtime's path.
pub const LOCAL_GUARD: &str = "AIFO_SHIM_LOCAL_PID";

/// Seconds a notification may take.
pub const NOTIFY_TIMEOUT_SECS: &str = "AIFO_NOTIFICATIONS_TIMEOUT_SECS";
/// Notifications get a trimmed environment.
pub const NOTIFY_TRIM_ENV: &str = "AIFO_NOTIFICATIONS_TRIM_ENV";
/// Further names that a trimmed environment keeps, separated by commas.
pub const NOTIFY_ENV_ALLOW: &str = "AIFO_NOTIFICATIONS_ENV_ALLOW";
/// Basenames of commands that may notify, separated by commas.
pub const NOTIFY_ALLOWLIST: &str = "AIFO_NOTIFICATIONS_ALLOWLIST";
/// Directories in which such a command must lie, separated by commas.
pub const NOTIFY_SAFE_DIRS: &str = "AIFO_NOTIFICATIONS_SAFE_DIRS";

/// Where a launcher finds the shim binary.
pub const SHIM_BIN: &str = "AIFO_SHIM_BIN";
/// How sidecars run, where no flag says it: auto, docker, podman or local.
pub const BACKEND: &str = "AIFO_BACKEND";
/// What stands before the names of our own images: a registry and its path.
pub const IMAGE_PREFIX: &str = "AIFO_CODER_IMAGE_PREFIX";
/// The tag of our own images.
pub const IMAGE_TAG: &str = "AIFO_CODER_IMAGE_TAG";
/// Whether containers get to see the user's SSH agent.
pub const SSH_FORWARD: &str = "AIFO_TOOLCHAIN_SSH_FORWARD";
/// The variable that names a kind's image: `AIFO_C_CPP_TOOLCHAIN_IMAGE`.
pub fn toolchain_image(kind: &str) -> String {
    of_toolchain(kind, "IMAGE")
}

/// The variable that names the version of a kind's toolchain: `AIFO_RUST_TOOLCHAIN_VERSION`.
pub fn toolchain_version(kind: &str) -> String {
    of_toolchain(kind, "VERSION")
}

fn of_toolchain(kind: &str, what: &str) -> String {
    format!("AIFO_{}_TOOLCHAIN_{what}", kind.to_ascii_uppercase().replace('-', "_"))
}

/// What a single command in an agent's place gets besides ([`encode_variables`](crate::encode_variables)).
/// It begins unlike ours, which never pass to anybody.
pub const COMMAND_ENV: &str = "_AIFO_GIVEN";

/// The mark every process of an exec carries: `AIFO_EXEC=<exec id>`.
pub const EXEC_TAG: &str = "AIFO_EXEC";
/// The prefix of every name that is ours; no tool inherits one but [`EXEC_TAG`].
pub const PREFIX: &str = "AIFO_";

/// Whether a value switches something on: `1 true yes on`, in any case.
pub fn is_truthy(value: &str) -> bool {
    ["1", "true", "yes", "on"].iter().any(|word| value.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::is_truthy;

    #[test]
    fn truthy_words() {
        for word in ["1", "true", "YES", "On", " on "] {
            assert!(is_truthy(word), "{word}");
        }
        for word in ["", "0", "false", "no", "off", "2", "y"] {
            assert!(!is_truthy(word), "{word}");
        }
    }
}
