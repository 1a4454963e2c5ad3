"""Sandboxes: containers whose programs are started by a runner inside."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import signal as signals
import stat
import struct
import termios
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from ._connection import Call, Connection
from ._engine import LABEL, Engine, EngineError, Settings
from ._errors import CannotStart, SandboxLost, TooLarge
from ._mount import DIRECTORY, RUNNER, Directory, Listener

#: Connects a standard descriptor of :meth:`Sandbox.start` to this process.
PIPE: Final = -1
#: Connects it to ``/dev/null``.
DEVNULL: Final = -3

_LIMITS: Mapping[int, str] = {1: "memory", 2: "processes"}
_CHUNK = 256 << 10
#: For the start of a container.
_CONNECT_SECONDS = 60


@dataclass(frozen=True)
class Result:
    """How a program ended, and what it printed."""

    code: int
    """Its exit code, or 128 and the signal that ended it."""
    stdout: bytes
    stderr: bytes
    timed_out: bool
    """It was killed because its time had passed."""
    cut: bool
    """More was printed than ``max_output``; the rest is lost."""
    limit: str | None
    """The limit of the container that was hit: ``memory`` or ``processes``."""
    wall: float
    """Seconds."""
    cpu: float
    """Seconds of user and system time, with the children that it waited for."""
    max_rss: int
    """Bytes, of the largest process among them."""


class _Output:
    """Reads a pipe as it fills, and keeps the first bytes."""

    def __init__(self, limit: int | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._chunks: list[bytes] = []
        self._kept = 0
        self.cut = False
        self._fd, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._fd, False)
        self._loop.add_reader(self._fd, self._read, _CHUNK)

    def _read(self, size: int) -> None:
        try:
            data = os.read(self._fd, size)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._fd)
            return
        if self._limit is not None and self._kept + len(data) > self._limit:
            data = data[: self._limit - self._kept]
            self.cut = True
        if data:
            self._chunks.append(data)
            self._kept += len(data)

    def take(self) -> bytes:
        """Returns what was printed until now. Processes of the background may print on; nobody reads it."""
        (left,) = struct.unpack("i", fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4)))
        while left > 0:
            self._read(min(left, _CHUNK))
            left -= _CHUNK
        self.close()
        return b"".join(self._chunks)

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self.close_writer()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1


class _Input:
    """Writes bytes to a pipe as it is read."""

    def __init__(self, data: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self._data = memoryview(data)
        self.reader, self._fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._fd, False)

    def begin(self) -> None:
        """The program has its end."""
        os.close(self.reader)
        self.reader = -1
        self._loop.add_writer(self._fd, self._write)
        self._write()

    def _write(self) -> None:
        try:
            while self._data:
                self._data = self._data[os.write(self._fd, self._data[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass
        self.close()

    def close(self) -> None:
        if self.reader >= 0:
            os.close(self.reader)
            self.reader = -1
        if self._fd >= 0:
            self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1


class Process:
    """A program that runs; made by :meth:`Sandbox.start`. Leaving its ``async with`` kills it."""

    def __init__(self, sandbox: Sandbox, command: _Command, pipes: tuple[int, int, int]) -> None:
        self._sandbox = sandbox
        self._command = command
        self._pipes = pipes
        self._call: Call | None = None
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._transports: list[asyncio.BaseTransport] = []

    async def __aenter__(self) -> Process:
        loop = asyncio.get_running_loop()
        ours: list[int | None] = []
        theirs: list[int] = []
        for index, kind in enumerate(self._pipes):
            if kind == PIPE:
                reader, writer = os.pipe2(os.O_CLOEXEC)
                ours.append(writer if index == 0 else reader)
                theirs.append(reader if index == 0 else writer)
            else:
                ours.append(None)
                theirs.append(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
        try:
            self._call = self._command.start(self._sandbox, (theirs[0], theirs[1], theirs[2]), report_start=True)
            await self._call.started
        except BaseException:
            for fd in ours:
                if fd is not None:
                    os.close(fd)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        stdin, stdout, stderr = ours
        if stdin is not None:
            transport, protocol = await loop.connect_write_pipe(
                lambda: asyncio.streams.FlowControlMixin(loop=loop), os.fdopen(stdin, "wb", 0)
            )
            self._transports.append(transport)
            self.stdin = asyncio.StreamWriter(transport, protocol, None, loop)
        self.stdout = await self._reader(stdout)
        self.stderr = await self._reader(stderr)
        return self

    async def _reader(self, fd: int | None) -> asyncio.StreamReader | None:
        if fd is None:
            return None
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop), os.fdopen(fd, "rb", 0)
        )
        self._transports.append(transport)
        return reader

    async def wait(self) -> int:
        """Returns the exit code, or 128 and the signal that ended it."""
        assert self._call is not None, "it is entered first"
        return (await asyncio.shield(self._call.ended)).code

    def send_signal(self, signal: int) -> None:
        """Signals its process group; KILL ends every process that it started."""
        assert self._call is not None, "it is entered first"
        self._sandbox._connection.kill(self._call, signal)

    def kill(self) -> None:
        self.send_signal(signals.SIGKILL)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for transport in self._transports:
            transport.close()


@dataclass(frozen=True)
class _Command:
    """What every call names."""

    args: Sequence[str | bytes]
    cwd: str | None
    env: Mapping[str, str] | None
    user: str | None
    network: bool

    def start(self, sandbox: Sandbox, stdio: tuple[int | None, int, int | None], *, report_start: bool = False) -> Call:
        args = [os.fsencode(arg) for arg in self.args]
        if not args:
            raise CannotStart(errno.ENOENT, "no program is named")
        variables = []
        for name, value in (self.env or {}).items():
            if not name or "=" in name:
                raise CannotStart(errno.EINVAL, f"{name!r} is no name of a variable")
            variables.append(os.fsencode(f"{name}={value}"))
        settings = sandbox._settings
        user = self.user if self.user is not None else settings.user
        if settings.home is not None and "HOME" not in (self.env or {}):
            variables.append(os.fsencode(f"HOME={settings.home}"))
        return sandbox._connection.start(
            args,
            cwd=os.fsencode(os.path.join(settings.directory, self.cwd or "")),
            env=variables,
            user=None if user is None else os.fsencode(user),
            network=self.network,
            stdio=stdio,
            report_start=report_start,
        )


class Sandbox:
    """A container that this object makes and removes; an ``async with`` block holds it.

    ``options`` are words of the engine's ``run``, as ``["--memory", "1g"]``. :meth:`join` takes a container that
    runs already.
    """

    def __init__(self, image: str, *, engine: str | None = None, options: Sequence[str] = ()) -> None:
        self._engine = Engine(engine)
        self._image = image
        self._options = options
        self._container: str | None = None
        self._owned = True
        self._settings = Settings(user=None, directory="/", home=None, mounts={})
        self._connection: Connection

    @classmethod
    def join(cls, container: str, *, engine: str | None = None) -> Sandbox:
        """A container that was started with :func:`mounts`, and stays when the block ends."""
        sandbox = cls("", engine=engine)
        sandbox._container = container
        sandbox._owned = False
        return sandbox

    @property
    def container(self) -> str:
        """The engine's name of the container."""
        if self._container is None:
            raise SandboxLost("the sandbox was not entered")
        return self._container

    async def __aenter__(self) -> Sandbox:
        if self._owned:
            await self._create()
        else:
            await self._enter()
        return self

    async def _create(self) -> None:
        directory = Directory.create()
        listener = Listener(directory, "control")
        name = f"aifo-{uuid.uuid4().hex[:12]}"
        runner = ["serve", "--connect", listener.in_container, "--connect-secs", str(_CONNECT_SECONDS)]
        options = ["--detach", "--rm", "--name", name, "--label", f"{LABEL}={os.getpid()}", "--user", "0:0"]
        try:
            image = await self._engine.image_settings(self._image)
            self._container = await self._engine.run(
                "run",
                *options,
                "--volume",
                directory.volume,
                *self._options,
                "--entrypoint",
                RUNNER,
                self._image,
                *runner,
            )
            self._settings = image
            await self._connect(listener)
        except BaseException:
            await asyncio.shield(self._remove(name))
            raise
        finally:
            listener.close()
            # The mount keeps what the container needs.
            directory.remove()

    async def _enter(self) -> None:
        settings = await self._engine.settings(self.container)
        source = settings.mounts.get(DIRECTORY)
        if source is None:
            raise CannotStart(errno.ENOENT, f"{self.container} was started without aifo.mounts()")
        self._settings = settings
        listener = Listener(Directory(Path(source)), uuid.uuid4().hex[:12])
        try:
            words = [RUNNER, "guard", "--connect", listener.in_container, "--connect-secs", "10"]
            await self._engine.run("exec", "--detach", "--user", "0:0", self.container, *words)
            await self._connect(listener)
        finally:
            listener.close()

    async def _connect(self, listener: Listener) -> None:
        async def connected() -> None:
            self._connection = Connection(await listener.accept())
            await self._connection.greet()

        ended = asyncio.ensure_future(self._ended())
        connecting = asyncio.ensure_future(connected())
        try:
            await asyncio.wait([ended, connecting], return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                raise SandboxLost(f"{self.container} ended before its runner was connected")
            await connecting
        finally:
            ended.cancel()
            connecting.cancel()

    async def _ended(self) -> None:
        await self._engine.run("wait", self.container)

    async def _remove(self, container: str) -> None:
        # It may never have been made, or have removed itself.
        with contextlib.suppress(EngineError):
            await self._engine.remove([container])

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        if self._owned:
            await asyncio.shield(self._remove(self.container))

    async def exec(
        self,
        args: Sequence[str | bytes],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: bytes = b"",
        timeout: float | None = None,
        network: bool = True,
        max_output: int | None = None,
        merge: bool = False,
    ) -> Result:
        """Runs a program to its end.

        ``cwd`` is from the image's directory; ``env`` adds to the image's; ``timeout`` is in seconds and kills the
        program with all that it started; ``max_output`` is in bytes, of each stream; ``merge`` takes stderr into
        stdout, in order. Output of processes that outlive the program is not waited for. Raises
        :class:`CannotStart`, :class:`SandboxLost`. A task that is cancelled kills the program.
        """
        command = _Command(args, cwd, env, user, network)
        source, outputs = await self._pipes(stdin, max_output)
        timer = None
        timed_out = False
        call = None
        try:
            reader = None if source is None else source.reader
            call = command.start(self, (reader, outputs[0].writer, None if merge else outputs[1].writer))
            if source is not None:
                source.begin()
            for output in outputs:
                output.close_writer()
            if timeout is not None:

                def expire() -> None:
                    nonlocal timed_out
                    timed_out = True
                    self._connection.kill(call, signals.SIGKILL)

                timer = asyncio.get_running_loop().call_later(timeout, expire)
            ending = await asyncio.shield(call.ended)
            stdout, stderr = [output.take() for output in outputs]
        except asyncio.CancelledError:
            if call is not None:
                self._connection.kill(call, signals.SIGKILL)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if source is not None:
                source.close()
            for output in outputs:
                output.close()
        return Result(
            code=ending.code,
            stdout=stdout,
            stderr=stderr,
            timed_out=timed_out,
            cut=any(output.cut for output in outputs),
            limit=_LIMITS.get(ending.note),
            wall=ending.wall,
            cpu=ending.cpu,
            max_rss=ending.max_rss,
        )

    async def _pipes(self, stdin: bytes, max_output: int | None) -> tuple[_Input | None, list[_Output]]:
        """Waits for descriptors while other calls hold all that this process may have."""
        while True:
            outputs: list[_Output] = []
            try:
                outputs += [_Output(max_output)]
                outputs += [_Output(max_output)]
                return _Input(stdin) if stdin else None, outputs
            except OSError as error:
                for output in outputs:
                    output.close()
                if error.errno != errno.EMFILE or not self._connection.is_busy():
                    raise
            await asyncio.sleep(0.005)

    def start(
        self,
        args: Sequence[str | bytes],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        network: bool = True,
        stdin: int = DEVNULL,
        stdout: int = PIPE,
        stderr: int = PIPE,
    ) -> Process:
        """A program to talk to, in an ``async with`` block. Each descriptor is :data:`PIPE` or :data:`DEVNULL`."""
        return Process(self, _Command(args, cwd, env, user, network), (stdin, stdout, stderr))

    async def write(self, path: str, data: bytes, *, user: str | None = None) -> None:
        """Writes a regular file, with the directories that lead to it. Raises ``OSError``."""
        fd = await self._open(path, write=True, user=user)
        try:
            os.ftruncate(fd, 0)
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view[:_CHUNK]) :]
                await asyncio.sleep(0)
        finally:
            os.close(fd)

    async def read(self, path: str, *, max_bytes: int = 100 << 20, user: str | None = None) -> bytes:
        """Reads a regular file. Raises ``OSError``, and :class:`TooLarge` for one of more than ``max_bytes``."""
        fd = await self._open(path, write=False, user=user)
        try:
            chunks = []
            count = 0
            while data := os.read(fd, _CHUNK):
                count += len(data)
                if count > max_bytes:
                    raise TooLarge(errno.EFBIG, f"it has more than {max_bytes} bytes", path)
                chunks.append(data)
                await asyncio.sleep(0)
            return b"".join(chunks)
        finally:
            os.close(fd)

    async def _open(self, path: str, *, write: bool, user: str | None) -> int:
        """Returns a regular file, which alone is safe to use: what the runner sends may be anything."""
        user = user if user is not None else self._settings.user
        place = os.fsencode(os.path.join(self._settings.directory, path))
        if b"\0" in place:
            raise ValueError("a path holds a NUL byte")
        name = None if user is None else os.fsencode(user)
        try:
            fd = await self._connection.open(place, write=write, user=name)
        except SandboxLost:
            raise
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        try:
            mode = os.fstat(fd).st_mode
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            access = flags & os.O_ACCMODE
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if not stat.S_ISREG(mode):
                raise OSError(errno.EINVAL, "it is no regular file", path)
            if flags & _O_PATH or access != (os.O_WRONLY if write else os.O_RDONLY):
                raise SandboxLost(f"the runner opened {path} for another use")
            return fd
        except BaseException:
            os.close(fd)
            raise

    async def upload(self, source: str | os.PathLike[str], target: str) -> None:
        """Copies a file or a directory into the container, as the engine's ``cp`` does."""
        place = os.path.join(self._settings.directory, target)
        await self.exec(["mkdir", "-p", "--", os.path.dirname(place)], user="0:0")
        await self._engine.run("cp", os.fspath(source), f"{self.container}:{place}")

    async def download(self, source: str, target: str | os.PathLike[str]) -> None:
        """Copies a file or a directory out of the container, as the engine's ``cp`` does."""
        place = os.path.join(self._settings.directory, source)
        await self._engine.run("cp", f"{self.container}:{place}", os.fspath(target))


_O_PATH = 0o10000000


def mounts() -> list[str]:
    """Volumes for one container that :meth:`Sandbox.join` will take, as ``--volume`` and compose files name them."""
    return [Directory.create().volume]
