//! Answers of a terminal to queries, among typed input.

/// Returns `input` without the answers and focus reports of a terminal: of several clients only one
/// answers (`spec/attach.md#screen`).
pub(crate) fn without_reports(mut input: &[u8]) -> Vec<u8> {
    let mut typed = Vec::new();
    while let Some((&first, rest)) = input.split_first() {
        match report_length(input) {
            Some(length) => input = input.get(length..).unwrap_or_default(),
            None => {
                typed.push(first);
                input = rest;
            }
        }
    }
    typed
}

/// Returns the length of the report that `input` begins with.
fn report_length(input: &[u8]) -> Option<usize> {
    match input {
        [0x1b, b'[', rest @ ..] => {
            let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
            let parameters = rest.get(..end)?;
            let is_private = matches!(parameters.first(), Some(b'?' | b'>' | b'='));
            let is_report = match rest.get(end)? {
                b'c' | b'n' | b't' => true,
                b'I' | b'O' => parameters.is_empty(),
                // F3 with modifiers is `CSI 1 ; 5 R`, the cursor in the first row of a screen.
                b'R' => parameters.contains(&b';') && !parameters.starts_with(b"1;"),
                b'u' | b'y' => is_private,
                _ => false,
            };
            is_report.then_some(end + 3)
        }
        // OSC, DCS and APC up to BEL or ST.
        [0x1b, b']' | b'P' | b'_', rest @ ..] => {
            let bell = rest.iter().position(|byte| *byte == 7).map(|at| at + 3);
            let string = rest.windows(2).position(|pair| pair == b"\x1b\\").map(|at| at + 4);
            bell.into_iter().chain(string).min()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_and_keys() {
        let rows: [(&[u8], &[u8]); 9] = [
            (b"a\x1b[?62;22cb", b"ab"),
            (b"\x1b[24;80R", b""),
            (b"\x1b[1;5R", b"\x1b[1;5R"),
            (b"\x1b]11;rgb:0000/0000/0000\x1b\\x", b"x"),
            (b"\x1b]10;rgb:f/f/f\x07x", b"x"),
            (b"\x1b[?1u\x1b[92;5u", b"\x1b[92;5u"),
            (b"\x1b[I\x1b[O\x1bOP", b"\x1bOP"),
            (b"\x1bP>|term 1.0\x1b\\\x1b[A", b"\x1b[A"),
            (b"\x1b[<0;1;2M", b"\x1b[<0;1;2M"),
        ];
        for (input, typed) in rows {
            assert_eq!(without_reports(input), typed, "{}", input.escape_ascii());
        }
    }
}
