//! curl as a client, with the options of existing shell shims.
//!
//! Such a shim streams the body to its stdout and reads `X-Exit-Code` from the end of the file of
//! `-D`. Without curl these tests are reported as skipped.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use aifo_tests::{
    Listen, Outcome, Running, Session, SessionSetup, Signal, eventually, fresh_id, send_signal,
    tagged_processes,
};

const TRANSPORTS: [Listen; 2] = [Listen::Default, Listen::Tcp];

#[test]
fn output_and_exit_code_cross() {
    for session in sessions() {
        for code in ["0", "3", "255"] {
            let call = Curl::exec(&session, "make", &["exit", code]);
            assert_eq!(call.finish(), (String::new(), code.to_owned()));
        }
        let call = Curl::exec(&session, "make", &["say", "a b", "", "c=&%+@", "\"'\\"]);
        assert_eq!(call.finish(), ("a b  c=&%+@ \"'\\\n".to_owned(), "0".to_owned()));
        let call = Curl::exec(&session, "make", &["both", "2"]);
        assert_eq!(call.finish().0, "out 0\nerr 0\nout 1\nerr 1\n", "merged as written");
    }
}

#[test]
fn the_exit_code_is_the_last_line_of_the_header_file() {
    for session in sessions() {
        let call = Curl::exec(&session, "make", &["exit", "7"]).id("e1");
        let headers = call.headers_after_its_end();
        let expected = [
            "HTTP/1.1 200 OK",
            "Content-Type: text/plain; charset=utf-8",
            "Transfer-Encoding: chunked",
            "Trailer: X-Exit-Code",
            "Connection: close",
            "X-Exec-Id: e1",
            "",
            "X-Exit-Code: 7",
        ];
        assert_eq!(headers, expected);
    }
}

#[test]
fn output_is_there_before_the_tool_ends() {
    for session in sessions() {
        let go = session.file("go");
        let mut call = Curl::exec(&session, "make", &["hold", &go]);
        let running = call.start();
        running.expect("first\n");
        fs::write(&go, "").unwrap();
        assert_eq!(running.finish().exited(0).text(), "first\nsecond\n");
        assert_eq!(call.exit_code(), "0");
    }
}

#[test]
fn version_1_tells_its_exit_code_in_the_head() {
    for session in sessions() {
        let call = Curl::exec(&session, "make", &["both", "1"]).header("X-Aifo-Proto: 1");
        let headers = call.headers_after_its_end();
        let expected = [
            "HTTP/1.1 200 OK",
            "Content-Type: text/plain; charset=utf-8",
            "X-Exit-Code: 0",
            "Content-Length: 12",
            "Connection: close",
            "",
        ];
        assert_eq!(headers, expected);
    }
}

#[test]
fn refusals_are_read_as_every_answer() {
    for session in sessions() {
        let other_token = Curl::exec(&session, "make", &["say"]).header("Authorization: Bearer x");
        let other_version = Curl::exec(&session, "make", &["say"]).header("X-Aifo-Proto: 9");
        let rows = [
            (other_token, "unauthorized\n"),
            (other_version, "Unsupported shim protocol; expected 1 or 2\n"),
            (Curl::exec(&session, "ls", &[]), "forbidden: tool 'ls'"),
            (Curl::exec(&session, "cmake", &[]), "tool 'cmake' not available"),
            (Curl::to(&session, "elsewhere").field("arg", "x"), "not found\n"),
        ];
        for (call, body) in rows {
            let (said, code) = call.finish();
            assert!(said.starts_with(body), "{said}");
            assert_eq!(code, "86", "{body}");
        }
    }
}

#[test]
fn a_signal_by_curl_ends_a_call_by_curl() {
    for session in sessions() {
        let id = fresh_id();
        let mut call = Curl::exec(&session, "make", &["wait"]).id(&id);
        let running = call.start();
        running.expect("ready\n");
        let signal = Curl::to(&session, "signal").field("exec_id", &id).field("signal", "INT");
        assert_eq!(signal.headers_after_its_end()[0], "HTTP/1.1 204 No Content");
        running.finish().exited(0);
        assert_eq!(call.exit_code(), "130");
    }
}

/// curl waits for `100 Continue` before large bodies; here for any body.
#[test]
fn a_body_goes_out_when_it_is_invited() {
    for session in sessions() {
        let word = "x".repeat(5000);
        let call = Curl::exec(&session, "make", &["say", &word]).header("Expect: 100-continue");
        let headers = call.headers_after_its_end();
        assert_eq!(headers[..3], ["HTTP/1.1 100 Continue", "", "HTTP/1.1 200 OK"]);
        let refused = Curl::exec(&session, "make", &["say", &word])
            .header("Expect: 100-continue")
            .header("X-Aifo-Proto: 9");
        let headers = refused.headers_after_its_end();
        assert_eq!(headers[0], "HTTP/1.1 426 Upgrade Required", "not invited");
    }
}

#[test]
fn bytes_arrive_as_they_are() {
    for session in sessions() {
        let every_byte: Vec<u8> = (1..=255).collect();
        let file = session.file("bytes");
        fs::write(&file, &every_byte).unwrap();
        let length = "Content-Type: application/x-www-form-urlencoded";
        for framing in [length, "Transfer-Encoding: chunked"] {
            let call = Curl::exec(&session, "make", &["args"]).header(framing);
            let mut call = call.field_from("arg", &file);
            let outcome = call.start().finish();
            assert_eq!(outcome.exited(0).stdout, [&every_byte[..], b"\0"].concat(), "{framing}");
        }
    }
}

#[test]
fn a_body_of_most_of_a_mib_arrives() {
    for session in sessions() {
        let large = "y".repeat(100 * 1024);
        let file = session.file("large");
        fs::write(&file, &large).unwrap();
        let call = Curl::exec(&session, "make", &["args"]);
        let call = (0..9).fold(call, |call, _| call.field_from("arg", &file));
        assert_eq!(call.finish(), (format!("{large}\0").repeat(9), "0".to_owned()));
    }
}

#[test]
fn a_curl_that_is_interrupted_takes_its_tool_along() {
    for session in sessions() {
        let id = fresh_id();
        let mut call = Curl::exec(&session, "make", &["wait"]).id(&id);
        let running = call.start();
        running.expect("ready\n");
        running.signal(Signal::SIGINT);
        assert_ne!(running.finish().code(), Some(0));
        eventually("nothing of the exec is left", || tagged_processes(&id).is_empty());
    }
}

/// Without the trailer a shim falls back to 1, and curl itself fails.
#[test]
fn a_stream_that_is_cut_off_is_no_success() {
    for session in sessions() {
        let mut call = Curl::exec(&session, "make", &["wait"]);
        let running = call.start();
        running.expect("ready\n");
        send_signal(session.pid(), Signal::SIGKILL);
        assert_ne!(running.finish().code(), Some(0));
        assert!(!call.headers().iter().any(|line| line.starts_with("X-Exit-Code")));
    }
}

/// A session per transport; none without curl.
fn sessions() -> impl Iterator<Item = Session> {
    let there = Command::new("curl").arg("--version").output().is_ok();
    if !there {
        // Not `eprintln!`, which the test harness captures.
        let _ = writeln!(io::stderr(), "skipped: curl is not installed");
    }
    let listen = TRANSPORTS.into_iter().filter(move |_| there);
    listen.map(|listen| SessionSetup::new().listen(listen).start())
}

/// A run of curl.
struct Curl {
    command: Command,
    /// The file of `-D`.
    header_file: String,
}

impl Curl {
    /// A version 2 request with credentials, as the shell shim sends it.
    fn to(session: &Session, endpoint: &str) -> Self {
        let header_file = session.file(&format!("h-{}", fresh_id()));
        let mut command = Command::new("curl");
        command.args(["-sS", "--no-buffer", "-D", &header_file]);
        // The machine's proxies must not be used for loopback.
        command.args(["--noproxy", "*"]);
        match session.url().strip_prefix("unix://") {
            Some(path) => {
                command.args(["--unix-socket", path]).arg(format!("http://localhost/{endpoint}"));
            }
            None => {
                command.arg(session.url().replace("/exec", &format!("/{endpoint}")));
            }
        }
        let token = format!("Authorization: Bearer {}", session.token());
        Curl { command, header_file }
            .header(&token)
            .header("X-Aifo-Proto: 2")
            .header("TE: trailers")
    }

    /// A call of a tool in the workspace.
    fn exec(session: &Session, tool: &str, args: &[&str]) -> Self {
        let call = Curl::to(session, "exec").field("tool", tool).field("cwd", session.workspace());
        args.iter().fold(call, |call, arg| call.field("arg", arg))
    }

    fn field(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        let pair = [key.as_bytes(), b"=", value.as_ref().as_bytes()].concat();
        self.command.arg("--data-urlencode").arg(OsStr::from_bytes(&pair));
        self
    }

    /// A field with the content of a file.
    fn field_from(mut self, key: &str, file: &str) -> Self {
        self.command.arg("--data-urlencode").arg(format!("{key}@{file}"));
        self
    }

    /// Adds a header. The last one of a name counts, so it also replaces.
    fn header(mut self, line: &str) -> Self {
        self.command.args(["-H", line]);
        self
    }

    fn id(self, id: &str) -> Self {
        self.header(&format!("X-Aifo-Exec-Id: {id}"))
    }

    #[track_caller]
    fn start(&mut self) -> Running {
        Running::start(&mut self.command)
    }

    /// Stdout, and the exit code in the header file.
    #[track_caller]
    fn finish(mut self) -> (String, String) {
        let outcome = Outcome::of(&mut self.command);
        assert_eq!(outcome.exited(0).stderr, "");
        (outcome.text(), self.exit_code())
    }

    #[track_caller]
    fn headers_after_its_end(mut self) -> Vec<String> {
        Outcome::of(&mut self.command).exited(0);
        self.headers()
    }

    /// The lines of the header file, with trailers at the end.
    fn headers(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.header_file).unwrap_or_default();
        text.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect()
    }

    /// The exit code of a shell shim.
    fn exit_code(&self) -> String {
        let headers = self.headers();
        let mut codes = headers.iter().filter_map(|line| line.strip_prefix("X-Exit-Code: "));
        codes.next_back().unwrap_or("1").to_owned()
    }
}
