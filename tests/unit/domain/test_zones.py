"""Which zone names are accepted, and how the zone data in use is named."""

from __future__ import annotations

import pytest

from mainspring.domain import zones
from mainspring.domain.errors import InvalidInput
from mainspring.domain.zones import load_zone, zone_data_version, zone_names


@pytest.mark.parametrize(
    "name",
    [
        "UTC+3",
        "Mars/Phobos",
        "america/new_york",
        "PST8",
        "../../etc/passwd",
        "x" * 5000,
        "",
        " UTC",
        "localtime",
        "Factory",
        "posix/Europe/Berlin",
        "right/Europe/Berlin",
        "posixrules",
        "/usr/share/zoneinfo/UTC",
        "Europe",
        "zone.tab",
        "UTC\0",
        None,
        5,
        ["UTC"],
    ],
)
def test_c11_zone_names_are_iana_names(name: object):
    with pytest.raises(InvalidInput) as raised:
        load_zone(name)
    assert raised.value.field == "timezone"
    assert len(raised.value.message) < 200


def test_c11_every_iana_name_loads():
    assert {load_zone(name).key for name in zone_names()} == zone_names()
    assert {"UTC", "US/Pacific", "Etc/GMT+3", "America/Argentina/Buenos_Aires"} <= zone_names()


def test_c12_the_zone_data_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path):
    assert zone_data_version()[:4].isdigit()
    for folder, version in (("named", "2026f"), ("nameless", "digest-")):
        (tmp_path / folder).mkdir()
        monkeypatch.setattr(zones.zoneinfo, "TZPATH", (str(tmp_path / "none"), str(tmp_path / folder)), raising=False)
        (tmp_path / "named" / "tzdata.zi").write_text("# version 2026f\n# more\n")
        assert zone_data_version.__wrapped__().startswith(version)
    monkeypatch.setattr(zones.zoneinfo, "TZPATH", (), raising=False)
    assert zone_data_version.__wrapped__()[:2] == "20"
