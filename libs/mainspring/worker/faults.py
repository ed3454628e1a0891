"""An exception as text that can always be stored: bounded, without what Postgres refuses, whatever it holds."""

from __future__ import annotations

import traceback

from mainspring.domain.settlement import AttemptError

#: In bytes of UTF-8; together they stay under 16 KiB.
MOST_KIND = 200
MOST_MESSAGE = 4_000
MOST_TRACEBACK = 12_000


def attempt_error(error: BaseException) -> AttemptError:
    """Describe ``error``; never raises, even when the exception's own methods do."""
    kind = type(error).__qualname__
    return AttemptError(
        safe_text(kind, MOST_KIND),
        safe_text(_message(error), MOST_MESSAGE),
        safe_text(_traceback(error), MOST_TRACEBACK),
    )


def safe_text(text: str, most: int) -> str:
    """``text`` with NUL and lone surrogates made visible, cut to ``most`` bytes of UTF-8 (its end is kept)."""
    end = text[-most:].replace("\0", "\\x00").encode("utf-8", "backslashreplace")
    if len(text) <= most and len(end) <= most:
        return end.decode()
    return "… " + end[-(most - len("… ".encode())) :].decode("utf-8", "ignore")


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as problem:  # noqa: BLE001  a user's __str__ may raise anything, and the job must still end
        return f"(its text could not be made: {type(problem).__name__})"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error, limit=-20, chain=True))
    except BaseException as problem:  # noqa: BLE001  as above
        return f"(its traceback could not be made: {type(problem).__name__})"
