"""What a process says of its clock and its zone data."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from mainspring.domain.zones import zone_data_version
from mainspring.runtime.health import Health
from mainspring.runtime.postgres_watch import CLOCK_TOLERANCE, Answer, PostgresWatch
from mainspring.store.pool import Database


@pytest.mark.parametrize(("offset", "is_off"), [(0.24, False), (-0.24, False), (0.26, True), (-300.0, True)])
def test_a_clock_that_is_off_is_said_once_and_shown_as_long_as_it_is(offset: float, is_off: bool) -> None:
    health = Health("test")
    watch = PostgresWatch(Database("postgresql://nowhere", "test"), health)
    assert (abs(offset) > CLOCK_TOLERANCE) == is_off
    with capture_logs() as said:
        for _ in range(3):
            watch.note(Answer(offset, False, None))
    assert len(said) == is_off
    assert ("clock" in health.degraded) == is_off
    watch.note(Answer(0.0, False, None))
    assert health.degraded == {}


def test_other_zone_data_than_the_fleets_is_shown() -> None:
    health = Health("test")
    watch = PostgresWatch(Database("postgresql://nowhere", "test"), health)
    watch.note(Answer(0.0, False, "1999a"))
    assert health.degraded == {"zone_data": f"{zone_data_version()} here, 1999a in the fleet"}
    watch.note(Answer(0.0, False, zone_data_version()))
    assert health.degraded == {}
