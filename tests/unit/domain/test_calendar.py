"""Triggers without the days of calendars: both ways, counted, and where nothing is left."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from time import process_time

import pytest

from mainspring.domain.calendar import Calendar, without_days
from mainspring.domain.errors import InvalidInput
from mainspring.domain.schedule import TICK, CronTrigger, Trigger, fire_times
from mainspring.domain.zones import load_zone

BERLIN = load_zone("Europe/Berlin")
EVERY_DAY = [f"{date(2024, 1, 1) + timedelta(days=number):%m-%d}" for number in range(366)]


def excluding(cron: str, *days: str) -> Trigger:
    return without_days(CronTrigger.parse(cron, "Europe/Berlin"), days, "Europe/Berlin")


@pytest.mark.parametrize("cron", ["0 */6 * * *", "30 2 * * *", "0 0 * * mon"])
def test_what_is_left_is_what_a_filter_leaves_forwards_backwards_and_counted(cron: str) -> None:
    days = ("12-25", "12-26", "2026-03-29", "2026-10-25", "02-29")
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2028, 4, 1, tzinfo=UTC)
    every = fire_times(CronTrigger.parse(cron, "Europe/Berlin"), start, end)
    local = ((at, at.astimezone(BERLIN)) for at in every)
    wanted = [at for at, there in local if not {f"{there:%m-%d}", f"{there:%Y-%m-%d}"} & set(days)]
    trigger = excluding(cron, *days)
    assert list(fire_times(trigger, start, end)) == wanted
    backwards = []
    at = trigger.previous_before(end)
    while at is not None and at >= start:
        backwards.append(at)
        at = trigger.previous_before(at)
    assert backwards[::-1] == wanted
    assert trigger.count_between(start, end) == len(wanted)
    assert trigger.next_after(wanted[3] - TICK) == wanted[3]


@pytest.mark.parametrize(
    "instant", [datetime(2026, 11, 30, tzinfo=UTC), datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)]
)
@pytest.mark.parametrize(("cron", "days"), [("* * * * *", EVERY_DAY), ("0 6 25 12 *", ["12-25"])])
def test_where_every_time_is_left_out_there_is_none_and_that_is_found_soon(
    cron: str, days: list[str], instant: datetime
) -> None:
    trigger = excluding(cron, *days)
    trigger.next_after(instant)  # the zone's years are looked up once
    began = process_time()
    assert (trigger.next_after(instant), trigger.previous_before(instant)) == (None, None)
    assert process_time() - began < 0.3


@pytest.mark.parametrize("day", ["25-12", "2026-02-29", "13-01", "1-1", "", "2026-12-24 "])
def test_what_is_no_day_is_refused(day: str) -> None:
    with pytest.raises(InvalidInput, match=r"days\.0"):
        Calendar("x", (day,))
