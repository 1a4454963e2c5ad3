"""The runner's frames (spec/runner.md#frames), without any input or output."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

VERSION = 9

#: The most bytes of a frame, and of a ``Start``.
MAX_PAYLOAD = 64 << 10
MAX_START = (4 << 20) + (128 << 10)

START, STARTED, EXIT, START_ERROR = 0x01, 0x10, 0x13, 0x14
HELLO, SETUP, KILL, KILLED, OPEN_FILE, FILE = 0x20, 0x21, 0x23, 0x24, 0x32, 0x33

#: Standard descriptors of a program.
NULL, PASSED, SAME = 0, 1, 5

#: The causes of a ``StartError``.
CAUSE_ABSENT, CAUSE_DIRECTORY, CAUSE_NOT_FOUND, CAUSE_NOT_EXECUTABLE, CAUSE_OTHER, CAUSE_USER = range(1, 7)


class ProtocolError(Exception):
    """The other end does not speak these frames."""


@dataclass(frozen=True)
class Exit:
    """How a program ended."""

    code: int
    """The exit code, or 128 and the signal."""
    note: int
    wall: float
    """Seconds, as all times."""
    cpu: float
    max_rss: int
    """Bytes."""


def _string(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def _strings(texts: Sequence[bytes]) -> bytes:
    return struct.pack(">I", len(texts)) + b"".join(map(_string, texts))


def _optional(text: bytes | None) -> bytes:
    return b"\0" if text is None else b"\1" + _string(text)


def _frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BI", kind, len(payload)) + payload


def setup() -> bytes:
    """All directories of the container are the session's."""
    return _frame(SETUP, _strings([b"/"]) + _strings([]) + _string(b"sandbox"))


def start(
    serial: int,
    *,
    args: Sequence[bytes],
    cwd: bytes | None,
    env: Sequence[bytes],
    user: bytes | None,
    network: bool,
    stdio: tuple[int, int, int],
    report_start: bool = False,
) -> bytes:
    """The call's id is its serial. Raises ``ValueError`` if it is longer than a frame may be."""
    head = struct.pack(">IB", serial, 0) + _string(str(serial).encode()) + bytes((2, 0, 0, report_start))
    head += _optional(None if network else b"network=False") + b"\0" + _optional(user)
    inherited = b"\0\0\0" + bytes(8) + bytes(stdio) + b"\0"
    payload = head + _strings(args) + _optional(cwd) + _strings(env) + inherited
    if len(payload) > MAX_START:
        raise ValueError(f"arguments and environment have {len(payload)} bytes, more than {MAX_START}")
    return _frame(START, payload)


def kill(serial: int, signal: int) -> bytes:
    return _frame(KILL, struct.pack(">IB", serial, signal) + str(serial).encode())


def open_file(serial: int, path: bytes, *, write: bool, user: bytes | None) -> bytes:
    """Raises ``ValueError`` if it is longer than a frame may be."""
    payload = struct.pack(">IB", serial, write) + _optional(user) + path
    if len(payload) > MAX_PAYLOAD:
        raise ValueError("the path is too long")
    return _frame(OPEN_FILE, payload)


def parse_exit(payload: bytes) -> tuple[int, Exit]:
    form = struct.Struct(">IBBBBQQQQQ")
    if len(payload) != form.size:
        raise ProtocolError("an Exit of another length")
    serial, how, status, _cancelled, note, _taken, wall, user, system, max_rss = form.unpack(payload)
    code = status + 128 if how else status
    return serial, Exit(code, note, wall / 1e6, (user + system) / 1e6, max_rss << 10)


def parse_start_error(payload: bytes) -> tuple[int, int, str]:
    if len(payload) < 5:
        raise ProtocolError("a StartError of another length")
    serial, cause = struct.unpack_from(">IB", payload)
    return serial, cause, payload[5:].decode(errors="replace")


def parse_serial(payload: bytes) -> int:
    if len(payload) < 4:
        raise ProtocolError("a frame without a serial")
    return int(struct.unpack_from(">I", payload)[0])


def parse_file(payload: bytes) -> tuple[int, int]:
    if len(payload) != 8:
        raise ProtocolError("a File of another length")
    serial, errno = struct.unpack(">II", payload)
    return serial, errno


class Reader:
    """Splits a stream into frames; holds one frame at most."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def receive(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._buffer += data
        while len(self._buffer) >= 5:
            kind, length = struct.unpack_from(">BI", self._buffer)
            if length > MAX_PAYLOAD:
                raise ProtocolError("a frame that is too long")
            if len(self._buffer) < 5 + length:
                return
            payload = bytes(self._buffer[5 : 5 + length])
            del self._buffer[: 5 + length]
            yield kind, payload
