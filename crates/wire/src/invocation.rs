//! Codec of the invocation (`spec/exec3.md#invocation`): the parts of an [`ExecRequest`] other than
//! its exec id. An invocation is the body of a version 3 request and part of a `Start` frame.

use aifo_types::{
    ExecId, ExecRequest, Inherited, InvalidToolName, SoftLimit, Stdio, TerminalModes,
    TerminalSettings, ToolName, WindowSize,
};

use crate::payload::{Payload, push_bytes, push_strings};

/// `RLIMIT_RTTIME`, Linux's highest resource number.
pub const MAX_RESOURCE: u8 = 15;
/// Maximum number of control characters: Linux has 19, C libraries reserve 32.
pub const MAX_CONTROL_CHARACTERS: usize = 32;

/// The bytes are not an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInvocation {
    /// A field is truncated or out of range, or bytes follow the last one.
    #[error("malformed invocation")]
    Malformed,
    /// The first argument is neither a tool name nor the absolute path of one.
    #[error(transparent)]
    Tool(#[from] InvalidToolName),
}

/// Parses the complete body of a version 3 request with this exec id.
pub fn parse_invocation(body: &[u8], id: ExecId) -> Result<ExecRequest, InvalidInvocation> {
    let mut payload = Payload::new(body);
    let fields = Fields::decode(&mut payload, Texts::Checked).filter(|_| payload.is_empty());
    fields.ok_or(InvalidInvocation::Malformed)?.into_request(id)
}

/// Returns the number of arguments and variables in the complete body of a version 3 request, to
/// bound the memory of [`parse_invocation`] before. Never too small for a valid body.
pub fn count_strings(body: &[u8]) -> usize {
    let mut fields = Payload::new(body);
    let arguments = fields.skip_strings();
    // Malformed bytes are an error of the parser.
    let _ = fields.optional(Payload::bytes);
    arguments.saturating_add(fields.skip_strings())
}

/// Parses the invocation of a `Start` frame.
pub(crate) fn decode(fields: &mut Payload<'_>, id: ExecId) -> Option<ExecRequest> {
    Fields::decode(fields, Texts::Checked)?.into_request(id).ok()
}

/// Parses the invocation of a `Start` whose program is found as called. Its texts are any bytes: who starts the
/// program refuses those that the kernel cannot take.
pub(crate) fn decode_as_called(fields: &mut Payload<'_>, id: ExecId) -> Option<ExecRequest> {
    let Fields { tool: program, args, cwd, inherited } = Fields::decode(fields, Texts::Any)?;
    let tool = ToolName::parse(b"program").ok()?;
    Some(ExecRequest { program: Some(program), args, cwd, inherited, ..ExecRequest::new(id, tool) })
}

/// The check of texts while they are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Texts {
    /// No NUL, and variables are `NAME=value`.
    Checked,
    Any,
}

impl Texts {
    fn read(self, fields: &mut Payload<'_>) -> Option<Vec<u8>> {
        match self {
            Texts::Checked => fields.c_string(),
            Texts::Any => fields.bytes().map(<[u8]>::to_vec),
        }
    }
}

/// Appends the encoding that [`parse_invocation`] reads.
pub fn encode_invocation(request: &ExecRequest, out: &mut Vec<u8>) {
    let count = request.args.len().saturating_add(1);
    out.extend(u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
    request.argv().for_each(|arg| push_bytes(out, arg));
    out.push(u8::from(request.cwd.is_some()));
    if let Some(cwd) = &request.cwd {
        push_bytes(out, cwd);
    }
    let Inherited { environment, umask, nice, limits, ignored, stdio, terminal } =
        &request.inherited;
    push_strings(out, environment);
    out.push(u8::from(umask.is_some()));
    out.extend(umask.iter().flat_map(|umask| umask.to_be_bytes()));
    out.push(u8::from(nice.is_some()));
    out.extend(nice.map(|nice| nice.wrapping_add(20).cast_unsigned()));
    out.push(u8::try_from(limits.len()).unwrap_or(u8::MAX));
    for limit in limits {
        out.push(limit.resource);
        out.extend(limit.soft.to_be_bytes());
    }
    out.extend(ignored.to_be_bytes());
    out.extend(encode_stdio(*stdio));
    out.push(u8::from(terminal.is_some()));
    if let Some(terminal) = terminal {
        encode_terminal(terminal, out);
    }
}

/// The fields of an invocation, with an unchecked tool name.
struct Fields {
    tool: Vec<u8>,
    args: Vec<Vec<u8>>,
    cwd: Option<Vec<u8>>,
    inherited: Inherited,
}

impl Fields {
    fn decode(fields: &mut Payload<'_>, texts: Texts) -> Option<Self> {
        let mut argv = fields.strings(|fields| texts.read(fields))?.into_iter();
        let tool = argv.next()?;
        let cwd = fields.optional(|fields| texts.read(fields))?;
        let is_variable = |text: &Vec<u8>| {
            texts == Texts::Any || text.iter().position(|byte| *byte == b'=') > Some(0)
        };
        let environment = fields.strings(|fields| texts.read(fields).filter(is_variable))?;
        let umask = fields.optional(|fields| fields.u16().filter(|umask| *umask <= 0o777))?;
        let nice = fields.optional(|fields| fields.u8().filter(|nice| *nice < 40))?;
        let count = fields.u8()?;
        let limits = (0..count).map(|_| decode_limit(fields)).collect::<Option<Vec<_>>>()?;
        let ignored = fields.u64()?;
        let stdio = decode_stdio(fields)?;
        let terminal = fields.optional(decode_terminal)?;
        let has_terminal = stdio.contains(&Stdio::Terminal);
        let fits = limits.len() <= usize::from(MAX_RESOURCE) + 1;
        let nice = nice.map(|nice| nice.cast_signed() - 20);
        let inherited = Inherited { environment, umask, nice, limits, ignored, stdio, terminal };
        (fits && has_terminal == inherited.terminal.is_some()).then(|| Fields {
            tool,
            args: argv.collect(),
            cwd,
            inherited,
        })
    }

    fn into_request(self, id: ExecId) -> Result<ExecRequest, InvalidInvocation> {
        let Fields { tool, args, cwd, inherited } = self;
        let (tool, program) = match tool.iter().rposition(|byte| *byte == b'/') {
            Some(last) if tool.starts_with(b"/") && is_plain(&tool) => {
                (ToolName::parse(tool.get(last + 1..).unwrap_or_default())?, Some(tool))
            }
            _ => (ToolName::parse(&tool)?, None),
        };
        Ok(ExecRequest { program, args, cwd, inherited, ..ExecRequest::new(id, tool) })
    }
}

/// Returns whether an absolute path has neither `.` nor `..` nor empty components.
fn is_plain(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').skip(1).all(|part| !matches!(part, b"" | b"." | b".."))
}

fn decode_limit(fields: &mut Payload<'_>) -> Option<SoftLimit> {
    let resource = fields.u8().filter(|resource| *resource <= MAX_RESOURCE)?;
    Some(SoftLimit { resource, soft: fields.u64()? })
}

/// The types of a standard descriptor, in the order of their codes.
const STDIO: [Stdio; 6] =
    [Stdio::Null, Stdio::Passed, Stdio::Relayed, Stdio::Terminal, Stdio::Closed, Stdio::Same];

pub(crate) fn encode_stdio(stdio: [Stdio; 3]) -> [u8; 3] {
    let code = |stdio| STDIO.into_iter().zip(0..).find(|(of, _)| *of == stdio);
    stdio.map(|stdio| code(stdio).map_or(u8::MAX, |(_, code)| code))
}

/// Decodes three descriptors; only the last may be [`Stdio::Same`].
pub(crate) fn decode_stdio(fields: &mut Payload<'_>) -> Option<[Stdio; 3]> {
    let mut one = || STDIO.get(usize::from(fields.u8()?)).copied();
    let stdio = [one()?, one()?, one()?];
    (stdio[0] != Stdio::Same && stdio[1] != Stdio::Same).then_some(stdio)
}

fn encode_terminal(terminal: &TerminalSettings, out: &mut Vec<u8>) {
    encode_size(&terminal.size, out);
    let modes = &terminal.modes;
    for flags in [modes.input, modes.output, modes.control, modes.local] {
        out.extend(flags.to_be_bytes());
    }
    push_bytes(out, &modes.characters);
}

fn decode_terminal(fields: &mut Payload<'_>) -> Option<TerminalSettings> {
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

    fn plain(tool: &[u8]) -> ExecRequest {
        ExecRequest::new(ExecId::parse(b"e1").unwrap(), ToolName::parse(tool).unwrap())
    }

    fn full() -> ExecRequest {
        let mut request = plain(b"cargo");
        request.args = vec![Vec::new(), b"\xff".to_vec()];
        request.cwd = Some(b"/workspace".to_vec());
        request.inherited = Inherited {
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
        };
        request
    }

    #[test]
    fn strings_are_counted_without_being_copied() {
        assert_eq!(count_strings(&encoded(&plain(b"make"))), 1);
        let body = encoded(&full());
        assert_eq!(count_strings(&body), 5, "the tool, two arguments, two variables");
        for cut in 0..body.len() {
            assert!(count_strings(&body[..cut]) <= 5);
        }
        assert_eq!(count_strings(&[0xff; 64]), 0);
    }

    fn encoded(request: &ExecRequest) -> Vec<u8> {
        let mut out = Vec::new();
        encode_invocation(request, &mut out);
        out
    }

    fn parse(body: &[u8]) -> Result<ExecRequest, InvalidInvocation> {
        parse_invocation(body, ExecId::parse(b"e1").unwrap())
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
        let program = Some(b"/ws/.venv/bin/cargo".to_vec());
        for request in [plain(b"make"), full(), ExecRequest { program, ..full() }] {
            let bytes = encoded(&request);
            assert_eq!(parse(&bytes), Ok(request));
            for len in 0..bytes.len() {
                assert_eq!(parse(&bytes[..len]), Err(InvalidInvocation::Malformed), "{len}");
            }
            assert_eq!(parse(&[&bytes[..], b"x"].concat()), Err(InvalidInvocation::Malformed));
        }
    }

    #[test]
    fn limits_of_valid_values() {
        type Change = fn(&mut Inherited);
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
            let mut request = full();
            change(&mut request.inherited);
            assert_eq!(parse(&encoded(&request)), Ok(request), "{what}");
        }
    }

    #[test]
    fn invalid_values() {
        type Change = fn(&mut Inherited);
        let rows: [(&str, Change); 15] = [
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
            let mut request = full();
            change(&mut request.inherited);
            assert_eq!(parse(&encoded(&request)), Err(InvalidInvocation::Malformed), "{what}");
        }
    }

    #[test]
    fn invalid_commands() {
        let mut request = full();
        request.args[0] = b"a\0b".to_vec();
        assert_eq!(parse(&encoded(&request)), Err(InvalidInvocation::Malformed));
        for program in ["cargo", "b/cargo", "/", "/ws/", "/ws/../cargo", "/ws/./cargo", "//cargo"] {
            let request = ExecRequest { program: Some(program.into()), ..full() };
            let parsed = parse(&encoded(&request));
            assert!(
                parsed.as_ref().map_or(true, |it| it.program.is_none()),
                "{program}: {parsed:?}"
            );
            assert_eq!(parsed.is_err(), program != "cargo", "{program}: {parsed:?}");
        }
        let mut request = full();
        request.cwd = Some(b"/\0".to_vec());
        assert_eq!(parse(&encoded(&request)), Err(InvalidInvocation::Malformed));
        let mut no_argument = encoded(&plain(b"cc"));
        no_argument[3] = 0;
        no_argument.drain(4..10);
        assert_eq!(parse(&no_argument), Err(InvalidInvocation::Malformed));
        let mut path = encoded(&plain(b"cc"));
        path[9] = b'/';
        assert_eq!(parse(&path), Err(InvalidInvocation::Tool(InvalidToolName)));
    }

    /// Tests values that the encoder cannot produce, by changing one byte.
    #[test]
    fn invalid_bytes() {
        let plain = encoded(&plain(b"cc"));
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
            assert_eq!(parse(&bytes), Err(InvalidInvocation::Malformed), "{what}");
        }
    }

    fn limits(count: u8) -> Vec<SoftLimit> {
        vec![SoftLimit { resource: MAX_RESOURCE, soft: 0 }; usize::from(count)]
    }

    fn characters(inherited: &mut Inherited, count: usize) {
        let terminal = inherited.terminal.as_mut().expect("a terminal");
        terminal.modes.characters = vec![0; count];
    }
}
