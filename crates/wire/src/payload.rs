//! Fields of a frame's payload.

/// Decodes fields of a payload. `None` means that it is truncated or a value is out of range.
pub(crate) struct Payload<'a> {
    bytes: &'a [u8],
}

impl<'a> Payload<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Payload { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a length and that many bytes.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u32()?).ok()?;
        let (field, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(field)
    }

    /// Reads a byte string without NUL, which would truncate it in the kernel.
    pub(crate) fn c_string(&mut self) -> Option<Vec<u8>> {
        self.bytes().filter(|field| !field.contains(&0)).map(<[u8]>::to_vec)
    }

    /// Reads an absolute path.
    pub(crate) fn absolute(&mut self) -> Option<Vec<u8>> {
        self.c_string().filter(|path| path.starts_with(b"/"))
    }

    /// Reads a presence byte and, if it is 1, a field.
    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.u8()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }

    /// Reads a count and that many fields. The count is untrusted: it does not preallocate.
    pub(crate) fn strings(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Option<Vec<u8>>,
    ) -> Option<Vec<Vec<u8>>> {
        (0..self.u32()?).map(|_| read(self)).collect()
    }

    /// Skips a count and that many byte strings, and returns the number of those that are complete.
    pub(crate) fn skip_strings(&mut self) -> usize {
        let count = self.u32().unwrap_or_default();
        (0..count).map_while(|_| self.bytes()).count()
    }

    /// Reads all remaining bytes.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*field)
    }
}

/// Appends a length and the bytes. A length of 4 GiB or more saturates; the frame exceeds every
/// limit, so the peer rejects it.
pub(crate) fn push_bytes(out: &mut Vec<u8>, field: &[u8]) {
    out.extend(u32::try_from(field.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(field);
}

/// Appends a count and the byte strings.
pub(crate) fn push_strings(out: &mut Vec<u8>, strings: &[Vec<u8>]) {
    out.extend(u32::try_from(strings.len()).unwrap_or(u32::MAX).to_be_bytes());
    strings.iter().for_each(|string| push_bytes(out, string));
}

/// Defines an enum whose variants are bytes on the wire, with conversions in both directions.
macro_rules! code_table {
    (
        $(#[$outer:meta])*
        pub enum $name:ident { $($(#[$inner:meta])* $variant:ident = $code:literal,)+ }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $($(#[$inner])* $variant = $code,)+ }

        impl $name {
            /// Returns the byte on the wire.
            pub fn code(self) -> u8 {
                self as u8
            }

            /// Returns the variant for a byte on the wire.
            pub fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some($name::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use code_table;
