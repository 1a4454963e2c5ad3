//! Node's options, as far as they affect which argument is the program.

use crate::decision::Reason;

/// The effect of an option on the arguments after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionKind {
    /// None: it has no value, or one after `=`.
    Flag,
    /// The next argument is its value.
    TakesValue,
    /// Node runs no program file.
    NoProgram(Reason),
}

/// Classifies an option, as typed.
pub(crate) fn classify(option: &[u8]) -> OptionKind {
    let (name, inline) = split(option);
    match name.as_slice() {
        b"-e" | b"--eval" | b"-p" | b"--print" | b"-pe" => OptionKind::NoProgram(Reason::Eval),
        b"--run" => OptionKind::NoProgram(Reason::RunScript),
        b"--test" => OptionKind::NoProgram(Reason::TestRunner),
        b"--entry-url" => OptionKind::NoProgram(Reason::EntryUrl),
        name if inline == InlineValue::Absent && takes_value(name) => OptionKind::TakesValue,
        // V8's options are flags as well: node rejects `--stack-size 900` as two arguments.
        _ => OptionKind::Flag,
    }
}

/// Presence of a value after `=`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InlineValue {
    Present,
    Absent,
}

/// Splits an option into its name as node compares it and its inline value. Only a long option can
/// have a `=`, and `_` in its name counts as `-`.
fn split(option: &[u8]) -> (Vec<u8>, InlineValue) {
    let Some(long) = option.strip_prefix(b"--") else {
        return (option.to_owned(), InlineValue::Absent);
    };
    let mut parts = long.splitn(2, |byte| *byte == b'=');
    let name = parts.next().unwrap_or_default().iter();
    let name = name.map(|byte| if *byte == b'_' { b'-' } else { *byte });
    let inline = if parts.next().is_some() { InlineValue::Present } else { InlineValue::Absent };
    (b"--".iter().copied().chain(name).collect(), inline)
}

fn takes_value(name: &[u8]) -> bool {
    WITH_VALUE.iter().any(|known| known.as_bytes() == name)
}

/// All options that take the next argument: those for which node 20 or 24 prints `requires an
/// argument` when they come last, and some of older and newer versions.
///
/// `--stack-trace-limit` is omitted: node takes its value and then fails to start.
const WITH_VALUE: &[&str] = &[
    "--allow-fs-read",
    "--allow-fs-write",
    "--build-sea",
    "--build-snapshot-config",
    "--conditions",
    "--cpu-prof-dir",
    "--cpu-prof-interval",
    "--cpu-prof-name",
    "--debug-port",
    "--diagnostic-dir",
    "--disable-proto",
    "--disable-warning",
    "--dns-result-order",
    "--env-file",
    "--env-file-if-exists",
    "--es-module-specifier-resolution",
    "--experimental-config-file",
    "--experimental-default-type",
    "--experimental-loader",
    "--experimental-policy",
    "--experimental-sea-config",
    "--experimental-specifier-resolution",
    "--experimental-test-isolation",
    "--experimental-test-tag-filter",
    "--heap-prof-dir",
    "--heap-prof-interval",
    "--heap-prof-name",
    "--heapsnapshot-near-heap-limit",
    "--heapsnapshot-signal",
    "--icu-data-dir",
    "--import",
    "--input-type",
    "--inspect-port",
    "--inspect-publish-uid",
    "--loader",
    "--localstorage-file",
    "--max-http-header-size",
    "--max-old-space-size-percentage",
    "--network-family-autoselection-attempt-timeout",
    "--openssl-config",
    "--policy-integrity",
    "--redirect-warnings",
    "--report-dir",
    "--report-directory",
    "--report-filename",
    "--report-signal",
    "--require",
    "--secure-heap",
    "--secure-heap-min",
    "--security-revert",
    "--security-reverts",
    "--snapshot-blob",
    "--test-concurrency",
    "--test-coverage-branches",
    "--test-coverage-exclude",
    "--test-coverage-functions",
    "--test-coverage-include",
    "--test-coverage-lines",
    "--test-global-setup",
    "--test-isolation",
    "--test-name-pattern",
    "--test-random-seed",
    "--test-reporter",
    "--test-reporter-destination",
    "--test-rerun-failures",
    "--test-shard",
    "--test-skip-pattern",
    "--test-timeout",
    "--title",
    "--tls-cipher-list",
    "--tls-keylog",
    "--trace-event-categories",
    "--trace-event-file-pattern",
    "--trace-require-module",
    "--unhandled-rejections",
    "--use-largepages",
    "--v8-pool-size",
    "--watch-kill-signal",
    "--watch-path",
    "-C",
    "-r",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let eval = OptionKind::NoProgram(Reason::Eval);
        let rows = [
            ("--require", OptionKind::TakesValue),
            ("--require=x", OptionKind::Flag),
            ("--require=", OptionKind::Flag),
            ("-r", OptionKind::TakesValue),
            ("-r=x", OptionKind::Flag),
            ("-rx", OptionKind::Flag),
            ("--max_http_header_size", OptionKind::TakesValue),
            ("__require", OptionKind::Flag),
            ("--max-old-space-size", OptionKind::Flag),
            ("--inspect", OptionKind::Flag),
            ("--no-warnings", OptionKind::Flag),
            ("--eval", eval),
            ("--eval=x=y", eval),
            ("--print", eval),
            ("-pe", eval),
            ("--run=x", OptionKind::NoProgram(Reason::RunScript)),
            ("--test", OptionKind::NoProgram(Reason::TestRunner)),
            ("--test-only", OptionKind::Flag),
            ("--test-reporter", OptionKind::TakesValue),
        ];
        for (option, expected) in rows {
            assert_eq!(classify(option.as_bytes()), expected, "{option}");
        }
    }

    #[test]
    fn names_are_sorted_and_unique() {
        assert!(WITH_VALUE.is_sorted());
        assert!(WITH_VALUE.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
