//! The `.req` file: arguments, each followed by NUL.

/// The arguments of a command, without its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments(pub Vec<Vec<u8>>);

/// An argument contains NUL, which execve cannot pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an argument contains NUL")]
pub struct ContainsNul;

impl Arguments {
    /// Parses a request. An empty one has no arguments; a lone NUL is one empty argument. The last
    /// NUL may be missing.
    pub fn parse(request: &[u8]) -> Self {
        if request.is_empty() {
            return Arguments::default();
        }
        let request = request.strip_suffix(b"\0").unwrap_or(request);
        Arguments(request.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
    }

    /// Encodes a request.
    pub fn encode(&self) -> Result<Vec<u8>, ContainsNul> {
        let mut request = Vec::new();
        for argument in &self.0 {
            if argument.contains(&0) {
                return Err(ContainsNul);
            }
            request.extend_from_slice(argument);
            request.push(0);
        }
        Ok(request)
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
            let arguments = Arguments::parse(request);
            assert_eq!(arguments.0, expected, "{request:?}");
            assert_eq!(Arguments::parse(&arguments.encode().unwrap()), arguments);
        }
        assert_eq!(Arguments(vec![b"a\0b".to_vec()]).encode(), Err(ContainsNul));
    }
}
