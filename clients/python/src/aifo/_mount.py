"""The directory of a socket on the host, and the executable that is mounted beside it."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from pathlib import Path

#: In the container.
RUNNER = "/run/aifo-runner"
DIRECTORY = "/run/aifo"

_PREFIX = "aifo-sandbox-"


def runner() -> Path:
    """The static executable that this package carries; ``AIFO_RUNNER`` names another."""
    path = Path(os.environ.get("AIFO_RUNNER") or Path(__file__).with_name("aifo-runner"))
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: this package was not installed from its wheel")
    return path.resolve()


class Directory:
    """A directory that is mounted into one container, within one of mode 0700."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls) -> Directory:
        outer = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        path = outer / "run"
        # Root of the container may be another user of the host.
        path.mkdir(mode=0o755)
        path.chmod(0o755)
        return cls(path)

    @property
    def volumes(self) -> list[str]:
        """What follows ``--volume``, or is an item of a compose service's ``volumes``."""
        return [f"{self.path}:{DIRECTORY}:ro", f"{runner()}:{RUNNER}:ro"]

    def remove(self) -> None:
        shutil.rmtree(self.path.parent, ignore_errors=True)


class Listener:
    """A socket in the directory, for one connection."""

    def __init__(self, directory: Directory, name: str) -> None:
        self._path = directory.path / name
        self.in_container = f"{DIRECTORY}/{name}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._socket.bind(str(self._path))
        self._path.chmod(0o666)
        self._socket.listen(1)

    async def accept(self) -> socket.socket:
        connection, _ = await asyncio.get_running_loop().sock_accept(self._socket)
        return connection

    def close(self) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)


def left_behind() -> list[Directory]:
    """Directories of this user whose process has ended."""
    found = []
    for outer in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = outer.name.removeprefix(_PREFIX).split("-")[0]
        if outer.stat().st_uid == os.getuid() and pid.isdigit() and not is_running(int(pid)):
            found.append(Directory(outer / "run"))
    return found


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
