"""The cycle collector of a process that lives long. A module of its own: a runner loads nothing else of a service."""

from __future__ import annotations

import gc


def spare_collector() -> None:
    """What was imported stays: keep the cycle collector from walking over it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()
