"""What tests need: a runner, an engine, and images of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def _missing() -> str | None:
    if not os.environ.get("AIFO_RUNNER"):
        return "AIFO_RUNNER names no static runner"
    if not os.environ.get("AIFO_TEST_IMAGE"):
        return "AIFO_TEST_IMAGE names no image with a shell"
    engine = os.environ.get("AIFO_TEST_ENGINE", "docker")
    if not shutil.which(engine) or subprocess.run([engine, "info"], capture_output=True).returncode != 0:
        return f"{engine} does not answer"
    return None


@pytest.fixture(scope="session")
def image() -> str:
    """An image with a shell."""
    missing = _missing()
    if missing:
        pytest.skip(missing)
    return os.environ["AIFO_TEST_IMAGE"]


@pytest.fixture(scope="session")
def engine() -> str:
    return os.environ.get("AIFO_TEST_ENGINE", "docker")
