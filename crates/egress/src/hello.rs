//! Parses a TLS ClientHello up to its server name (RFC 8446, RFC 6066).
//!
//! In scope: the outer ClientHello, which may be split over records; with an encrypted ClientHello, also
//! a GREASE one, the outer name is the one that routes the connection (RFC 9849). Out of scope:
//! decryption, and everything after the ClientHello.

use crate::name::Name;

/// The first bytes of a connection, as far as they are read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Hello {
    /// The ClientHello is incomplete.
    NeedMore,
    /// It has this server name.
    Sni(Name),
    /// It has no server name.
    NoSni,
    /// It is malformed, has two server names, one that is no host name, or more than
    /// [`MAX_HELLO`] bytes.
    Malformed(HelloError),
    /// The bytes are not TLS.
    NotTls,
}

/// The fault of a ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// It has more than [`MAX_HELLO`] bytes with its record headers.
    #[error("its ClientHello has more than {MAX_HELLO} bytes")]
    TooLong,
    /// A length does not fit, or a field is missing.
    #[error("its ClientHello is malformed")]
    Field,
    /// The extension with the name occurs twice, or has two names.
    #[error("its ClientHello has two server names")]
    TwoNames,
    /// The server name is no host name.
    #[error("the server name of its ClientHello is no host name")]
    Name,
}

/// The longest ClientHello in bytes, with the headers of its records. Clients send 200 to 2,000, with
/// post-quantum keys and a session ticket up to some 8,000.
pub const MAX_HELLO: usize = 32 * 1024;

/// Parses the first bytes that a client sends. The result for a prefix is `NeedMore`, or the same as
/// for all bytes.
pub fn parse_hello(bytes: &[u8]) -> Hello {
    let bytes = bytes.get(..MAX_HELLO).unwrap_or(bytes);
    match parse(bytes) {
        Ok(hello) => hello,
        Err(Stop::NeedMore) if bytes.len() >= MAX_HELLO => Hello::Malformed(HelloError::TooLong),
        Err(Stop::NeedMore) => Hello::NeedMore,
        Err(Stop::NotTls) => Hello::NotTls,
        Err(Stop::Malformed(error)) => Hello::Malformed(error),
    }
}

/// Why the parser returns before a result.
enum Stop {
    NeedMore,
    NotTls,
    Malformed(HelloError),
}

impl From<HelloError> for Stop {
    fn from(error: HelloError) -> Stop {
        Stop::Malformed(error)
    }
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// The header of a handshake message: its type, and its length in three bytes.
const MESSAGE_HEADER: usize = 4;

/// The longest payload of a record in plain text (RFC 8446, section 5.1).
const MAX_RECORD: usize = 1 << 14;

fn parse(bytes: &[u8]) -> Result<Hello, Stop> {
    let message = join_records(bytes)?;
    let name = server_name(&message)?;
    Ok(name.map_or(Hello::NoSni, Hello::Sni))
}

/// Joins the payloads of records up to the end of the ClientHello, and returns its body.
fn join_records(mut bytes: &[u8]) -> Result<Vec<u8>, Stop> {
    let mut message = Vec::new();
    loop {
        // Each byte of the header is checked as it arrives.
        let expected = |at: usize, is_valid: &dyn Fn(u8) -> bool| match bytes.get(at) {
            None => Err(Stop::NeedMore),
            Some(byte) if is_valid(*byte) => Ok(*byte),
            Some(_) => Err(Stop::NotTls),
        };
        expected(0, &|byte| byte == HANDSHAKE)?;
        expected(1, &|byte| byte == 3)?;
        expected(2, &|byte| byte <= 4)?;
        let high = expected(3, &|byte| usize::from(byte) <= MAX_RECORD >> 8)?;
        let low = expected(4, &|_| true)?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length == 0 || length > MAX_RECORD {
            return Err(Stop::NotTls);
        }
        let payload = bytes.get(5..).unwrap_or_default();
        let payload = payload.get(..length).unwrap_or(payload);
        message.extend(payload);
        if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(Stop::NotTls);
        }
        if let Some([_, length @ ..]) = message.first_chunk::<MESSAGE_HEADER>() {
            let [a, b, c] = *length;
            let end = MESSAGE_HEADER + u32::from_be_bytes([0, a, b, c]) as usize;
            if end > MAX_HELLO {
                return Err(HelloError::TooLong.into());
            }
            if message.len() >= end {
                message.truncate(end);
                message.drain(..MESSAGE_HEADER);
                return Ok(message);
            }
        }
        if payload.len() < length {
            return Err(Stop::NeedMore);
        }
        bytes = &bytes[5 + length..];
    }
}

/// Returns the server name in the body of a ClientHello.
fn server_name(body: &[u8]) -> Result<Option<Name>, HelloError> {
    let mut hello = Fields(body);
    hello.take(2 + 32)?; // version, random
    hello.vector8()?; // session id
    hello.vector16()?; // cipher suites
    hello.vector8()?; // compression methods
    if hello.0.is_empty() {
        return Ok(None);
    }
    let mut extensions = Fields(hello.vector16()?);
    if !hello.0.is_empty() {
        return Err(HelloError::Field);
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let data = extensions.vector16()?;
        if kind == SERVER_NAME && found.replace(parse_server_name(data)?).is_some() {
            return Err(HelloError::TwoNames);
        }
    }
    Ok(found)
}

/// Parses the extension `server_name`: a list with exactly one host name.
fn parse_server_name(data: &[u8]) -> Result<Name, HelloError> {
    let mut extension = Fields(data);
    let mut list = Fields(extension.vector16()?);
    if !extension.0.is_empty() || list.u8()? != HOST_NAME {
        return Err(HelloError::Field);
    }
    let name = list.vector16()?;
    if !list.0.is_empty() {
        return Err(HelloError::TwoNames);
    }
    Name::parse(name).map_err(|_| HelloError::Name)
}

/// Fields at the front of bytes.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, length: usize) -> Result<&'b [u8], HelloError> {
        let (field, rest) = self.0.split_at_checked(length).ok_or(HelloError::Field)?;
        self.0 = rest;
        Ok(field)
    }

    fn u8(&mut self) -> Result<u8, HelloError> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, HelloError> {
        let field = self.take(2)?;
        Ok(u16::from_be_bytes([field[0], field[1]]))
    }

    fn vector8(&mut self) -> Result<&'b [u8], HelloError> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    fn vector16(&mut self) -> Result<&'b [u8], HelloError> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector16(data: &[u8]) -> Vec<u8> {
        [&(data.len() as u16).to_be_bytes()[..], data].concat()
    }

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &vector16(data)].concat()
    }

    fn server_names(names: &[&str]) -> Vec<u8> {
        let entry = |name: &&str| [&[0][..], &vector16(name.as_bytes())].concat();
        let list: Vec<u8> = names.iter().flat_map(entry).collect();
        extension(SERVER_NAME, &vector16(&list))
    }

    /// A GREASE value, and an encrypted ClientHello as browsers send it to every server.
    fn grease() -> Vec<u8> {
        let encrypted = [&[0, 0, 1, 0, 1, 7, 0, 32][..], &[9; 32], &[0, 144], &[5; 144]].concat();
        [extension(0x0a0a, &[]), extension(0xfe0d, &encrypted)].concat()
    }

    /// The message, without a record.
    fn hello(extensions: Option<&[u8]>) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([&[32][..], &[1; 32], &vector16(&[0x0a, 0x0a, 0x13, 1]), &[1, 0]].concat());
        body.extend(extensions.map_or_else(Vec::new, vector16));
        let length = (body.len() as u32).to_be_bytes();
        [&[CLIENT_HELLO], &length[1..], &body].concat()
    }

    fn records(message: &[u8], length: usize) -> Vec<u8> {
        let record = |payload: &[u8]| [&[HANDSHAKE, 3, 1][..], &vector16(payload)].concat();
        message.chunks(length).flat_map(record).collect()
    }

    fn parse_one(extensions: &[&[u8]]) -> Hello {
        parse_hello(&records(&hello(Some(&extensions.concat())), MAX_RECORD))
    }

    fn sni(name: &str) -> Hello {
        Hello::Sni(Name::parse(name.as_bytes()).unwrap())
    }

    #[test]
    fn the_server_name_is_found() {
        let name = server_names(&["Registry.Example"]);
        assert_eq!(parse_one(&[&name]), sni("registry.example"));
        assert_eq!(parse_one(&[&grease(), &name, &grease()]), sni("registry.example"));
        assert_eq!(parse_one(&[&grease()]), Hello::NoSni);
        assert_eq!(parse_one(&[]), Hello::NoSni);
        assert_eq!(parse_hello(&records(&hello(None), MAX_RECORD)), Hello::NoSni);
    }

    #[test]
    fn every_prefix_needs_more() {
        let extensions = [grease(), server_names(&["registry.example"])].concat();
        let message = hello(Some(&extensions));
        for length in [1, 2, 3, 7, 100, message.len(), MAX_RECORD] {
            let wire = records(&message, length);
            for end in 0..wire.len() {
                assert_eq!(parse_hello(&wire[..end]), Hello::NeedMore, "{length} {end}");
            }
            assert_eq!(parse_hello(&wire), sni("registry.example"), "{length}");
            // Early data follows.
            let more = [&wire[..], &[23, 3, 3, 0, 1, 0]].concat();
            assert_eq!(parse_hello(&more), sni("registry.example"), "{length}");
        }
    }

    #[test]
    fn other_protocols_are_not_tls() {
        let rows: [&[u8]; 11] = [
            b"GET / HTTP/1.1\r\n",
            b"SSH-2.0-OpenSSH\r\n",
            b"\0",
            &[HANDSHAKE, 2],
            &[HANDSHAKE, 3, 5],
            &[HANDSHAKE, 3, 1, 0, 0],
            &[HANDSHAKE, 3, 1, 0x40, 1],
            &[HANDSHAKE, 3, 1, 0x41],
            // A ServerHello.
            &[HANDSHAKE, 3, 1, 0, 4, 2],
            // An alert.
            &[21, 3, 1, 0, 2, 1, 0],
            // SSL 2.
            &[0x80, 0x2e, 1, 0, 2],
        ];
        for wire in rows {
            assert_eq!(parse_hello(wire), Hello::NotTls, "{wire:?}");
        }
        // Another record within the message.
        let mut wire = records(&hello(Some(&server_names(&["a.example"]))), 50);
        wire.splice(55..55, [21, 3, 1, 0, 2, 1, 0]);
        assert_eq!(parse_hello(&wire), Hello::NotTls);
    }

    #[test]
    fn ambiguous_names_are_refused() {
        let malformed = Hello::Malformed;
        let one = server_names(&["a.example"]);
        let rows = [
            (malformed(HelloError::TwoNames), vec![server_names(&["a.example", "b.example"])]),
            (malformed(HelloError::TwoNames), vec![one.clone(), one.clone()]),
            (malformed(HelloError::TwoNames), vec![one.clone(), server_names(&["b.example"])]),
            (malformed(HelloError::Name), vec![server_names(&["127.0.0.1"])]),
            (malformed(HelloError::Name), vec![server_names(&["a.example\0.b.example"])]),
            (malformed(HelloError::Name), vec![server_names(&[""])]),
            (malformed(HelloError::Field), vec![server_names(&[])]),
            (malformed(HelloError::Field), vec![extension(0, &[])]),
            (malformed(HelloError::Field), vec![extension(0, &[0, 4, 1, 0, 1, b'a'])]),
            (malformed(HelloError::Field), vec![extension(0, &[0, 4, 0, 0, 1, b'a', 0])]),
            (malformed(HelloError::Field), vec![one.clone(), vec![0]]),
            (malformed(HelloError::Field), vec![one[..one.len() - 1].to_vec()]),
        ];
        for (expected, extensions) in rows {
            let extensions: Vec<&[u8]> = extensions.iter().map(Vec::as_slice).collect();
            assert_eq!(parse_one(&extensions), expected, "{extensions:?}");
        }
        // Bytes after the extensions.
        let mut message = hello(Some(&one));
        message.push(0);
        message[3] += 1;
        let wire = records(&message, MAX_RECORD);
        assert_eq!(parse_hello(&wire), malformed(HelloError::Field));
    }

    #[test]
    fn the_length_is_bounded() {
        let padding = |length: usize| extension(21, &vec![0; length]);
        let name = server_names(&["a.example"]);
        assert_eq!(parse_one(&[&padding(16_000), &name]), sni("a.example"));
        let long = hello(Some(&[padding(16_000), padding(17_000), name].concat()));
        let wire = records(&long, MAX_RECORD);
        let too_long = Hello::Malformed(HelloError::TooLong);
        // The message's own length is enough.
        assert_eq!(parse_hello(&wire[..20]), too_long);
        assert_eq!(parse_hello(&wire), too_long);
        // Headers of records count.
        let message = hello(Some(&[padding(8000), server_names(&["a.example"])].concat()));
        let wire = records(&message, 1);
        assert_eq!(parse_hello(&wire[..MAX_HELLO - 1]), Hello::NeedMore);
        assert_eq!(parse_hello(&wire[..MAX_HELLO]), too_long);
        assert_eq!(parse_hello(&wire), too_long);
    }
}
