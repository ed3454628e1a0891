"""What a supervisor and its runner say to each other: JSON objects behind a four-byte length, over a socket pair."""

from __future__ import annotations

import asyncio
import json
from typing import Any

_LENGTH_BYTES = 4
#: A payload or result has at most 256 KiB, and a frame carries at most a runner's slots of them.
_LARGEST_FRAME = 1 << 31


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next frame, or None when the other end has closed."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
        body = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    frame: dict[str, Any] = json.loads(body)
    return frame


def write_frame(writer: asyncio.StreamWriter, frame: dict[str, Any]) -> None:
    """Send a frame; to an end that has gone nothing is sent, which the reader notices."""
    if writer.is_closing():
        # uvloop raises where asyncio would only warn.
        return
    body = json.dumps(frame, separators=(",", ":")).encode()
    if len(body) >= _LARGEST_FRAME:
        raise ValueError("frame too large")
    writer.write(len(body).to_bytes(_LENGTH_BYTES) + body)
