//! What of an argument list may stand in a log.

use aifo_types::{HIDDEN, names_secret};

/// The arguments as one line of text: quoted where they hold anything but plain characters, cut
/// where they are long, and without the values that follow `--token`, `--password`, `--api-key` and
/// the like, be it as the next word or behind `=`.
pub fn redact(args: &[Vec<u8>]) -> String {
    let mut words = Vec::new();
    let mut left = MAX_LINE;
    let mut hide_next = false;
    for arg in args {
        let word = if std::mem::take(&mut hide_next) {
            HIDDEN.to_owned()
        } else {
            match arg.iter().position(|byte| *byte == b'=') {
                Some(equals) if names_secret(&arg[..equals]) => {
                    quote(&arg[..equals]) + "=" + HIDDEN
                }
                _ => {
                    hide_next = arg.starts_with(b"-") && names_secret(arg);
                    quote(arg)
                }
            }
        };
        let Some(rest) = left.checked_sub(word.len()) else {
            words.push("..".to_owned());
            break;
        };
        left = rest;
        words.push(word);
    }
    words.join(" ")
}

/// Characters of arguments in one log line, about.
const MAX_LINE: usize = 4096;
/// Bytes of one argument that are shown.
const MAX_WORD: usize = 256;

/// An argument as one word of one line.
fn quote(arg: &[u8]) -> String {
    let (shown, cut) = match arg.get(..MAX_WORD) {
        Some(start) => (start, ".."),
        None => (arg, ""),
    };
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_./:=+,@%".contains(b);
    if !shown.is_empty() && shown.iter().all(is_plain) {
        return String::from_utf8_lossy(shown).into_owned() + cut;
    }
    // Escapes whatever could break a line or speak to a terminal.
    format!("\"{}\"{cut}", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(args: &[&[u8]]) -> String {
        redact(&args.iter().map(|arg| arg.to_vec()).collect::<Vec<_>>())
    }

    #[test]
    fn one_plain_line() {
        assert_eq!(line(&[b"build", b"--release", b"a=b"]), "build --release a=b");
        assert_eq!(
            line(&[b"", b"a b", b"x\n\x1b[2J\xff", b"\""]),
            r#""" "a b" "x\n\x1b[2J\xff" "\"""#
        );
        assert_eq!(line(&[]), "");
    }

    #[test]
    fn secrets_are_left_out() {
        let rows: [(&[&[u8]], &str); 8] = [
            (&[b"--token", b"s3", b"x"], "--token [redacted] x"),
            (&[b"--api-key=s3"], "--api-key=[redacted]"),
            (&[b"--API_KEY", b"s3"], "--API_KEY [redacted]"),
            (&[b"--npm-password", b"s3"], "--npm-password [redacted]"),
            (&[b"-p", b"--client-secret=s=3"], "-p --client-secret=[redacted]"),
            (&[b"GITHUB_TOKEN=s3"], "GITHUB_TOKEN=[redacted]"),
            (&[b"--token", b"--token", b"s3"], "--token [redacted] s3"),
            (&[b"--tokenize", b"x", b"token", b"y"], "--tokenize x token y"),
        ];
        for (args, expected) in rows {
            assert_eq!(line(args), expected);
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let long = vec![b'x'; 100_000];
        assert_eq!(line(&[&long]).len(), MAX_WORD + 2);
        let many: Vec<&[u8]> = vec![b"argument"; 100_000];
        assert!(line(&many).len() < 2 * MAX_LINE);
    }
}
