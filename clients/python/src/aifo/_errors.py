"""What can go wrong."""

from __future__ import annotations


class CannotStart(OSError):
    """The program could not be started: nothing ran. ``errno`` tells the kind."""


class UserUnsupported(CannotStart):
    """The container has no such user, or its runner may not become it."""


class SandboxLost(ConnectionError):
    """The container or its runner has ended; how the call ended is unknown."""


class TooLarge(OSError):
    """A file is longer than the caller allows; nothing of it is returned."""
