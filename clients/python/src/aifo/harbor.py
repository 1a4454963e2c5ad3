"""An environment for Harbor: ``-e aifo.harbor:AifoEnvironment``. Tested with harbor 0.26.0.

Harbor's docker environment, whose calls in the main service and copies of single files go through a runner in it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from harbor.constants import MAIN_SERVICE_NAME
from harbor.environments.base import ExecResult
from harbor.environments.docker import write_mounts_compose_file
from harbor.environments.docker.docker import DockerEnvironment

from ._errors import CannotStart
from ._mount import DIRECTORY, Directory
from ._sandbox import Sandbox


class AifoEnvironment(DockerEnvironment):
    """A trial's containers, of which the main one has a runner."""

    _directory: Directory | None = None
    _box: Sandbox | None = None

    def _write_mounts_compose_file(self) -> Path:
        path: Path = super()._write_mounts_compose_file()
        self._directory = Directory.create()
        mount: Any = {"type": "bind", "source": str(self._directory.path), "target": DIRECTORY, "read_only": True}
        return write_mounts_compose_file(path, [*self._host_mounts, mount])

    async def start(self, force_build: bool) -> None:
        await super().start(force_build)
        found = await self._run_docker_compose_command(["ps", "--quiet", MAIN_SERVICE_NAME])
        box = Sandbox.join((found.stdout or "").strip(), engine="docker")
        await box.__aenter__()
        self._box = box

    async def stop(self, delete: bool) -> None:
        try:
            await super().stop(delete)
        finally:
            if self._box is not None:
                await self._box.__aexit__(None, None, None)
                self._box = None
            if self._directory is not None:
                self._directory.remove()

    async def _compose_exec(
        self,
        command: str,
        *,
        service: str,
        cwd: str | None,
        env: dict[str, str] | None,
        timeout_sec: int | None,
        user: str | int | None,
    ) -> ExecResult:
        if self._box is None or service != MAIN_SERVICE_NAME or self._output_callback() is not None:
            return await super()._compose_exec(
                command, service=service, cwd=cwd, env=env, timeout_sec=timeout_sec, user=user
            )
        try:
            result = await self._box.exec(
                self._platform.exec_shell_args(command),
                cwd=cwd,
                env=env,
                user=None if user is None else str(user),
                timeout=timeout_sec,
                merge=True,
            )
        except CannotStart as error:
            return ExecResult(stdout=str(error.strerror), stderr=None, return_code=126)
        if result.timed_out:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        return ExecResult(stdout=result.stdout.decode(errors="replace") or None, stderr=None, return_code=result.code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        box = self._box
        if box is None or target_path.endswith("/"):
            return await super().upload_file(source_path, target_path)
        try:
            await box.write(target_path, await asyncio.to_thread(Path(source_path).read_bytes), user="0:0")
        except OSError:
            # A directory, or what only the engine may write.
            return await super().upload_file(source_path, target_path)
        await box.exec(["chmod", f"{os.stat(source_path).st_mode & 0o7777:o}", target_path], user="0:0")

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        box = self._box
        try:
            if box is None:
                raise FileNotFoundError(source_path)
            data = await box.read(source_path, user="0:0")
        except OSError:
            # A directory, a long file, or an error in the engine's own words.
            return await super().download_file(source_path, target_path)
        await asyncio.to_thread(Path(target_path).write_bytes, data)
