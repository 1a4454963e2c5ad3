//! A strict parser of HTTP responses.

/// A complete response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Every received byte.
    pub raw: Vec<u8>,
    /// `HTTP/1.1 200 OK`
    pub status_line: String,
    /// Names as sent, in order.
    pub headers: Vec<(String, String)>,
    /// The body, without chunk framing.
    pub body: Vec<u8>,
    /// The fields after the last chunk.
    pub trailers: Vec<(String, String)>,
}

impl Answer {
    /// Parses a complete response without trailing bytes.
    ///
    /// Lines end in CRLF and a chunk size is plain hex: a server must be stricter in what it sends
    /// than in what it accepts.
    pub fn parse(raw: &[u8]) -> Result<Self, String> {
        let mut rest = raw;
        let status_line = text(line(&mut rest)?)?;
        let headers = fields(&mut rest)?;
        let mut answer = Answer {
            raw: raw.to_vec(),
            status_line,
            headers,
            body: Vec::new(),
            trailers: Vec::new(),
        };
        if answer.header("Transfer-Encoding") == Some("chunked") {
            answer.body = chunks(&mut rest)?;
            answer.trailers = fields(&mut rest)?;
        } else {
            let length = answer.header("Content-Length").ok_or("no length")?;
            let length = length.parse().map_err(|_| format!("invalid length '{length}'"))?;
            answer.body = take(&mut rest, length)?.to_vec();
        }
        match rest {
            [] => Ok(answer),
            _ => Err(format!("{} bytes after the response", rest.len())),
        }
    }

    /// The status code, 0 if the status line has none.
    pub fn status(&self) -> u16 {
        self.status_line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    /// The value of a header, case-insensitively.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// The value of a trailer.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        find(&self.trailers, name)
    }

    /// `X-Exit-Code`, from the head or the trailer.
    pub fn exit_code(&self) -> Option<&str> {
        self.trailer("X-Exit-Code").or_else(|| self.header("X-Exit-Code"))
    }

    /// The body as text, lossily.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn find<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|field| field.0.eq_ignore_ascii_case(name)).map(|field| &*field.1)
}

fn fields(rest: &mut &[u8]) -> Result<Vec<(String, String)>, String> {
    let mut fields = Vec::new();
    loop {
        let line = text(line(rest)?)?;
        if line.is_empty() {
            return Ok(fields);
        }
        let (name, value) =
            line.split_once(": ").ok_or_else(|| format!("invalid field: '{line}'"))?;
        fields.push((name.to_owned(), value.to_owned()));
    }
}

fn chunks(rest: &mut &[u8]) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let size = text(line(rest)?)?;
        let bare = !size.is_empty() && size.bytes().all(|b| b.is_ascii_hexdigit());
        let size = usize::from_str_radix(&size, 16)
            .ok()
            .filter(|_| bare)
            .ok_or_else(|| format!("invalid chunk size '{size}'"))?;
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(take(rest, size)?);
        if !line(rest)?.is_empty() {
            return Err("a chunk is longer than its size".to_owned());
        }
    }
}

fn line<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n").ok_or("cut off in a line")?;
    let line = take(rest, end)?;
    take(rest, 2)?;
    Ok(line)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (taken, left) = rest.split_at_checked(count).ok_or("cut off in the body")?;
    *rest = left;
    Ok(taken)
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| format!("not text: {:?}", bytes.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        6\r\nhello\n\r\n0\r\nX-Exit-Code: 3\r\n\r\n";
    const PLAIN: &[u8] =
        b"HTTP/1.1 404 Not Found\r\nX-Exit-Code: 86\r\nContent-Length: 2\r\n\r\nno";

    #[test]
    fn whole_answers() {
        let stream = Answer::parse(STREAM).unwrap();
        assert_eq!((stream.status(), stream.text().as_str()), (200, "hello\n"));
        assert_eq!((stream.exit_code(), stream.header("X-Exit-Code")), (Some("3"), None));
        let plain = Answer::parse(PLAIN).unwrap();
        assert_eq!((plain.status(), plain.text().as_str()), (404, "no"));
        assert_eq!(plain.exit_code(), Some("86"));
    }

    #[test]
    fn every_cut_and_every_surplus_is_noticed() {
        for whole in [STREAM, PLAIN] {
            for end in 0..whole.len() {
                assert!(Answer::parse(&whole[..end]).is_err(), "cut at {end}");
            }
            assert!(Answer::parse(&[whole, b"x"].concat()).is_err());
        }
    }
}
