//! A version 1 call without a client program.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::call::{Tool, count, expect_bytes};
use crate::serve::Serve;

/// Reads this much output from a version 1 response.
pub(super) fn download(serve: &Serve, workspace: &Path, bytes: u64) -> Result<()> {
    let tool = Tool::Output(bytes);
    let mut body = format!(
        "tool={}&cwd={}",
        tool.name(),
        percent_encoded(workspace.to_str().context("a path of text")?)
    );
    for arg in tool.args() {
        body += &format!("&arg={}", percent_encoded(&arg));
    }
    let mut stream = UnixStream::connect(serve.socket()?)?;
    write!(
        stream,
        "POST /exec HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         X-Aifo-Proto: 1\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        serve.token(),
        body.len()
    )?;
    let mut answer = BufReader::new(stream);
    let head = read_head(&mut answer)?;
    if !head.to_ascii_lowercase().contains("\r\nx-exit-code: 0\r\n") {
        bail!("unexpected version 1 response:\n{head}");
    }
    expect_bytes(bytes, count(answer)?)
}

/// Reads the status line and headers, with the empty line after them.
fn read_head(answer: &mut impl BufRead) -> Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if answer.read_line(&mut head)? == 0 {
            bail!("the response ended within its head:\n{head}");
        }
    }
    Ok(head)
}

fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
    let encode = |byte| match byte {
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_ends_where_the_body_begins() {
        let mut answer = &b"HTTP/1.1 200 OK\r\nX-Exit-Code: 0\r\n\r\n\0\0"[..];
        let head = read_head(&mut answer).unwrap();
        assert!(head.ends_with("X-Exit-Code: 0\r\n\r\n"));
        assert_eq!(count(answer).unwrap(), 2);
        assert!(read_head(&mut &b"HTTP/1.1 200 OK\r\n"[..]).is_err());
    }

    #[test]
    fn paths_survive_a_form() {
        assert_eq!(percent_encoded("/tmp/a b&c+ä"), "/tmp/a%20b%26c%2B%C3%A4");
    }
}
