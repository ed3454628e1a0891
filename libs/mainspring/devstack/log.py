"""What a server has written, told apart by its starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_TAIL_LINES = 20


class ServerLog:
    """A server's log file, which grows over its starts; the questions are about the last one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._starts_at = 0

    def mark(self) -> None:
        """Take note that a start begins here."""
        self._starts_at = self.path.stat().st_size if self.path.exists() else 0

    def tail(self) -> str:
        """The last lines of this start."""
        return "\n".join(self._text().splitlines()[-_TAIL_LINES:])

    def tells_of_a_taken_port(self) -> bool:
        """Whether the server could not listen because another process does."""
        text = self._text().lower()
        return "already in use" in text or "eaddrinuse" in text

    def _text(self) -> str:
        with self.path.open("rb") as log:
            log.seek(self._starts_at)
            return log.read().decode(errors="replace")
