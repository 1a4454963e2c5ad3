"""A sandbox provider for Inspect: ``sandbox="aifo"``. Tested with inspect_ai 0.3.285.

Images, Dockerfiles and compose files are those of Inspect's docker provider, which starts and removes the containers; a
runner in each makes the calls. There is no limit on concurrency of its own.

A file counts as unreadable or not writable if its owner's mode says so, also for root, as Inspect's checks demand.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, Literal, overload

import yaml
from inspect_ai.log._samples import sample_active
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from inspect_ai.util._sandbox.docker.cleanup import project_cleanup, project_startup
from inspect_ai.util._sandbox.docker.compose import compose_command, compose_up
from inspect_ai.util._sandbox.docker.config import auto_compose_file, safe_cleanup_auto_compose
from inspect_ai.util._sandbox.docker.docker import DockerSandboxEnvironment, resolve_config_environment
from inspect_ai.util._sandbox.docker.mounts import validate_compose_mounts
from inspect_ai.util._sandbox.docker.util import ComposeProject, task_project_name
from inspect_ai.util._sandbox.environment import SandboxEnvironmentConfigType, SandboxUnavailableError

from ._engine import Engine
from ._errors import CannotStart, SandboxLost, TooLarge, UserUnsupported
from ._mount import Directory
from ._sandbox import Sandbox


class _ByMode(Sandbox):
    """A sandbox in which the owner's mode of a file counts for everyone."""

    async def _open(self, path: str, *, write: bool, user: str | None) -> int:
        fd = await super()._open(path, write=write, user=user)
        if not os.fstat(fd).st_mode & (stat.S_IWUSR if write else stat.S_IRUSR):
            os.close(fd)
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return fd


@sandboxenv(name="aifo")
class AifoSandboxEnvironment(DockerSandboxEnvironment):
    """A service of a compose project, with a runner."""

    def __init__(self, service: str, project: ComposeProject, working_dir: str, box: Sandbox) -> None:
        super().__init__(service, project, working_dir)
        self._box = box

    @classmethod
    def default_concurrency(cls) -> int | None:
        return None

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        # As the docker provider, with half of its commands: they are most of a short sample's time.
        compose, env = await _resolved(config, metadata)
        services: dict[str, Any] = compose["services"]
        directories = {name: Directory.create() for name in services}
        for name, directory in directories.items():
            services[name]["volumes"] = [*services[name].get("volumes", []), directory.volume]
        project_name = task_project_name(task_name)
        path = auto_compose_file(yaml.dump(compose, sort_keys=False), project_name, base_dir=os.getcwd())
        active = sample_active()
        project = await ComposeProject.create(
            name=project_name,
            config=path,
            sample_id=active.sample.id if active else None,
            epoch=active.epoch if active else None,
            env=env,
        )
        project_startup(project)
        environments: dict[str, SandboxEnvironment] = {}
        try:
            containers = await _start(project, services)
            default = next((name for name in services if services[name].get("x-default")), "default")
            if default not in containers:
                raise RuntimeError("no running service is named 'default' or has 'x-default: true'")
            for name in sorted(containers, key=lambda name: name != default):
                environments[name] = await _joined(name, containers[name], project)
        except BaseException:
            await _close(environments)
            await project_cleanup(project, True)
            raise
        finally:
            for directory in directories.values():
                directory.remove()
        return environments

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        await _close(environments)
        await super().sample_cleanup(task_name, config, environments, interrupted)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        try:
            result = await self._box.exec(
                cmd,
                cwd=cwd,
                env=env,
                user=user or None,
                stdin=input.encode() if isinstance(input, str) else input or b"",
                timeout=timeout,
                max_output=limit,
            )
        except UserUnsupported as error:
            raise SandboxUserUnsupportedError(str(error)) from error
        except CannotStart as error:
            if error.errno == errno.EACCES:
                raise PermissionError(errno.EACCES, str(error.strerror), cmd[0]) from error
            return ExecResult(False, 127, "", str(error.strerror))
        except SandboxLost as error:
            raise SandboxUnavailableError(str(error)) from error
        stdout, stderr = result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")
        if result.timed_out:
            late = TimeoutError(f"Command timed out after {timeout} seconds")
            late.truncated_output = stdout + stderr  # type: ignore[attr-defined]
            raise late
        if result.cut:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, stdout + stderr)
        return ExecResult(result.code == 0, result.code, stdout, stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        with _unavailable():
            await self._box.write(file, contents.encode() if isinstance(contents, str) else contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        try:
            with _unavailable():
                contents = await self._box.read(file, max_bytes=SandboxEnvironmentLimits.MAX_READ_FILE_SIZE)
        except TooLarge as error:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None) from error
        return contents.decode() if text else contents


@contextlib.contextmanager
def _unavailable() -> Any:
    try:
        yield
    except SandboxLost as error:
        raise SandboxUnavailableError(str(error)) from error


async def _start(project: ComposeProject, services: dict[str, Any]) -> dict[str, str]:
    """Starts the services, and returns the containers of those that run."""
    if any("healthcheck" in service for service in services.values()):
        started = await compose_up(project, services)
    else:
        # There is nothing to wait for. Inspect's limit on processes is for those that keep a core busy.
        command = ["up", "--detach"]
        started = await compose_command(command, project=project, timeout=_START_SECONDS, concurrency=False)
    engine = Engine("docker")
    label = f"label=com.docker.compose.project={project.name}"
    listed = (await engine.run("ps", "--all", "--quiet", "--filter", label)).split()
    found = json.loads(await engine.run("container", "inspect", *listed)) if listed else []
    ended = [each for each in found if not each["State"]["Running"]]
    if len(ended) == len(found) or any(each["State"]["ExitCode"] for each in ended):
        raise RuntimeError(f"the services did not start: {started.stderr}")
    running = [each for each in found if each["State"]["Running"]]
    return {each["Config"]["Labels"]["com.docker.compose.service"]: each["Id"] for each in running}


#: As the docker provider waits.
_START_SECONDS = 120

_RESOLVED: dict[str, str] = {}


async def _resolved(
    config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the compose file as docker reads it, checked, and its variables. Each content is read once."""
    resolved = resolve_config_environment(config, metadata)
    env = resolved.env if resolved else {}
    project = await ComposeProject.create(name=task_project_name("config"), config=config, env=env)
    path = Path(project.config or "compose.yaml")
    text = await asyncio.to_thread(path.read_text)
    key = repr((os.getcwd(), isinstance(config, str) and config, text, sorted(env.items())))
    if key not in _RESOLVED:
        printed = await compose_command(["config"], project=project, timeout=300)
        if not printed.success:
            raise RuntimeError(f"cannot read the compose file: {printed.stderr}")
        # The task's own mounts, before ours are added.
        await validate_compose_mounts(yaml.safe_load(printed.stdout), project.name)
        _RESOLVED[key] = printed.stdout
    if path.stem == project.name:
        # It was written for this call.
        safe_cleanup_auto_compose(project.config)
    compose: dict[str, Any] = yaml.safe_load(_RESOLVED[key])
    # The project is named after the sample.
    compose.pop("name", None)
    # The directory is harmless even where the container can write to it.
    compose["x-inspect_docker_sandbox"] = {"unsafe_allow_writable_host_mounts": True}
    return compose, env


async def _close(environments: dict[str, SandboxEnvironment]) -> None:
    for environment in environments.values():
        if isinstance(environment, AifoSandboxEnvironment):
            await environment._box.__aexit__(None, None, None)


async def _joined(service: str, container: str, project: ComposeProject) -> AifoSandboxEnvironment:
    box = _ByMode.join(container, engine="docker")
    await box.__aenter__()
    return AifoSandboxEnvironment(service, project, box._settings.directory, box)
