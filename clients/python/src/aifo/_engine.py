"""Containers of docker or podman, by their command."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: Marks what this package made, with the id of the process that did.
LABEL = "dev.aifo.sandbox"


class EngineError(RuntimeError):
    """The engine refused; its own words."""


@dataclass(frozen=True)
class Settings:
    """What calls of a container get unless they say otherwise."""

    user: str | None
    directory: str
    home: str | None
    """The image's HOME."""
    mounts: dict[str, str]
    """The host's path by that in the container."""


class Engine:
    """The command of an engine. ``None`` is the first of docker and podman that is installed."""

    def __init__(self, name: str | None = None) -> None:
        names = [name] if name else ["docker", "podman"]
        found = [path for path in map(shutil.which, names) if path]
        if not found:
            raise EngineError(f"there is no {' or '.join(names)} in PATH")
        self.program = found[0]

    async def run(self, *args: str) -> str:
        """Runs a command of the engine and returns its output."""
        process = await asyncio.create_subprocess_exec(
            self.program,
            *args,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, errors = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode != 0:
            raise EngineError(f"{' '.join([self.program, *args[:1]])}: {errors.decode(errors='replace').strip()}")
        return output.decode(errors="replace").strip()

    async def image_settings(self, image: str) -> Settings:
        """Pulls the image if it is missing."""
        try:
            found = await self.run("image", "inspect", image)
        except EngineError:
            await self.run("pull", "--quiet", image)
            found = await self.run("image", "inspect", image)
        return _settings(json.loads(found)[0])

    async def settings(self, container: str) -> Settings:
        return _settings(json.loads(await self.run("container", "inspect", container))[0])

    async def remove(self, containers: Sequence[str]) -> None:
        if containers:
            await self.run("rm", "--force", "--volumes", *containers)


def _settings(found: dict[str, Any]) -> Settings:
    config: dict[str, Any] = found.get("Config") or {}
    user = config.get("User") or ""
    return Settings(
        # The runner is root, and looks up all others.
        user=user if user not in ("", "0", "root", "0:0") else None,
        directory=config.get("WorkingDir") or "/",
        home=next((it[5:] for it in config.get("Env") or [] if it.startswith("HOME=")), None),
        mounts={mount["Destination"]: mount["Source"] for mount in found.get("Mounts") or [] if "Source" in mount},
    )
