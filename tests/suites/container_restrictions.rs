//! The restrictions of system calls in a container (`spec/confinement.md#system-calls`).

use std::fs;

use aifo_tests::{ContainerSetup, EVERY_TOOL, Engine, ORDINARY_PROGRAMS};

/// Prints each restricted call with its result, on 64-bit and 32-bit system calls.
const CALLS: &str = r#"
import ctypes, errno, mmap, os, platform, tempfile
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(tempfile.mkdtemp())

def show(name, result):
    print(name, "ok" if result >= 0 else errno.errorcode[-result])

def wide(number, *args):
    result = libc.syscall(number, *[ctypes.c_long(arg) for arg in args])
    return result if result >= 0 else -ctypes.get_errno()

def modes(call, chmod, openat, at, path):
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY))
    os.makedirs("dir", exist_ok=True)
    show("chmod u+s", call(chmod, path(b"file"), 0o4755))
    show("chmod g+s of a directory", call(chmod, path(b"dir"), 0o2775))
    show("create u+s", call(openat, at, path(b"new"), os.O_CREAT | os.O_WRONLY, 0o4755))
    show("create g+s", call(openat, at, path(b"new"), os.O_CREAT | os.O_WRONLY, 0o2755))
    show("create", call(openat, at, path(b"new"), os.O_CREAT | os.O_WRONLY, 0o755))
    show("open", call(openat, at, path(b"file"), os.O_RDONLY, 0o6777))

keep = []
def address(data):
    keep.append(ctypes.create_string_buffer(data))
    return ctypes.addressof(keep[-1])

if platform.machine() == "x86_64":
    show("io_uring", wide(425, 1, 0))
    show("openat2", wide(437, -100, address(b"."), address(bytes(24)), 24))
    for family in (1, 2, 10, 16, 17, 38, 40):
        show(f"family {family}", wide(41, family, 3 if family in (16, 17) else 5 if family == 38 else 1, 0))
    modes(wide, 90, 257, -100, address)
    limit = address(bytes(16))
    show("own limit", wide(302, 0, 4, limit, 0))
    show("other's limit read", wide(302, os.getpid(), 4, 0, limit))
    show("other's limit", wide(302, os.getpid(), 4, limit, 0))
    show("x32", wide(0x40000000 + 39))

    # push rbx; eax = 1st; ebx, ecx, edx, esi = the others; int 0x80; pop rbx; ret
    code = bytes.fromhex("53 89f8 89f3 4189d1 89ca 4489c9 4489c6 cd80 5b c3")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    entry = ctypes.addressof(ctypes.c_char.from_buffer(page))
    raw = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int] * 5)(entry)
    def narrow(number, *args):
        return raw(number, *args, *[0] * (4 - len(args)))
    MAP_32BIT = 0x40
    low = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_32BIT)
    base = ctypes.addressof(ctypes.c_char.from_buffer(low))
    def low_path(text):
        low.seek(0)
        low.write(text + b"\0")
        return base
    print("32 bit")
    show("io_uring", narrow(425, 1, 0))
    show("family 40", narrow(359, 40, 1, 0))
    low.seek(64); low.write((40).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(4))
    show("socketcall", narrow(102, 1, base + 64))
    modes(narrow, 15, 295, -100, low_path)
    show("pid", min(narrow(20), 0))
"#;

const RESTRICTED: &str = "\
io_uring ENOSYS
openat2 ENOSYS
family 1 ok
family 2 ok
family 10 ok
family 16 ok
family 17 EAFNOSUPPORT
family 38 EAFNOSUPPORT
family 40 EAFNOSUPPORT
chmod u+s EPERM
chmod g+s of a directory ok
create u+s EPERM
create g+s EPERM
create ok
open ok
own limit ok
other's limit read ok
other's limit EPERM
x32 ENOSYS
32 bit
io_uring ENOSYS
family 40 EAFNOSUPPORT
socketcall EAFNOSUPPORT
chmod u+s EPERM
chmod g+s of a directory ok
create u+s EPERM
create g+s EPERM
create ok
open ok
pid ok
";

/// This process's hard limits on open files and pending signals.
fn own_limits() -> [u64; 2] {
    use nix::sys::resource::{Resource, getrlimit};
    [Resource::RLIMIT_NOFILE, Resource::RLIMIT_SIGPENDING].map(|it| getrlimit(it).unwrap().1)
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn restricted_calls_fail_with_an_errno() {
    let Some(engine) = Engine::of_run("restricted_calls_fail_with_an_errno") else { return };
    if cfg!(not(target_arch = "x86_64")) {
        eprintln!("skipped: the probe is for x86-64");
        return;
    }
    let session = ContainerSetup::of(&engine).kind("python").start();
    assert_eq!(session.python(CALLS, &[]), RESTRICTED);
    let limits = "import resource as r; print([r.getrlimit(n) for n in (4, 7, 11)])";
    let mut seen = session.python(limits, &[]);
    seen.retain(|c| !matches!(c, '(' | ')' | '[' | ']' | ' ' | '\n'));
    let seen: Vec<u64> = seen.split(',').map(|number| number.parse().unwrap()).collect();
    let own = own_limits();
    assert_eq!(seen[..2], [0, 0], "no core dumps");
    assert!(seen[3] < own[0] && seen[5] < own[1], "below the host's limits: {seen:?} {own:?}");
    session.finish();

    // The engine's own profile allows what the probe tries.
    let seen = engine.text(["run", "--rm", EVERY_TOOL, "python3", "-c", CALLS]);
    for allowed in ["chmod u+s ok", "create u+s ok", "other's limit ok"] {
        assert!(seen.lines().any(|line| line == allowed), "{allowed}: {seen}");
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn ordinary_programs_work() {
    let Some(engine) = Engine::of_run("ordinary_programs_work") else { return };
    let session = ContainerSetup::of(&engine).kind("python").start();
    let seen = session.python(ORDINARY_PROGRAMS, &[]);
    assert!(seen.starts_with("cp works\ntar works\nnode works\n"), "{seen}");
    assert!(!seen.contains("failed"), "{seen}");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_user_leaves_restrictions_out() {
    let Some(engine) = Engine::of_run("the_user_leaves_restrictions_out") else { return };
    let setup = ContainerSetup::of(&engine).kind("python");
    let directory = setup.setup().scratch().join("home/.config/aifo");
    fs::create_dir_all(&directory).unwrap();
    let text = "[containers]\nunrestricted = ['set-id', 'openat2']\n";
    fs::write(directory.join("config.toml"), text).unwrap();
    let session = setup.start();
    let seen = session.python(CALLS, &[]);
    for line in ["chmod u+s ok", "create u+s ok", "io_uring ENOSYS", "family 38 EAFNOSUPPORT"] {
        assert!(seen.lines().any(|it| it == line), "{line}: {seen}");
    }
    assert!(!seen.contains("openat2 ENOSYS"), "{seen}");
    session.finish();
}
