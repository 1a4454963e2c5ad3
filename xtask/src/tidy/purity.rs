//! Checks that sans-IO crates and files use no files, sockets, environment, processes, threads or clocks.

use super::Finding;
use super::source::{Source, paths};

/// The sans-IO crates, by directory in `crates/`.
const PURE: &[&str] = &["types", "wire", "policy", "decide", "acp", "forge", "kube"];

/// The modules of these that do I/O.
const EXCEPT: &[(&str, &str)] = &[("kube", "kubectl"), ("kube", "client"), ("kube", "in_pod")];

/// Sans-IO files of another crate.
const PURE_FILES: &[(&str, &[&str])] = &[
    (
        "provider",
        &["headers.rs", "judge.rs", "providers.rs", "refusal.rs", "target.rs", "usage.rs"],
    ),
    (
        "egress",
        &[
            "address.rs",
            "body.rs",
            "dns.rs",
            "groups.rs",
            "hello.rs",
            "http.rs",
            "name.rs",
            "names.rs",
            "parent.rs",
            "rule.rs",
            "rules.rs",
        ],
    ),
];

/// Paths that do I/O, with everything below them.
const IO_PATHS: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::os",
    "nix",
    "libc",
    "tokio",
];

/// Exceptions that only hold or convert bytes.
const ALLOWED_PATHS: &[&str] = &[
    "std::os::unix::ffi",
    "std::net::IpAddr",
    "std::net::Ipv4Addr",
    "std::net::Ipv6Addr",
    "std::net::SocketAddr",
];

/// Clock readings, also through an imported type.
const CLOCKS: &[&str] = &["Instant::now", "SystemTime::now"];

/// Methods of `std::path::Path` that read the file system.
const IO_METHODS: &[&str] = &[
    "canonicalize",
    "exists",
    "is_dir",
    "is_file",
    "is_symlink",
    "read_dir",
    "read_link",
    "symlink_metadata",
    "try_exists",
];

/// Scans the code of the sans-IO crates, without tests.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    sources.iter().filter(|source| is_pure(&source.path)).flat_map(scan).collect()
}

fn is_pure(path: &str) -> bool {
    let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
    let mut parts = path.splitn(4, '/');
    let start = [parts.next(), parts.next(), parts.next()];
    let [Some("crates"), Some(name), Some("src")] = start else { return false };
    let file = parts.next().unwrap_or_default();
    let is_listed = PURE_FILES.iter().any(|(owner, files)| *owner == name && files.contains(&file));
    let module = file.split(['/', '.']).next().unwrap_or_default();
    let is_pure = PURE.contains(&name) && !EXCEPT.contains(&(name, module));
    (is_pure || is_listed) && !is_test
}

fn scan(source: &Source) -> Vec<Finding> {
    let tokens = source.product_tokens();
    let worldly = paths(&tokens).into_iter().filter(|(_, path)| does_io(path));
    let methods = tokens.windows(3).filter_map(|window| {
        let [dot, name, open] = window else { return None };
        let asks = dot.text == "." && IO_METHODS.contains(&name.text) && open.text == "(";
        asks.then(|| (name.line, format!(".{}()", name.text)))
    });
    let finding =
        |(line, what)| Finding::at(&source.path, line, format!("a pure crate uses {what}"));
    worldly.chain(methods).map(finding).collect()
}

fn does_io(path: &str) -> bool {
    let reaches = |root: &&str| {
        path.strip_prefix(*root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    (IO_PATHS.iter().any(reaches) && !ALLOWED_PATHS.iter().any(reaches))
        || CLOCKS.iter().any(|clock| path.ends_with(clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let source = Source::parse(path, text);
        check(&[source]).into_iter().map(|f| format!("{} {}", f.place, f.what)).collect()
    }

    #[test]
    fn io_is_found() {
        let rows = [
            ("use std::fs;", "std::fs"),
            ("use std::{fmt, net::TcpStream};", "std::net::TcpStream"),
            ("use std::net::{IpAddr, UdpSocket};", "std::net::UdpSocket"),
            ("use std::{fmt::{self, Debug}, env};", "std::env"),
            ("use ::std::process::Command;", "std::process::Command"),
            ("let t = std::time::Instant::now();", "std::time::Instant::now"),
            ("let t = Instant::now();", "Instant::now"),
            ("use std::os::unix::fs::MetadataExt;", "std::os::unix::fs::MetadataExt"),
            ("use nix::sys::signal;", "nix::sys::signal"),
            ("fn f() -> libc::c_int {}", "libc::c_int"),
            ("if path.exists() {}", ".exists()"),
        ];
        for (text, what) in rows {
            let expected = format!("crates/wire/src/head.rs:1 a pure crate uses {what}");
            assert_eq!(found("crates/wire/src/head.rs", text), [expected], "{text}");
        }
    }

    #[test]
    fn code_without_io_passes() {
        let rows = [
            "use std::{fmt, time::{Duration, Instant}};",
            "use crate::env; fn f() { env::is_truthy(x) }",
            "pub mod env; pub mod process;",
            "// std::fs\nlet s = \"std::fs\";",
            "#[cfg(test)]\nmod tests { use std::fs; }",
            "struct S { exists: bool } fn f(s: S) { s.exists }",
            "use std::fsx;",
            "use std::os::unix::ffi::{OsStrExt, OsStringExt};",
            "use std::net::{IpAddr, Ipv4Addr};",
        ];
        for text in rows {
            assert_eq!(found("crates/types/src/lib.rs", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn only_pure_crates_and_files_are_scanned() {
        let rows = [
            ("crates/types/src/lib.rs", 1),
            ("crates/wire/src/h1/head.rs", 1),
            ("crates/wire/tests/pair.rs", 0),
            ("crates/wire/src/tests.rs", 0),
            ("crates/wireless/src/lib.rs", 0),
            ("crates/proxy/src/lib.rs", 0),
            ("crates/egress/src/dns.rs", 1),
            ("crates/egress/src/dial.rs", 0),
            ("crates/egress/src/x/dns.rs", 0),
            ("tests/src/types.rs", 0),
        ];
        for (path, count) in rows {
            assert_eq!(found(path, "use std::fs;").len(), count, "{path}");
        }
    }
}
