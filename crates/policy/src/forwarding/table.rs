//! The built-in table of variables (`spec/environment.md#table`).

use std::path::PathBuf;

use super::value;
use super::{ForwardDecision, PassReason, StayReason};

/// Variables with a common rule.
#[derive(Debug)]
pub(crate) struct Row {
    /// Names, or prefixes followed by `*`.
    names: &'static [&'static str],
    rule: Rule,
}

/// When variables are forwarded.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Stays(StayReason),
    /// Always.
    Passes(PassReason),
    /// Unless the value is an absolute path, or a list of them, outside the workspace. `/dev/null`
    /// is allowed.
    PathInside(PassReason),
    /// If each path of the list is relative or inside the workspace.
    PathsInside(PassReason),
    /// If no option contains a path outside the workspace.
    OptionsInside(PassReason),
    /// Unless the value contains `@`: an address without a scheme may contain credentials.
    NoCredentials(PassReason),
    /// Unless the value contains a jobserver option.
    NoJobserver(PassReason),
}

/// Returns the first row that matches a name.
pub(crate) fn row(name: &[u8]) -> Option<&'static Row> {
    let first = usize::from(*name.first()?);
    let (start, end) = (INDEX.starts[first], INDEX.starts[first + 1]);
    let entries = &INDEX.entries[usize::from(start)..usize::from(end)];
    entries.iter().find_map(|(row, pattern)| {
        let row = &TABLE[usize::from(*row)];
        matches_pattern(row.names[usize::from(*pattern)], name).then_some(row)
    })
}

/// Returns whether a name matches a pattern.
pub(crate) fn matches_pattern(pattern: &str, name: &[u8]) -> bool {
    match pattern.as_bytes().split_last() {
        Some((b'*', prefix)) => name.starts_with(prefix),
        _ => name == pattern.as_bytes(),
    }
}

/// Returns whether the sidecar sets this variable itself. The caller PATH would select other
/// programs, and a variable of the loader would inject code into each.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    RESERVED.iter().any(|pattern| matches_pattern(pattern, name))
}

impl Row {
    pub(crate) fn judge(&self, value: &[u8], workspace: &[PathBuf]) -> ForwardDecision {
        let unless = |stays: bool, staying, passing| match stays {
            true => ForwardDecision::Stays(staying),
            false => ForwardDecision::Passes(passing),
        };
        match self.rule {
            Rule::Stays(why) => ForwardDecision::Stays(why),
            Rule::Passes(why) => ForwardDecision::Passes(why),
            Rule::PathInside(why) => {
                let is_path = value.starts_with(b"/") && value != b"/dev/null";
                let elsewhere = is_path && value::has_path_outside(value, workspace);
                unless(elsewhere, StayReason::OutsideWorkspace, why)
            }
            Rule::PathsInside(why) => {
                unless(value::has_path_outside(value, workspace), StayReason::OutsideWorkspace, why)
            }
            Rule::OptionsInside(why) => unless(
                value::has_option_outside(value, workspace),
                StayReason::OutsideWorkspace,
                why,
            ),
            Rule::NoCredentials(why) => unless(value.contains(&b'@'), StayReason::Credentials, why),
            Rule::NoJobserver(why) => {
                unless(value::has_jobserver(value), StayReason::Descriptor, why)
            }
        }
    }
}

/// Variables that cannot be forwarded, allowed or set.
const RESERVED: &[&str] = &["PATH", "HOME", "LD_*", "DYLD_*", "AIFO_*"];

/// The first row that matches decides.
static TABLE: &[Row] = &[
    Row {
        names: &[
            "USER",
            "LOGNAME",
            "SHELL",
            "HOSTNAME",
            "PWD",
            "OLDPWD",
            "TMPDIR",
            "TMP",
            "TEMP",
            "EDITOR",
            "VISUAL",
            "BROWSER",
            "DISPLAY",
            "WAYLAND_DISPLAY",
            "XAUTHORITY",
            "XDG_*",
            "DBUS_*",
            "SSH_*",
        ],
        rule: Rule::Stays(StayReason::CallerOwn),
    },
    Row {
        names: &[
            "ENV",
            "BASH_ENV",
            "BASH_FUNC_*",
            "BASHOPTS",
            "SHELLOPTS",
            "IFS",
            "CDPATH",
            "GLOBIGNORE",
            "PROMPT_COMMAND",
            "PS4",
        ],
        rule: Rule::Stays(StayReason::Shell),
    },
    Row {
        names: &[
            "CARGO_HOME",
            "RUSTUP_*",
            "RUSTC",
            "RUSTDOC",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "CARGO_BUILD_RUSTC",
            "CARGO_BUILD_RUSTDOC",
            "CARGO_BUILD_RUSTC_WRAPPER",
            "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
            "GOROOT",
            "GOPATH",
            "GOCACHE",
            "GOMODCACHE",
            "GOBIN",
            "PYTHONHOME",
            "PYTHONSTARTUP",
            "PYTHONEXECUTABLE",
            "CONDA_*",
        ],
        rule: Rule::Stays(StayReason::SidecarPath),
    },
    Row {
        names: &[
            "NODE_CHANNEL_FD",
            "NODE_CHANNEL_SERIALIZATION_MODE",
            "NODE_UNIQUE_ID",
            "LISTEN_*",
        ],
        rule: Rule::Stays(StayReason::Descriptor),
    },
    Row {
        names: &["MAKEFLAGS", "MFLAGS", "CARGO_MAKEFLAGS"],
        rule: Rule::NoJobserver(PassReason::Toolchain),
    },
    Row {
        names: &[
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET_DIR",
            "CARGO_BUILD_BUILD_DIR",
            "PYTHONPATH",
            "VIRTUAL_ENV",
            "NODE_PATH",
            "PKG_CONFIG_PATH",
            "PKG_CONFIG_LIBDIR",
            "CMAKE_PREFIX_PATH",
            "CPATH",
            "C_INCLUDE_PATH",
            "CPLUS_INCLUDE_PATH",
            "LIBRARY_PATH",
        ],
        rule: Rule::PathsInside(PassReason::Toolchain),
    },
    Row { names: &["NODE_OPTIONS"], rule: Rule::OptionsInside(PassReason::Toolchain) },
    Row {
        names: &[
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "NO_PROXY",
            "http_proxy",
            "https_proxy",
            "all_proxy",
            "no_proxy",
        ],
        rule: Rule::NoCredentials(PassReason::Network),
    },
    Row { names: &["LANG", "LANGUAGE", "LC_*", "TZ"], rule: Rule::Passes(PassReason::Locale) },
    Row {
        names: &[
            "TERM",
            "TERM_PROGRAM",
            "TERM_PROGRAM_VERSION",
            "COLORTERM",
            "COLUMNS",
            "LINES",
            "NO_COLOR",
            "FORCE_COLOR",
            "CLICOLOR",
            "CLICOLOR_FORCE",
            "PY_COLORS",
            "GCC_COLORS",
        ],
        rule: Rule::Passes(PassReason::Display),
    },
    Row { names: &["PAGER", "GIT_PAGER", "LESS"], rule: Rule::PathInside(PassReason::Display) },
    Row {
        names: &[
            "CI",
            "CONTINUOUS_INTEGRATION",
            "GITHUB_ACTIONS",
            "GITLAB_CI",
            "BUILDKITE",
            "CIRCLECI",
            "TRAVIS",
            "TF_BUILD",
        ],
        rule: Rule::Passes(PassReason::Automation),
    },
    Row {
        names: &["DEBUG", "VERBOSE", "V", "LOG_LEVEL"],
        rule: Rule::Passes(PassReason::Diagnosis),
    },
    Row { names: &["DESTDIR", "PREFIX"], rule: Rule::Passes(PassReason::Toolchain) },
    Row {
        names: &[
            "CC",
            "CXX",
            "CPP",
            "AR",
            "AS",
            "LD",
            "NM",
            "RANLIB",
            "STRIP",
            "CFLAGS",
            "CXXFLAGS",
            "CPPFLAGS",
            "ASFLAGS",
            "LDFLAGS",
            "LDLIBS",
            "MAKELEVEL",
            "JOBS",
            "CMAKE_*",
            "CTEST_*",
            "NINJA_STATUS",
            "PKG_CONFIG_*",
            "CCACHE_*",
            "SOURCE_DATE_EPOCH",
            "ASAN_OPTIONS",
            "LSAN_OPTIONS",
            "MSAN_OPTIONS",
            "TSAN_OPTIONS",
            "UBSAN_OPTIONS",
        ],
        rule: Rule::PathInside(PassReason::Toolchain),
    },
    Row {
        names: &["RUST*", "CARGO_*", "MIRIFLAGS", "NEXTEST_*", "INSTA_*", "PROPTEST_*"],
        rule: Rule::PathInside(PassReason::Toolchain),
    },
    // Names, because `GO*` would match GOOGLE_APPLICATION_CREDENTIALS too.
    Row {
        names: &[
            "GO111MODULE",
            "GO386",
            "GOAMD64",
            "GOARCH",
            "GOARM",
            "GOARM64",
            "GOCOVERDIR",
            "GODEBUG",
            "GOENV",
            "GOEXPERIMENT",
            "GOFIPS140",
            "GOFLAGS",
            "GOGC",
            "GOINSECURE",
            "GOMAXPROCS",
            "GOMEMLIMIT",
            "GOMIPS",
            "GOMIPS64",
            "GONOPROXY",
            "GONOSUMDB",
            "GOOS",
            "GOPPC64",
            "GOPRIVATE",
            "GOPROXY",
            "GORACE",
            "GORISCV64",
            "GOSUMDB",
            "GOTELEMETRY",
            "GOTMPDIR",
            "GOTOOLCHAIN",
            "GOTRACEBACK",
            "GOVCS",
            "GOWASM",
            "GOWORK",
            "GO_EXTLINK_ENABLED",
            "CGO_*",
        ],
        rule: Rule::PathInside(PassReason::Toolchain),
    },
    Row {
        names: &[
            "NODE_*",
            "NPM_CONFIG_*",
            "npm_config_*",
            "YARN_*",
            "PNPM_*",
            "COREPACK_*",
            "BUN_*",
            "DENO_*",
            "TS_NODE_*",
            "BABEL_ENV",
            "JEST_*",
            "VITEST",
            "VITEST_*",
        ],
        rule: Rule::PathInside(PassReason::Toolchain),
    },
    Row {
        names: &["PYTHON*", "PYTEST_*", "PIP_*", "UV_*", "COVERAGE_*", "HYPOTHESIS_*"],
        rule: Rule::PathInside(PassReason::Toolchain),
    },
];

/// The patterns of the table by their first byte, because each shim and the proxy look up a whole
/// environment.
struct Index {
    /// The entries of byte n are those from `starts[n]` to `starts[n + 1]`.
    starts: [u16; 257],
    /// Row and pattern in that row, in the order of the table for each byte.
    entries: [(u16, u16); PATTERNS],
}

static INDEX: Index = index();

const PATTERNS: usize = {
    let (mut count, mut row) = (0, 0);
    while row < TABLE.len() {
        count += TABLE[row].names.len();
        row += 1;
    }
    count
};

const fn index() -> Index {
    let mut index = Index { starts: [0; 257], entries: [(0, 0); PATTERNS] };
    let (mut byte, mut filled) = (0, 0);
    while byte < 256 {
        let mut row = 0;
        while row < TABLE.len() {
            let mut pattern = 0;
            while pattern < TABLE[row].names.len() {
                if TABLE[row].names[pattern].as_bytes()[0] as usize == byte {
                    index.entries[filled] = (row as u16, pattern as u16);
                    filled += 1;
                }
                pattern += 1;
            }
            row += 1;
        }
        byte += 1;
        index.starts[byte] = filled as u16;
    }
    index
}

#[cfg(test)]
mod tests {
    use aifo_types::names_secret;

    use super::*;

    const PAGE: &str = include_str!("../../../../spec/environment.md");

    /// Returns the rows of the page table: names, and the rule's text.
    fn printed(heading: &str) -> Vec<(Vec<&'static str>, &'static str)> {
        let section = PAGE.split(&format!("\n## {heading}\n")).nth(1).expect("the page has it");
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let row = |line: &'static str| {
            let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
            let names = cells.next().unwrap().split('`').skip(1).step_by(2).collect();
            (names, cells.next().unwrap())
        };
        rows.map(row).collect()
    }

    fn words(rule: Rule) -> &'static str {
        match rule {
            Rule::Stays(_) => "stays",
            Rule::Passes(_) => "passes",
            Rule::PathInside(_) => "passes, but no path elsewhere",
            Rule::PathsInside(_) => "passes, if all of it is within",
            Rule::OptionsInside(_) => "passes, if no word is a path elsewhere",
            Rule::NoCredentials(_) => "passes without `@`",
            Rule::NoJobserver(_) => "passes without a jobserver",
        }
    }

    #[test]
    fn the_page_prints_the_table() {
        let ours: Vec<_> = TABLE.iter().map(|row| (row.names.to_vec(), words(row.rule))).collect();
        let printed = printed("Table");
        for (ours, printed) in ours.iter().zip(&printed) {
            assert_eq!(ours, printed);
        }
        assert_eq!(ours.len(), printed.len());
    }

    #[test]
    fn the_page_prints_the_reserved_names() {
        let list = |words: &[&str]| {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" ")
        };
        let page = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains(&list(RESERVED)));
    }

    #[test]
    fn every_pattern_is_reached() {
        for row in TABLE {
            for pattern in row.names {
                let name = pattern.replace('*', "X");
                let found = super::row(name.as_bytes()).expect("a row matches it");
                assert!(std::ptr::eq(found, row), "{pattern} matches an earlier row");
                assert!(!is_reserved(name.as_bytes()), "{pattern}");
                let stays = matches!(row.rule, Rule::Stays(_));
                assert!(stays || !names_secret(name.as_bytes()), "{pattern} would never pass");
            }
        }
    }
}
