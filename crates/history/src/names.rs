//! Names in the store (`spec/history.md#store`).
//!
//! Each component of a workspace path gets a prefix and is percent-encoded: no component is ever `.git`, and no
//! name needs quotes or can end git's process.

/// The object at a path.
const OBJECT: u8 = b'_';
/// The permissions of the object at a path.
const MODE: u8 = b'=';
/// An object that is not covered.
const UNCOVERED: u8 = b'~';

/// A name in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// The content of a file, or the target of a link.
    Object(Vec<u8>),
    /// The permissions of a file, which git does not keep.
    FileMode(Vec<u8>),
    /// A directory, and its permissions.
    Directory(Vec<u8>),
    /// An object that is not covered, and why.
    Uncovered(Vec<u8>),
}

impl Name {
    pub(crate) fn encode(&self) -> String {
        match self {
            Name::Object(path) => encode(path, OBJECT),
            Name::FileMode(path) => encode(path, MODE),
            Name::Uncovered(path) => encode(path, UNCOVERED),
            Name::Directory(path) if path.is_empty() => "=".to_owned(),
            Name::Directory(path) => encode(path, OBJECT) + "/=",
        }
    }

    /// Returns the path that a name stands for; `None` for what this crate does not write.
    pub(crate) fn decode(stored: &str) -> Option<Self> {
        if stored == "=" {
            return Some(Name::Directory(Vec::new()));
        }
        let mut path = Vec::new();
        let mut components = stored.split('/').peekable();
        while let Some(component) = components.next() {
            let is_last = components.peek().is_none();
            let (prefix, name) = component.as_bytes().split_first()?;
            match (*prefix, name.is_empty(), is_last) {
                (MODE, true, true) => return Some(Name::Directory(path)),
                (OBJECT, false, _) | (MODE | UNCOVERED, false, true) => {
                    if !path.is_empty() {
                        path.push(b'/');
                    }
                    path.append(&mut decode(name)?);
                }
                _ => return None,
            }
            match *prefix {
                MODE => return Some(Name::FileMode(path)),
                UNCOVERED => return Some(Name::Uncovered(path)),
                _ => {}
            }
        }
        Some(Name::Object(path))
    }
}

fn encode(path: &[u8], last: u8) -> String {
    let count = path.split(|byte| *byte == b'/').count();
    let mut encoded = String::with_capacity(path.len() + 2 * count);
    for (at, component) in path.split(|byte| *byte == b'/').enumerate() {
        if at > 0 {
            encoded.push('/');
        }
        encoded.push(char::from(if at + 1 == count { last } else { OBJECT }));
        for byte in component {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'+' => {
                    encoded.push(char::from(*byte));
                }
                _ => encoded.push_str(&format!("%{byte:02x}")),
            }
        }
    }
    encoded
}

fn decode(name: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((byte, after)) = rest.split_first() {
        if *byte == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            decoded.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            decoded.push(*byte);
            rest = after;
        }
    }
    // The store is trusted, but a damaged one must not name another file.
    let is_plain = !decoded.is_empty() && decoded != b"." && decoded != b"..";
    (is_plain && !decoded.contains(&b'/') && !decoded.contains(&0)).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_a_name_of_its_own() {
        for (path, stored) in [
            (&b"src/main.rs"[..], "_src/_main.rs"),
            (b".git/HEAD", "_.git/_HEAD"),
            (b"a b\n\"\xff", "_a%20b%0a%22%ff"),
            (b"=", "_%3d"),
            (b"%", "_%25"),
        ] {
            let name = Name::Object(path.to_vec());
            assert_eq!(name.encode(), stored);
            assert_eq!(Name::decode(stored), Some(name));
            for name in
                [Name::FileMode, Name::Directory, Name::Uncovered].map(|it| it(path.to_vec()))
            {
                assert_eq!(Name::decode(&name.encode()), Some(name));
            }
        }
        let root = Name::Directory(Vec::new());
        assert_eq!(Name::decode(&root.encode()), Some(root));
    }

    #[test]
    fn a_damaged_name_stands_for_nothing() {
        for stored in
            ["", "/", "_", "_/_a", "_..", "_%2e%2e/_a", "_a%2fb", "_a%0", "_%00", "a", "=a/_b"]
        {
            assert_eq!(Name::decode(stored), None, "{stored:?}");
        }
    }
}
