//! Encoders of the server's responses (`spec/toolexec.md#responses`).

use aifo_types::{ExecId, FileId, Refusal, Status, exit};

use crate::exit::SidecarLimit;

/// The interim response to `Expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Appends an interim response with one line of text, the cause of the final one's delay.
pub fn encode_progress(out: &mut Vec<u8>, text: &str) {
    push(out, format_args!("HTTP/1.1 102 Processing\r\nX-Aifo-Progress: {text}\r\n\r\n"));
}

/// Appends an interim response to a call that waits for a user's approval (`spec/questions.md#waiting`).
/// `text` is one line.
pub fn encode_approval(out: &mut Vec<u8>, text: &str) {
    push(out, format_args!("HTTP/1.1 102 Processing\r\nX-Aifo-Approval: {text}\r\n\r\n"));
}

/// Appends a complete plain response. `exit_code` is `None` if no tool is involved.
pub fn encode_response(
    out: &mut Vec<u8>,
    status: Status,
    exit_code: Option<u8>,
    exec_id: Option<&ExecId>,
    body: &[u8],
) {
    encode_response_head(out, status, exit_code, None, exec_id, body.len() as u64);
    out.extend_from_slice(body);
}

/// Appends the head of a plain response whose body of `content_length` bytes is sent separately.
/// `limit` is a sidecar limit that was hit while the tool ran.
pub fn encode_response_head(
    out: &mut Vec<u8>,
    (code, phrase): Status,
    exit_code: Option<u8>,
    limit: Option<SidecarLimit>,
    exec_id: Option<&ExecId>,
    content_length: u64,
) {
    push(out, format_args!("HTTP/1.1 {code} {phrase}\r\n{CONTENT_TYPE}"));
    if let Some(exit_code) = exit_code {
        push(out, format_args!("X-Exit-Code: {exit_code}\r\n"));
    }
    push(out, format_args!("Content-Length: {content_length}\r\nConnection: close\r\n"));
    push_exec_id(out, exec_id);
    if let Some(limit) = limit {
        push_limit(out, limit);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the response for a refusal.
pub fn encode_refusal(out: &mut Vec<u8>, refusal: &Refusal, exec_id: Option<&ExecId>) {
    let body = refusal.body();
    encode_response(out, refusal.status(), Some(refusal.exit_code()), exec_id, body.as_bytes());
}

/// Appends the response to a delivered signal.
pub fn encode_no_content(out: &mut Vec<u8>) {
    encode_response(out, (204, "No Content"), None, None, b"");
}

/// Appends the response to a call that its client may run itself, in `directory` if a user was asked about it.
pub fn encode_run_in_place(out: &mut Vec<u8>, directory: Option<FileId>, exec_id: Option<&ExecId>) {
    out.extend_from_slice(RUN_IN_PLACE);
    push_directory(out, directory);
    push_exec_id(out, exec_id);
    out.extend_from_slice(b"\r\n");
}

/// As [`encode_run_in_place`], without network.
pub fn encode_run_without_network(
    out: &mut Vec<u8>,
    directory: Option<FileId>,
    exec_id: Option<&ExecId>,
) {
    out.extend_from_slice(
        b"HTTP/1.1 204 No Content\r\nX-Aifo-Run: in-place-without-network\r\nConnection: close\r\n",
    );
    push_directory(out, directory);
    push_exec_id(out, exec_id);
    out.extend_from_slice(b"\r\n");
}

/// The beginning of [`encode_run_in_place`].
const RUN_IN_PLACE: &[u8] =
    b"HTTP/1.1 204 No Content\r\nX-Aifo-Run: in-place\r\nConnection: close\r\n";

/// Returns whether these bytes are the whole response that [`encode_run_in_place`] writes, without a
/// parser of HTTP.
pub fn is_run_in_place(bytes: &[u8]) -> bool {
    let rest = bytes.strip_prefix(RUN_IN_PLACE);
    let rest = rest.and_then(|rest| rest.strip_suffix(b"\r\n"));
    let line = |rest: &[u8]| rest.strip_prefix(EXEC_ID).is_some_and(|id| id.ends_with(b"\r\n"));
    rest.is_some_and(|rest| rest.is_empty() || line(rest))
}

/// Appends the head of a version 2 response. Chunks follow ([`encode_chunk`](crate::encode_chunk)),
/// then [`encode_stream_end`]; without it the client treats the exit status as unknown.
pub fn encode_stream_head(out: &mut Vec<u8>, exec_id: Option<&ExecId>) {
    push(out, format_args!("HTTP/1.1 200 OK\r\n{CONTENT_TYPE}"));
    out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    out.extend_from_slice(b"Trailer: X-Exit-Code\r\nConnection: close\r\n");
    push_exec_id(out, exec_id);
    out.extend_from_slice(b"\r\n");
}

/// Appends the last chunk and the trailer with the exit code.
pub fn encode_stream_end(out: &mut Vec<u8>, exit_code: u8) {
    push(out, format_args!("0\r\nX-Exit-Code: {exit_code}\r\n\r\n"));
}

/// Appends the last chunk, a trailer with the sidecar limit that was hit while the tool ran, and a
/// trailer with the exit code. The exit code is last: older clients read the last header line.
pub fn encode_stream_end_limited(out: &mut Vec<u8>, limit: SidecarLimit, exit_code: u8) {
    out.extend_from_slice(b"0\r\n");
    push_limit(out, limit);
    push(out, format_args!("X-Exit-Code: {exit_code}\r\n\r\n"));
}

/// Appends the last chunk and trailers for an unknown exit status; the exit code is last.
pub fn encode_stream_end_unknown(out: &mut Vec<u8>) {
    let code = exit::UNKNOWN;
    push(out, format_args!("0\r\nX-Aifo-Ending: unknown\r\nX-Exit-Code: {code}\r\n\r\n"));
}

/// Appends the response to a version 3 request whose tool has started. Frames follow.
pub fn encode_upgrade_head(out: &mut Vec<u8>, exec_id: Option<&ExecId>) {
    out.extend_from_slice(UPGRADE_HEAD);
    push_exec_id(out, exec_id);
    out.extend_from_slice(b"\r\n");
}

/// The beginning of a connection's bytes, compared with [`encode_upgrade_head`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpgradeHead {
    /// The complete head, of this length in bytes.
    Complete(usize),
    /// A part of the head.
    Incomplete,
    /// Another response, or the same one in other words.
    Other,
}

/// Recognizes the head that [`encode_upgrade_head`] writes, without a parser of HTTP.
pub(crate) fn match_upgrade_head(bytes: &[u8]) -> UpgradeHead {
    let Some(rest) = bytes.strip_prefix(UPGRADE_HEAD) else {
        let is_part = UPGRADE_HEAD.starts_with(bytes);
        return if is_part { UpgradeHead::Incomplete } else { UpgradeHead::Other };
    };
    let length = |rest: &[u8]| bytes.len().saturating_sub(rest.len());
    if let Some(rest) = rest.strip_prefix(b"\r\n") {
        return UpgradeHead::Complete(length(rest));
    }
    let Some(id) = rest.strip_prefix(EXEC_ID) else {
        let is_part = EXEC_ID.starts_with(rest) || b"\r\n".starts_with(rest);
        return if is_part { UpgradeHead::Incomplete } else { UpgradeHead::Other };
    };
    let end = id.iter().position(|byte| *byte == b'\r').unwrap_or(id.len());
    let (id, rest) = id.split_at_checked(end).unwrap_or_default();
    if let Some(rest) = rest.strip_prefix(b"\r\n\r\n") {
        return match ExecId::parse(id) {
            Ok(_) => UpgradeHead::Complete(length(rest)),
            Err(_) => UpgradeHead::Other,
        };
    }
    let is_part = id.len() <= ExecId::MAX_LEN && b"\r\n\r\n".starts_with(rest);
    if is_part { UpgradeHead::Incomplete } else { UpgradeHead::Other }
}

const UPGRADE_HEAD: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\n\
      Connection: Upgrade\r\nUpgrade: aifo-exec\r\n";
const EXEC_ID: &[u8] = b"X-Exec-Id: ";

const CONTENT_TYPE: &str = "Content-Type: text/plain; charset=utf-8\r\n";

fn push_limit(out: &mut Vec<u8>, limit: SidecarLimit) {
    push(out, format_args!("X-Aifo-Limit: {}\r\n", limit.as_str()));
}

fn push_directory(out: &mut Vec<u8>, directory: Option<FileId>) {
    if let Some(FileId { device, inode }) = directory {
        push(out, format_args!("X-Aifo-Directory: {device}:{inode}\r\n"));
    }
}

fn push_exec_id(out: &mut Vec<u8>, exec_id: Option<&ExecId>) {
    if let Some(id) = exec_id {
        push(out, format_args!("X-Exec-Id: {id}\r\n"));
    }
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.extend_from_slice(text.to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response_head::ResponseHead;

    #[track_caller]
    fn check(encode: impl Fn(&mut Vec<u8>), expected: &str) {
        let mut out = b"before".to_vec();
        encode(&mut out);
        assert_eq!(String::from_utf8_lossy(&out), format!("before{expected}"));
    }

    #[test]
    fn the_permission_to_run_in_place_is_recognised_whole() {
        let id = ExecId::parse(b"e1").unwrap();
        for id in [None, Some(&id)] {
            let mut out = Vec::new();
            encode_run_in_place(&mut out, None, id);
            assert!(is_run_in_place(&out));
            for cut in 0..out.len() {
                assert!(!is_run_in_place(&out[..cut]), "{cut}");
            }
            out.push(b'x');
            assert!(!is_run_in_place(&out));
        }
        for encode in
            [encode_no_content, |out: &mut Vec<u8>| encode_run_without_network(out, None, None)]
        {
            let mut other = Vec::new();
            encode(&mut other);
            assert!(!is_run_in_place(&other));
        }
    }

    #[test]
    fn the_directory_of_a_permission_is_read_by_the_parser() {
        let directory = Some(FileId { device: 3, inode: u64::MAX });
        for encode in [encode_run_in_place, encode_run_without_network] {
            let mut out = Vec::new();
            encode(&mut out, directory, None);
            assert!(!is_run_in_place(&out));
            let (head, _) = ResponseHead::parse(&out, 8).unwrap();
            assert_eq!(head.directory, directory);
        }
    }

    #[test]
    fn responses_byte_for_byte() {
        let id = ExecId::parse(b"e1").unwrap();
        check(
            |out| encode_response(out, (200, "OK"), Some(3), Some(&id), b"hello\n"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nX-Exit-Code: 3\r\n\
             Content-Length: 6\r\nConnection: close\r\nX-Exec-Id: e1\r\n\r\nhello\n",
        );
        check(
            |out| encode_refusal(out, &Refusal::Unauthorized, None),
            "HTTP/1.1 401 Unauthorized\r\nContent-Type: text/plain; charset=utf-8\r\n\
             X-Exit-Code: 86\r\nContent-Length: 13\r\nConnection: close\r\n\r\nunauthorized\n",
        );
        check(
            encode_no_content,
            "HTTP/1.1 204 No Content\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n",
        );
        check(
            |out| encode_run_in_place(out, None, Some(&id)),
            "HTTP/1.1 204 No Content\r\nX-Aifo-Run: in-place\r\nConnection: close\r\n\
             X-Exec-Id: e1\r\n\r\n",
        );
        check(
            |out| encode_run_without_network(out, None, Some(&id)),
            "HTTP/1.1 204 No Content\r\nX-Aifo-Run: in-place-without-network\r\n\
             Connection: close\r\nX-Exec-Id: e1\r\n\r\n",
        );
        check(
            |out| encode_stream_head(out, Some(&id)),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Transfer-Encoding: chunked\r\nTrailer: X-Exit-Code\r\nConnection: close\r\n\
             X-Exec-Id: e1\r\n\r\n",
        );
        check(
            |out| encode_stream_head(out, None),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Transfer-Encoding: chunked\r\nTrailer: X-Exit-Code\r\nConnection: close\r\n\r\n",
        );
        check(
            |out| encode_upgrade_head(out, Some(&id)),
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: aifo-exec\r\n\
             X-Exec-Id: e1\r\n\r\n",
        );
        check(
            |out| encode_progress(out, "starting the rust sidecar"),
            "HTTP/1.1 102 Processing\r\nX-Aifo-Progress: starting the rust sidecar\r\n\r\n",
        );
        check(|out| encode_stream_end(out, 255), "0\r\nX-Exit-Code: 255\r\n\r\n");
        check(
            |out| encode_stream_end_limited(out, SidecarLimit::Processes, 2),
            "0\r\nX-Aifo-Limit: processes\r\nX-Exit-Code: 2\r\n\r\n",
        );
        check(
            |out| {
                let limit = Some(SidecarLimit::Memory);
                encode_response_head(out, (200, "OK"), Some(137), limit, Some(&id), 0);
            },
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\
             X-Exit-Code: 137\r\nContent-Length: 0\r\nConnection: close\r\n\
             X-Exec-Id: e1\r\nX-Aifo-Limit: memory\r\n\r\n",
        );
        check(encode_stream_end_unknown, "0\r\nX-Aifo-Ending: unknown\r\nX-Exit-Code: 125\r\n\r\n");
    }
}
