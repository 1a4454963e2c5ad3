"""Containers in which calls cost a millisecond, for harnesses that make many of them."""

from ._engine import EngineError
from ._errors import CannotStart, SandboxLost, TooLarge, UserUnsupported
from ._sandbox import DEVNULL, PIPE, Process, Result, Sandbox, mounts

__all__ = [
    "DEVNULL",
    "PIPE",
    "CannotStart",
    "EngineError",
    "Process",
    "Result",
    "Sandbox",
    "SandboxLost",
    "TooLarge",
    "UserUnsupported",
    "mounts",
]
