"""A psql that stays: a test that looks twenty times a second doesn't start a program and a session for each look."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from mainspring.devstack.errors import RefusedError

_END = "-- end of the answer --"
_CONNECTION_WENT_BAD = 2  # psql's "Exit Status"


class LostError(RefusedError):
    """The session is no more: the server was away, or ended it."""


class Psql:
    """Asks one database in one session; begins another when that is over. Of use to several threads."""

    def __init__(self, program: Path, url: str, environment: Mapping[str, str]) -> None:
        self._argv = [str(program), "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", url]
        self._environment = environment
        self._lock = threading.Lock()
        self._session: _Session | None = None

    def ask(self, sql: str) -> str:
        """Run statements, each in its own transaction; returns their rows as bare text. Raises RefusedError."""
        with self._lock:
            if self._session is not None:
                try:
                    return self._ask(sql)
                except LostError:
                    pass
            return self._ask(sql)

    def close(self) -> None:
        """End the session."""
        with self._lock:
            self._end()

    def _ask(self, sql: str) -> str:
        self._session = self._session or _Session(self._argv, self._environment)
        try:
            return self._session.ask(sql)
        except RefusedError:
            self._end()
            raise

    def _end(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


class _Session:
    """One process of psql, fed by a pipe."""

    def __init__(self, argv: list[str], environment: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 — closed with the session
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            argv, env=environment, cwd="/", stdin=pipe, stdout=pipe, stderr=self._errors, text=True
        )

    def ask(self, sql: str) -> str:
        """Its answer. Raises RefusedError or LostError, after either of which it is over."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{sql}\n;\n\\echo {_END}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None
        lines: list[str] = []
        for line in self._process.stdout:
            if line == f"{_END}\n":
                return "".join(lines).strip()
            lines.append(line)
        raise self._failure()

    def close(self) -> None:
        """End it."""
        self._process.communicate()
        self._errors.close()

    def _failure(self) -> RefusedError:
        code = self._process.wait()
        self._errors.seek(0)
        words = f"psql: {self._errors.read().decode(errors='replace').strip()}"
        return LostError(words) if code == _CONNECTION_WENT_BAD else RefusedError(words)
