//! Parses python's arguments: `spec/decide.md#python`.

use crate::decision::Reason;
use crate::entry_point::EntryPoint;

/// Returns the entry point in python's arguments.
pub(crate) fn entry_point(args: &[Vec<u8>]) -> EntryPoint<'_> {
    let mut words = args.iter().map(Vec::as_slice);
    while let Some(word) = words.next() {
        let found = match word {
            b"--" => Some(words.next().map_or(EntryPoint::NoFile(Reason::NoProgram), script)),
            [b'-', letters @ ..] if !letters.is_empty() => cluster(letters, &mut words),
            word => Some(script(word)),
        };
        if let Some(entry) = found {
            return entry;
        }
    }
    EntryPoint::NoFile(Reason::NoProgram)
}

/// Reads the letters after one dash; `None` if more options may follow in the next argument.
fn cluster<'a>(
    mut letters: &'a [u8],
    words: &mut impl Iterator<Item = &'a [u8]>,
) -> Option<EntryPoint<'a>> {
    while let [letter, rest @ ..] = letters {
        match (letter, rest) {
            (b'c', _) => return Some(EntryPoint::NoFile(Reason::Eval)),
            (b'm', []) => {
                return Some(
                    words.next().map_or(EntryPoint::NoFile(Reason::NoProgram), EntryPoint::Module),
                );
            }
            (b'm', name) => return Some(EntryPoint::Module(name)),
            // Python parses a long option as the letter `-`. Only this one takes a value, and never
            // after `=`.
            (b'W' | b'X', []) | (b'-', b"check-hash-based-pycs") => {
                words.next();
                return None;
            }
            (b'W' | b'X' | b'-', _) => return None,
            _ => letters = rest,
        }
    }
    None
}

/// Interprets the argument in the program's position. An empty one is the current directory, which
/// python can run.
fn script(word: &[u8]) -> EntryPoint<'_> {
    match word {
        b"-" => EntryPoint::NoFile(Reason::StdinProgram),
        path => EntryPoint::Script(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        let script = |path: &'static str| EntryPoint::Script(path.as_bytes());
        let module = |name: &'static str| EntryPoint::Module(name.as_bytes());
        let no_file = EntryPoint::NoFile;
        let rows: &[(&[&str], EntryPoint<'_>)] = &[
            (&["a.py", "-m", "x"], script("a.py")),
            (&[""], script("")),
            (&["--", "-u"], script("-u")),
            (&["--", "-"], no_file(Reason::StdinProgram)),
            (&["--"], no_file(Reason::NoProgram)),
            (&["-m", "x"], module("x")),
            (&["-mx"], module("x")),
            (&["-Imx"], module("x")),
            (&["-um", "x"], module("x")),
            (&["-m", "-m"], module("-m")),
            (&["-m"], no_file(Reason::NoProgram)),
            (&["-cm", "x"], no_file(Reason::Eval)),
            (&["-uc", "x"], no_file(Reason::Eval)),
            (&["-Wm", "a.py"], script("a.py")),
            (&["-uW", "-m", "a.py"], script("a.py")),
            (&["-X", "-c", "a.py"], script("a.py")),
            (&["--check-hash-based-pycs", "-m", "a.py"], script("a.py")),
            (&["--check-hash-based-pycs=never", "a.py"], script("a.py")),
            (&["-u-check-hash-based-pycs", "never", "a.py"], script("a.py")),
            (&["--module", "a.py"], script("a.py")),
            (&["-W"], no_file(Reason::NoProgram)),
        ];
        for (args, expected) in rows {
            let words: Vec<_> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
            assert_eq!(entry_point(&words), *expected, "{args:?}");
        }
    }
}
