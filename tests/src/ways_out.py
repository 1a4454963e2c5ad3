# Tries to reach the network without one, and prints each way with its result (x86-64).
import ctypes, errno, mmap, os, signal, socket, struct, subprocess

libc = ctypes.CDLL(None, use_errno=True)


def show(name, way):
    try:
        result = way()
    except OSError as error:
        result = errno.errorcode.get(error.errno, str(error))
    except Exception as error:
        result = type(error).__name__
    print(name + ":", "ok" if result is None else result, flush=True)


def call(number, *args):
    result = libc.syscall(number, *[ctypes.c_long(arg) for arg in args])
    if result < 0:
        raise OSError(ctypes.get_errno(), "")


def opened(family, kind, protocol=0):
    return lambda: socket.socket(family, kind, protocol).close()


def exit_code(program):
    """What a process returns: the errno by its name, ok for 0."""
    pid = os.fork()
    if pid == 0:
        try:
            program()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return None if code == 0 else errno.errorcode.get(code, str(code))


def passed_descriptor():
    here, there = socket.socketpair(socket.AF_UNIX)
    def helper():
        sent = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        socket.send_fds(there, [b"x"], [sent.fileno()])
    return exit_code(helper)


OTHER = subprocess.Popen(["sleep", "60"]).pid


def other_process():
    """Another process of the same user."""
    return OTHER


def pidfd_getfd():
    pidfd = os.pidfd_open(other_process())
    call(438, pidfd, 0, 0)


def written_memory():
    here = ctypes.create_string_buffer(b"x")
    vector = struct.pack("QQ", ctypes.addressof(here), 1)
    vector = ctypes.create_string_buffer(vector)
    at = ctypes.addressof(vector)
    call(311, other_process(), at, 1, at, 1, 0)



def in_new_namespace():
    def way():
        try:
            call(272, 0x50000000)
        except OSError:
            pass
        socket.socket().close()
    return exit_code(way)


def in_namespace_of_parent():
    def way():
        try:
            with open(f"/proc/{os.getppid()}/ns/net") as namespace:
                call(308, namespace.fileno(), 0)
        except OSError:
            pass
        socket.socket().close()
    return exit_code(way)


def daemon():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(writer, (exit_code(lambda: socket.socket().close()) or "ok").encode())
        os._exit(0)
    os.wait()
    return os.read(reader, 100).decode()


def resolved():
    try:
        socket.getaddrinfo("example.com", 80)
    except socket.gaierror:
        return "not resolved"


def shell():
    done = subprocess.run(["bash", "-c", ": < /dev/tcp/127.0.0.1/9"], capture_output=True, text=True)
    return "ENETUNREACH" if "Network is unreachable" in done.stderr else done.stderr.strip()


def route_removed():
    """Asks the kernel to remove a route of TEST-NET-1, which does not exist."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as routing:
        body = struct.pack("BBBBBBBBI", 2, 24, 0, 0, 254, 0, 0, 0, 0)
        body += struct.pack("HH4s", 8, 1, socket.inet_aton("192.0.2.0"))
        routing.send(struct.pack("IHHII", 16 + len(body), 25, 5, 1, 0) + body)
        code = -struct.unpack("i", routing.recv(4096)[16:20])[0]
        if code:
            raise OSError(code, "")


def interfaces():
    if "lo" not in [name for _, name in socket.if_nameindex()]:
        return "none"


def narrow_code():
    """Returns a function for 32-bit system calls."""
    # push rbx; eax = 1st; ebx, ecx, edx, esi = the others; int 0x80; pop rbx; ret
    code = bytes.fromhex("53 89f8 89f3 4189d1 89ca 4489c9 4489c6 cd80 5b c3")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    entry = ctypes.addressof(ctypes.c_char.from_buffer(page))
    raw = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int] * 5)(entry)

    def narrow(number, *args):
        result = raw(number, *args, *[0] * (4 - len(args)))
        if result < 0:
            raise OSError(-result, "")
    narrow.page = page
    return narrow


def narrow_program():
    """A 32-bit program made by hand: exit(-socket(AF_INET, SOCK_STREAM, 0))."""
    code = bytes.fromhex("b867010000 bb02000000 b901000000 31d2 cd80 f7d8 89c3 b801000000 cd80")
    base = 0x08048000
    head = b"\x7fELF\1\1\1" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    size = 84 + len(code)
    head += struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 5, 0x1000)
    with open("narrow", "wb") as file:
        file.write(head + code)
    os.chmod("narrow", 0o755)
    try:
        status = subprocess.run(["./narrow"]).returncode
    finally:
        os.unlink("narrow")
    return errno.errorcode.get(status) if status < 200 else None


def gateway():
    address = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY") or "http://127.0.0.1:9"
    host, port = address.split("//")[-1].rstrip("/").rsplit(":", 1)
    socket.create_connection((host.split("@")[-1], int(port)), 3).close()


STREAM, DGRAM, RAW = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW
show("tcp", opened(socket.AF_INET, STREAM))
show("tcp 6", opened(socket.AF_INET6, STREAM))
show("mptcp", opened(socket.AF_INET, STREAM, 262))
show("udp", opened(socket.AF_INET, DGRAM))
show("udp 6", opened(socket.AF_INET6, DGRAM))
show("ping", opened(socket.AF_INET, DGRAM, 1))
show("raw", opened(socket.AF_INET, RAW, 1))
show("packet", opened(17, RAW))
show("vsock", opened(40, STREAM))
show("tipc", opened(30, STREAM))
show("bluetooth", opened(31, RAW, 1))
show("alg", opened(38, 5))
show("xdp", opened(44, RAW))
show("netlink audit", opened(16, RAW, 9))
show("netlink netfilter", opened(16, RAW, 12))
show("netlink generic", opened(16, RAW, 16))
show("loopback", lambda: socket.create_server(("127.0.0.1", 0)).close())
show("gateway", gateway)
show("resolver", resolved)
show("shell", shell)
show("daemon", daemon)
show("passed descriptor", passed_descriptor)
show("new namespace", in_new_namespace)
show("other namespace", in_namespace_of_parent)
show("route", route_removed)
show("io_uring", lambda: call(425, 1, 0))
show("request_key", lambda: call(249, 0, 0, 0, 0))
show("seize", lambda: exit_code(lambda: call(101, 0x4206, other_process(), 0, 0)))
show("attach", lambda: exit_code(lambda: call(101, 16, other_process(), 0, 0)))
show("write memory", written_memory)
show("take descriptor", pidfd_getfd)
show("x32", lambda: call(0x40000000 + 41, 2, 1, 0))
narrow = narrow_code()
show("32-bit socket", lambda: narrow(359, 2, 1, 0))
show("32-bit socketcall", lambda: narrow(102, 1, 0))
show("32-bit program", narrow_program)
# What remains.
show("unix", opened(socket.AF_UNIX, STREAM))
show("pair", lambda: [one.close() for one in socket.socketpair()] and None)
show("interfaces", interfaces)
show("traceme", lambda: exit_code(lambda: call(101, 0, 0, 0, 0)))
os.kill(OTHER, signal.SIGKILL)
