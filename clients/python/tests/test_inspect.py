"""Inspect's own checks of a provider, on ours; skipped without Inspect and docker compose.

Inspect's check of docker's version is replaced: distributions have older ones that work.
"""

from __future__ import annotations

import asyncio
import inspect
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai.util._sandbox import self_check
from inspect_ai.util._sandbox.docker import docker as docker_provider

from aifo.inspect import AifoSandboxEnvironment

COMPOSE = """
services:
  default:
    image: {image}
    x-local: true
    init: true
    entrypoint: ["tail", "-f", "/dev/null"]
    network_mode: none
    stop_grace_period: 1s
"""

#: What the image has no program for.
LEFT_OUT = {"test_exec_as_user"}


async def _no_check() -> None:
    pass


def test_all_checks(image: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine != "docker" or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode != 0:
        pytest.skip("docker compose does not answer")
    monkeypatch.setattr(docker_provider, "validate_prereqs", _no_check)
    config = tmp_path / "compose.yaml"
    config.write_text(COMPOSE.format(image=image))

    async def run() -> dict[str, str]:
        provider = AifoSandboxEnvironment
        await provider.task_init("checks", str(config))
        environments = await provider.sample_init("checks", str(config), {})
        failed = {}
        for name, check in inspect.getmembers(self_check, inspect.iscoroutinefunction):
            if name.startswith("test_") and name not in LEFT_OUT:
                try:
                    await check(environments["default"])
                except Exception as error:
                    failed[name] = repr(error)
        await provider.sample_cleanup("checks", str(config), environments, False)
        await provider.task_cleanup("checks", str(config), True)
        return failed

    assert asyncio.run(run()) == {}
