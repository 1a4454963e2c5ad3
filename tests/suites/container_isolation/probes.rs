//! Attacks of a hostile tool, in Python: each prints a line per success and nothing otherwise.

/// Sockets in the file system that accept connections.
pub(crate) const SOCKETS: &str = r#"
import os, stat
for directory, directories, files in os.walk("/"):
    directories[:] = [f for f in directories if os.path.join(directory, f) not in ("/proc", "/sys")]
    for name in sorted(files):
        path = os.path.join(directory, name)
        try:
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                print("socket", path)
        except OSError:
            pass
"#;

/// Files of this name anywhere.
pub(crate) const MARKER: &str = r#"
import os, sys
for directory, directories, files in os.walk("/"):
    directories[:] = [f for f in directories if os.path.join(directory, f) not in ("/proc", "/sys")]
    if sys.argv[1] in files:
        print("found", os.path.join(directory, sys.argv[1]))
"#;

/// Creates a file of this name where uv unpacks downloads.
pub(crate) const PLANT: &str = r#"
import os, sys
directory = os.environ["UV_CACHE_DIR"]
os.makedirs(directory, exist_ok=True)
open(os.path.join(directory, sys.argv[1]), "w").close()
"#;

/// All mounts except those of every container.
pub(crate) const MOUNTS: &str = r#"
engines = ("/proc", "/sys", "/dev", "/run/.containerenv", "/run/secrets")
for line in open("/proc/self/mountinfo"):
    path = line.split()[4].replace("\\040", " ")
    if path != "/" and not any(path == e or path.startswith(e + "/") for e in engines):
        print(path)
"#;

/// Rights of the probe or of process 1.
pub(crate) const RIGHTS: &str = r#"
for pid in ("self", "1"):
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        if int(status[name], 16):
            print(pid, name, status[name].strip())
    if status["NoNewPrivs"].strip() != "1":
        print(pid, "may get new privileges")
    if status["Seccomp"].strip() != "2":
        print(pid, "is not filtered")
"#;

/// The number of processes that can be started, up to a bound; fails unless the bound is reached.
pub(crate) const BOMB: &str = r#"
import os, signal, sys
pids, code = [], 0
try:
    while len(pids) < int(sys.argv[1]):
        pid = os.fork()
        if pid == 0:
            signal.pause()
        pids.append(pid)
except BlockingIOError:
    code = 1
for pid in pids:
    os.kill(pid, signal.SIGKILL)
for pid in pids:
    os.waitpid(pid, 0)
print(len(pids))
sys.exit(code)
"#;

/// Allocates this many MiB.
pub(crate) const HOG: &str = r#"
import sys
held = [bytes(b"x" * (1 << 20)) for _ in range(int(sys.argv[1]))]
print(len(held))
"#;

/// Defines `attempt`, which prints `what` if `act` succeeds.
macro_rules! attempt {
    () => {
        r#"
def attempt(what, act):
    try:
        act()
        print(what)
    except OSError:
        pass
"#
    };
}

/// Changes to the directory of the runner socket and to the runner.
pub(crate) const REBIND: &str = concat!(
    attempt!(),
    r#"
import os, socket, sys
def bind(path):
    socket.socket(socket.AF_UNIX).bind(path)
directory, runner = sys.argv[1:]
for name in os.listdir(directory):
    print("there is", name)
    attempt(f"removed {name}", lambda: os.unlink(os.path.join(directory, name)))
for name in ("control", "exec.sock"):
    attempt(f"bound {name}", lambda: bind(os.path.join(directory, name)))
attempt("made a file", lambda: open(os.path.join(directory, "file"), "w"))
attempt("renamed the directory", lambda: os.rename(directory, directory + ".old"))
attempt("removed the directory", lambda: os.rmdir(directory))
attempt("wrote to the runner", lambda: open(runner, "r+b"))
attempt("removed the runner", lambda: os.unlink(runner))
# Root's own file system, if the caller is root: the path may go, the runner does not need it.
try:
    os.rename(os.path.dirname(runner), "/opt/aifo/renamed")
except OSError:
    pass
"#
);

/// Access to a process: memory, descriptors, environment, ptrace.
pub(crate) const GRASP: &str = concat!(
    attempt!(),
    r#"
import ctypes, os, signal, sys
pid = int(sys.argv[1])
attempt("read its environment", lambda: open(f"/proc/{pid}/environ").read())
attempt("saw a descriptor", lambda: os.readlink(f"/proc/{pid}/fd/0"))
attempt("opened a descriptor", lambda: open(f"/proc/{pid}/fd/0"))
attempt("opened its memory", lambda: open(f"/proc/{pid}/mem", "rb"))
attempt("read its map", lambda: open(f"/proc/{pid}/maps").read())
attempt("entered its root", lambda: os.listdir(f"/proc/{pid}/root/"))
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17
if libc.ptrace(PTRACE_SEIZE, pid, None, None) == 0:
    print("traced it")
    libc.ptrace(PTRACE_DETACH, pid, None, None)
"#
);

/// Signals that could end or stop process 1.
pub(crate) const SIGNALS: &str = r#"
import os, signal
for number in signal.valid_signals() - {signal.SIGCHLD, signal.SIGCONT, signal.SIGWINCH, signal.SIGURG}:
    try:
        os.kill(1, number)
    except OSError:
        pass
"#;

/// Sends one byte to each client; writes its port to a file.
pub(crate) const SERVER: &str = r#"
import os, socket, sys
server = socket.create_server(("0.0.0.0", 0))
with open("port.new", "w") as file:
    file.write(str(server.getsockname()[1]))
os.rename("port.new", "port")
while True:
    server.accept()[0].sendall(b"!")
"#;

/// Connects to `HOST PORT`.
pub(crate) const CONNECT: &str = r#"
import socket, sys
try:
    peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3)
    print("reached", peer.recv(1).decode())
except OSError:
    pass
"#;

/// The default gateway's address.
pub(crate) const GATEWAY: &str = r#"
import socket
for line in open("/proc/net/route").readlines()[1:]:
    _, destination, gateway = line.split()[:3]
    if destination == "00000000":
        print(socket.inet_ntoa(bytes.fromhex(gateway)[::-1]))
"#;

/// The network devices except loopback, and the routes.
pub(crate) const DEVICES: &str = r#"
import socket
for _, name in socket.if_nameindex():
    if name != "lo" and open(f"/sys/class/net/{name}/operstate").read().strip() == "up":
        print("device", name)
for line in open("/proc/net/route").readlines()[1:]:
    print("route", line.split()[0])
"#;

/// The secret of stdin, in any file, environment or command line.
pub(crate) const SECRET: &str = r#"
import os, sys
secret = sys.stdin.buffer.readline().strip()
def look(path):
    try:
        with open(path, "rb") as file:
            if secret in file.read(64 << 20):
                print("found in", path)
    except OSError:
        pass
for directory, directories, files in os.walk("/"):
    directories[:] = [f for f in directories if os.path.join(directory, f) not in ("/proc", "/sys", "/dev")]
    for name in files:
        path = os.path.join(directory, name)
        if os.path.isfile(path) and not directory.startswith(("/usr/lib", "/usr/bin", "/usr/share")):
            look(path)
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        look(f"/proc/{pid}/{name}")
"#;
