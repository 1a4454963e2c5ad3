//! The environment variables that launcher, agent, shim and proxy share.
//!
//! `AIFO_TOOLEEXEC_*` has a double E. It began as a typo; deployed shims and launchers read these
//! names, so no other spelling is supported.

/// The proxy address: `unix:///path.sock` or `http://host:port/exec`.
pub const URL: &str = "AIFO_TOOLEEXEC_URL";
/// The session's bearer token.
pub const TOKEN: &str = "AIFO_TOOLEEXEC_TOKEN";
/// A file with the token, for launchers that keep it out of the environment.
pub const TOKEN_FILE: &str = "AIFO_TOOLEEXEC_TOKEN_FILE";
/// The workspace root in the tools' view.
pub const WORKSPACE: &str = "AIFO_WORKSPACE";
/// A second path of the workspace root, in an agent container.
pub const WORKSPACE_ALIAS: &str = "AIFO_WORKSPACE_ALIAS";
/// The agent name, set for every agent.
pub const AGENT_NAME: &str = "AIFO_AGENT_NAME";
/// Log decisions to stderr.
pub const VERBOSE: &str = "AIFO_TOOLCHAIN_VERBOSE";
/// `0` for agents, which read the terminals of their commands: show no progress there.
pub const PROGRESS: &str = "AIFO_SHIM_PROGRESS";

/// The exec id for the shim's call, instead of a generated one.
pub const EXEC_ID: &str = "AIFO_EXEC_ID";
/// Variables that pass to a tool in addition to those of the table: names and `PREFIX*`, separated
/// by commas.
pub const FORWARDED: &str = "AIFO_SHIM_ENV";
/// The protocol version the shim tries first: 3 (default) or 2.
pub const PROTO: &str = "AIFO_SHIM_PROTO";
/// Relay all streams through the connection instead of passing descriptors.
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
/// Maximum number of tools running at once.
pub const MAX_CONNECTIONS: &str = "AIFO_TOOLEEXEC_MAX_CONNECTIONS";
/// The address a TCP listener binds to.
pub const BIND_HOST: &str = "AIFO_TOOLEEXEC_BIND_HOST";
/// Makes the proxy listen on a unix socket.
pub const USE_UNIX: &str = "AIFO_TOOLEEXEC_USE_UNIX";

/// Makes the shim return without waiting for a notification to end.
pub const NOTIFY_ASYNC: &str = "AIFO_SHIM_NOTIFY_ASYNC";
/// Tool names that are notifications, separated by commas; `say` when unset.
pub const NOTIFY_TOOLS: &str = "AIFO_SHIM_NOTIFY_TOOLS";
/// Enables local runtimes.
pub const SMART: &str = "AIFO_SHIM_SMART";
/// Enables local node; requires [`SMART`].
pub const SMART_NODE: &str = "AIFO_SHIM_SMART_NODE";
/// Enables local python; requires [`SMART`].
pub const SMART_PYTHON: &str = "AIFO_SHIM_SMART_PYTHON";
/// The agent's own python, for programs that run locally.
pub const LOCAL_PYTHON: &str = "AIFO_SHIM_LOCAL_PYTHON";
/// The pid of a shim that executes a local runtime. A shim that finds its own pid here was executed
/// as that runtime: a loop.
pub const LOCAL_GUARD: &str = "AIFO_SHIM_LOCAL_PID";

/// Timeout of a notification in seconds.
pub const NOTIFY_TIMEOUT_SECS: &str = "AIFO_NOTIFICATIONS_TIMEOUT_SECS";
/// Runs notifications with a reduced environment.
pub const NOTIFY_TRIM_ENV: &str = "AIFO_NOTIFICATIONS_TRIM_ENV";
/// Additional names in the reduced environment, separated by commas.
pub const NOTIFY_ENV_ALLOW: &str = "AIFO_NOTIFICATIONS_ENV_ALLOW";
/// Basenames of the allowed notification commands, separated by commas.
pub const NOTIFY_ALLOWLIST: &str = "AIFO_NOTIFICATIONS_ALLOWLIST";
/// The directories allowed for these commands, separated by commas.
pub const NOTIFY_SAFE_DIRS: &str = "AIFO_NOTIFICATIONS_SAFE_DIRS";

/// The path of the shim binary, for launchers.
pub const SHIM_BIN: &str = "AIFO_SHIM_BIN";
/// The default backend: auto, docker, podman, local or pod.
pub const BACKEND: &str = "AIFO_BACKEND";
/// The id of the session that a pod was rendered for (`spec/kubernetes.md`).
pub const POD_SESSION: &str = "AIFO_POD_SESSION";
/// The settings of the user's file that hold in a pod, as TOML.
pub const POD_SETTINGS: &str = "AIFO_POD_SETTINGS";
/// The options by which the commands of a pod user find it, such as ` --backend kubernetes --namespace n`.
pub const POD_CLIENT: &str = "AIFO_POD_CLIENT";
/// Set in a pod whose workspace was uploaded: its files wait for a fetch after the session's end.
pub const POD_UPLOAD: &str = "AIFO_POD_UPLOAD";
/// Set in a pod whose workspace was cloned: its commits and files wait for a fetch after the session's end.
pub const POD_GIT: &str = "AIFO_POD_GIT";
/// The URL to which the container `aifo` of a pod pushes the session's result.
pub const POD_PUSH: &str = "AIFO_POD_PUSH";
/// The user of the repository's login, in the containers of a pod that have it.
pub const GIT_USERNAME: &str = "AIFO_GIT_USERNAME";
/// Its password or token.
pub const GIT_PASSWORD: &str = "AIFO_GIT_PASSWORD";
/// The prefix of the project image names: a registry and its path.
pub const IMAGE_PREFIX: &str = "AIFO_CODER_IMAGE_PREFIX";
/// The tag of the project images.
pub const IMAGE_TAG: &str = "AIFO_CODER_IMAGE_TAG";
/// Gives containers the user's SSH agent.
pub const SSH_FORWARD: &str = "AIFO_TOOLCHAIN_SSH_FORWARD";
/// Returns the variable for the image of a kind, such as `AIFO_C_CPP_TOOLCHAIN_IMAGE`.
pub fn toolchain_image(kind: &str) -> String {
    of_toolchain(kind, "IMAGE")
}

/// Returns the variable for the toolchain version of a kind, such as
/// `AIFO_RUST_TOOLCHAIN_VERSION`.
pub fn toolchain_version(kind: &str) -> String {
    of_toolchain(kind, "VERSION")
}

fn of_toolchain(kind: &str, what: &str) -> String {
    format!("AIFO_{}_TOOLCHAIN_{what}", kind.to_ascii_uppercase().replace('-', "_"))
}

/// The variables of a command that runs beside an agent, encoded by
/// [`encode_variables`](crate::encode_variables). The name does not start with [`PREFIX`], which is
/// never forwarded.
pub const COMMAND_ENV: &str = "_AIFO_GIVEN";

/// The exec tag in the environment of every process of an exec: `AIFO_EXEC=<exec id>`.
pub const EXEC_TAG: &str = "AIFO_EXEC";
/// The reserved prefix of variables; a tool inherits none of them except [`EXEC_TAG`].
pub const PREFIX: &str = "AIFO_";

/// Returns whether a value means on: `1 true yes on`, in any case.
pub fn is_truthy(value: &str) -> bool {
    ["1", "true", "yes", "on"].iter().any(|word| value.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::is_truthy;

    #[test]
    fn truthy_values() {
        for word in ["1", "true", "YES", "On", " on "] {
            assert!(is_truthy(word), "{word}");
        }
        for word in ["", "0", "false", "no", "off", "2", "y"] {
            assert!(!is_truthy(word), "{word}");
        }
    }
}
