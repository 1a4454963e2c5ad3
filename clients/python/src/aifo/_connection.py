"""The connection to one runner: frames over a unix socket, and the descriptors that come with them.

The other end is in the container: it may send anything, and never makes this end block, grow without bound, or
trust a descriptor.
"""

from __future__ import annotations

import array
import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any

from . import _frames as frames
from ._errors import CannotStart, SandboxLost, UserUnsupported

_READ = 64 << 10
#: Descriptors of one read: more are closed by the kernel.
_MAX_FDS = 8

_START_ERRORS = {
    frames.CAUSE_ABSENT: errno.ENOENT,
    frames.CAUSE_DIRECTORY: errno.ENOTDIR,
    frames.CAUSE_NOT_FOUND: errno.ENOENT,
    frames.CAUSE_NOT_EXECUTABLE: errno.EACCES,
    frames.CAUSE_OTHER: errno.EAGAIN,
    frames.CAUSE_USER: errno.EPERM,
}


class Call:
    """A program that was started: ``started``, if that was requested, and ``ended``."""

    def __init__(self, serial: int, loop: asyncio.AbstractEventLoop) -> None:
        self.serial = serial
        self.started: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[frames.Exit] = loop.create_future()

    def fail(self, error: Exception) -> None:
        _fail(self.started, error)
        _fail(self.ended, error)


class Connection:
    """A connection that has sent its ``Setup``. Owned by one event loop; ``close`` ends all programs."""

    def __init__(self, control: socket.socket) -> None:
        control.setblocking(False)
        self._socket = control
        self._loop = asyncio.get_running_loop()
        self._reader = frames.Reader()
        self._fds: deque[int] = deque()
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._calls: dict[int, Call] = {}
        self._files: dict[int, asyncio.Future[int]] = {}
        self._next = 0
        self._greeted: asyncio.Future[None] = self._loop.create_future()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(control, self._on_readable)

    async def greet(self) -> None:
        """Waits for the runner's ``Hello``."""
        await self._greeted
        self._send(frames.setup(), [])

    def close(self) -> None:
        self._lose("the sandbox is closed")

    def is_busy(self) -> bool:
        return bool(self._calls)

    # Calls.

    def start(
        self,
        args: Sequence[bytes],
        *,
        cwd: bytes | None,
        env: Sequence[bytes],
        user: bytes | None,
        network: bool,
        stdio: tuple[int | None, int, int | None],
        report_start: bool = False,
    ) -> Call:
        """Starts a program on these descriptors, which stay the caller's; ``None`` is no input, or stderr into stdout.

        Raises ``CannotStart`` for texts that no frame carries.
        """
        self._check()
        serial = self._new_serial()
        passed = [os.dup(fd) for fd in stdio if fd is not None]
        stdin = frames.NULL if stdio[0] is None else frames.PASSED
        stderr = frames.SAME if stdio[2] is None else frames.PASSED
        try:
            frame = frames.start(
                serial,
                args=args,
                cwd=cwd,
                env=env,
                user=user,
                network=network,
                stdio=(stdin, frames.PASSED, stderr),
                report_start=report_start,
            )
        except ValueError as error:
            _close(passed)
            raise CannotStart(errno.E2BIG, str(error)) from None
        call = self._calls[serial] = Call(serial, self._loop)
        self._send(frame, passed)
        return call

    def kill(self, call: Call, signal: int) -> None:
        """Signals a program; KILL ends its whole tree. One that has ended is left alone."""
        if not call.ended.done() and not self.lost.done():
            self._send(frames.kill(call.serial, signal), [])

    async def open(self, path: bytes, *, write: bool, user: bytes | None) -> int:
        """Returns a descriptor, which may be of anything. Raises ``OSError`` as ``open`` does."""
        while True:
            self._check()
            serial = self._new_serial()
            try:
                frame = frames.open_file(serial, path, write=write, user=user)
            except ValueError:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), os.fsdecode(path)) from None
            future: asyncio.Future[int] = self._loop.create_future()
            self._files[serial] = future
            self._send(frame, [])
            try:
                return await future
            except BlockingIOError:
                # Its output was full for a moment.
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                if future.done() and not future.cancelled() and future.exception() is None:
                    os.close(future.result())
                raise

    def _new_serial(self) -> int:
        self._next += 1
        return self._next

    def _check(self) -> None:
        if self.lost.done():
            raise SandboxLost("the sandbox has ended")

    # Sending.

    def _send(self, data: bytes, fds: list[int]) -> None:
        self._unsent.append((data, fds))
        if len(self._unsent) == 1:
            self._flush()

    def _flush(self) -> None:
        if self.lost.done():
            return
        while self._unsent:
            data, fds = self._unsent[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            try:
                sent = self._socket.sendmsg([data], rights)
            except (BlockingIOError, InterruptedError):
                self._loop.add_writer(self._socket, self._flush)
                return
            except OSError as error:
                if error.errno == errno.ETOOMANYREFS:
                    # Descriptors of this user are in flight elsewhere.
                    self._loop.call_later(0.001, self._flush)
                    return
                self._lose(f"the runner has ended: {error}")
                return
            _close(fds)
            self._unsent.popleft()
            if sent < len(data):
                self._unsent.appendleft((data[sent:], []))
        self._loop.remove_writer(self._socket)

    # Receiving.

    def _on_readable(self) -> None:
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(_READ, socket.CMSG_SPACE(4 * _MAX_FDS))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(f"the runner has ended: {error}")
            return
        for level, kind, rights in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds = array.array("i")
                fds.frombytes(rights[: len(rights) - len(rights) % fds.itemsize])
                for fd in fds:
                    os.set_inheritable(fd, False)
                self._fds.extend(fds)
        if flags & socket.MSG_CTRUNC or len(self._fds) > len(self._files):
            self._lose("the runner sent descriptors that nobody requested")
        elif not data:
            self._lose("the container has ended")
        else:
            try:
                for kind, payload in self._reader.receive(data):
                    self._on_frame(kind, payload)
            except frames.ProtocolError as error:
                self._lose(f"the runner breaks the protocol: {error}")

    def _on_frame(self, kind: int, payload: bytes) -> None:
        if self.lost.done():
            return
        if kind == frames.HELLO:
            if payload != bytes([frames.VERSION]):
                raise frames.ProtocolError("it has another version")
            if not self._greeted.done():
                self._greeted.set_result(None)
        elif kind == frames.EXIT:
            serial, ending = frames.parse_exit(payload)
            call = self._calls.pop(serial, None)
            if call is not None:
                for future, result in ((call.started, None), (call.ended, ending)):
                    if not future.done():
                        future.set_result(result)  # type: ignore[arg-type]
        elif kind == frames.STARTED:
            started = self._calls.get(frames.parse_serial(payload))
            if started is not None and not started.started.done():
                started.started.set_result(None)
        elif kind == frames.START_ERROR:
            serial, cause, message = frames.parse_start_error(payload)
            failed = self._calls.pop(serial, None)
            if failed is not None:
                of_user = cause == frames.CAUSE_USER
                error = UserUnsupported if of_user else CannotStart
                failed.fail(error(_START_ERRORS.get(cause, errno.EIO), message))
        elif kind == frames.FILE:
            serial, number = frames.parse_file(payload)
            self._on_file(serial, number)
        elif kind != frames.KILLED:
            raise frames.ProtocolError(f"a frame of kind {kind}")

    def _on_file(self, serial: int, number: int) -> None:
        fd = None
        if number == 0:
            if not self._fds:
                raise frames.ProtocolError("a file without its descriptor")
            fd = self._fds.popleft()
        future = self._files.pop(serial, None)
        if future is None or future.cancelled():
            _close([] if fd is None else [fd])
        elif fd is None:
            future.set_exception(OSError(number, os.strerror(number)))
        else:
            future.set_result(fd)

    def _lose(self, why: str) -> None:
        if self.lost.done():
            return
        self.lost.set_result(None)
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for _, fds in self._unsent:
            _close(fds)
        _close(self._fds)
        self._unsent.clear()
        self._fds.clear()
        _fail(self._greeted, SandboxLost(why))
        for file in self._files.values():
            _fail(file, SandboxLost(why))
        for call in self._calls.values():
            call.fail(SandboxLost(why))
        self._files.clear()
        self._calls.clear()


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        # Nobody may wait for it.
        future.exception()


def _close(fds: Sequence[int] | deque[int]) -> None:
    for fd in fds:
        os.close(fd)
