//! A provider on TLS that checks the key.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use aifo_tests::{Scratch, program};

/// The real key. No container may ever have it.
pub(crate) const KEY: &str = "sk-real-4f9d1c77a0be4e51b1d2";

/// Answers every POST with the verdict on its key.
const SERVER: &str = r#"
import http.server, json, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_POST(self):
        self.rfile.read(int(self.headers.get('content-length') or 0))
        right = self.headers['authorization'] == 'Bearer ' + sys.argv[3]
        usage = {'prompt_tokens': 3, 'completion_tokens': 4}
        body = json.dumps({'right_key': right, 'usage': usage}).encode()
        self.send_response(200)
        self.send_header('content-type', 'application/json')
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

pub(crate) struct ModelServer {
    port: u16,
    certificate: PathBuf,
    server: Child,
    _scratch: Scratch,
}

impl ModelServer {
    /// `None` if a program is missing; the test is skipped then.
    pub(crate) fn start(test: &str) -> Option<Self> {
        for needed in ["openssl", "python3"] {
            if program(needed).is_none() {
                eprintln!("skipped: {test}: {needed} is missing");
                return None;
            }
        }
        let scratch = Scratch::new();
        let file = |name: &str| scratch.path().join(name);
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost", "-keyout"])
            .arg(file("key.pem"))
            .arg("-out")
            .arg(file("certificate.pem"))
            .stderr(Stdio::null())
            .status();
        assert!(made.unwrap().success());
        let mut server = Command::new("python3")
            .args(["-c", SERVER])
            .args([file("certificate.pem"), file("key.pem")])
            .arg(KEY)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        let certificate = fs::canonicalize(file("certificate.pem")).unwrap();
        Some(ModelServer { port, certificate, server, _scratch: scratch })
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}/v1", self.port)
    }

    /// Gives a launcher the key and the provider URL.
    pub(crate) fn configure(&self, run: &mut Command) {
        run.env("OPENAI_API_KEY", KEY).env("OPENAI_BASE_URL", self.url());
        run.env("SSL_CERT_FILE", &self.certificate);
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
