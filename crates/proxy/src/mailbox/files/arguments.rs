//! The `.req` file: arguments, each followed by NUL.

/// The arguments of a command, without its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments(pub Vec<Vec<u8>>);

impl Arguments {
    /// Parses a request. An empty one has no arguments; a lone NUL is one empty argument. The last
    /// NUL may be missing.
    pub(crate) fn parse(request: &[u8]) -> Self {
        if request.is_empty() {
            return Arguments::default();
        }
        let request = request.strip_suffix(b"\0").unwrap_or(request);
        Arguments(request.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_bytes_between_nuls() {
        let rows: [(&[u8], &[&[u8]]); 6] = [
            (b"", &[]),
            (b"\0", &[b""]),
            (b"build\0A=b c\0", &[b"build", b"A=b c"]),
            (b"build\0last", &[b"build", b"last"]),
            (b"\0\0x\0\0", &[b"", b"", b"x", b""]),
            (b"\xff\n\"'$\0", &[b"\xff\n\"'$"]),
        ];
        for (request, expected) in rows {
            assert_eq!(Arguments::parse(request).0, expected, "{request:?}");
        }
    }
}
