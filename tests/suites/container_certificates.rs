//! A company's own CA: tools in sidecars trust it if it is admitted, else their failure ends with a line
//! (`spec/containers.md#certificates`).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use aifo_tests::{ContainerSession, ContainerSetup, Engine, Outcome, Scratch};

/// Creates a CA and a certificate of 127.0.0.1.
const CREATE: &str = "set -e
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=company-ca
openssl req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=127.0.0.1
printf 'subjectAltName=IP:127.0.0.1\\nbasicConstraints=CA:FALSE\\n' > extensions
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 \
  -extfile extensions
";

/// Serves the directory `files`, and prints its port.
const SERVE: &str = "
import functools, http.server, ssl
class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass
handler = functools.partial(Handler, directory='files')
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('cert.pem', 'key.pem')
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
";

/// A server of packages and a repository, with a certificate of its own CA.
struct Server {
    directory: Scratch,
    process: Child,
    port: String,
}

impl Server {
    #[track_caller]
    fn start() -> Self {
        let directory = Scratch::new();
        let at = directory.path();
        let run = |program: &str, args: &[&str]| {
            Outcome::of(Command::new(program).args(args).current_dir(at)).exited(0).text()
        };
        run("sh", &["-c", CREATE]);
        run("git", &["init", "--quiet", "--bare", "files/repository"]);
        run("git", &["-C", "files/repository", "update-server-info"]);
        let mut python = Command::new("python3");
        python.args(["-c", SERVE]).current_dir(at).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = python.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut port).unwrap();
        let server = Server { port: port.trim().to_owned(), process, directory };
        server.add_packages();
        server
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The package `thing` of npm, pip and cargo.
    fn add_packages(&self) {
        let file = |name: &str, text: &str| {
            write(&self.directory.path().join("files").join(name), text);
        };
        let npm = r#"{"name":"thing","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":
            {"name":"thing","version":"1.0.0","dist":{"tarball":"https://x/x.tgz"}}}}"#;
        file("npm/thing", npm);
        file("pip/thing/index.html", "<a href='thing-1.0-py3-none-any.whl'>thing</a>");
        file("cargo/config.json", &format!("{{\"dl\":\"{}/dl\"}}", self.url()));
        let cksum = "0".repeat(64);
        let cargo = format!(
            "{{\"name\":\"thing\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{cksum}\",\
             \"features\":{{}},\"yanked\":false}}\n"
        );
        file("cargo/th/in/thing", &cargo);
    }

    /// Writes a project whose tools use this server.
    fn write_project(&self, workspace: &Path) {
        let url = self.url();
        let makefile = format!(
            "curl:\n\tcurl --fail --silent --show-error {url}/cargo/config.json\n\
             git:\n\tgit ls-remote {url}/repository && echo reached\n"
        );
        write(&workspace.join("Makefile"), &makefile);
        let manifest = "[package]\nname = \"it\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
                        [lib]\npath = \"lib.rs\"\n[dependencies]\nthing = \"1\"\n";
        write(&workspace.join("Cargo.toml"), manifest);
        write(&workspace.join("lib.rs"), "");
        let registry = format!(
            "[source.crates-io]\nreplace-with = \"company\"\n\
             [source.company]\nregistry = \"sparse+{url}/cargo/\"\n[net]\nretry = 0\n"
        );
        write(&workspace.join(".cargo/config.toml"), &registry);
    }

    /// Calls that reach it.
    fn calls(&self) -> [(&'static str, Vec<String>, &'static str); 5] {
        let url = self.url();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        let pip = format!("-m pip index versions thing --retries 0 --index-url {url}/pip");
        let npm = format!("view thing version --fetch-retries=0 --registry {url}/npm/");
        [
            ("make", words("curl"), "/dl"),
            ("make", words("git"), "reached"),
            ("python3", words(&pip), "thing (1.0)"),
            ("npm", words(&npm), "1.0.0"),
            ("cargo", words("generate-lockfile"), ""),
        ]
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const KINDS: [&str; 4] = ["c-cpp", "python", "node", "rust"];

/// Returns the engine, if it has aifo's own images.
fn engine(test: &str) -> Option<Engine> {
    let engine = Engine::of_run(test)?;
    for kind in KINDS {
        let image = format!("aifo-toolchain-{kind}:latest");
        let inspect = ["image", "inspect", "--format", "there", &image];
        if Outcome::of(&mut engine.command(inspect)).text().trim_end() != "there" {
            // A closed stderr does not matter.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: no {image}");
            return None;
        }
    }
    Some(engine)
}

/// A session on the host's network, by a user who has the certificates of the CA.
fn session(engine: &Engine, server: &Server, configuration: &str) -> ContainerSession {
    let ca = server.directory.path().join("ca.pem").display().to_string();
    let mut containers = ContainerSetup::of(engine).env("SSL_CERT_FILE", &ca).flag("--net", "host");
    for kind in KINDS {
        containers = containers.kind_from(kind, &format!("aifo-toolchain-{kind}:latest"));
    }
    let home = containers.setup().scratch().join("home");
    write(&home.join(".config/aifo/config.toml"), configuration);
    server.write_project(&containers.setup().workspace());
    containers.start()
}

const HINT: &str = "aifo-shim: hint: this machine has certificates that sidecars lack; if one was refused, add \
                    admit = [\"ca-bundle\"] to [containers] of your configuration\n";

#[test]
#[ignore = "container: cargo xtask test docker"]
fn an_admitted_ca_is_trusted_by_every_tool() {
    let Some(engine) = engine("an_admitted_ca_is_trusted_by_every_tool") else { return };
    let server = Server::start();
    let session = session(&engine, &server, "[containers]\nadmit = ['ca-bundle']\n");
    for (tool, args, expected) in server.calls() {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let outcome = session.run(tool, &args);
        assert!(outcome.exited(0).text().contains(expected), "{tool} {args:?}: {outcome:?}");
    }
    let outcome = session.run("make", &["absent"]);
    assert!(!outcome.exited(2).stderr.contains("ca-bundle"), "{outcome:?}");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_call_that_may_need_a_ca_ends_with_a_line() {
    let Some(engine) = engine("a_call_that_may_need_a_ca_ends_with_a_line") else { return };
    let server = Server::start();
    let session = session(&engine, &server, "");
    for (tool, args, _) in server.calls() {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let outcome = session.run(tool, &args);
        assert!(!outcome.status.success(), "{tool} {args:?}: {outcome:?}");
        assert!(outcome.stderr.ends_with(HINT), "{tool} {args:?}: {outcome:?}");
    }
    // Failures without certificates have no such line.
    for (tool, args) in [("make", "absent"), ("python3", "absent.py"), ("node", "absent.js")] {
        let outcome = session.run(tool, &[args]);
        assert!(!outcome.stderr.contains("ca-bundle"), "{tool} {args}: {outcome:?}");
    }
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_refused_name_explains_a_failure_without_certificates() {
    let test = "a_refused_name_explains_a_failure_without_certificates";
    let Some(engine) = engine(test) else { return };
    let server = Server::start();
    let ca = server.directory.path().join("ca.pem").display().to_string();
    let setup = ContainerSetup::of(&engine).env("SSL_CERT_FILE", &ca).flag("--net", "names");
    let setup = setup.flag("--allow", "npm.invalid");
    let session = setup.kind_from("node", "aifo-toolchain-node:latest").start();
    for (url, refusal) in [
        ("https://npm.test/", "npm.test; allow it with: aifo-coder net allow npm.test"),
        ("https://npm.invalid/", "npm.invalid:443: cannot resolve it: it has no address"),
    ] {
        let outcome =
            session.run("npm", &["view", "thing", "--fetch-retries=0", "--registry", url]);
        let line = format!("aifo: npm was refused {refusal}\n");
        assert!(!outcome.status.success() && outcome.stderr.ends_with(&line), "{outcome:?}");
    }
    session.finish();
}

#[test]
fn the_doctor_names_the_admission() {
    let containers = aifo_tests::SessionSetup::new();
    let ca = containers.scratch().join("ca.pem");
    fs::write(&ca, "").unwrap();
    let containers = containers.env_path("PIP_CERT", &ca);
    let doctor = || {
        let mut doctor = containers.coder();
        Outcome::of(doctor.args(["doctor", "--backend", "local"])).text()
    };
    let text = doctor();
    assert!(text.contains("containers do not have those of PIP_CERT"), "{text}");
    assert!(text.contains("add admit = [\"ca-bundle\"] to [containers]"), "{text}");
    let file = containers.scratch().join("home/.config/aifo/config.toml");
    write(&file, "[containers]\nadmit = ['ca-bundle']\n");
    let text = doctor();
    assert!(text.contains("containers get the bundle of certificates (ca-bundle)"), "{text}");
}
