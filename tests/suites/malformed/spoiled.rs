//! Valid calls with one error each, and their responses.

use aifo_tests::Request;

use crate::malformed::random::Random;

/// The error, the allowed statuses, and the change to a valid call.
pub(crate) type Spoil = (&'static str, &'static [u16], fn(Request, &mut Random) -> Vec<u8>);

pub(crate) const SPOILED: &[Spoil] = &[
    ("method", &[405], |call, _| call.line("PUT /exec HTTP/1.1").encode()),
    ("path", &[404], |call, _| call.line("POST /exec/ HTTP/1.1").encode()),
    ("HTTP version", &[400], |call, _| call.line("POST /exec HTTP/2.0").encode()),
    ("no token", &[401], |call, _| call.without("Authorization").encode()),
    ("empty token", &[401], |call, _| call.with("Authorization", "Bearer ").encode()),
    ("protocol version", &[426], |call, random| {
        call.proto(random.pick(&["", "0", "9", "+2", "2.0", "1, 2"])).encode()
    }),
    ("length", &[400], |call, random| {
        let lengths = ["", "+9", "-1", "9, 9", "0x9", "9.0", "nine", "9 9", "\u{669}"];
        call.header("Content-Length", random.pick(&lengths)).encode()
    }),
    ("body shorter than its length", &[400], |call, random| {
        let length = call.encode_body().len() + 1 + random.below(1000);
        call.header("Content-Length", length.to_string()).encode()
    }),
    ("two lengths", &[400], |call, _| {
        let length = call.encode_body().len();
        let call = call.header("Content-Length", length.to_string());
        call.header("Content-Length", (length + 1).to_string()).encode()
    }),
    ("coding", &[400], |call, random| {
        let codings = ["gzip", "gzip, chunked", "chunked, gzip", "identity", "chunked;q=1"];
        call.header("Transfer-Encoding", random.pick(&codings)).encode()
    }),
    ("chunk size", &[400], |call, random| {
        let size = call.encode_body().len();
        let line = random.pick(&["\r\n", ";x", "+", "-", "0x", " ", "g", "\0"]);
        chunked(call, &format!("{line}{size:x}\r\n"), "\r\n0\r\n\r\n")
    }),
    ("chunk longer than its size", &[400], |call, random| {
        let size = random.below(call.encode_body().len() - 4) + 1;
        chunked(call, &format!("{size:x}\r\n"), "\r\n0\r\n\r\n")
    }),
    ("no last chunk", &[400], |call, random| {
        let size = call.encode_body().len();
        let ends = ["", "\r\n", "\r\n0", "\r\n0\r\n", "\r\n0\r\nX: y\r\n", "\r\n\r\n\r\n"];
        chunked(call, &format!("{size:x}\r\n"), random.pick(&ends))
    }),
    ("NUL in the head", &[400], |call, random| {
        let mut bytes = call.encode();
        bytes.insert(random.below(call.encode_head().len() - 4), 0);
        bytes
    }),
    ("tool", &[400], |call, random| {
        call.field("tool", random.pick(&["", ".", "..", "/bin/make", "a/b", "\n"])).encode()
    }),
    ("tool of no kind", &[403], |call, random| {
        call.field("tool", random.pick(&["ls", "sh", "MAKE", "make ", "make.exe"])).encode()
    }),
    ("tool that is not there", &[409], |call, random| {
        call.field("tool", random.pick(&["cmake", "node", "clang++"])).encode()
    }),
    ("directory", &[400], |call, random| {
        let places = ["src", "/", "/etc", "../..", "/nowhere", "/dev/null", "/proc/self/root"];
        call.field("cwd", random.pick(&places)).encode()
    }),
    ("NUL in an argument", &[400], |call, _| call.field("arg", "a\0b").encode()),
    ("exec id", &[400], |call, random| {
        let too_long = "x".repeat(65);
        call.id(random.pick(&["", "/", "a b", "\u{e9}", &too_long])).encode()
    }),
];

/// The same for large requests.
pub(crate) const OVERSIZE: &[Spoil] = &[
    ("headers", &[431], |call, _| {
        (0..1100).fold(call, |call, _| call.header("X-More", "y")).encode()
    }),
    ("head", &[431], |call, _| call.header("X-Long", "y".repeat(70_000)).encode()),
    ("body", &[413], |call, _| call.field("pad", "x".repeat(1 << 20)).encode()),
    ("chunks", &[413], |call, _| {
        let call = call.field("pad", "x".repeat(1 << 20));
        let size = call.encode_body().len();
        chunked(call, &format!("{size:x}\r\n"), "\r\n0\r\n\r\n")
    }),
];

/// The call with a chunked body between these bytes.
fn chunked(call: Request, before: &str, after: &str) -> Vec<u8> {
    let body = [before.as_bytes(), call.encode_body(), after.as_bytes()].concat();
    call.header("Transfer-Encoding", "chunked").body(body).encode()
}
