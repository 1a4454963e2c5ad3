#!/usr/bin/env -S python3 -IS
"""Starts a test program in the same way wherever `cargo test` was started; cargo's `runner`.

The program gets a session without a terminal and a process group that is not orphaned: this process leads the session
and is the program's parent. Signals, umask, limits, descriptors and environment are fixed. It ends with its caller.
"""
import fnmatch, os, resource, select, signal, sys

# The caller's variables that it gets: programs, and settings of cargo, the suites and container engines.
VARIABLES = """PATH HOME USER LOGNAME LD_LIBRARY_PATH CARGO CARGO_* RUST* AIFO_TEST_* AIFO_CODER_IMAGE_PREFIX
    AIFO_WRITE_SNAPSHOTS DOCKER_* CONTAINER_HOST CONTAINERS_* KUBE* XDG_RUNTIME_DIR SSL_CERT_*""".split()
FIXED = {"AIFO_TEST_START": "fixed", "LANG": "C.UTF-8", "TERM": "dumb"}
# Soft limits. Any other is the hard one.
LIMITS = {resource.RLIMIT_NOFILE: 16384, resource.RLIMIT_CORE: 0, resource.RLIMIT_STACK: 8 << 20}


def execute(program):
    os.umask(0o022)
    for limit in {getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}:
        hard = resource.getrlimit(limit)[1]
        soft = LIMITS.get(limit, hard)
        resource.setrlimit(limit, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.closerange(3, 1 + max(int(fd) for fd in os.listdir("/proc/self/fd")))
    is_kept = lambda name: any(fnmatch.fnmatchcase(name, pattern) for pattern in VARIABLES)
    kept = {name: value for name, value in os.environ.items() if is_kept(name)}
    os.execve(program[0], program, kept | FIXED)


def status_of(child):
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else 128 - status


def main(program):
    if "/deps/" not in program[0]:  # `cargo run`
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them.
            signal.signal(number, signal.SIG_DFL)
        os.execv(program[0], program)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if os.getpgrp() == os.getpid() and (leader := os.fork()):
        return status_of(leader)
    caller = os.pidfd_open(os.getppid())
    os.setsid()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        execute(program)

    def stop(*_):
        os.killpg(child, signal.SIGKILL)
        sys.exit(1)

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    ends = select.poll()
    for process in (caller, os.pidfd_open(child)):
        ends.register(process, select.POLLIN)
    if caller in dict(ends.poll()):
        stop()
    return status_of(child)


sys.exit(main(sys.argv[1:]))
