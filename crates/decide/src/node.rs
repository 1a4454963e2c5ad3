//! Parses node's arguments: `spec/decide.md#node`.

use crate::decision::Reason;
use crate::entry_point::EntryPoint;
use crate::node_options::{OptionKind, classify};

/// Returns the entry point in node's arguments.
pub(crate) fn entry_point(args: &[Vec<u8>]) -> EntryPoint<'_> {
    let mut words = args.iter().map(Vec::as_slice);
    match read(&mut words) {
        // The debugger, even if a file named `inspect` exists. The program to debug follows, after
        // further options.
        EntryPoint::Script(b"inspect") => match read(&mut words) {
            EntryPoint::Script(target) if !is_address(target) => EntryPoint::Script(target),
            _ => EntryPoint::NoFile(Reason::Debugger),
        },
        entry => entry,
    }
}

/// Reads up to the first argument that is not an option.
fn read<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> EntryPoint<'a> {
    while let Some(word) = words.next() {
        match word {
            b"--" => return words.next().map_or(EntryPoint::NoFile(Reason::NoProgram), script),
            [b'-', _, ..] => match classify(word) {
                OptionKind::Flag => {}
                OptionKind::TakesValue => {
                    words.next();
                }
                OptionKind::NoProgram(reason) => return EntryPoint::NoFile(reason),
            },
            word => return script(word),
        }
    }
    EntryPoint::NoFile(Reason::NoProgram)
}

/// Interprets the argument in the program's position.
fn script(word: &[u8]) -> EntryPoint<'_> {
    match word {
        b"-" => EntryPoint::NoFile(Reason::StdinProgram),
        // Node treats an empty argument as no program.
        b"" => EntryPoint::NoFile(Reason::NoProgram),
        path => EntryPoint::Script(path),
    }
}

/// Returns whether `target` is `host:port`, the address of a running process to debug.
fn is_address(target: &[u8]) -> bool {
    let mut parts = target.split(|byte| *byte == b':');
    let (Some(host), Some(port), None) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    !host.is_empty() && !port.is_empty() && port.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        let script = |path: &'static str| EntryPoint::Script(path.as_bytes());
        let no_file = EntryPoint::NoFile;
        let rows: &[(&[&str], EntryPoint<'_>)] = &[
            (&["a.js", "-e", "x"], script("a.js")),
            (&["--", "-r"], script("-r")),
            (&["--", "-"], no_file(Reason::StdinProgram)),
            (&["--"], no_file(Reason::NoProgram)),
            (&[""], no_file(Reason::NoProgram)),
            (&["-r"], no_file(Reason::NoProgram)),
            (&["--", "inspect", "a.js"], script("a.js")),
            (&["./inspect", "a.js"], script("./inspect")),
            (&["inspect", "inspect"], script("inspect")),
            (&["inspect", "--port=9", "--no-warnings", "a.js"], script("a.js")),
            (&["inspect", "localhost:9229"], no_file(Reason::Debugger)),
            (&["inspect", ":9229"], script(":9229")),
            (&["inspect", "a:b:1"], script("a:b:1")),
            (&["inspect", "a.js:"], script("a.js:")),
            (&["inspect", "-p", "1"], no_file(Reason::Debugger)),
        ];
        for (args, expected) in rows {
            let words: Vec<_> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
            assert_eq!(entry_point(&words), *expected, "{args:?}");
        }
    }
}
