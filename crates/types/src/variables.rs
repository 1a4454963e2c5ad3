//! Variables on their way into an agent's place, all of them as the value of one
//! (`spec/agents.md#commands-beside-it`): which names come is known only when a command does, and
//! a proxy passes names that it knows.

/// One value that holds all variables: each is its length in bytes, a colon, and `NAME=VALUE`.
pub fn encode_variables(variables: &[(String, String)]) -> String {
    let mut text = String::new();
    for (name, value) in variables {
        let length = name.len() + 1 + value.len();
        text.push_str(&format!("{length}:{name}={value}"));
    }
    text
}

/// The names and values that a value holds, as far as it is one of ours.
pub fn decode_variables(mut text: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut variables = Vec::new();
    while let Some((variable, rest)) = split(text) {
        variables.push(variable);
        text = rest;
    }
    variables
}

type Variable<'a> = (&'a [u8], &'a [u8]);

/// The first variable, and what is behind it.
fn split(text: &[u8]) -> Option<(Variable<'_>, &[u8])> {
    let (length, rest) = at_first(text, b':')?;
    let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
    let (variable, rest) = rest.split_at_checked(length)?;
    Some((at_first(variable, b'=')?, rest))
}

fn at_first(text: &[u8], mark: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == mark)?;
    Some((text.get(..at)?, text.get(at.checked_add(1)?..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_there_again() {
        let given = [("A", "1"), ("EMPTY", ""), ("LINES", "a\n3:b=c\n"), ("UMLAUT", "größe=ä:")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let text = encode_variables(&given);
        let expected: Vec<_> =
            given.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        assert_eq!(decode_variables(text.as_bytes()), expected);
        assert_eq!(decode_variables(encode_variables(&[]).as_bytes()), []);
    }

    #[test]
    fn what_is_not_ours_is_nothing() {
        for text in ["", "A=1", "3:A=", "x:A=1", "1:A", ":A=1", "99999999999999999999999:A=1", "3"]
        {
            assert_eq!(decode_variables(text.as_bytes()), [], "{text}");
        }
        assert_eq!(decode_variables(b"3:A=1junk"), [(&b"A"[..], &b"1"[..])]);
    }
}
