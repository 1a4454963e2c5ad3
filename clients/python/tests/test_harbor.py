"""Small tasks with their solutions: equal rewards in Harbor's docker environment and ours. Skipped without Harbor."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

#: By name: the solution, and the condition for a reward.
TASKS = {
    "background": ("setsid sleep 300 >/dev/null 2>&1 & echo started > s", "grep -q started s"),
    "binary": ("head -c 3000000 /dev/urandom > b; sha256sum b > sum", "sha256sum -c sum"),
    "fails": ("true", "test -e never"),
    "hello": ("echo hello > hello.txt", "grep -qx hello hello.txt"),
    "stream": ("seq 20000; seq 1000 | tee n >&2", "[ $(wc -l < n) = 1000 ]"),
    "user": ("id -u > uid; pwd > pwd", "grep -qx 0 uid && grep -qx /app pwd"),
}

TOML = """schema_version = "1.4"
[metadata]
[verifier]
timeout_sec = 60.0
[agent]
timeout_sec = 60.0
[environment]
build_timeout_sec = 300.0
"""


def _write(tasks: Path, image: str) -> None:
    for name, (solution, condition) in TASKS.items():
        files = {
            "instruction.md": "Do it.\n",
            "task.toml": TOML,
            "environment/Dockerfile": f"FROM {image}\nWORKDIR /app\n",
            "solution/solve.sh": f"#!/bin/bash\ncd /app; {solution}\n",
            "tests/test.sh": f"#!/bin/bash\ncd /app; {condition}; echo $((! $?)) > /logs/verifier/reward.txt\n",
        }
        for path, text in files.items():
            file = tasks / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


def test_rewards_are_equal(image: str, engine: str, tmp_path: Path) -> None:
    harbor = shutil.which("harbor")
    if harbor is None or engine != "docker":
        pytest.skip("there is no harbor in PATH")
    _write(tmp_path / "tasks", image)

    def rewards(environment: str) -> dict[str, object]:
        jobs = tmp_path / environment.split(".")[0]
        words = [harbor, "run", "-p", tmp_path / "tasks", "-a", "oracle", "-e", environment, "-o", jobs, "-y", "-q"]
        # Every daemon has this builder.
        variables = {**os.environ, "DOCKER_BUILDKIT": "0", "HARBOR_TELEMETRY": "0"}
        subprocess.run([*map(str, words), "--job-name", "job"], check=True, env=variables, capture_output=True)
        results = [json.loads(path.read_text()) for path in jobs.glob("job/*/result.json")]
        return {result["task_name"]: result["verifier_result"]["rewards"] for result in results}

    expected = rewards("docker")
    assert len(expected) == len(TASKS)
    assert rewards("aifo.harbor:AifoEnvironment") == expected
