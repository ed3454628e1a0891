"""A TCP proxy that misbehaves on command: before Postgres, before RabbitMQ.

It runs in a thread of its own, so that tests of any kind can use it. What it does to traffic is one value, ``Weather``,
that holds for all connections from the moment it is set.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Weather:
    """What becomes of bytes, and of those who connect."""

    #: Seconds by which each chunk is late.
    delay: float = 0.0
    #: Bytes a second at most, in each direction; 0: no bound.
    rate: int = 0
    #: Chunks of this direction are read and dropped: the sender believes that they arrived.
    swallows_requests: bool = False
    swallows_answers: bool = False
    #: Whoever connects is cut off at once.
    refuses: bool = False


FAIR = Weather()


class TcpProxy:
    """Forwards one port to another."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self.weather = FAIR
        self.port = 0
        #: Connections that were taken.
        self.accepted = 0

    def start(self) -> None:
        """Listen on a free port."""
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def cut(self, *, reset: bool = False) -> None:
        """End every connection: in good order, or by a reset."""
        asyncio.run_coroutine_threadsafe(self._cut(reset), self._loop).result(10)

    def close(self) -> None:
        """End everything."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._cut(reset=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _cut(self, reset: bool) -> None:
        for writer in list(self._writers):
            if not reset:
                writer.close()
                continue
            # Linger for no time: the other end gets a reset and not an end. One that has ended already has no socket.
            with contextlib.suppress(OSError):
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.weather.refuses:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        ways = [
            asyncio.create_task(self._forward(reader, far_writer, is_answer=False)),
            asyncio.create_task(self._forward(far_reader, writer, is_answer=True)),
        ]
        self._tasks.update(ways)
        await asyncio.wait(ways)
        self._tasks.difference_update(ways)
        self._writers -= {writer, far_writer}

    async def _forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while chunk := await source.read(self.weather.rate // 10 or CHUNK):
                weather = self.weather
                await asyncio.sleep(weather.delay + (0.1 if weather.rate else 0))
                if not (weather.swallows_answers if is_answer else weather.swallows_requests):
                    sink.write(chunk)
                    await sink.drain()
        with contextlib.suppress(OSError):
            sink.close()


@contextmanager
def proxied(url: str) -> Iterator[tuple[TcpProxy, str]]:
    """A proxy before the server of ``url``, and the URL that leads through it."""
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    proxy = TcpProxy(parts.hostname, parts.port)
    proxy.start()
    credentials = parts.netloc.rpartition("@")[0]
    netloc = f"{credentials}@127.0.0.1:{proxy.port}" if credentials else f"127.0.0.1:{proxy.port}"
    try:
        yield proxy, parts._replace(netloc=netloc).geturl()
    finally:
        proxy.close()
