"""``mainspring migrate``."""

from __future__ import annotations

import asyncio
import sys


def migrate() -> None:
    """Bring the database up to this release. Safe to run many times and side by side.

    Example: MAINSPRING_DATABASE_URL=postgresql://… mainspring migrate
    """
    from mainspring.runtime.settings import Settings, read
    from mainspring.store.migrate import migrate as migrate_schema
    from mainspring.telemetry import logs

    logs.configure("migrate", "WARNING")
    settings = read(Settings)
    applied = asyncio.run(migrate_schema(settings.direct_url))
    print("\n".join(f"applied {name}" for name in applied) or "nothing to do", file=sys.stderr)
