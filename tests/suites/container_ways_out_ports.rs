//! Ways out through the ports of a session, and through the runner that holds a stack in a tool's own
//! container (`spec/network.md#stacks`, `#mirrors`, `#host-ports`).

use std::fs;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use aifo_tests::{Engine, HelloServer, Outcome, Running, Signal, eventually};

use crate::container_network_shown::coder;
use crate::container_stacks;
use crate::container_ways_out::{Servers, Way, run, setup};

/// The result of a connection that is reset, maybe before the client has seen that it is connected.
const RESET: &[&str] = &["ECONNRESET", "ECONNREFUSED", "closed"];
const DENIED: &[&str] = &["EPERM", "EACCES", "ENOSYS"];

const WAYS: &[Way] = &[
    Way {
        way: "a descriptor of the runner by pidfd_getfd",
        class: "CVE-2024-21626, descriptors of a container's runtime",
        program: "
pidfd = libc.syscall(434, 1, 0)
for fd in range(64):
    attempt(lambda: system(438, pidfd, fd, 0))",
        results: &["EPERM", "EBADF", "ENOSYS"],
    },
    Way {
        way: "the files of the runner in /proc",
        class: "/proc/1/fd, mem, root and environ as a way to what a runner holds",
        program: "
for name in ['environ', 'root/etc/hostname', 'cwd/etc/hostname'] + ['fd/%d' % fd for fd in range(64)]:
    attempt(lambda: open('/proc/1/' + name, 'rb').read())
attempt(lambda: open('/proc/1/mem', 'rb+').close())",
        results: &["EPERM", "EACCES", "ENOENT"],
    },
    Way {
        way: "the memory of the runner by process_vm_readv, and ptrace",
        class: "MITRE ATT&CK T1055",
        program: "
buffer = ctypes.create_string_buffer(8)
iov = struct.pack('PN', ctypes.addressof(buffer), 8)
remote = struct.pack('PN', 0x400000, 8)
attempt(lambda: system(310, 1, iov, 1, remote, 1, ctypes.c_long(0)))
libc.ptrace.restype = ctypes.c_long
for request in [16, 0x4206]:
    attempt(lambda: 'traced' if libc.ptrace(request, 1, None, None) == 0 else
            (_ for _ in ()).throw(OSError(ctypes.get_errno(), '')))",
        results: DENIED,
    },
    Way {
        way: "signals to the runner, so that another process takes its ports",
        class: "a stolen listener after the end of its holder",
        program: "
import signal, time
for number in [signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV]:
    os.kill(1, number)
time.sleep(0.2)
attempt(lambda: connect(('allowed.test', port)))
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
attempt(lambda: s.bind(('0.0.0.0', port)) or 'bound')",
        results: &["reached", "EADDRINUSE"],
    },
    Way {
        way: "limits of the runner, so that it binds no mirror",
        class: "prlimit of another process of the same user",
        program: "
import resource
def limit():
    resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3))
    return 'limited'
attempt(limit)",
        results: DENIED,
    },
    Way {
        way: "a port of this machine that is not opened",
        class: "--host-port for one port as a way to others",
        program: "
for other in [port + 1, 22, 2375, 5432, 6379]:
    attempt(lambda: connect(('127.0.0.1', other)))",
        // Port 22 is one of rules, so the stack listens on it.
        results: RESET,
    },
    Way {
        way: "an opened port of this machine at the address of a name, and at aliases",
        class: "relays that compare the port only",
        program: "
hosted = int(open('hosted').read())
name_address = socket.gethostbyname('allowed.test')
for address in [name_address, '127.0.0.2', '127.255.255.254', '127.64.0.99']:
    attempt(lambda: connect((address, hosted)))
for address in ['::ffff:' + name_address, '::ffff:127.0.0.2']:
    try:
        attempt(lambda: connect((address, hosted), socket.AF_INET6))
    except Exception:
        print('EADDRNOTAVAIL')",
        results: &["ECONNRESET", "ECONNREFUSED", "closed", "EADDRNOTAVAIL", "ENETUNREACH"],
    },
    Way {
        way: "the same, from the address of a name as its source",
        class: "relays that trust the client's address",
        program: "
hosted = int(open('hosted').read())
name_address = socket.gethostbyname('allowed.test')
def from_localhost():
    s = socket.socket()
    s.bind(('127.0.0.1', 0))
    s.connect((name_address, hosted))
    return read(s)
attempt(from_localhost)",
        results: RESET,
    },
    Way {
        way: "DNS at other loopback addresses, and at the address of a name",
        class: "resolvers that answer everywhere",
        program: "
query = b'\\0\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7unknown\\4test\\0\\0\\1\\0\\1'
def ask(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(1)
    s.connect((address, 53))
    s.send(query)
    return 'answered %r' % s.recv(512)
for address in ['127.0.0.2', socket.gethostbyname('allowed.test')]:
    attempt(lambda: ask(address))
    attempt(lambda: connect((address, 53)))",
        results: &["ECONNREFUSED", "TimeoutError"],
    },
    Way {
        way: "a foreign source address, a device, a mark, transparency",
        class: "options that need CAP_NET_ADMIN or CAP_NET_RAW",
        program: "
def option(level, name, value):
    s = socket.socket()
    s.setsockopt(level, name, value)
    return 'set'
attempt(lambda: option(socket.SOL_IP, 19, 1))
attempt(lambda: option(socket.SOL_SOCKET, 36, 1))
attempt(lambda: option(socket.IPPROTO_TCP, 19, 1))
attempt(lambda: option(socket.SOL_SOCKET, 33, 1 << 20))
def free():
    s = socket.socket()
    s.setsockopt(socket.SOL_IP, 15, 1)
    s.bind(('192.0.2.1', 0))
    s.settimeout(2)
    s.connect((host, port))
    return read(s)
attempt(free)",
        results: &["EPERM", "ENETUNREACH", "TimeoutError", "EINVAL"],
    },
    Way {
        way: "source routes in the options of IP",
        class: "loose and strict source and record route",
        program: "
def routed(kind):
    s = socket.socket()
    s.setsockopt(socket.SOL_IP, socket.IP_OPTIONS,
                 bytes([kind, 11, 4]) + socket.inet_aton(host) + socket.inet_aton('1.1.1.1') + b'\\0')
    s.settimeout(2)
    s.connect((host, port))
    return read(s)
for kind in [131, 137]:
    attempt(lambda: routed(kind))",
        results: &["ENETUNREACH", "EPERM", "EINVAL"],
    },
    Way {
        way: "the end of the launcher's listeners by sock_diag",
        class: "SOCK_DESTROY of sockets of another process",
        program: "
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)
def destroy(at):
    source = socket.inet_aton('0.0.0.0')
    ident = struct.pack('>HH', at, 0) + source + bytes(12) + bytes(16) + struct.pack('=III', 0, 0xffffffff, 0xffffffff)
    body = struct.pack('=BBBBI', socket.AF_INET, 6, 0, 0, 1 << 10) + ident
    s.send(struct.pack('=IHHII', 16 + len(body), 21, 5, 1, 0) + body)
    error = -struct.unpack_from('=i', s.recv(4096), 16)[0]
    raise OSError(error, '')
attempt(lambda: destroy(port))
attempt(lambda: connect(('allowed.test', port)))",
        results: &["EPERM", "EACCES", "EOPNOTSUPP", "reached"],
    },
    Way {
        way: "a tunnel device",
        class: "/dev/net/tun as a network of its own",
        program: "
import fcntl
def tunnel():
    fd = os.open('/dev/net/tun', os.O_RDWR)
    fcntl.ioctl(fd, 0x400454ca, struct.pack('16sH22x', b'tun0', 1))
    return 'created'
attempt(tunnel)
attempt(lambda: os.mknod('/tmp/tun', 0o20600, os.makedev(10, 200)) or 'made')",
        results: &["ENOENT", "EPERM", "EACCES", "EINVAL"],
    },
    Way {
        way: "programs for the kernel's sockets",
        class: "bpf(2): sk_lookup, cgroup hooks; SO_ATTACH_REUSEPORT",
        program: "
attr = ctypes.create_string_buffer(128)
for command in [0, 5, 8]:
    attempt(lambda: system(321, command, attr, 128))
attempt(lambda: system(323, 1))",
        results: DENIED,
    },
    Way {
        way: "the stack's settings in /proc/sys",
        class: "ip_forward, route_localnet, ports of every process",
        program: "
for name in ['ipv4/ip_forward', 'ipv4/conf/all/route_localnet', 'ipv4/ip_unprivileged_port_start',
             'ipv4/ip_local_port_range', 'core/somaxconn']:
    def write():
        try:
            value = open('/proc/sys/net/' + name).read()
        except FileNotFoundError:
            raise OSError(errno.EPERM, '')
        open('/proc/sys/net/' + name, 'w').write(value)
        return 'written'
    attempt(write)",
        results: &["EROFS", "EACCES", "EPERM"],
    },
    Way {
        way: "a second runner, and a stack of its own",
        class: "programs of the container that hold more rights at their start",
        program: "
import subprocess
runner = '/opt/aifo/bin/aifo-runner'
for words in [['hold-stack'], ['try-stack'], ['serve', '--connect', '/run/aifo/control'],
              ['serve', '--join-stack', '1', '--resolver', '/etc/resolv.conf']]:
    try:
        ended = subprocess.run([runner, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
        print('works' if ended.returncode == 0 else 'fails')
    except subprocess.TimeoutExpired:
        print('fails')",
        results: &["fails"],
    },
    Way {
        way: "queues of messages",
        class: "System V and POSIX messages between containers",
        program: "
libc.mq_open.restype = ctypes.c_int
def queue():
    if libc.mq_open(b'/aifo', 0) < 0:
        raise OSError(ctypes.get_errno(), '')
    return 'opened'
attempt(queue)
attempt(lambda: 'found' if libc.msgget(0x6169666f, 0) >= 0 else
        (_ for _ in ()).throw(OSError(ctypes.get_errno(), '')))",
        results: &["ENOENT", "ENOSYS", "EACCES", "EPERM"],
    },
];

#[test]
#[ignore = "container: cargo xtask test docker"]
fn no_port_leads_out() {
    let Some(engine) = Engine::of_run("no_port_leads_out") else { return };
    let (servers, hosted) = (Servers::start(), HelloServer::new());
    let session = setup(&engine, &servers).flag("--host-port", &hosted.port.to_string()).start();
    fs::write(session.workspace().join("hosted"), hosted.port.to_string()).unwrap();
    let control = "attempt(lambda: connect(('127.0.0.1', int(open('hosted').read()))))";
    let printed = run(&session, &servers, control);
    assert!(printed.ends_with("hello\n"), "the opened port is reached: {printed}");
    let mut through = Vec::new();
    for Way { way, class, program, results } in WAYS {
        let began = Instant::now();
        let printed = run(&session, &servers, program);
        let all_known = printed.lines().all(|line| results.contains(&line));
        if !all_known || printed.is_empty() || began.elapsed() > Duration::from_secs(60) {
            through.push(format!("{way} ({class}): {printed:?} after {:?}", began.elapsed()));
        }
    }
    assert!(through.is_empty(), "ways with other results:\n{}", through.join("\n"));
    assert_eq!(hosted.accepted(), 1, "only the control reached the opened port");
    // The names of two rows.
    assert_eq!(servers.accepted.load(Ordering::SeqCst), 2, "no other connection came");
    assert!(servers.udp.recv(&mut [0; 64]).is_err(), "no datagram arrived");
    session.finish();
}

/// A name that looks like a line of the log is refused, and the log has no line of the tool's.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_name_forges_no_line_of_the_log() {
    let Some(engine) = Engine::of_run("a_name_forges_no_line_of_the_log") else { return };
    let servers = Servers::start();
    let session = setup(&engine, &servers).start();
    let program = "
def ask(label):
    query = b'\\0\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + bytes([len(label)]) + label + b'\\4test\\0\\0\\1\\0\\1'
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(5)
    s.sendto(query, ('127.0.0.1', 53))
    return s.recv(512)[3] & 15
for label in [b'x\\n{\"verdict\":\"allowed\"}', b'\\x1b[2Jforged', b'a\"},{\"name\":\"forged', 'forged\\u202e'.encode(), b'plain']:
    print(ask(label))";
    assert_eq!(run(&session, &servers, program), "3\n".repeat(5), "each is refused");
    let listed = || Outcome::of(&mut coder(&session, &["net"])).exited(0).text();
    eventually("the last name is listed", || listed().contains("plain.test"));
    let text = listed();
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
    // The head and one line for each name that is none of them.
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(!text.contains("forged"), "{text}");
    session.finish();
}

/// Connections to a port of this machine that are never closed hold neither names nor calls.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn held_ports_hold_no_name() {
    let Some(engine) = Engine::of_run("held_ports_hold_no_name") else { return };
    let (servers, hosted) = (Servers::start(), HelloServer::new());
    let session = setup(&engine, &servers).flag("--host-port", &hosted.port.to_string()).start();
    let program = "
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
held = []
for _ in range(1500):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(('127.0.0.1', int(name)))
    held.append(s)
attempt(lambda: connect(('allowed.test', port)))";
    let program = program.replace("int(name)", &hosted.port.to_string());
    assert_eq!(run(&session, &servers, &program), "reached\n");
    session.finish();
}

/// Stacks of kinds share no abstract socket, a mirror has one address, and its port cannot be shared.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_mirror_leads_to_its_port_only() {
    let Some(engine) = Engine::of_run("a_mirror_leads_to_its_port_only") else { return };
    let session = container_stacks::setup(&engine).start();
    let serve = "
import socket, sys
unix = socket.socket(socket.AF_UNIX)
unix.bind('\\0aifo-kinds')
unix.listen()
s = socket.create_server(('127.0.0.1', 3001))
other = socket.create_server(('127.5.5.5', 3002))
print('listening', flush=True)
while True:
    client, _ = s.accept()
    client.sendall(b'hello\\n')
    client.close()
";
    let mut shim = session.shim("python3");
    let serving = Running::start(shim.args(["-c", serve]));
    serving.expect("listening");
    let reach = |host, port| container_stacks::connect(&session, "c-cpp", host, port);
    eventually("the mirror is up", || reach("127.0.0.1", 3001) == "hello");
    // Other addresses, and a listener that is no localhost.
    for (host, port) in [("127.0.0.2", 3001), ("127.64.0.1", 3001), ("127.5.5.5", 3002)] {
        assert_eq!(reach(host, port), "ECONNREFUSED", "{host} {port}");
    }
    assert_eq!(reach("127.0.0.1", 3002), "ECONNREFUSED");
    let makefile = session.workspace().join("Makefile");
    let take = "
import errno, socket
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
for attempt in (lambda: s.bind(('0.0.0.0', 3001)), lambda: socket.socket(socket.AF_UNIX).connect('\\0aifo-kinds')):
    try:
        attempt()
        print('done')
    except OSError as e:
        print(errno.errorcode[e.errno])
";
    fs::write(session.workspace().join("take.py"), take).unwrap();
    let text = fs::read_to_string(&makefile).unwrap();
    fs::write(&makefile, text + "take:\n\t@/usr/bin/python3 take.py\n").unwrap();
    let taken = session.run("make", &["-s", "take"]);
    assert_eq!(taken.exited(0).text(), "EADDRINUSE\nECONNREFUSED\n", "{taken:?}");
    serving.signal(Signal::SIGTERM);
    serving.finish();
    session.finish();
}
