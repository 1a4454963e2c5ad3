//! How node reads its arguments: `spec/decide.md#node`.

use crate::decision::Reason;
use crate::entry::Entry;
use crate::node_options::{Meaning, meaning};

/// What node would run.
pub(crate) fn entry(args: &[Vec<u8>]) -> Entry<'_> {
    let mut words = args.iter().map(Vec::as_slice);
    match read(&mut words) {
        // The debugger, even if a file of that name is there. What it debugs comes after it, and
        // after further options.
        Entry::Script(b"inspect") => match read(&mut words) {
            Entry::Script(target) if !is_address(target) => Entry::Script(target),
            _ => Entry::Nothing(Reason::Debugger),
        },
        entry => entry,
    }
}

/// Reads options up to the first word that is none.
fn read<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Entry<'a> {
    while let Some(word) = words.next() {
        match word {
            b"--" => return words.next().map_or(Entry::Nothing(Reason::NoProgram), script),
            [b'-', _, ..] => match meaning(word) {
                Meaning::Flag => {}
                Meaning::TakesNext => {
                    words.next();
                }
                Meaning::NoProgram(reason) => return Entry::Nothing(reason),
            },
            word => return script(word),
        }
    }
    Entry::Nothing(Reason::NoProgram)
}

/// The word in a program's place.
fn script(word: &[u8]) -> Entry<'_> {
    match word {
        b"-" => Entry::Nothing(Reason::StdinProgram),
        // Node takes an empty word for none at all.
        b"" => Entry::Nothing(Reason::NoProgram),
        path => Entry::Script(path),
    }
}

/// `host:port`, where a debugger finds a process that runs already.
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
        let script = |path: &'static str| Entry::Script(path.as_bytes());
        let nothing = Entry::Nothing;
        let rows: &[(&[&str], Entry<'_>)] = &[
            (&["a.js", "-e", "x"], script("a.js")),
            (&["--", "-r"], script("-r")),
            (&["--", "-"], nothing(Reason::StdinProgram)),
            (&["--"], nothing(Reason::NoProgram)),
            (&[""], nothing(Reason::NoProgram)),
            (&["-r"], nothing(Reason::NoProgram)),
            (&["--", "inspect", "a.js"], script("a.js")),
            (&["./inspect", "a.js"], script("./inspect")),
            (&["inspect", "inspect"], script("inspect")),
            (&["inspect", "--port=9", "--no-warnings", "a.js"], script("a.js")),
            (&["inspect", "localhost:9229"], nothing(Reason::Debugger)),
            (&["inspect", ":9229"], script(":9229")),
            (&["inspect", "a:b:1"], script("a:b:1")),
            (&["inspect", "a.js:"], script("a.js:")),
            (&["inspect", "-p", "1"], nothing(Reason::Debugger)),
        ];
        for (args, expected) in rows {
            let words: Vec<_> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
            assert_eq!(entry(&words), *expected, "{args:?}");
        }
    }
}
