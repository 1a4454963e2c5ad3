//! The stack and the servers of the tests of programs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::stack::ServedStack;

/// No program takes longer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// The stack and the servers of all tests.
pub(crate) struct World {
    pub(crate) stack: ServedStack,
    pub(crate) dir: PathBuf,
    _server: Child,
    _scratch: tempfile::TempDir,
}

/// Returns the world; an error if this user cannot create one.
pub(crate) fn world() -> Result<&'static World, &'static String> {
    static WORLD: OnceLock<Result<World, String>> = OnceLock::new();
    WORLD.get_or_init(World::start).as_ref()
}

impl World {
    fn start() -> Result<World, String> {
        if let Some(missing) = ["openssl", "python3"].iter().find(|name| find(name).is_none()) {
            return Err(format!("no {missing}"));
        }
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().to_owned();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        // Of this process alone, as the ports are fixed.
        let id = std::process::id();
        let address = format!("127.{}.{}.{}", 128 + (id >> 16) % 64, id >> 8 & 255, id & 255);
        let rules = [
            format!("*.allowed.test address={address}"),
            format!("*.allowed.test:22,5432,6379 address={address}"),
        ];
        let stack = ServedStack::start(&rules, &dir.join("resolv.conf"))
            .map_err(|error| format!("cannot create namespaces: {error}"))?;
        make_certificates(&dir);
        let server = Command::new("python3")
            .args(["-c", include_str!("server.py"), &address])
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut server = server.unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the servers run");
        Ok(World { stack, dir, _server: server, _scratch: scratch })
    }

    /// Runs a program in the stack, in a directory of its own. HOST stands for the name, DIR for the
    /// directory of the servers.
    pub(crate) fn run(&self, name: &str, host: &str, words: &[&str]) -> Output {
        let home = self.dir.join("homes").join(name);
        fs::create_dir_all(&home).unwrap();
        let dir = self.dir.to_str().unwrap();
        let fill = |word: &&str| word.replace("HOST", host).replace("DIR", dir);
        let words: Vec<String> = words.iter().map(fill).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(&home).env_clear().env("HOME", &home);
        for variable in ["PATH", "RUSTUP_TOOLCHAIN"] {
            command.envs(std::env::var_os(variable).map(|value| (variable, value)));
        }
        let rustup = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
        let rustup = rustup.or_else(|| Some(std::env::home_dir()?.join(".rustup")));
        command.envs(rustup.map(|home| ("RUSTUP_HOME", home)));
        // Of the certificate authority, not of the network.
        for variable in CERTIFICATE_VARIABLES {
            command.env(variable, self.dir.join("ca.pem"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.stack.spawn(command).unwrap();
        let [out, err] = [read(child.stdout.take().unwrap()), read(child.stderr.take().unwrap())];
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if began.elapsed() > DEADLINE {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let [stdout, stderr] = [out, err].map(|thread| thread.join().unwrap());
        Output { status, stdout, stderr }
    }
}

fn read(mut from: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

const CERTIFICATE_VARIABLES: [&str; 9] = [
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "npm_config_cafile",
    "UV_NATIVE_CERT_FILE",
];

/// Creates a CA and a certificate for names below `allowed.test` and `refused.test`.
fn make_certificates(dir: &Path) {
    let openssl = |words: &str| {
        let output =
            Command::new("openssl").args(words.split(' ')).current_dir(dir).output().unwrap();
        assert!(output.status.success(), "openssl {words}: {output:?}");
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!("req -x509 {key} -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem"));
    openssl(&format!("req {key} -subj /CN=allowed.test -keyout key.pem -out cert.csr"));
    fs::write(dir.join("names"), "subjectAltName=DNS:*.allowed.test,DNS:*.refused.test\n").unwrap();
    openssl(
        "x509 -req -in cert.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names \
         -out cert.pem",
    );
}

pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
