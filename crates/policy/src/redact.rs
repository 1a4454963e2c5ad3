//! Redacts argument lists for logs.

use aifo_types::{HIDDEN, is_secret, quote_word, secret_in_word};

/// Formats arguments as one line. Words with other than plain characters are quoted, long words and
/// long lists are truncated, and values with a secret's name are replaced: the word after
/// `--token`, and the value in `--token=..` or `Authorization: ..`.
pub fn redact(args: &[Vec<u8>]) -> String {
    let mut words = Vec::new();
    let mut left = MAX_LINE;
    // The previous option, which may name a secret.
    let mut option: &[u8] = b"";
    for arg in args {
        let before = std::mem::take(&mut option);
        let word = match secret_in_word(arg) {
            _ if is_secret(before, arg) => HIDDEN.to_owned(),
            Some(at) => quote(arg.get(..at).unwrap_or_default()) + HIDDEN,
            None => {
                if arg.starts_with(b"-") {
                    option = arg;
                }
                quote(arg)
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

/// Approximate length of the arguments in a log line, in characters.
const MAX_LINE: usize = 4096;
/// Maximum length of one argument, in bytes.
const MAX_WORD: usize = 256;

/// Formats an argument as one word of limited length.
fn quote(arg: &[u8]) -> String {
    let (shown, cut) = match arg.get(..MAX_WORD) {
        Some(start) => (start, ".."),
        None => (arg, ""),
    };
    quote_word(shown) + cut
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
    fn secrets_are_redacted() {
        let rows: [(&[&[u8]], &str); 12] = [
            (&[b"--token", b"s3", b"x"], "--token [redacted] x"),
            (&[b"--api-key=s3"], "--api-key=[redacted]"),
            (&[b"--API_KEY", b"s3"], "--API_KEY [redacted]"),
            (&[b"--npm-password", b"s3"], "--npm-password [redacted]"),
            (&[b"-p", b"--client-secret=s=3"], "-p --client-secret=[redacted]"),
            (&[b"GITHUB_TOKEN=s3"], "GITHUB_TOKEN=[redacted]"),
            (&[b"--token", b"--token", b"s3"], "--token [redacted] s3"),
            (&[b"--tokenize", b"x", b"token", b"y"], "--tokenize x token y"),
            (&[b"--max-tokens", b"4096", b"--max-tokens=7"], "--max-tokens 4096 --max-tokens=7"),
            (&[b"-H", b"Authorization: Bearer s3"], "-H Authorization:[redacted]"),
            (&[b"--config=net.token=s3"], "--config=net.token=[redacted]"),
            (&[b"test", b"token::parse"], "test token::parse"),
        ];
        for (args, expected) in rows {
            assert_eq!(line(args), expected);
        }
    }

    /// Checks the page names, as every user of the list does.
    #[test]
    fn the_value_of_every_secret_of_the_page_is_left_out() {
        let page = include_str!("../../../spec/environment.md");
        let rows = page.split("\n## Secrets\n").nth(1).unwrap().split("\n## ").next().unwrap();
        let mut count = 0;
        for row in rows.lines().filter(|line| line.starts_with("| `")) {
            let secret = row.trim_end_matches(" |").ends_with("| yes");
            for name in row.split('`').skip(1).step_by(2) {
                let option = format!("--{name}");
                let forms = [
                    line(&[format!("{name}=s3").as_bytes()]),
                    line(&[format!("{option}=s3").as_bytes()]),
                    line(&[option.as_bytes(), b"s3"]),
                    line(&[b"-H", format!("{name}: s3").as_bytes()]),
                ];
                for form in forms {
                    assert_eq!(!form.contains("s3"), secret, "{name}: {form}");
                }
                count += 1;
            }
        }
        assert!(count > 30, "only {count} names found");
    }

    #[test]
    fn long_lists_are_cut() {
        let long = vec![b'x'; 100_000];
        assert_eq!(line(&[&long]).len(), MAX_WORD + 2);
        let many: Vec<&[u8]> = vec![b"argument"; 100_000];
        assert!(line(&many).len() < 2 * MAX_LINE);
    }
}
