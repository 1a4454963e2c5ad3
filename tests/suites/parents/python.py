"""How agents written for python use child processes: `python3 python.py CASE` runs one case and prints
the result."""

import asyncio
import json
import os
import pty
import signal
import socket
import subprocess
import sys
from subprocess import DEVNULL, PIPE, STDOUT

# Short sleeps: a signal just before a sleep does not end it.
SLEEP = ["python3", "-c", 'import time; print("ready", flush=True); [time.sleep(.05) for _ in range(1200)]']
UPPER = ["python3", "-c", "import sys; print(sys.stdin.read().upper())"]
OUTSIDE = os.environ["OUTSIDE"]


def tell(*what):
    print(*map(json.dumps, what), flush=True)


def tell_run(*args, **kwargs):
    done = subprocess.run(*args, capture_output=True, text=True, **kwargs)
    tell(done.returncode, done.stdout, done.stderr)


def run_with_input():
    tell_run(UPPER, input="some text")
    tell_run(["ninja", "both", "2"], stdin=DEVNULL)
    tell_run("cmake | python3 -c 'print(input())'; ninja exit 3", shell=True, input="line\n")
    tell_run(["cmake"], input="x" * 3_000_000 + "\n")
    # A tool that does not read its input.
    tell_run(["ninja", "exit", "3"], input="x" * 3_000_000)


def pipes_apart():
    child = subprocess.Popen(["ninja", "both", "500"], stdout=PIPE, stderr=PIPE, text=True)
    out, err = child.communicate()
    tell(child.returncode, out, err)


def pipes_merged():
    child = subprocess.Popen(["ninja", "both", "500"], stdout=PIPE, stderr=STDOUT, text=True)
    tell(child.communicate()[0], child.wait())


def timeout_and_kill():
    child = subprocess.Popen(SLEEP, stdout=PIPE, text=True)
    tell(child.stdout.readline())
    try:
        child.communicate(timeout=0.1)
    except subprocess.TimeoutExpired:
        tell("not in time")
    child.kill()
    tell(child.communicate()[0], child.returncode)
    try:
        subprocess.run(SLEEP, timeout=0.3, stdout=DEVNULL)
    except subprocess.TimeoutExpired:
        tell("not in time")


def signals():
    for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2, signal.SIGRTMIN]:
        child = subprocess.Popen(SLEEP, stdout=PIPE, stderr=DEVNULL, text=True)
        tell(child.stdout.readline())
        child.send_signal(number)
        tell(number, child.wait())


def session_and_killpg():
    for number in [signal.SIGTERM, signal.SIGKILL]:
        line = " & ".join(["python3 -c 'import time; print(1, flush=True); time.sleep(60)'"] * 2)
        child = subprocess.Popen(["bash", "-c", line], stdout=PIPE, start_new_session=True)
        tell(child.stdout.read(4).decode())
        os.killpg(child.pid, number)
        # End of file: no process of the group has the pipe open.
        tell(child.stdout.read().decode(), child.wait())


def line_by_line():
    program = """
import os, time
for number in range(20):
    print(number, flush=True)
    while not os.path.exists(f"seen-{number}"): time.sleep(.001)
"""
    child = subprocess.Popen(["python3", "-c", program], stdout=PIPE, text=True)
    for line in child.stdout:
        open(f"seen-{line.strip()}", "w").close()
        tell(line)
    tell(child.wait())


def conversation():
    child = subprocess.Popen(["cmake"], stdin=PIPE, stdout=PIPE, text=True, bufsize=1)
    for number in range(200):
        child.stdin.write(f"turn {number}\n")
        assert child.stdout.readline() == f"turn {number}\n"
    child.stdin.close()
    tell(child.wait())


def stopped_and_continued():
    child = subprocess.Popen(SLEEP, stdout=PIPE, text=True, process_group=0)
    tell(child.stdout.readline())
    for _ in range(3):
        os.kill(child.pid, signal.SIGTSTP)
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        tell(os.WIFSTOPPED(status), os.WSTOPSIG(status))
        os.kill(child.pid, signal.SIGCONT)
        _, status = os.waitpid(child.pid, os.WCONTINUED)
        tell(os.WIFCONTINUED(status))
    child.terminate()
    tell(child.wait())


def what_a_child_takes():
    names = 'import os; print(*map(os.environ.get, ["CI", "NO_COLOR"]))'
    tell_run(["python3", "-c", names], env={"PATH": os.environ["PATH"], "CI": "yes"})
    os.mkdir("sub")
    tell_run(["ninja", "cwd"], cwd="sub")
    tell_run(["python3", "-c", "open('made', 'w')"], umask=0o077)
    for restore in [True, False]:
        cat = ["cmake", "/proc/self/status"]
        told = subprocess.run(cat, stdout=PIPE, text=True, restore_signals=restore)
        tell([line for line in told.stdout.splitlines() if line.startswith("SigIgn")])


def files():
    for folder in [".", OUTSIDE]:
        with open(f"{folder}/in", "w") as file:
            file.write("from a file\n" * 3)
        with open(f"{folder}/in") as source, open(f"{folder}/out", "w") as target:
            subprocess.run(["cmake"], stdin=source, stdout=target, check=True)
        tell(open(f"{folder}/out").read())


def sockets():
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(["cmake"], stdin=theirs, stdout=theirs)
    theirs.close()
    for number in range(50):
        ours.sendall(b"%d\n" % number)
        assert ours.recv(100) == b"%d\n" % number
    ours.shutdown(socket.SHUT_WR)
    tell(ours.recv(100).decode(), child.wait())


def with_asyncio():
    async def main():
        child = await asyncio.create_subprocess_exec(*UPPER, stdin=PIPE, stdout=PIPE)
        out, _ = await child.communicate(b"async")
        tell(out.decode(), child.returncode)
        child = await asyncio.create_subprocess_exec(*SLEEP, stdin=PIPE, stdout=PIPE)
        tell((await child.stdout.readline()).decode())
        child.terminate()
        tell(await child.wait())
        calls = [asyncio.create_subprocess_exec("ninja", "exit", str(n)) for n in range(16)]
        tell([await child.wait() for child in await asyncio.gather(*calls)])

    asyncio.run(main())


def on_a_terminal():
    program = "import os; print([os.isatty(n) for n in range(3)], os.get_terminal_size(0))"
    tell(pty.spawn(["python3", "-c", program]))
    tell(pty.spawn(["ninja", "exit", "3"]))


def typing_into_a_terminal():
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("python3", ["python3", "-q"])
    shown = b""

    def expect(text):
        nonlocal shown
        while text not in shown:
            shown += os.read(terminal, 1024)
        shown = shown.split(text, 1)[1]

    expect(b">>> ")
    os.write(terminal, b"6 * 111\n")
    expect(b"666")
    expect(b">>> ")
    os.write(terminal, b"import time; print('sleep' + 'ing'); [time.sleep(.05) for _ in range(1200)]\n")
    expect(b"sleeping")
    os.write(terminal, b"\x03")
    expect(b"KeyboardInterrupt")
    expect(b">>> ")
    os.write(terminal, b"raise SystemExit(5)\n")
    tell(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def old_ways():
    tell(os.waitstatus_to_exitcode(os.system("ninja exit 3")))
    pipe = os.popen("ninja say popen; ninja exit 4")
    tell(pipe.read(), os.waitstatus_to_exitcode(pipe.close()))
    tell(subprocess.getstatusoutput("ninja both 1; ninja exit 5"))
    try:
        subprocess.check_output(["ninja", "exit", "6"])
    except subprocess.CalledProcessError as error:
        tell(error.returncode)


globals()[sys.argv[1]]()
