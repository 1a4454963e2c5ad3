//! README's table of trust, and a program that measures its rows in a session.

use std::fmt::Write;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A column of the table.
#[derive(Clone, Copy, Debug)]
pub enum Trusted {
    /// The agent in its container.
    Agent = 1,
    /// Its tools in containers.
    Tools = 2,
    /// Tools with `--backend local`.
    LocalTools = 3,
}

/// The model key of the launcher.
pub const REAL_KEY: &str = "sk-of-the-user";

/// The script that measures the rows, for a home and a parent of session directories. A listener of
/// this machine is reached if the network is.
pub fn trust_probe(home: &Path, run: &Path, listener: &TcpListener) -> String {
    let port = listener.local_addr().expect("it listens").port();
    // Only chooses the address; nothing is sent.
    let route = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let address = route.map_or_else(|_| "127.0.0.1".to_owned(), |address| address.ip().to_string());
    let (home, run, rows) = (home.display(), run.display(), include_str!("trust_probe.sh"));
    let namespace = std::fs::read_link("/proc/self/ns/user").expect("Linux has user namespaces");
    let uid = std::fs::metadata("/proc/self").expect("there is /proc").uid();
    let limits = format!("{} {uid}", namespace.display());
    format!(
        "USER_LIMITS='{limits}' HOST_HOME='{home}' RUN='{run}' PORT={port} ADDRESS={address} KEY={REAL_KEY}\n{rows}"
    )
}

/// Compares a column of README's table with the probe's output in two sessions of one project and then in
/// one of another. Returns a line for each difference.
pub fn differences(readme: &str, column: Trusted, output: [&str; 3]) -> String {
    let section = readme.split("\n## What is isolated, and what is not\n").nth(1);
    let section = section.and_then(|rest| rest.split("\n## ").next()).expect("README has a table");
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1).map(cells);
    let mut differences = String::new();
    let mut measured = 0;
    for cells in rows.filter(|cells| cells[0] != "---") {
        let row = &cells[0];
        let prefix = format!("{row}: ");
        let [first, again, other] =
            output.map(|text| text.lines().find_map(|line| line.strip_prefix(&prefix)));
        // Only later sessions of the project find its mark.
        let found = match (first, again, other) {
            (Some("nothing"), Some(kept), Some("nothing")) if row == "between sessions" => {
                Some(kept)
            }
            (first, again, other) if first == again && again == other => first,
            found => panic!("'{row}' differs between sessions: {found:?}"),
        };
        measured += 1;
        let of_same = (1..=column as usize).rev().find(|at| !cells[*at].starts_with("the same"));
        let stated = &cells[of_same.unwrap_or(1)];
        if !found.is_some_and(|found| stated.starts_with(found)) {
            _ = writeln!(differences, "{row}: '{stated}' is stated, and {found:?} measured");
        }
    }
    assert_eq!(measured, output[0].lines().count(), "rows of the table and of the probe");
    differences
}

/// The cells of a row, without marks of emphasis and targets of links.
fn cells(line: &str) -> Vec<String> {
    let plain = |cell: &str| {
        let mut text = String::new();
        let mut rest = cell.trim();
        while let Some((before, link)) = rest.split_once("](") {
            text += before;
            rest = link.split_once(')').map_or("", |(_, after)| after);
        }
        (text + rest).replace(['*', '[', '`'], "")
    };
    line.trim_matches('|').split('|').map(plain).collect()
}
