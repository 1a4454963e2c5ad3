"""The directory that is mounted into a container: a copy of the runner, and its socket.

Root in a container with further capabilities can make a mount writable again. So the package's own executable is never
mounted, and nothing of the directory is executed or read on the host.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from pathlib import Path

#: In the container.
DIRECTORY = "/run/aifo"
RUNNER = f"{DIRECTORY}/aifo-runner"

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
        copy = path / "aifo-runner"
        shutil.copyfile(runner(), copy)
        copy.chmod(0o755)
        return cls(path)

    @property
    def volume(self) -> str:
        """What follows ``--volume``, or is an item of a compose service's ``volumes``."""
        return f"{self.path}:{DIRECTORY}:ro"

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
