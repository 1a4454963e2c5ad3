"""Servers of the test: a registry of each kind over HTTP and HTTPS, SSH, PostgreSQL and Redis.

Arguments: the address to listen on, and the directory with the certificate (`cert.pem`, `key.pem`). Creates
the registries' files below that directory, prints `ready`, and serves until stdin ends.
"""

import base64, hashlib, http.server, io, json, os, shutil, socket, socketserver, ssl, struct, subprocess
import sys, tarfile, threading, zipfile

ADDRESS, DIRECTORY = sys.argv[1:]
ROOT = os.path.join(DIRECTORY, "root")


def write(path, content):
    path = os.path.join(ROOT, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content.encode()))
    return out.getvalue()


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def cargo(host):
    crate = tar({
        "hello-0.1.0/Cargo.toml": '[package]\nname = "hello"\nversion = "0.1.0"\nedition = "2021"\n',
        "hello-0.1.0/src/lib.rs": "",
    })
    line = {"name": "hello", "vers": "0.1.0", "deps": [], "features": {}, "yanked": False,
            "cksum": hashlib.sha256(crate).hexdigest()}
    write("cargo/config.json", json.dumps({"dl": f"https://{host}/crates/{{crate}}.crate"}))
    write("cargo/he/ll/hello", json.dumps(line) + "\n")
    write("crates/hello.crate", crate)


def npm(host):
    package = {"name": "hello", "version": "0.1.0"}
    archive = tar({"package/package.json": json.dumps(package)})
    digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    dist = {"tarball": f"https://{host}/{host}/hello-0.1.0.tgz", "integrity": f"sha512-{digest}",
            "shasum": hashlib.sha1(archive).hexdigest()}
    versions = {"0.1.0": {**package, "dist": dist}}
    document = {"name": "hello", "dist-tags": {"latest": "0.1.0"}, "versions": versions}
    write(f"{host}/hello", json.dumps(document))
    write(f"{host}/hello-0.1.0.tgz", archive)


def python():
    info = "hello-0.1.0.dist-info"
    write("simple/hello-0.1.0-py3-none-any.whl", zipped({
        "hello.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 0.1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"hello.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
    }))
    link = "hello-0.1.0-py3-none-any.whl"
    write("simple/hello/index.html", f'<!DOCTYPE html><a href="../{link}">{link}</a>')


def go():
    module = "example.test/hello"
    write(f"go/{module}/@v/v0.1.0.info", '{"Version": "v0.1.0"}')
    write(f"go/{module}/@v/v0.1.0.mod", f"module {module}\n")
    write(f"go/{module}/@v/v0.1.0.zip", zipped({
        f"{module}@v0.1.0/go.mod": f"module {module}\n",
        f"{module}@v0.1.0/hello.go": "package hello\n",
    }))


def maven():
    pom = ("<project><modelVersion>4.0.0</modelVersion><groupId>test</groupId>"
           "<artifactId>hello</artifactId><version>1</version><packaging>pom</packaging></project>")
    write("maven/test/hello/1/hello-1.pom", pom)
    write("maven/test/hello/1/hello-1.pom.sha1", hashlib.sha1(pom.encode()).hexdigest())


def git():
    if not shutil.which("git"):
        return
    work, bare = os.path.join(DIRECTORY, "work"), os.path.join(ROOT, "repository.git")
    run = lambda *words: subprocess.run(["git", *words], check=True, stdout=subprocess.DEVNULL)
    run("init", "--quiet", work)
    run("-C", work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty",
        "--message", "hello")
    run("clone", "--quiet", "--bare", work, bare)
    run("-C", bare, "update-server-info")


def apt():
    write("debian/Packages", "Package: hello\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\n"
          "Filename: hello.deb\nSize: 1\nDescription: hello\n\n")


class Files(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=ROOT)

    def log_message(self, *_):
        pass


class Redis(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline():
            if line.strip().upper() == b"PING":
                self.wfile.write(b"+PONG\r\n")


class Postgres(socketserver.StreamRequestHandler):
    def send(self, kind, body):
        self.wfile.write(kind + struct.pack("!i", len(body) + 4) + body)

    def message(self):
        length, = struct.unpack("!i", self.rfile.read(4))
        return self.rfile.read(length - 4)

    def handle(self):
        self.message()
        self.send(b"R", struct.pack("!i", 0))
        self.send(b"Z", b"I")
        while self.rfile.read(1) == b"Q":
            self.message()
            self.send(b"T", struct.pack("!h", 1) + b"hello\0" + struct.pack("!ihihih", 0, 0, 25, -1, -1, 0))
            self.send(b"D", struct.pack("!hi", 1, 5) + b"hello")
            self.send(b"C", b"SELECT 1\0")
            self.send(b"Z", b"I")


def sshd():
    program = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
    if not program or not shutil.which("ssh-keygen"):
        return None
    for name in ["host", "user"]:
        key = os.path.join(DIRECTORY, name)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    options = [f"ListenAddress={ADDRESS}:22", f"HostKey={DIRECTORY}/host", "PidFile=none", "UsePAM=no",
               f"AuthorizedKeysFile={DIRECTORY}/user.pub", "StrictModes=no", "PermitRootLogin=yes"]
    words = [word for option in options for word in ["-o", option]]
    return subprocess.Popen([program, "-D", "-f", "/dev/null", *words], stderr=subprocess.DEVNULL)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass  # A client that closes early.


class TlsServer(Server):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)

    def finish_request(self, request, client):
        with self.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client)


TlsServer.context.load_cert_chain(f"{DIRECTORY}/cert.pem", f"{DIRECTORY}/key.pem")
write("hello.txt", "hello from the server\n")
cargo("cargo.allowed.test")
npm("npm.allowed.test")
npm("pnpm.allowed.test")
for create in [python, go, maven, git, apt]:
    create()
ssh = sshd()
for kind, port, handler in [(Server, 80, Files), (TlsServer, 443, Files), (Server, 5432, Postgres),
                            (Server, 6379, Redis)]:
    server = kind((ADDRESS, port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
if ssh:
    ssh.kill()
