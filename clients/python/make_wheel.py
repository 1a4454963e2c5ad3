"""Writes the wheel of this package with a static runner: make_wheel.py RUNNER ARCHITECTURE DIRECTORY

Equal files give an equal wheel. Prints its path.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

import tomllib

HERE = Path(__file__).parent


def main(runner: str, architecture: str, directory: str) -> None:
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    tag = f"py3-none-manylinux2014_{architecture}"
    info = f"{name}-{version}.dist-info"
    extras = project.get("optional-dependencies", {})
    metadata = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Provides-Extra: {extra}" for extra in extras),
        *(
            f'Requires-Dist: {needed}; extra == "{extra}"'
            for extra, all_needed in extras.items()
            for needed in all_needed
        ),
        "Description-Content-Type: text/markdown",
        "",
        (HERE / project["readme"]).read_text(),
    ]
    points = []
    for group, entries in project.get("entry-points", {}).items():
        points += [f"[{group}]", *(f"{entry} = {module}" for entry, module in entries.items())]
    sources = sorted(path for path in (HERE / "src/aifo").iterdir() if path.suffix in (".py", ".typed"))
    files = [(f"{name}/{path.name}", path.read_bytes(), 0o644) for path in sources]
    files += [
        (f"{name}/aifo-runner", Path(runner).read_bytes(), 0o755),
        (f"{info}/METADATA", "\n".join(metadata).encode(), 0o644),
        (f"{info}/WHEEL", wheel(tag), 0o644),
        *([(f"{info}/entry_points.txt", "\n".join([*points, ""]).encode(), 0o644)] if points else []),
    ]
    record = "".join(f"{path},sha256={digest(content)},{len(content)}\n" for path, content, _ in files)
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o644))
    out = Path(directory) / f"{name}-{version}-{tag}.whl"
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content, mode in files:
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    print(out)


def wheel(tag: str) -> bytes:
    return f"Wheel-Version: 1.0\nGenerator: aifo\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


if __name__ == "__main__":
    main(*sys.argv[1:])
