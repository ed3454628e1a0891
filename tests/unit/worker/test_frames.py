"""Frames between a supervisor and its runner."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvloop

from mainspring.worker import frames
from mainspring.worker.frames import read_frame, write_frame


class Pipe:
    """The writing half: keeps what is written."""

    def __init__(self):
        self.data = b""

    def write(self, data):
        self.data += data

    def is_closing(self):
        return False


def written(*sent):
    pipe = Pipe()
    for frame in sent:
        write_frame(pipe, frame)
    return pipe.data


def reader_of(data, *, at_end=True):
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    if at_end:
        reader.feed_eof()
    return reader


SOME = [
    {},
    {"run": [{"key": "a:1", "payload": '{"a":1}'}]},
    {"text": "ä😀 \0 \ud800", "deep": [[[None, True, 1.5]]]},
    {"big": "x" * 300_000},
]


async def test_frames_come_out_as_they_went_in_and_in_their_order():
    reader = reader_of(written(*SOME))
    assert [await read_frame(reader) for _ in SOME] == SOME
    assert await read_frame(reader) is None


async def test_a_frame_that_comes_in_pieces_is_put_together():
    data = written(SOME[1])
    reader = asyncio.StreamReader()
    reading = asyncio.create_task(read_frame(reader))
    for place in range(len(data)):
        assert not reading.done()
        reader.feed_data(data[place : place + 1])
        await asyncio.sleep(0)
    assert await reading == SOME[1]


@pytest.mark.parametrize("kept", [0, 1, 3, 4, 5, -1])
async def test_an_end_within_a_frame_is_an_end(kept):
    assert await read_frame(reader_of(written(SOME[1])[:kept])) is None


async def test_a_broken_connection_is_an_end():
    reader = reader_of(b"", at_end=False)
    reader.set_exception(ConnectionResetError())
    assert await read_frame(reader) is None


def test_a_length_goes_ahead_in_four_bytes():
    assert written({"a": 1}) == b'\0\0\0\x07{"a":1}'


def test_a_frame_that_is_too_large_is_refused_before_anything_is_written(monkeypatch):
    monkeypatch.setattr(frames, "_LARGEST_FRAME", 10)
    pipe = Pipe()
    with pytest.raises(ValueError, match="too large"):
        write_frame(pipe, {"a": "x" * 10})
    assert pipe.data == b""


def test_to_an_end_that_has_gone_nothing_is_said():
    async def work():
        ours, theirs = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=ours)
        theirs.close()
        writer.transport.abort()
        await asyncio.sleep(0)
        write_frame(writer, SOME[1])

    # The loop of the services: asyncio's own takes what is written on a lost connection.
    uvloop.run(work())
