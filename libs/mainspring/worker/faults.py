"""An exception as text that can always be stored: bounded, without what Postgres refuses, whatever it holds."""

from __future__ import annotations

import traceback

from mainspring.domain.settlement import AttemptError

MOST_MESSAGE = 4_000
MOST_TRACEBACK = 12_000


def attempt_error(error: BaseException) -> AttemptError:
    """Describe ``error``; never raises, even when the exception's own methods do."""
    kind = type(error).__qualname__
    return AttemptError(
        kind[:200], safe_text(_message(error), MOST_MESSAGE), safe_text(_traceback(error), MOST_TRACEBACK)
    )


def safe_text(text: str, most: int) -> str:
    """``text`` cut to ``most`` characters (its end is kept) with NUL and lone surrogates made visible."""
    kept = text if len(text) <= most else "… " + text[-(most - 2) :]
    return kept.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:  # noqa: BLE001  a user's __str__ may raise anything, and the job must still end
        return f"(its text could not be made: {type(problem).__name__})"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error, limit=-20, chain=True))
    except Exception as problem:  # noqa: BLE001  as above
        return f"(its traceback could not be made: {type(problem).__name__})"
