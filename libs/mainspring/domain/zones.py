"""Time zones: which names are accepted, and the stretches of time in which a zone's clocks keep one offset.

The rules come from the machine's zone data by way of `zoneinfo`, which prefers the system's copy to the
``tzdata`` package; `zone_data_version` names the copy in use, so that services that differ can be told apart.
"""

import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

from mainspring.domain.errors import InvalidInput

#: Fire times are known within these bounds: two days inside the years 1 to 9999, so that no offset overflows.
EARLIEST = datetime(1, 1, 3, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_NOT_A_PLACE = frozenset({"localtime", "posixrules", "Factory"})


@cache
def zone_names() -> frozenset[str]:
    """The IANA names of this machine's zone data, links such as ``US/Pacific`` included."""
    return frozenset(name for name in available_timezones() - _NOT_A_PLACE if not name.startswith(("posix/", "right/")))


def load_zone(name: object) -> ZoneInfo:
    """The zone of that exact name. Raises InvalidInput naming ``timezone``, and nothing else."""
    if not isinstance(name, str) or name not in zone_names():
        raise InvalidInput("timezone", f"{str(name)[:64]!r} is not an IANA name such as 'Europe/Berlin' or 'UTC'")
    return _loaded(name)


@cache
def _loaded(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidInput("timezone", f"the zone data of {name!r} can't be read") from error


@cache
def zone_data_version() -> str:
    """The release of the zone data in use, such as ``2025b``, or a digest of it where it bears no name.

    `zoneinfo` takes a zone from the first folder of its path that has it, from ``tzdata`` when none has;
    named here is the first folder that exists.
    """
    folders = [Path(entry) for entry in zoneinfo.TZPATH if Path(entry).is_dir()]
    folder: Traversable = folders[0] if folders else files("tzdata").joinpath("zoneinfo")
    for name in ("tzdata.zi", "+VERSION"):
        release = folder.joinpath(name)
        if release.is_file():
            return release.read_text("utf-8").split("\n", 1)[0].removeprefix("# version ").strip()
    return _digest(folder)


def _digest(folder: Traversable) -> str:
    digest = blake2b(digest_size=4)
    for name in sorted(zone_names()):
        zone = folder.joinpath(name)
        digest.update(zone.read_bytes() if zone.is_file() else b"")
    return f"digest-{digest.hexdigest()}"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A span [start, end) of UTC in which a zone keeps one offset; local times are naive datetimes."""

    start: datetime
    end: datetime
    offset: timedelta
    #: What the clocks showed when the stretch began, before the change; less than `local_start` after a gap.
    left_local: datetime
    #: What they show at the start, after the change.
    local_start: datetime
    #: What they are about to show at the end.
    local_end: datetime

    @property
    def first_new_local(self) -> datetime:
        """The first local time that the clocks haven't shown before; after an overlap, where it ends."""
        return max(self.local_start, self.left_local)

    @property
    def follows_gap(self) -> bool:
        """Whether the clocks leapt forward, over [left_local, local_start)."""
        return self.left_local < self.local_start

    def local(self, instant: datetime) -> datetime:
        """What a clock with this stretch's offset shows."""
        return (instant + self.offset).replace(tzinfo=None)

    def instant(self, local: datetime) -> datetime:
        """The UTC instant at which a clock with this stretch's offset shows ``local``."""
        return (local - self.offset).replace(tzinfo=UTC)


def stretches_from(zone: ZoneInfo, instant: datetime) -> Iterator[Stretch]:
    """The stretches in order; the first one holds the UTC ``instant``."""
    for year in range(instant.year, LATEST.year + 1):
        yield from (stretch for stretch in _stretches(zone, year) if stretch.end > instant)


def stretches_before(zone: ZoneInfo, instant: datetime) -> Iterator[Stretch]:
    """The stretches backwards; the first one is the last that began before the UTC ``instant``."""
    for year in range(instant.year, 0, -1):
        yield from (stretch for stretch in reversed(_stretches(zone, year)) if stretch.start < instant)


@lru_cache(maxsize=4096)
def _stretches(zone: ZoneInfo, year: int) -> tuple[Stretch, ...]:
    """The stretches of a UTC year; one that crosses New Year is cut there, without a change of offset."""
    edges = _edges(zone, _new_year(year), _new_year(year + 1))
    return tuple(_stretch(zone, start, end) for start, end in pairwise(edges))


def _stretch(zone: ZoneInfo, start: datetime, end: datetime) -> Stretch:
    before, offset = _offset(zone, start - _SECOND), _offset(zone, start)
    first, last = start.replace(tzinfo=None), end.replace(tzinfo=None)
    return Stretch(start, end, offset, first + before, first + offset, last + offset)


def _edges(zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """``start``, the changes of offset inside (start, end), and ``end``.

    Each day's ends are compared: no zone ever changed twice within a day (the closest pair in release 2025b
    is Africa/Freetown's of 1939, four days apart).
    """
    marks = [*(start + count * _DAY for count in range((end - start) // _DAY)), end]
    offsets = [_offset(zone, mark) for mark in marks]
    changed = [day for day, (before, after) in zip(pairwise(marks), pairwise(offsets), strict=True) if before != after]
    changes = [change for day in changed for change in _changes(zone, *day)]
    return [start, *(change for change in changes if change < end), end]


def _changes(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """The seconds of (start, end] at which the offset is another than a second before, found by halving."""
    if _offset(zone, start) == _offset(zone, end):
        return
    if end - start == _SECOND:
        yield end
        return
    middle = start + (end - start) // (2 * _SECOND) * _SECOND
    yield from _changes(zone, start, middle)
    yield from _changes(zone, middle, end)


def _offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    offset = instant.astimezone(zone).utcoffset()
    return offset if offset is not None else timedelta(0)


def _new_year(year: int) -> datetime:
    if year > LATEST.year:
        return LATEST
    return max(EARLIEST, datetime(year, 1, 1, tzinfo=UTC))
