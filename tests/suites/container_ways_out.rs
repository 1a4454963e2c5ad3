//! Ways out of a container network by name (`spec/network.md`): each row is a way of a published report or
//! class of attacks. No byte reaches the servers of the test, which listen at every address of this
//! machine.
//!
//! `crates/egress/tests/ways_out.rs` has the ways through the gateway: DNS, server names, hosts, rebinding.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use aifo_tests::{ContainerSession, ContainerSetup, Engine, Running};

/// Servers of this machine at one port: TCP and UDP at every address, and an abstract unix socket.
pub(crate) struct Servers {
    port: u16,
    /// The name of the unix socket.
    abstract_name: String,
    pub(crate) udp: UdpSocket,
    /// Connections over TCP and to the unix socket.
    pub(crate) accepted: Arc<AtomicUsize>,
}

impl Servers {
    pub(crate) fn start() -> Self {
        let tcp = TcpListener::bind("0.0.0.0:0").expect("a free port");
        let port = tcp.local_addr().expect("bound").port();
        let udp = UdpSocket::bind(("0.0.0.0", port)).expect("the same port is free");
        udp.set_nonblocking(true).expect("a socket");
        let abstract_name = format!("aifo-test-{port}");
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&abstract_name);
        let unix = UnixListener::bind_addr(&address.expect("a name")).expect("a free name");
        let accepted = Arc::new(AtomicUsize::new(0));
        let counts = [Arc::clone(&accepted), Arc::clone(&accepted)];
        let [of_tcp, of_unix] = counts;
        thread::spawn(move || tcp.incoming().flatten().for_each(|it| answer(it, &of_tcp)));
        thread::spawn(move || unix.incoming().flatten().for_each(|it| answer(it, &of_unix)));
        Servers { port, abstract_name, udp, accepted }
    }
}

fn answer(mut client: impl Read + Write, count: &AtomicUsize) {
    count.fetch_add(1, Ordering::SeqCst);
    // A client may be gone.
    let _ = client.write_all(b"reached\n");
}

/// A way, its class or report, statements of Python that print, and the possible results.
pub(crate) struct Way {
    pub(crate) way: &'static str,
    pub(crate) class: &'static str,
    pub(crate) program: &'static str,
    pub(crate) results: &'static [&'static str],
}

/// Prepended to every program. The arguments are the port, an address of this machine and the name of the
/// unix socket.
const PRELUDE: &str = "
import ctypes, errno, os, socket, struct, sys, urllib.request
port, host, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
socket.setdefaulttimeout(5)
libc = ctypes.CDLL(None, use_errno=True)
def read(s):
    s.settimeout(5)
    return s.recv(64).decode().strip() or 'closed'
def connect(address, family=socket.AF_INET, kind=socket.SOCK_STREAM, protocol=0):
    s = socket.socket(family, kind, protocol)
    s.settimeout(5)
    s.connect(address)
    s.sendall(b'secret') if kind == socket.SOCK_DGRAM else None
    return read(s)
def system(call, *words):
    if libc.syscall(call, *words) < 0:
        raise OSError(ctypes.get_errno(), '')
    return 'done'
def attempt(way):
    try:
        print(way())
    except socket.gaierror:
        print('no such name')
    except urllib.error.URLError as e:
        print(errno.errorcode.get(getattr(e.reason, 'errno', 0), 'no such name'))
    except OSError as e:
        print(errno.errorcode.get(e.errno, type(e).__name__))
";

const UNREACHABLE: &[&str] = &["ENETUNREACH", "EADDRNOTAVAIL"];
const FORBIDDEN: &[&str] =
    &["EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT"];

const WAYS: &[Way] = &[
    Way {
        way: "TCP to an address literal",
        class: "MITRE ATT&CK T1041",
        program: "attempt(lambda: connect(('1.1.1.1', 443)))",
        results: UNREACHABLE,
    },
    Way {
        way: "address literals in other forms",
        class: "CWE-918, filters of texts",
        program: "
for text in ['0x01010101', '16843009', '1.1', '0101.0x1.1.1']:
    attempt(lambda: connect((text, 443)))",
        results: UNREACHABLE,
    },
    Way {
        way: "TCP to this machine's own address",
        class: "containers that reach the host's services",
        program: "attempt(lambda: connect((host, port)))",
        results: UNREACHABLE,
    },
    Way {
        way: "the bridge's gateway",
        class: "docker0 and cni-podman0 as a way to the host",
        program: "
for gateway in ['172.17.0.1', '172.18.0.1', '10.88.0.1', '10.0.2.2', '192.168.65.2']:
    attempt(lambda: connect((gateway, port)))",
        results: UNREACHABLE,
    },
    Way {
        way: "names of the host",
        class: "host.docker.internal",
        program: "
for name in ['host.docker.internal', 'gateway.docker.internal', 'host.containers.internal']:
    attempt(lambda: connect((name, port)))",
        // podman writes the last one into its hosts file.
        results: &["no such name", "ENETUNREACH"],
    },
    Way {
        way: "Docker's DNS",
        class: "embedded DNS forwards to the host's resolver (CVE-2024-29018)",
        program: "
query = bytes.fromhex('000701000001000000000000076578616d706c6503636f6d0000010001')
def ask(address, kind):
    s = socket.socket(socket.AF_INET, kind)
    s.settimeout(5)
    s.connect(address)
    s.send(query if kind == socket.SOCK_DGRAM else struct.pack('!H', len(query)) + query)
    return 'answered' if s.recv(512) else 'closed'
for kind in [socket.SOCK_DGRAM, socket.SOCK_STREAM]:
    attempt(lambda: ask(('127.0.0.11', 53), kind))",
        results: &["ECONNREFUSED"],
    },
    Way {
        way: "DNS of another resolver, over UDP, TCP and TLS",
        class: "MITRE ATT&CK T1071.004",
        program: "
for resolver, number, kind in [('8.8.8.8', 53, socket.SOCK_DGRAM), ('8.8.8.8', 53, socket.SOCK_STREAM),
                               ('9.9.9.9', 853, socket.SOCK_STREAM)]:
    attempt(lambda: connect((resolver, number), kind=kind))",
        results: UNREACHABLE,
    },
    Way {
        way: "UDP to an address literal and to this machine",
        class: "QUIC, WireGuard, MITRE ATT&CK T1095",
        program: "
for address in [('1.1.1.1', 443), (host, port)]:
    attempt(lambda: connect(address, kind=socket.SOCK_DGRAM))",
        results: UNREACHABLE,
    },
    Way {
        way: "UDP to the address of an allowed name",
        class: "QUIC beside an allowed TCP port",
        program: "attempt(lambda: connect((socket.gethostbyname('allowed.test'), port), kind=socket.SOCK_DGRAM))",
        results: &["ECONNREFUSED"],
    },
    Way {
        way: "broadcast and multicast",
        class: "SSDP and mDNS of the local network",
        program: "
def send(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.sendto(b'secret', address)
    return 'sent'
for address in ['255.255.255.255', '239.255.255.250', '224.0.0.251']:
    attempt(lambda: send((address, port)))",
        results: UNREACHABLE,
    },
    Way {
        way: "ICMP echo",
        class: "ICMP tunnels (ptunnel)",
        program: "
for kind in [socket.SOCK_DGRAM, socket.SOCK_RAW]:
    def echo():
        s = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
        s.sendto(bytes.fromhex('0800f7ff00000000'), ('1.1.1.1', 0))
        return 'sent'
    attempt(echo)",
        results: &["EPERM", "EACCES", "ENETUNREACH"],
    },
    Way {
        way: "raw and packet sockets",
        class: "CAP_NET_RAW (CVE-2020-14386, CVE-2020-10749)",
        program: "
for family, protocol in [(socket.AF_INET, 255), (socket.AF_INET, 6), (socket.AF_INET6, 58), (socket.AF_PACKET, 768)]:
    attempt(lambda: socket.socket(family, socket.SOCK_RAW, protocol) and 'opened')",
        results: FORBIDDEN,
    },
    Way {
        way: "IPv6, global, local and mapped",
        class: "filters of IPv4 alone (moby#36954)",
        program: "
for address in ['2606:4700::1111', 'fd00:ec2::254', 'fe80::1', '::ffff:1.1.1.1', '64:ff9b::101:101']:
    attempt(lambda: connect((address, port, 0, 1), socket.AF_INET6))",
        results: &["ENETUNREACH", "EADDRNOTAVAIL", "ENETDOWN", "EHOSTUNREACH"],
    },
    Way {
        way: "metadata services",
        class: "Capital One, 2019; CWE-918",
        program: "
for address in ['169.254.169.254', '169.254.170.2', '100.100.100.200', '168.63.129.16']:
    attempt(lambda: urllib.request.urlopen(f'http://{address}/latest/meta-data/').read())",
        results: UNREACHABLE,
    },
    Way {
        way: "names of metadata services",
        class: "metadata.google.internal",
        program: "
for name in ['metadata.google.internal', 'instance-data', 'metadata']:
    attempt(lambda: urllib.request.urlopen(f'http://{name}/').read())",
        results: &["no such name"],
    },
    Way {
        way: "TCP Fast Open",
        class: "connects without connect(2) (Landlock, 2025)",
        program: "
def fast_open():
    s = socket.socket()
    s.sendto(b'secret', socket.MSG_FASTOPEN, ('1.1.1.1', 443))
    return 'sent'
attempt(fast_open)",
        results: UNREACHABLE,
    },
    Way {
        way: "other transports: SCTP, DCCP, MPTCP, UDP-Lite",
        class: "filters of TCP and UDP alone",
        program: "
for kind, protocol in [(socket.SOCK_STREAM, 132), (6, 33), (socket.SOCK_STREAM, 262), (socket.SOCK_DGRAM, 136)]:
    attempt(lambda: connect(('1.1.1.1', 443), socket.AF_INET, kind, protocol))",
        results: &["ENETUNREACH", "EPERM", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EINVAL", "EACCES"],
    },
    Way {
        way: "abstract unix sockets of the host",
        class: "CVE-2020-15257 (containerd-shim)",
        program: "attempt(lambda: connect('\\0' + name, socket.AF_UNIX))",
        results: &["ECONNREFUSED"],
    },
    Way {
        way: "AF_VSOCK to the hypervisor and the host",
        class: "not bound to network namespaces (moby#44562)",
        program: "
for cid in [0, 1, 2]:
    attempt(lambda: connect((cid, port), 40))",
        results: &["EPERM", "EACCES", "EAFNOSUPPORT"],
    },
    Way {
        way: "other socket families",
        class: "AF_ALG, AF_TIPC, AF_RDS, AF_CAN, AF_XDP, AF_QIPCRTR (CVE-2021-43267)",
        program: "
for family in [4, 9, 19, 21, 29, 30, 35, 37, 41, 42, 44]:
    attempt(lambda: socket.socket(family, socket.SOCK_DGRAM, 0) and f'family {family}')",
        results: &[
            "EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EINVAL",
        ],
    },
    Way {
        way: "an interface or a route of its own",
        class: "CAP_NET_ADMIN",
        program: "
def request(kind, body):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack('=IHHII', 16 + len(body), kind, 0x605, 1, 0) + body)
    return errno.errorcode.get(-struct.unpack_from('=i', s.recv(4096), 16)[0], 'done')
attempt(lambda: request(16, struct.pack('=BxHiII', 0, 0, 0, 1, 1) + struct.pack('=HH', 8, 3) + b'x0\\0\\0'))
attempt(lambda: request(24, struct.pack('=BBBBBBBBI', 2, 0, 0, 0, 254, 3, 253, 1, 0) + struct.pack('=HHI', 8, 4, 1)))",
        results: FORBIDDEN,
    },
    Way {
        way: "namespaces of other processes",
        class: "setns(2); nsenter",
        program: "
attempt(lambda: system(308, os.open('/proc/1/ns/net', os.O_RDONLY), 0x40000000))
attempt(lambda: system(308, os.open('/proc/1/ns/user', os.O_RDONLY), 0x10000000))",
        results: &["EPERM", "EACCES", "EINVAL"],
    },
    Way {
        way: "a user and network namespace",
        class: "unshare(2) with all capabilities (CVE-2022-0185)",
        program: "attempt(lambda: system(272, 0x50000000) and connect(('1.1.1.1', 443)))",
        results: &["EPERM", "EACCES", "EINVAL", "ENOSPC", "ENETUNREACH"],
    },
    Way {
        way: "a listener's descriptor from the process that bound it",
        class: "pidfd_getfd(2), ptrace(2)",
        program: "
def steal(fd):
    return system(438, system_pidfd, fd, 0)
system_pidfd = libc.syscall(434, 1, 0)
for fd in range(3, 12):
    attempt(lambda: steal(fd))
attempt(lambda: system(101, 16, 1, 0, 0))
for fd in range(3, 12):
    attempt(lambda: os.open(f'/proc/1/fd/{fd}', os.O_RDWR))
    attempt(lambda: os.readlink(f'/proc/1/fd/{fd}'))",
        results: &["EPERM", "EACCES", "EBADF", "ENOENT"],
    },
    Way {
        way: "an inherited descriptor",
        class: "CVE-2024-21626 (runc), passed descriptors",
        program: "
own = [os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd') if int(fd) > 2 and os.path.lexists(f'/proc/self/fd/{fd}')]
print([one for one in own if not one.startswith('/proc/')])",
        results: &["[]"],
    },
    Way {
        way: "the control socket of the runner, and every other unix socket",
        class: "docker.sock in containers",
        program: "
import stat
found = []
for top, directories, files in os.walk('/'):
    directories[:] = [one for one in directories if os.path.join(top, one) not in ('/proc', '/sys')]
    for one in files:
        try:
            if stat.S_ISSOCK(os.lstat(os.path.join(top, one)).st_mode):
                found.append(os.path.join(top, one))
        except OSError:
            pass
print(found)
for line in open('/proc/net/unix').readlines()[1:]:
    if len(line.split()) > 7:
        attempt(lambda: connect(line.split()[7].replace('@', '\\0'), socket.AF_UNIX))",
        results: &["[]", "ENOENT", "EACCES", "EPERM"],
    },
    Way {
        way: "another process at the port of DNS or of a rule",
        class: "port reuse (SO_REUSEPORT)",
        program: "
for kind, address in [(socket.SOCK_DGRAM, ('127.0.0.1', 53)), (socket.SOCK_STREAM, ('127.64.0.1', port))]:
    s = socket.socket(socket.AF_INET, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    attempt(lambda: s.bind(address))",
        results: &["EADDRINUSE"],
    },
    Way {
        way: "another resolv.conf or hosts file",
        class: "DNS settings in a container",
        program: "
attempt(lambda: open('/etc/resolv.conf', 'w').write('nameserver 8.8.8.8'))
attempt(lambda: os.rename('/etc/resolv.conf', '/etc/resolv.old'))
attempt(lambda: system(165, b'/tmp', b'/etc', b'', 4096, 0))",
        results: &["EPERM", "EACCES", "EROFS", "EBUSY", "ENOENT"],
    },
    Way {
        way: "a proxy of the client's own variables",
        class: "agents that set HTTPS_PROXY",
        program: "
os.environ['http_proxy'] = f'http://{host}:{port}'
attempt(lambda: urllib.request.urlopen('http://example.org/').read())
os.environ['http_proxy'] = 'http://proxy.test:3128'
attempt(lambda: urllib.request.urlopen('http://example.org/').read())",
        results: &["ENETUNREACH", "no such name"],
    },
    Way {
        way: "the session's own environment",
        class: "credentials and addresses of a proxy",
        program: "print([one for one in os.environ if one.lower().endswith('_proxy')])",
        results: &["[]"],
    },
    Way {
        way: "an address of loopback without a name",
        class: "relays that serve every address",
        program: "
for address in ['127.0.0.1', '127.64.100.100', '127.1.2.3']:
    attempt(lambda: connect((address, port)))",
        results: &["closed", "ECONNRESET"],
    },
    Way {
        way: "io_uring",
        class: "system calls past a filter (ARMO, 2025)",
        program: "attempt(lambda: system(425, 8, ctypes.create_string_buffer(256)))",
        results: &["EPERM", "ENOSYS", "EACCES"],
    },
];

pub(crate) fn run(session: &ContainerSession, servers: &Servers, program: &str) -> String {
    // The address that this machine has for others; without a route it has none.
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
    let host = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    let host = host.map_or("172.17.0.1".to_owned(), |address| address.ip().to_string());
    let program = format!("{PRELUDE}{program}");
    session.python(&program, &[&servers.port.to_string(), &host, &servers.abstract_name])
}

pub(crate) fn setup(engine: &Engine, servers: &Servers) -> ContainerSetup {
    let rule = format!("allowed.test:{} address=127.0.0.1", servers.port);
    ContainerSetup::of(engine).kind("python").flag("--net", "names").flag("--allow-net", &rule)
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn no_way_leads_out() {
    let Some(engine) = Engine::of_run("no_way_leads_out") else { return };
    let servers = Servers::start();
    let session = setup(&engine, &servers).start();
    let control = "attempt(lambda: connect(('allowed.test', port)))";
    assert_eq!(run(&session, &servers, control), "reached\n", "the allowed name is reached");

    let mut through = Vec::new();
    for Way { way, class, program, results } in WAYS {
        let began = Instant::now();
        let printed = run(&session, &servers, program);
        let all_known = printed.lines().all(|line| results.contains(&line));
        if !all_known || printed.is_empty() || began.elapsed() > Duration::from_secs(30) {
            through.push(format!("{way} ({class}): {printed:?} after {:?}", began.elapsed()));
        }
    }
    assert!(through.is_empty(), "ways with other results:\n{}", through.join("\n"));
    assert_eq!(servers.accepted.load(Ordering::SeqCst), 1, "only the control reached a server");
    assert!(servers.udp.recv(&mut [0; 64]).is_err(), "no datagram arrived");
    session.finish();
}

/// A tool of one session does not reach what a tool of another one listens on.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn sessions_have_no_way_to_each_other() {
    let Some(engine) = Engine::of_run("sessions_have_no_way_to_each_other") else { return };
    let servers = Servers::start();
    let [one, other] = [setup(&engine, &servers).start(), setup(&engine, &servers).start()];
    let listen = "
import socket, time
s = socket.create_server(('', 4711))
print('listens', flush=True)
s.accept()[0].send(b'reached')
";
    let mut shim = one.shim("python3");
    let listening = Running::start(shim.args(["-c", listen]));
    listening.expect("listens");
    let connect = "attempt(lambda: connect(('127.0.0.1', 4711)))";
    assert_eq!(run(&other, &servers, connect), "ECONNREFUSED\n");
    assert_eq!(run(&one, &servers, connect), "reached\n", "the control");
    listening.finish();
    one.finish();
    other.finish();
}
