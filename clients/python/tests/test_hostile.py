"""A forged runner: what root in the container can send. Needs no engine."""

from __future__ import annotations

import array
import asyncio
import os
import socket
import struct
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

import aifo
from aifo import _frames as frames
from aifo._connection import Connection
from aifo._engine import Settings


class Forged:
    """The other end of a connection."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control

    def send(self, kind: int, payload: bytes, fds: Sequence[int] = ()) -> None:
        data = struct.pack(">BI", kind, len(payload)) + payload
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.control.sendmsg([data], rights)


async def forged() -> tuple[aifo.Sandbox, Forged]:
    ours, theirs = socket.socketpair()
    box = aifo.Sandbox.__new__(aifo.Sandbox)
    box._settings = Settings(user=None, directory="/", home=None, mounts={})
    box._connection = Connection(ours)
    runner = Forged(theirs)
    runner.send(frames.HELLO, bytes([frames.VERSION]))
    await box._connection.greet()
    return box, runner


def run(body: Callable[[aifo.Sandbox, Forged], Awaitable[None]]) -> None:
    async def main() -> None:
        box, runner = await forged()
        await body(box, runner)
        box._connection.close()

    before = set(os.listdir("/proc/self/fd"))
    asyncio.run(asyncio.wait_for(main(), 30))
    assert len(os.listdir("/proc/self/fd")) <= len(before) + 1, "a descriptor is left"


async def answer(runner: Forged, fds: Sequence[int]) -> None:
    """Answers the request with the first serial, once it was sent."""
    await asyncio.sleep(0)
    runner.send(frames.FILE, struct.pack(">II", 1, 0), fds)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "host").write_bytes(b"of the host")
    pair = socket.socketpair()
    made = [
        os.open(tmp_path, os.O_RDONLY),
        os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK),
        os.memfd_create("forged"),
        os.open("/dev/zero", os.O_RDONLY),
        os.open(tmp_path / "host", os.O_PATH),
        os.open(tmp_path / "host", os.O_RDWR),
    ]
    try:
        for fd in [*made, pair[0].fileno()]:

            async def body(box: aifo.Sandbox, runner: Forged, fd: int = fd) -> None:
                for call in (box.read("/file"), box.write("/file", b"x")):
                    box._connection._next = 0
                    task = asyncio.ensure_future(call)
                    await answer(runner, [fd])
                    with pytest.raises(OSError):
                        await task

            run(body)
    finally:
        for fd in made:
            os.close(fd)
        for end in pair:
            end.close()
    assert (tmp_path / "host").read_bytes() == b"of the host"


def test_a_file_is_taken_for_its_use_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    with open(tmp_path / "file", "rb") as readable:

        async def body(box: aifo.Sandbox, runner: Forged) -> None:
            task = asyncio.ensure_future(box.read("/file"))
            await answer(runner, [readable.fileno()])
            assert await task == b"1"
            box._connection._next = 0
            task = asyncio.ensure_future(box.write("/file", b"x"))  # type: ignore[arg-type]
            await answer(runner, [readable.fileno()])
            with pytest.raises(aifo.SandboxLost):
                await task

        run(body)
    assert (tmp_path / "file").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (frames.FILE, b"\0\0\0\x01\0\0\0\0"),
        (frames.FILE, b"\0"),
        (frames.EXIT, b"\0" * 7),
        (frames.START_ERROR, b"\0"),
        (frames.STARTED, b""),
        (frames.HELLO, b"\x07"),
        (0x99, b""),
    ],
)
def test_a_broken_protocol_loses_the_sandbox(kind: int, payload: bytes) -> None:
    async def body(box: aifo.Sandbox, runner: Forged) -> None:
        task = asyncio.ensure_future(box.exec(["true"]))
        await asyncio.sleep(0)
        runner.send(kind, payload)
        with pytest.raises(aifo.SandboxLost):
            await task

    run(body)


def test_unrequested_descriptors_and_endless_frames_lose_the_sandbox() -> None:
    with tempfile.TemporaryFile() as file:
        for payload, fds in [(b"\0\0\0\x01\0", [file.fileno()]), (b"\0\0\0\x01\0", [file.fileno()] * 20)]:

            async def body(box: aifo.Sandbox, runner: Forged, payload: bytes = payload, fds: list[int] = fds) -> None:
                task = asyncio.ensure_future(box.exec(["true"]))
                await asyncio.sleep(0)
                runner.send(frames.KILLED, payload, fds)
                with pytest.raises(aifo.SandboxLost):
                    await task

            run(body)

    async def endless(box: aifo.Sandbox, runner: Forged) -> None:
        task = asyncio.ensure_future(box.exec(["true"]))
        await asyncio.sleep(0)
        runner.control.send(b"\x14\xff\xff\xff\xff")
        with pytest.raises(aifo.SandboxLost):
            await task

    run(endless)


def test_foreign_serials_are_ignored() -> None:
    async def body(box: aifo.Sandbox, runner: Forged) -> None:
        task = asyncio.ensure_future(box.exec(["true"]))
        await asyncio.sleep(0)
        for serial in (2, 7, 0xFFFFFFFF):
            runner.send(frames.EXIT, struct.pack(">IBBBBQQQQQ", serial, 0, 9, 0, 0, *[0] * 5))
            runner.send(frames.START_ERROR, struct.pack(">IB", serial, 1))
            runner.send(frames.STARTED, struct.pack(">IIBBB", serial, 1, 0, 0, 0))
        runner.send(frames.EXIT, struct.pack(">IBBBBQQQQQ", 1, 1, 9, 0, 1, 0, *[10**6] * 4))
        result = await task
        assert (result.code, result.limit, result.wall, result.cpu) == (128 + 9, "memory", 1.0, 2.0)

    run(body)
