//! Several variables encoded as the value of one (`spec/agents.md#commands-beside-it`).
//!
//! The proxy forwards only listed names, and a command's variables are not known in advance.

/// Encodes variables as one value: for each its length in bytes, a colon and `NAME=VALUE`.
pub fn encode_variables(variables: &[(String, String)]) -> String {
    let mut text = String::new();
    for (name, value) in variables {
        let length = name.len() + 1 + value.len();
        text.push_str(&format!("{length}:{name}={value}"));
    }
    text
}

/// Decodes names and values up to the first malformed one.
pub fn decode_variables(mut text: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut variables = Vec::new();
    while let Some((variable, rest)) = split(text) {
        variables.push(variable);
        text = rest;
    }
    variables
}

type Variable<'a> = (&'a [u8], &'a [u8]);

/// Splits off the first variable.
fn split(text: &[u8]) -> Option<(Variable<'_>, &[u8])> {
    let (length, rest) = split_once(text, b':')?;
    let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
    let (variable, rest) = rest.split_at_checked(length)?;
    Some((split_once(variable, b'=')?, rest))
}

fn split_once(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == separator)?;
    Some((text.get(..at)?, text.get(at.checked_add(1)?..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_round_trip() {
        let sent = [("A", "1"), ("EMPTY", ""), ("LINES", "a\n3:b=c\n"), ("UMLAUT", "größe=ä:")];
        let sent = sent.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let text = encode_variables(&sent);
        let expected: Vec<_> =
            sent.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        assert_eq!(decode_variables(text.as_bytes()), expected);
        assert_eq!(decode_variables(encode_variables(&[]).as_bytes()), []);
    }

    #[test]
    fn malformed_values_end_decoding() {
        for text in ["", "A=1", "3:A=", "x:A=1", "1:A", ":A=1", "99999999999999999999999:A=1", "3"]
        {
            assert_eq!(decode_variables(text.as_bytes()), [], "{text}");
        }
        assert_eq!(decode_variables(b"3:A=1junk"), [(&b"A"[..], &b"1"[..])]);
    }
}
