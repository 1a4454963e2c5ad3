//! Command lines that a session prints for its user.

use aifo_types::{env, escape_line};

/// Digits of a session id in command lines.
const SHORT_ID: usize = 8;

/// Returns the line `aifo-coder COMMAND` for the user of this process's session. In a pod it has the options
/// of its client, and the session id (`spec/kubernetes.md#commands`).
pub fn user_command(command: &str) -> String {
    let variable = |name| std::env::var(name).ok();
    line(command, variable(env::POD_SESSION).as_deref(), variable(env::POD_CLIENT).as_deref())
}

fn line(command: &str, session: Option<&str>, client: Option<&str>) -> String {
    let Some(session) = session else { return format!("aifo-coder {command}") };
    let options = client.unwrap_or(" --backend kubernetes");
    let id = session.get(..SHORT_ID).unwrap_or(session);
    // It becomes a line of a header.
    escape_line(&format!("aifo-coder {command}{options} {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_the_cluster_and_session_of_a_pod() {
        let id = Some("5d0c3b7f9a21e846");
        assert_eq!(line("approve", None, None), "aifo-coder approve");
        let expected = "aifo-coder approve --backend kubernetes 5d0c3b7f";
        assert_eq!(line("approve", id, None), expected);
        let expected = "aifo-coder approve --backend kubernetes --namespace n 5d0c3b7f";
        assert_eq!(line("approve", id, Some(" --backend kubernetes --namespace n")), expected);
        assert!(!line("approve", id, Some(" --kubeconfig 'a\r\nb'")).contains(['\r', '\n']));
    }
}
