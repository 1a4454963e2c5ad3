# Runs programs that need unusual system calls, and prints for each whether it works.
import os, platform, shutil, stat, subprocess, tempfile

os.chdir(tempfile.mkdtemp(dir="."))


def show(name, needed, works):
    missing = [program for program in needed if not shutil.which(program)]
    if missing:
        print(name, "absent")
        return
    try:
        result = works()
        print(name, "works" if result is True else f"failed: {result}")
    except Exception as error:
        print(name, f"failed: {error} {getattr(error, 'stderr', '')}")


def run(*command, code=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != code:
        raise OSError(f"{command}: {done.returncode} {done.stdout} {done.stderr}")
    return done.stdout


def compiled(source, *flags):
    with open("it.c", "w") as file:
        file.write(source)
    run("gcc", *flags, "-o", "it", "it.c")
    return "./it"


def traced():
    run("strace", "-f", "-o", "trace", "/bin/true")
    return "execve(" in open("trace").read()


def debugged():
    program = compiled("#include <stdlib.h>\nint main(void) { abort(); }", "-g")
    out = run("gdb", "-nx", "-batch", "-ex", "run", "-ex", "bt", program)
    return ("SIGABRT" in out and "main" in out) or out


def narrow():
    exit_with_7 = 'void _start(void) { __asm__("int $0x80" :: "a"(1), "b"(7)); }'
    return run(compiled(exit_with_7, "-m32", "-static", "-nostdlib"), code=7) == ""


def tree():
    os.makedirs("from/team", exist_ok=True)
    os.chmod("from/team", 0o2775)
    with open("from/team/file", "w") as file:
        file.write("text")
    os.chmod("from/team/file", 0o640)
    if not os.path.lexists("from/link"):
        os.symlink("team/file", "from/link")


def same(copy):
    paths = ["team", "team/file", "link"]
    mode = lambda path: stat.filemode(os.lstat(path).st_mode)
    pairs = [(mode("from/" + path), mode(copy + "/" + path)) for path in paths]
    return all(one == other for one, other in pairs) or pairs


def copied():
    tree()
    run("cp", "-a", "from", "copied")
    return same("copied")


def archived():
    tree()
    os.mkdir("unpacked")
    run("tar", "-cf", "it.tar", "-C", "from", ".")
    run("tar", "-xpf", "it.tar", "-C", "unpacked")
    return same("unpacked")


def node():
    script = """
    const fs = require("fs"), net = require("net"), { Worker } = require("worker_threads");
    const worker = new Worker("require('fs').promises.writeFile('n', 'text')", { eval: true });
    worker.on("exit", () => net.createServer().listen(0, "127.0.0.1", function () {
        console.log(fs.readFileSync("n", "utf8")); this.close();
    }));
    """
    return run("node", "-e", script) == "text\n"


show("cp", ["cp"], copied)
show("tar", ["tar"], archived)
show("node", ["node"], node)
show("gdb", ["gdb", "gcc"], debugged)
show("strace", ["strace"], traced)
show("gcc -m32", ["gcc"] if platform.machine() == "x86_64" else ["absent"], narrow)
