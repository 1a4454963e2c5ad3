//! Replaces the parts of an output that differ in every run or on every machine.

use regex_lite::Regex;

/// A pattern, and its replacement with `$1` for groups.
const ROWS: &[(&str, &str)] = &[
    // Versions and commits of aifo.
    (r"\((([0-9a-f]{7,12})\+?(, [^)]*)?|local build)\)", "(COMMIT)"),
    // Certificates that an administrator added to the machine's.
    (
        r"(?m)^aifo-coder: WARNING: agent and tools do not have the certificates of (/[\w/.-]+(, )?)+; .*\n",
        "",
    ),
    (r"(certificates of|have those of)(( \w+,?)+), /[\w/.-]+(, /[\w/.-]+)*", "$1$2"),
    // Ids of sessions, and what is named after them; longer ones are of tokens and images.
    (r"\b[0-9a-f]{16,64}\b", "ID"),
    (r"(aifo-coder log )[0-9a-f]{8}\b", "${1}ID"),
    (r"aifo-(walk-)[A-Za-z0-9]{6}\b", "aifo-$1"),
    // Starts of containers are reported if they are slow.
    (r"(?m)^aifo-coder: \S+: ready in .*\n", ""),
    // Dates and times.
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "TIME"),
    (r" +\d+(\.\d+)? (ms|s)\b", " N $2"),
    (r" +\d+(\.\d+)? (MiB|KiB|GiB)\b", " N $2"),
    (r"\b\d+(\.\d+)? x native", "N x native"),
    (r"Up (\d+|Less than a|About a) \w+", "Up TIME"),
    (r" for \d+s\b", " for N s"),
    // Processes, as a shell prints them, and sessions.
    (r"(?m)^\S+: line \d+: +\d+ (Killed|Terminated)\b.*$", "$1"),
    (r"(?m)^(\w+-\d+ +)\d+\w +(runs|attached|detached) +", "${1}TIME  $2  "),
    // Sizes and changes of states.
    (r" +\d+ (bytes|kB|MB) +\d+\w ago", "  SIZE  TIME ago"),
    (r"(?m)^(\S+ +(docker|podman|local) +\S+ +\S+) +\d+(\.\d+)?[kKMGB]+$", "$1  SIZE"),
    // Calls in a list of changes.
    (r"(?m)^(TIME +)[0-9a-f]{8}\b", "${1}CALL"),
    // Columns are as wide as their cells.
    (r"(\S) {3,}", "$1  "),
    // The engine's own words, and an agent version.
    (r"(docker does not answer: )[^;\n]*permission denied[^;\n]*", "${1}permission denied .."),
    (r"(docker does not answer: )[^;\n]*(Cannot connect|no such file)[^;\n]*", "$1$2 .."),
    (r"codex-cli \S+", "codex-cli VERSION"),
    (r"(cannot be pulled: )[^;\n]*", "${1}REASON"),
    // Versions of an image, and one that a story takes from it.
    (r"( (requests|has|have) ((python|node|rust|go) )?)(\d+\.)(\d+\.)*\d+", "${1}N"),
];

/// Replaces by [`ROWS`] and drops blanks at ends of lines.
pub(super) fn text(output: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = output.replace(version, "VERSION").replace(std::env::consts::ARCH, "ARCH");
    for (pattern, replacement) in ROWS {
        let pattern = Regex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        text = pattern.replace_all(&text, *replacement).into_owned();
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_replaced() {
        let rows = [
            ("aifo-coder 0.1.0 (1a2b3c4d5+)\n", "aifo-coder VERSION (COMMIT)\n"),
            ("session 8de52293d0570eb8: 12.3 s  \n", "session ID: N s\n"),
            (
                "2026-11-23 00:20:59Z  exit 0            18 ms      2 MiB  c-cpp",
                "TIME  exit 0 N ms N MiB  c-cpp\n",
            ),
            ("/x/typed: line 2:  6938 Killed    aifo-coder run", "Killed\n"),
            ("codex-1  12s    runs   rust", "codex-1  TIME  runs  rust\n"),
            ("codex  /p  282 bytes  2s ago   /state", "codex  /p  SIZE  TIME ago  /state\n"),
            (
                "rust  docker  /home/me  aifo-cargo-0  1.2GB\n",
                "rust  docker  /home/me  aifo-cargo-0  SIZE\n",
            ),
            ("2026-11-23 00:20:59Z  5d0c3b7f  make\n", "TIME  CALL  make\n"),
            ("aifo-coder: c: ready in 1.0 s\nbuilt\n", "built\n"),
            ("exit 86, 4 images\n", "exit 86, 4 images\n"),
            ("aifo-shim 0.1.0 (local build)\n", "aifo-shim VERSION (COMMIT)\n"),
            (
                "'.nvmrc' requests node 22.1, but it has 24.19.0\n",
                "'.nvmrc' requests node N, but it has N\n",
            ),
        ];
        for (output, expected) in rows {
            assert_eq!(text(output), expected);
        }
    }

    #[test]
    fn only_certificates_of_the_machine_are_left_out() {
        let warning = |of: &str| {
            format!(
                "aifo-coder: WARNING: agent and tools do not have the certificates of {of}; to pass \
                 them: admit\n"
            )
        };
        let machine = "/usr/local/share/ca-certificates";
        let both = format!("{machine}, /etc/pki/ca-trust/source/anchors");
        let of_variables = |of: &str| warning(&format!("SSL_CERT_FILE, PIP_CERT{of}"));
        let doctor = "containers do not have those of PIP_CERT";
        let rows = [
            (warning(machine), String::new()),
            (warning(&both), String::new()),
            (of_variables(&format!(", {both}")), of_variables("")),
            (of_variables(""), of_variables("")),
            (format!("{doctor}, {machine}\n"), format!("{doctor}\n")),
        ];
        for (output, expected) in rows {
            assert_eq!(text(&output), expected);
        }
    }
}
