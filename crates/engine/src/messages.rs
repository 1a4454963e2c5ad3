//! Recognises the messages of docker and podman, which have no codes.

/// Returns the last line that is not empty, without the engine's prefix.
pub fn error_line(stderr: &str) -> Option<String> {
    let hint = |line: &&str| !line.starts_with("See '") && !line.starts_with("Run '");
    let line = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).rfind(hint)?;
    let starts = ["Error response from daemon: ", "Error: ", "docker: "];
    let stripped = starts.iter().fold(line, |line, start| line.strip_prefix(start).unwrap_or(line));
    let stripped = stripped.strip_prefix(starts[0]).unwrap_or(stripped);
    Some(stripped.trim_end_matches('.').to_owned())
}

/// Returns whether an error means that the object is missing, or is being removed.
pub(crate) fn is_missing(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    let missing =
        ["no such ", "not found", "already in progress", "no container with", "no network with"];
    contains_any(&reason, &missing)
}

/// Returns whether an error means that no subnet is left for a network.
pub(crate) fn is_out_of_subnets(reason: &str) -> bool {
    // Older docker, newer docker, podman.
    let full = [
        "could not find an available, non-overlapping IPv4 address pool",
        "all predefined address pools have been fully subnetted",
        "could not find free subnet from subnet pools",
    ];
    contains_any(reason, &full)
}

/// Returns whether an error means that a container name is in use: by a container that is being
/// removed, or by a leftover.
pub fn is_name_conflict(stderr: &str) -> bool {
    // Docker; podman, which has two messages.
    contains_any(stderr, &["is already in use", "is in use"])
}

/// Returns whether an error means that an image is not on this machine and cannot be pulled.
pub fn is_missing_image(reason: &str) -> bool {
    let missing = [
        "No such image",
        "pull access denied",
        "short-name",
        "unauthorized",
        "not found",
        "dial tcp",
        "no such host",
        "lookup ",
        "initializing source",
        "manifest unknown",
    ];
    contains_any(reason, &missing)
}

/// Returns whether an error means that a port of the host is in use, by another container or program.
pub fn is_port_conflict(reason: &str) -> bool {
    contains_any(reason, &["port is already allocated", "address already in use"])
}

fn contains_any(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_error_line() {
        let rows = [
            (
                "docker: Error response from daemon: No such image: x.\nSee 'docker run --help'.\n",
                "No such image: x",
            ),
            ("Error: no container with name a\n", "no container with name a"),
            ("Trying to pull x...\nError: short-name\n\n", "short-name"),
        ];
        for (stderr, expected) in rows {
            assert_eq!(error_line(stderr).as_deref(), Some(expected), "{stderr}");
        }
        assert_eq!(error_line(" \n"), None);
    }

    #[test]
    fn messages_of_both_engines() {
        type Recognises = fn(&str) -> bool;
        let rows: [(Recognises, &[&str]); 4] = [
            (
                is_name_conflict,
                &[
                    "Conflict. The container name \"/a\" is already in use by container \"1f\"",
                    "creating container storage: the container name \"a\" is already in use by 1f",
                    "name \"a\" is in use: container already exists",
                ],
            ),
            (
                is_missing,
                &["No such container: a", "no network with name or ID n: network not found"],
            ),
            (
                is_missing_image,
                &["Unable to find image: No such image: x", "short-name \"x\" did not"],
            ),
            (is_port_conflict, &["Bind for 0.0.0.0:80 failed: port is already allocated"]),
        ];
        for (recognises, reasons) in rows {
            for reason in reasons {
                assert!(recognises(reason), "{reason}");
            }
            assert!(!recognises("OCI runtime error: permission denied"));
        }
    }
}
