//! Invocations: a program with everything it inherits (`spec/exec3.md#invocation`). An invocation
//! is the body of a version 3 request and part of a `Start` frame.

use aifo_types::{TerminalModes, WindowSize};

use crate::payload::{Payload, code_table, push_bytes, push_strings};

/// A program's arguments and everything it inherits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The tool's name as typed, then its arguments: never empty, bytes without NUL.
    pub argv: Vec<Vec<u8>>,
    /// The current directory; `None` is the workspace root.
    pub cwd: Option<Vec<u8>>,
    /// `NAME=value`, overriding the runner's environment.
    pub environment: Vec<Vec<u8>>,
    /// The file mode creation mask, at most 0o777; `None` is the runner's.
    pub umask: Option<u16>,
    /// The nice value, -20 to 19; `None` is the runner's.
    pub nice: Option<i8>,
    /// Soft resource limits.
    pub limits: Vec<SoftLimit>,
    /// Ignored signals: bit n - 1 is signal n.
    pub ignored: u64,
    /// Descriptors 0, 1 and 2.
    pub stdio: [Stdio; 3],
    /// The caller's terminal; set exactly if one of `stdio` is [`Stdio::Terminal`].
    pub terminal: Option<TerminalSettings>,
}

/// A soft resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftLimit {
    /// The Linux number of the `RLIMIT_*`, at most [`MAX_RESOURCE`].
    pub resource: u8,
    /// The limit in the resource's unit; `u64::MAX` is unlimited.
    pub soft: u64,
}

/// The settings for the call's pseudo terminal, copied from the caller's terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalSettings {
    /// The size.
    pub size: WindowSize,
    /// The modes, with at most [`MAX_CONTROL_CHARACTERS`] control characters.
    pub modes: TerminalModes,
}

code_table! {
    /// The type of a standard descriptor.
    pub enum Stdio {
        /// `/dev/null`.
        Null = 0,
        /// A descriptor passed over the socket.
        Passed = 1,
        /// A pipe relayed as frames.
        Relayed = 2,
        /// The call's pseudo terminal.
        Terminal = 3,
        /// Closed.
        Closed = 4,
        /// The same open file as stdout; only for stderr.
        Same = 5,
    }
}

/// `RLIMIT_RTTIME`, Linux's highest resource number.
pub const MAX_RESOURCE: u8 = 15;
/// Maximum number of control characters: Linux has 19, C libraries reserve 32.
pub const MAX_CONTROL_CHARACTERS: usize = 32;

/// The bytes are not an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed invocation")]
pub struct InvalidInvocation;

impl Invocation {
    /// Creates an invocation with only arguments and a directory: `/dev/null` as stdin, and one
    /// passed descriptor as stdout and stderr.
    pub fn plain(argv: Vec<Vec<u8>>, cwd: Option<Vec<u8>>) -> Self {
        Invocation {
            argv,
            cwd,
            environment: Vec::new(),
            umask: None,
            nice: None,
            limits: Vec::new(),
            ignored: 0,
            stdio: [Stdio::Null, Stdio::Passed, Stdio::Same],
            terminal: None,
        }
    }

    /// Returns the number of passed descriptors.
    pub fn passed(&self) -> usize {
        self.stdio.iter().filter(|stdio| **stdio == Stdio::Passed).count()
    }

    /// Parses a request's complete body.
    pub fn parse(body: &[u8]) -> Result<Self, InvalidInvocation> {
        let mut fields = Payload::new(body);
        let invocation = Invocation::decode(&mut fields).filter(|_| fields.is_empty());
        invocation.ok_or(InvalidInvocation)
    }

    /// Appends the encoding that [`Invocation::parse`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        push_strings(out, &self.argv);
        out.push(u8::from(self.cwd.is_some()));
        if let Some(cwd) = &self.cwd {
            push_bytes(out, cwd);
        }
        push_strings(out, &self.environment);
        out.push(u8::from(self.umask.is_some()));
        out.extend(self.umask.iter().flat_map(|umask| umask.to_be_bytes()));
        out.push(u8::from(self.nice.is_some()));
        out.extend(self.nice.map(|nice| nice.wrapping_add(20).cast_unsigned()));
        out.push(u8::try_from(self.limits.len()).unwrap_or(u8::MAX));
        for limit in &self.limits {
            out.push(limit.resource);
            out.extend(limit.soft.to_be_bytes());
        }
        out.extend(self.ignored.to_be_bytes());
        out.extend(self.stdio.map(Stdio::code));
        out.push(u8::from(self.terminal.is_some()));
        if let Some(terminal) = &self.terminal {
            terminal.encode(out);
        }
    }

    pub(crate) fn decode(fields: &mut Payload<'_>) -> Option<Self> {
        let argv = fields.strings(Payload::c_string)?;
        let cwd = fields.optional(Payload::c_string)?;
        let is_variable = |text: &Vec<u8>| text.iter().position(|byte| *byte == b'=') > Some(0);
        let environment = fields.strings(|fields| fields.c_string().filter(is_variable))?;
        let umask = fields.optional(|fields| fields.u16().filter(|umask| *umask <= 0o777))?;
        let nice = fields.optional(|fields| fields.u8().filter(|nice| *nice < 40))?;
        let count = fields.u8()?;
        let limits = (0..count).map(|_| SoftLimit::decode(fields)).collect::<Option<Vec<_>>>()?;
        let ignored = fields.u64()?;
        let stdio = Stdio::decode_all(fields)?;
        let terminal = fields.optional(TerminalSettings::decode)?;
        let has_terminal = stdio.contains(&Stdio::Terminal);
        let fits = !argv.is_empty() && limits.len() <= usize::from(MAX_RESOURCE) + 1;
        (fits && has_terminal == terminal.is_some()).then_some(Invocation {
            argv,
            cwd,
            environment,
            umask,
            nice: nice.map(|nice| nice.cast_signed() - 20),
            limits,
            ignored,
            stdio,
            terminal,
        })
    }
}

impl SoftLimit {
    fn decode(fields: &mut Payload<'_>) -> Option<Self> {
        let resource = fields.u8().filter(|resource| *resource <= MAX_RESOURCE)?;
        Some(SoftLimit { resource, soft: fields.u64()? })
    }
}

impl Stdio {
    /// Decodes three; only the last may be [`Stdio::Same`].
    pub(crate) fn decode_all(fields: &mut Payload<'_>) -> Option<[Self; 3]> {
        let mut one = || Stdio::from_code(fields.u8()?);
        let stdio = [one()?, one()?, one()?];
        (stdio[0] != Stdio::Same && stdio[1] != Stdio::Same).then_some(stdio)
    }
}

impl TerminalSettings {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_size(&self.size, out);
        let modes = &self.modes;
        for flags in [modes.input, modes.output, modes.control, modes.local] {
            out.extend(flags.to_be_bytes());
        }
        push_bytes(out, &modes.characters);
    }

    fn decode(fields: &mut Payload<'_>) -> Option<Self> {
        let size = decode_size(fields)?;
        let modes = TerminalModes {
            input: fields.u32()?,
            output: fields.u32()?,
            control: fields.u32()?,
            local: fields.u32()?,
            characters: fields.bytes().filter(|all| all.len() <= MAX_CONTROL_CHARACTERS)?.to_vec(),
        };
        Some(TerminalSettings { size, modes })
    }
}

pub(crate) fn encode_size(size: &WindowSize, out: &mut Vec<u8>) {
    for number in [size.rows, size.columns, size.x_pixels, size.y_pixels] {
        out.extend(number.to_be_bytes());
    }
}

pub(crate) fn decode_size(fields: &mut Payload<'_>) -> Option<WindowSize> {
    Some(WindowSize {
        rows: fields.u16()?,
        columns: fields.u16()?,
        x_pixels: fields.u16()?,
        y_pixels: fields.u16()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Invocation {
        Invocation {
            argv: vec![b"cargo".to_vec(), Vec::new(), b"\xff".to_vec()],
            cwd: Some(b"/workspace".to_vec()),
            environment: vec![b"CI=1".to_vec(), b"EMPTY=".to_vec()],
            umask: Some(0o27),
            nice: Some(-20),
            limits: vec![
                SoftLimit { resource: 7, soft: u64::MAX },
                SoftLimit { resource: 0, soft: 1 },
            ],
            ignored: 1 << 12,
            stdio: [Stdio::Terminal, Stdio::Relayed, Stdio::Same],
            terminal: Some(TerminalSettings {
                size: WindowSize { rows: 24, columns: 80, x_pixels: 0, y_pixels: 257 },
                modes: TerminalModes {
                    input: 1,
                    output: 2,
                    control: 3,
                    local: u32::MAX,
                    characters: b"\x03\x1c".to_vec(),
                },
            }),
        }
    }

    fn encoded(invocation: &Invocation) -> Vec<u8> {
        let mut out = Vec::new();
        invocation.encode(&mut out);
        out
    }

    #[test]
    fn every_field_byte_for_byte() {
        let parts: [&[u8]; 12] = [
            b"\0\0\0\x03\0\0\0\x05cargo\0\0\0\0\0\0\0\x01\xff",
            b"\x01\0\0\0\x0a/workspace",
            b"\0\0\0\x02\0\0\0\x04CI=1\0\0\0\x06EMPTY=",
            b"\x01\0\x17",
            b"\x01\0",
            b"\x02\x07\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0\x01",
            b"\0\0\0\0\0\0\x10\0",
            b"\x03\x02\x05",
            b"\x01\0\x18\0\x50\0\0\x01\x01",
            b"\0\0\0\x01\0\0\0\x02\0\0\0\x03",
            b"\xff\xff\xff\xff",
            b"\0\0\0\x02\x03\x1c",
        ];
        let encoded = encoded(&full());
        assert_eq!(encoded.escape_ascii().to_string(), parts.concat().escape_ascii().to_string());
    }

    #[test]
    fn invocations_round_trip() {
        let plain = Invocation::plain(vec![b"make".to_vec()], None);
        for invocation in [plain, full()] {
            let bytes = encoded(&invocation);
            assert_eq!(Invocation::parse(&bytes), Ok(invocation));
            for len in 0..bytes.len() {
                assert_eq!(Invocation::parse(&bytes[..len]), Err(InvalidInvocation), "{len}");
            }
            assert_eq!(Invocation::parse(&[&bytes[..], b"x"].concat()), Err(InvalidInvocation));
        }
    }

    #[test]
    fn limits_of_valid_values() {
        type Change = fn(&mut Invocation);
        let rows: [(&str, Change); 8] = [
            ("the highest priority", |it| it.nice = Some(-20)),
            ("the lowest priority", |it| it.nice = Some(19)),
            ("every bit of the mask", |it| it.umask = Some(0o777)),
            ("every resource", |it| it.limits = limits(MAX_RESOURCE + 1)),
            ("every signal", |it| it.ignored = u64::MAX),
            ("the most control characters", |it| characters(it, MAX_CONTROL_CHARACTERS)),
            ("no control character", |it| characters(it, 0)),
            ("a value with '='", |it| {
                it.environment = vec![b"A==".to_vec()];
            }),
        ];
        for (what, change) in rows {
            let mut invocation = full();
            change(&mut invocation);
            assert_eq!(Invocation::parse(&encoded(&invocation)), Ok(invocation), "{what}");
        }
    }

    #[test]
    fn invalid_values() {
        type Change = fn(&mut Invocation);
        let rows: [(&str, Change); 18] = [
            ("no name", |it| it.argv.clear()),
            ("a NUL", |it| it.argv[0] = b"a\0b".to_vec()),
            ("a NUL in the directory", |it| it.cwd = Some(b"/\0".to_vec())),
            ("a NUL in a variable", |it| it.environment = vec![b"A=\0".to_vec()]),
            ("a variable without a name", |it| it.environment = vec![b"=x".to_vec()]),
            ("a variable without a value", |it| it.environment = vec![b"x".to_vec()]),
            ("a variable of no bytes", |it| it.environment = vec![Vec::new()]),
            ("a mask of more than nine bits", |it| it.umask = Some(0o1000)),
            ("a nice value out of range", |it| it.nice = Some(20)),
            ("an unknown resource", |it| it.limits[0].resource = MAX_RESOURCE + 1),
            ("more limits than resources", |it| it.limits = limits(MAX_RESOURCE + 2)),
            ("more characters than there can be", |it| characters(it, MAX_CONTROL_CHARACTERS + 1)),
            ("unused terminal settings", |it| it.stdio[0] = Stdio::Null),
            ("no terminal settings for stdin", |it| it.terminal = None),
            ("no terminal settings for stderr", |it| {
                it.stdio = [Stdio::Null, Stdio::Null, Stdio::Terminal];
                it.terminal = None;
            }),
            ("stdin the same as another", |it| it.stdio[0] = Stdio::Same),
            ("stdout the same as another", |it| it.stdio[1] = Stdio::Same),
            ("all three the same", |it| it.stdio = [Stdio::Same; 3]),
        ];
        for (what, change) in rows {
            let mut invocation = full();
            change(&mut invocation);
            assert_eq!(Invocation::parse(&encoded(&invocation)), Err(InvalidInvocation), "{what}");
        }
    }

    /// Tests values that the encoder cannot produce, by changing one byte.
    #[test]
    fn invalid_bytes() {
        let plain = encoded(&Invocation::plain(vec![b"cc".to_vec()], None));
        let rows = [
            ("too many arguments", 3, 2),
            ("too few arguments", 3, 0),
            ("an argument beyond the end", 4, 0xff),
            ("an invalid presence byte of the directory", 10, 2),
            ("too many variables", 11, 0xff),
            ("an invalid presence byte of the mask", 15, 2),
            ("an invalid presence byte of the nice value", 16, 2),
            ("too many limits", 17, 1),
            ("an unknown standard descriptor", 26, 6),
            ("an invalid presence byte of the terminal", 29, 2),
        ];
        for (what, index, byte) in rows {
            let mut bytes = plain.clone();
            bytes[index] = byte;
            assert_eq!(Invocation::parse(&bytes), Err(InvalidInvocation), "{what}");
        }
    }

    #[test]
    fn number_of_passed_descriptors() {
        let rows = [
            ([Stdio::Passed; 3], 3),
            ([Stdio::Null, Stdio::Passed, Stdio::Same], 1),
            ([Stdio::Closed, Stdio::Relayed, Stdio::Terminal], 0),
        ];
        for (stdio, passed) in rows {
            assert_eq!(Invocation { stdio, ..full() }.passed(), passed, "{stdio:?}");
        }
    }

    fn limits(count: u8) -> Vec<SoftLimit> {
        vec![SoftLimit { resource: MAX_RESOURCE, soft: 0 }; usize::from(count)]
    }

    fn characters(invocation: &mut Invocation, count: usize) {
        let terminal = invocation.terminal.as_mut().expect("a terminal");
        terminal.modes.characters = vec![0; count];
    }
}
