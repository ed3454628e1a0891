"""What a worker says of itself, and what a task asks of the workers that run it: ``gpu``, ``region=eu``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mainspring.domain.errors import InvalidInput

_LABEL = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}(=[A-Za-z0-9][A-Za-z0-9_.-]{0,62})?")
MOST_LABELS = 32


def check_labels(field: str, labels: Iterable[str]) -> tuple[str, ...]:
    """Labels in order, each once. Raises InvalidInput."""
    if isinstance(labels, str):
        raise InvalidInput(field, f"give a list: [{labels!r}]")
    found = tuple(sorted(set(map(str, labels))))
    if len(found) > MOST_LABELS:
        raise InvalidInput(field, f"at most {MOST_LABELS}")
    for label in found:
        if not _LABEL.fullmatch(label):
            raise InvalidInput(field, f"{label!r} is not like gpu or region=eu")
    return found
