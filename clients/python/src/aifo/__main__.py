"""``python -m aifo cleanup``: removes what a killed machine or process left."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys

from ._engine import LABEL, Engine, EngineError
from ._mount import is_running, left_behind


async def _cleanup() -> int:
    failed = 0
    for name in filter(shutil.which, ("docker", "podman")):
        engine = Engine(name)
        try:
            lines = await engine.run(
                "ps", "--all", "--filter", f"label={LABEL}", "--format", f'{{{{.ID}}}} {{{{.Label "{LABEL}"}}}}'
            )
        except EngineError as error:
            print(f"aifo: {error}", file=sys.stderr)
            failed = 1
            continue
        found = [line.split() for line in lines.splitlines()]
        ended = [words[0] for words in found if len(words) == 2 and not is_running(int(words[1]))]
        await engine.remove(ended)
        for container in ended:
            print(f"removed container {container} of {name}")
    for directory in left_behind():
        directory.remove()
        print(f"removed {directory.path.parent}")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m aifo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("cleanup", help="remove containers and directories of processes that have ended")
    parser.parse_args()
    return asyncio.run(_cleanup())


if __name__ == "__main__":
    sys.exit(main())
