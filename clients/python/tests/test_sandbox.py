"""A sandbox on a real engine."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import aifo


def within(image: str, engine: str, body: Callable[[aifo.Sandbox], Awaitable[None]]) -> None:
    async def run() -> None:
        async with aifo.Sandbox(image, engine=engine) as box:
            await body(box)

    asyncio.run(asyncio.wait_for(run(), 300))


def test_calls(image: str, engine: str) -> None:
    async def body(box: aifo.Sandbox) -> None:
        result = await box.exec(["sh", "-c", 'echo "$A"; pwd; echo err >&2; exit 7'], cwd="/usr", env={"A": "b c"})
        assert (result.code, result.stdout, result.stderr) == (7, b"b c\n/usr\n", b"err\n")
        assert not result.timed_out and not result.cut and result.limit is None
        assert result.wall > 0 and result.max_rss > 0
        every_byte = bytes(range(1, 256))
        result = await box.exec(["printf", "%s", every_byte])
        assert result.stdout == every_byte
        data = os.urandom(5 << 20)
        result = await box.exec(["cat"], stdin=data)
        assert result.stdout == data
        assert (await box.exec(["cat"])).stdout == b""
        assert (await box.exec(["sh", "-c", "kill -TERM $$"])).code == 128 + signal.SIGTERM
        result = await box.exec(["sh", "-c", "exec <&-; head -c 100000 /dev/zero"], stdin=data, max_output=1000)
        assert (len(result.stdout), result.cut) == (1000, True)
        result = await box.exec(["sh", "-c", "echo 1; echo 2 >&2; echo 3"], merge=True)
        assert (result.stdout, result.stderr) == (b"1\n2\n3\n", b"")
        # A background process holds the output; the call ends with the program.
        result = await box.exec(["sh", "-c", "sleep 1000 & echo now"])
        assert result.stdout == b"now\n"

    within(image, engine, body)


def test_users(image: str, engine: str) -> None:
    async def body(box: aifo.Sandbox) -> None:
        script = "id -u; id -g; echo $HOME"
        assert (await box.exec(["sh", "-c", script], user="nobody")).stdout.split()[0] == b"65534"
        assert (await box.exec(["sh", "-c", script], user="4711:4712")).stdout == b"4711\n4712\n/\n"
        with pytest.raises(aifo.UserUnsupported):
            await box.exec(["true"], user="no-such-user")
        await box.write("/srv/deep/root", b"secret")
        await box.exec(["chmod", "600", "/srv/deep/root"])
        with pytest.raises(PermissionError):
            await box.read("/srv/deep/root", user="nobody")
        with pytest.raises(PermissionError):
            await box.write("/srv/of-nobody", b"", user="nobody")
        await box.write("/tmp/of-nobody", b"1", user="nobody")
        assert (await box.exec(["stat", "-c", "%u", "/tmp/of-nobody"])).stdout == b"65534\n"
        # The runner's own entries in /proc are not the user's.
        for entry in ("self", "1", "thread-self"):
            with pytest.raises(PermissionError):
                await box.read(f"/proc/{entry}/environ", user="nobody")
        assert await box.read("/proc/uptime", user="nobody")
        # Neither may a program of the user end the runner.
        await box.exec(["sh", "-c", "kill -9 -1"], user="nobody")
        assert (await box.exec(["echo", "on"])).stdout == b"on\n"

    within(image, engine, body)


def test_files(image: str, engine: str, tmp_path: Path) -> None:
    async def body(box: aifo.Sandbox) -> None:
        data = os.urandom(3 << 20)
        await box.write("/srv/a/b/file", data)
        assert await box.read("/srv/a/b/file") == data
        await box.write("/srv/a/b/file", b"short")
        assert await box.read("/srv/a/b/file") == b"short"
        with pytest.raises(aifo.TooLarge):
            await box.read("/srv/a/b/file", max_bytes=4)
        with pytest.raises(FileNotFoundError):
            await box.read("/srv/none")
        with pytest.raises(IsADirectoryError):
            await box.read("/srv")
        await box.exec(["sh", "-c", "mkfifo /tmp/fifo; ln -s /proc/1/mem /tmp/mem; ln -s loop /tmp/loop"])
        for path in ("/tmp/fifo", "/dev/zero", "/tmp/loop"):
            with pytest.raises(OSError):
                await box.read(path)
            with pytest.raises(OSError):
                await box.write(path, b"x")
        with pytest.raises(OSError):
            await box.read("/tmp/mem")
        (tmp_path / "up/sub").mkdir(parents=True)
        (tmp_path / "up/sub/file").write_bytes(b"content")
        await box.upload(tmp_path / "up", "/srv/target")
        assert await box.read("/srv/target/sub/file") == b"content"
        await box.download("/srv/target", tmp_path / "down")
        assert (tmp_path / "down/sub/file").read_bytes() == b"content"
        assert (await box.exec(["echo", "on"])).code == 0

    within(image, engine, body)


def test_what_cannot_start(image: str, engine: str) -> None:
    async def body(box: aifo.Sandbox) -> None:
        await box.exec(["sh", "-c", "cd /tmp; echo 'echo $0' > x; chmod +x x; echo > plain; cp x /bin/in-path"])
        rows: list[tuple[list[str | bytes], type[OSError]]] = [
            (["./none"], aifo.CannotStart),
            (["no-such-program"], aifo.CannotStart),
            ([""], aifo.CannotStart),
            ([], aifo.CannotStart),
            (["/tmp"], aifo.CannotStart),
            (["/tmp/plain"], aifo.CannotStart),
            (["true", "a\0b"], aifo.CannotStart),
            (["tr\0ue"], aifo.CannotStart),
            (["true", "x" * (3 << 20)], aifo.CannotStart),
            (["true", "x" * (5 << 20)], aifo.CannotStart),
        ]
        for args, error in rows:
            with pytest.raises(error):
                await box.exec(args)
        for variables in ({"A=": "b"}, {"": "b"}, {"A": "b\0"}):
            with pytest.raises(aifo.CannotStart):
                await box.exec(["true"], env=variables)
        with pytest.raises(aifo.CannotStart):
            await box.exec(["true"], cwd="/no/such/directory")
        assert (await box.exec(["sh", "./x"], cwd="/tmp")).stdout == b"./x\n"
        assert (await box.exec(["echo", "on"], env={"PATH": "/bin"})).stdout == b"on\n"

    within(image, engine, body)


def test_time_and_cancellation(image: str, engine: str) -> None:
    async def body(box: aifo.Sandbox) -> None:
        daemons = "setsid sleep 4321 & setsid sh -c 'trap \"\" TERM INT; sleep 4321' & sleep 4321"
        count = ["sh", "-c", "grep -lz 4321 /proc/[0-9]*/cmdline | wc -l"]
        result = await box.exec(["sh", "-c", daemons], timeout=0.3)
        assert (result.timed_out, result.code) == (True, 128 + signal.SIGKILL)

        async def none_is_left() -> None:
            # The shell that counts names the number itself, and so does its grep.
            while int((await box.exec(count)).stdout) > 2:
                await asyncio.sleep(0.01)

        await asyncio.wait_for(none_is_left(), 20)
        task = asyncio.ensure_future(box.exec(["sh", "-c", daemons]))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(none_is_left(), 20)

    within(image, engine, body)


def test_many_at_once(image: str, engine: str) -> None:
    async def body(box: aifo.Sandbox) -> None:
        results = await asyncio.gather(*(box.exec(["sh", "-c", f"echo {n}; exit {n % 100}"]) for n in range(2000)))
        for n, result in enumerate(results):
            assert (result.code, result.stdout) == (n % 100, f"{n}\n".encode())

    within(image, engine, body)


def test_a_program_to_talk_to(image: str, engine: str) -> None:
    async def body(box: aifo.Sandbox) -> None:
        async with box.start(["sh"], stdin=aifo.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(b"echo $((1 + 2))\n")
            assert await process.stdout.readline() == b"3\n"
            process.stdin.write(b"exit 4\n")
            assert await process.wait() == 4
        with pytest.raises(aifo.CannotStart):
            async with box.start(["no-such-program"]):
                pass

    within(image, engine, body)


def test_no_network(image: str, engine: str) -> None:
    async def body(box: aifo.Sandbox) -> None:
        script = "(: < /dev/tcp/127.0.0.1/9) 2>&1"
        assert b"refused" in (await box.exec(["bash", "-c", script])).stdout
        assert b"unreachable" in (await box.exec(["bash", "-c", script], network=False)).stdout

    within(image, engine, body)


def test_limits(image: str, engine: str) -> None:
    async def run() -> None:
        options = ["--memory", "64m", "--memory-swap", "64m", "--pids-limit", "60"]
        async with aifo.Sandbox(image, engine=engine, options=options) as box:
            result = await box.exec(["sh", "-c", "x=$(head -c 200000000 /dev/zero | tr '\\0' x)"])
            assert (result.code != 0, result.limit) == (True, "memory")
            bomb = "f() { f | f & }; f; wait; sleep 1"
            await box.exec(["sh", "-c", bomb], timeout=2)
            assert (await box.exec(["echo", "on"])).stdout == b"on\n"

    asyncio.run(asyncio.wait_for(run(), 120))


def test_output_of_a_gibibyte(image: str, engine: str) -> None:
    async def body(box: aifo.Sandbox) -> None:
        result = await box.exec(["head", "-c", str(1 << 30), "/dev/zero"], max_output=1 << 20)
        assert (len(result.stdout), result.cut, result.code) == (1 << 20, True, 0)

    within(image, engine, body)


def test_the_end_of_the_container(image: str, engine: str) -> None:
    async def body(box: aifo.Sandbox) -> None:
        task = asyncio.ensure_future(box.exec(["sleep", "1000"]))
        await asyncio.sleep(0.2)
        subprocess.run([engine, "kill", box.container], check=True, capture_output=True)
        with pytest.raises(aifo.SandboxLost):
            await task
        with pytest.raises(aifo.SandboxLost):
            await box.exec(["true"])

    within(image, engine, body)


def test_join(image: str, engine: str) -> None:
    async def run() -> None:
        words = [engine, "run", "--detach", "--rm", "--user", "nobody", "--workdir", "/usr"]
        for volume in aifo.mounts():
            words += ["--volume", volume]
        container = subprocess.run(
            [*words, "--entrypoint", "sleep", image, "1000"], check=True, capture_output=True, text=True
        ).stdout.strip()
        try:
            for _ in range(2):
                async with aifo.Sandbox.join(container, engine=engine) as box:
                    result = await box.exec(["sh", "-c", "id -u; pwd; cat /proc/1/comm"])
                    assert result.stdout == b"65534\n/usr\nsleep\n"
        finally:
            subprocess.run([engine, "rm", "--force", container], check=True, capture_output=True)

    asyncio.run(asyncio.wait_for(run(), 120))


KILLED = """
import asyncio, aifo, sys
async def main():
    async with aifo.Sandbox(sys.argv[1], engine=sys.argv[2]) as box:
        calls = [asyncio.ensure_future(box.exec(["sleep", "1000"])) for _ in range(64)]
        await box.exec(["true"])
        print(box.container, flush=True)
        await asyncio.gather(*calls)
asyncio.run(main())
"""


def test_nothing_is_left_by_a_killed_process(image: str, engine: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", KILLED, image, engine], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    container = child.stdout.readline().strip()
    assert container
    child.kill()
    child.wait()
    child.stdout.close()
    deadline = time.monotonic() + 10
    while subprocess.run([engine, "container", "inspect", container], capture_output=True).returncode == 0:
        assert time.monotonic() < deadline, "the container is left"
        time.sleep(0.05)
    assert not list(Path("/tmp").glob(f"aifo-sandbox-{child.pid}-*"))
