"""The same calls through the engine's ``exec`` and through the runner: equal code, stdout and stderr.

What differs is in ``spec/sandbox.md#as-the-engines-exec``.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass, field

import aifo


@dataclass
class Row:
    args: list[str]
    cwd: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    user: str | None = None
    stdin: bytes = b""


def rows() -> list[Row]:
    some = random.Random(7)
    script = 'printf "%s|" "$@"; echo; echo "$#" >&2'
    found = [Row(["sh", "-c", f"exit {code}"]) for code in range(0, 256, 4)]
    found += [Row(["sh", "-c", f"kill -{number} $$"]) for number in (1, 2, 3, 6, 9, 10, 11, 13, 14, 15)]
    for _ in range(70):
        words = [
            "".join(some.choices("ab \n\t'\"$\\*é%;&|<>-=", k=some.randrange(9))) for _ in range(some.randrange(6))
        ]
        found.append(Row(["sh", "-c", script, "sh", *words]))
    for cwd in ("/", "/usr", "/usr/bin", "usr/lib", "/tmp/../etc"):
        found.append(Row(["sh", "-c", "pwd -P; ls -d ."], cwd=cwd))
    for user in ("root", "0", "nobody", "nobody:daemon", "daemon", "65534:0", "4711", "4711:4712", "games", "0:5"):
        identity = "id -u; id -g; id -G; echo $HOME; grep -E '^(Cap(Prm|Eff|Bnd)|NoNewPrivs)' /proc/self/status"
        found.append(Row(["sh", "-c", identity], user=user))
        found.append(Row(["sh", "-c", "cat /etc/shadow; echo x > /etc/new; touch /tmp/t"], user=user))
    for value in ("", "plain", "with = and $", "two\nlines", "é"):
        found.append(Row(["sh", "-c", 'printf "%s" "$A"'], env={"A": value}))
    found += [
        Row(["printenv", "PATH"]),
        Row(["printenv", "HOME"]),
        Row(["printenv", "HOME"], env={"HOME": "/elsewhere"}, user="nobody"),
        Row(["printenv", "PATH"], env={"PATH": "/usr/bin"}),
        Row(["sh", "-c", "umask; ulimit -n; ulimit -c; nice"]),
        Row(["sh", "-c", "ls -l /proc/self/fd | wc -l; test -t 0; echo $?; test -t 1; echo $?"]),
        Row(["sh", "-c", "grep -E 'Sig(Blk|Cgt)' /proc/self/status"]),
        Row(["cat"]),
        Row(["cat"], stdin=b"\0\1\2\xff"),
        Row(["wc", "-c"], stdin=b"x" * (1 << 20)),
        Row(["cat"], stdin=os.urandom(50 << 20)),
        Row(["sh", "-c", "exec <&-; echo closed"], stdin=b"x" * (1 << 20)),
        Row(["sh", "-c", "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"]),
    ]
    for size in (0, 1, 4095, 4096, 65535, 65536, 65537, 1 << 20):
        found.append(Row(["sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x"]))
        found.append(Row(["md5sum"], stdin=b"y" * size))
    for name in ("no-such-program", "./none", "/none", "/etc/passwd", "/tmp", ""):
        found.append(Row([name]))
    return found


def test_calls_are_those_of_the_engine(image: str, engine: str) -> None:
    async def of_engine(box: aifo.Sandbox, row: Row) -> tuple[int, bytes, bytes]:
        words = [engine, "exec", "--interactive"]
        words += ["--workdir", os.path.join("/", row.cwd)] if row.cwd else []
        words += ["--user", row.user] if row.user else []
        words += [word for name, value in row.env.items() for word in ("--env", f"{name}={value}")]
        process = await asyncio.create_subprocess_exec(
            *words,
            box.container,
            *row.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        stdout, stderr = await process.communicate(row.stdin)
        assert process.returncode is not None
        return process.returncode, stdout, stderr

    async def of_runner(box: aifo.Sandbox, row: Row) -> tuple[int, bytes, bytes] | None:
        try:
            result = await box.exec(row.args, cwd=row.cwd, env=row.env, user=row.user, stdin=row.stdin)
        except aifo.CannotStart:
            return None
        return result.code, result.stdout, result.stderr

    async def run() -> None:
        different = []
        all_rows = rows()
        assert len(all_rows) >= 200
        async with aifo.Sandbox(image, engine=engine) as box:
            for row in all_rows:
                theirs, ours = await of_engine(box, row), await of_runner(box, row)
                # The engine says so by its own codes.
                if ours is None and theirs[0] in (125, 126, 127):
                    continue
                for _ in range(2):
                    # Podman may lose the output of a program that closes its input early.
                    if theirs == ours:
                        break
                    theirs = await of_engine(box, row)
                if theirs != ours:
                    different.append(f"{row.args!r:.200} {row.user} {row.cwd}\n  {theirs!r:.300}\n  {ours!r:.300}")
        assert not different, "\n".join(different)

    asyncio.run(asyncio.wait_for(run(), 300))
