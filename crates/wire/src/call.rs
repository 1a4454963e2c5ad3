//! Encoders of the client requests (`spec/toolexec.md#requests`).

use aifo_types::{Endpoint, ExecId, ExecRequest, Signal, Token};

use crate::form::encode_form;
use crate::invocation::encode_invocation;

/// One tool call of a version 1 or 2 client.
#[derive(Clone, Copy, Debug)]
pub struct ExecCall<'a> {
    /// The proxy address, for host and path.
    pub endpoint: &'a Endpoint,
    /// The session token.
    pub token: &'a Token,
    /// The id for signals to the call.
    pub id: &'a ExecId,
    /// The tool name as typed.
    pub tool: &'a [u8],
    /// The absolute current directory.
    pub cwd: &'a [u8],
    /// The arguments after the tool name.
    pub args: &'a [Vec<u8>],
}

impl ExecCall<'_> {
    /// Appends the request, head and body, for protocol version `proto` (1 or 2). It has a
    /// `Content-Length`: it is usually small enough for one write.
    pub fn encode(&self, proto: u8, out: &mut Vec<u8>) {
        let fields = [("tool", self.tool), ("cwd", self.cwd)];
        let args = self.args.iter().map(|arg| ("arg", arg.as_slice()));
        let body = encode_form(fields.into_iter().chain(args));
        let start = start_lines(self.endpoint, "exec", self.token);
        let head = format!(
            "{start}X-Aifo-Proto: {proto}\r\nTE: trailers\r\n{CONTENT_TYPE}Content-Length: {}\r\n\
             X-Aifo-Exec-Id: {}\r\nConnection: close\r\n\r\n",
            body.len(),
            self.id,
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&body);
    }
}

/// One tool call of a version 3 client.
#[derive(Clone, Copy, Debug)]
pub struct Upgrade<'a> {
    /// The proxy address, for host and path.
    pub endpoint: &'a Endpoint,
    /// The session token.
    pub token: &'a Token,
    /// The call.
    pub request: &'a ExecRequest,
}

impl Upgrade<'_> {
    /// Appends the request, head and body. The caller sends the passed descriptors with the first
    /// byte.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        encode_invocation(self.request, &mut body);
        let start = start_lines(self.endpoint, "exec", self.token);
        let head = format!(
            "{start}X-Aifo-Proto: 3\r\nConnection: Upgrade\r\nUpgrade: aifo-exec\r\n\
             Content-Length: {}\r\nX-Aifo-Exec-Id: {}\r\n\r\n",
            body.len(),
            self.request.id,
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&body);
    }
}

/// A question whether a tool may run where its caller is (`spec/exec3.md#in-place`).
#[derive(Clone, Copy, Debug)]
pub struct JudgeCall<'a> {
    /// The proxy address, for host and path.
    pub endpoint: &'a Endpoint,
    /// The session token.
    pub token: &'a Token,
    /// The call, without descriptors.
    pub request: &'a ExecRequest,
}

impl JudgeCall<'_> {
    /// Appends the request, head and body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        encode_invocation(self.request, &mut body);
        let start = start_lines(self.endpoint, "judge", self.token);
        let head = format!(
            "{start}X-Aifo-Proto: 3\r\nContent-Length: {}\r\nX-Aifo-Exec-Id: {}\r\n\r\n",
            body.len(),
            self.request.id,
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&body);
    }
}

/// Appends a request to send `signal` to the exec `id`.
pub fn encode_signal(
    out: &mut Vec<u8>,
    endpoint: &Endpoint,
    token: &Token,
    id: &ExecId,
    signal: Signal,
) {
    let id = id.as_str().as_bytes();
    let body = encode_form([("exec_id", id), ("signal", signal.name().as_bytes())]);
    push_short_request(out, endpoint, "signal", token, &body);
}

/// The waiting mode of a notification's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMode {
    /// The client waits for the response; disconnecting ends the command.
    Attached,
    /// The client disconnects at once (`detach=1`) and the command continues.
    Detached,
}

/// Appends a request to run a notification command on the host.
pub fn encode_notify(
    out: &mut Vec<u8>,
    endpoint: &Endpoint,
    token: &Token,
    command: &[u8],
    args: &[Vec<u8>],
    mode: ClientMode,
) {
    let detach = (mode == ClientMode::Detached).then_some(("detach", &b"1"[..]));
    let args = args.iter().map(|arg| ("arg", arg.as_slice()));
    let body = encode_form([("cmd", command)].into_iter().chain(detach).chain(args));
    push_short_request(out, endpoint, "notify", token, &body);
}

const CONTENT_TYPE: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

/// Appends a request with a buffered response.
fn push_short_request(
    out: &mut Vec<u8>,
    endpoint: &Endpoint,
    name: &str,
    token: &Token,
    body: &[u8],
) {
    let start = start_lines(endpoint, name, token);
    let head = format!(
        "{start}X-Aifo-Proto: 2\r\n{CONTENT_TYPE}Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len(),
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
}

fn start_lines(endpoint: &Endpoint, name: &str, token: &Token) -> String {
    let (path, host) = (endpoint.path(name), endpoint.host_header());
    format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\n", token.reveal())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_types::ToolName;

    #[test]
    fn requests_byte_for_byte() {
        let token = Token::parse("TOKEN").unwrap();
        let id = ExecId::parse(b"e1").unwrap();
        let unix: Endpoint = "unix:///run/aifo.sock".parse().unwrap();
        let tcp: Endpoint = "http://10.0.0.1:80/a/exec".parse().unwrap();

        let mut out = Vec::new();
        let args = [b"echo".to_vec(), b"a b".to_vec(), vec![]];
        let (tool, cwd) = (b"make", b"/workspace");
        let call = ExecCall { endpoint: &unix, token: &token, id: &id, tool, cwd, args: &args };
        call.encode(2, &mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "POST /exec HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\n\
             X-Aifo-Proto: 2\r\nTE: trailers\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 48\r\n\
             X-Aifo-Exec-Id: e1\r\nConnection: close\r\n\r\n\
             tool=make&cwd=%2Fworkspace&arg=echo&arg=a+b&arg=",
        );

        out.clear();
        let request = ExecRequest::new(id.clone(), ToolName::parse(b"make").unwrap());
        let call = Upgrade { endpoint: &tcp, token: &token, request: &request };
        call.encode(&mut out);
        assert_eq!(
            out.escape_ascii().to_string(),
            b"POST /a/exec HTTP/1.1\r\nHost: 10.0.0.1\r\nAuthorization: Bearer TOKEN\r\n\
              X-Aifo-Proto: 3\r\nConnection: Upgrade\r\nUpgrade: aifo-exec\r\n\
              Content-Length: 32\r\nX-Aifo-Exec-Id: e1\r\n\r\n\
              \0\0\0\x01\0\0\0\x04make\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x05\0"
                .escape_ascii()
                .to_string(),
        );

        out.clear();
        encode_signal(&mut out, &tcp, &token, &id, Signal::Int);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "POST /a/signal HTTP/1.1\r\nHost: 10.0.0.1\r\nAuthorization: Bearer TOKEN\r\n\
             X-Aifo-Proto: 2\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: 21\r\nConnection: close\r\n\r\nexec_id=e1&signal=INT",
        );
    }
}
