"""Settings: from the environment, from files, and which variable is named when one is wrong."""

from __future__ import annotations

import os

import pytest
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from mainspring.domain.errors import Misconfigured
from mainspring.runtime.settings import Settings, read


class Knobs(Settings):
    """A service's settings."""

    model_config = SettingsConfigDict(env_prefix="MAINSPRING_TEST_", extra="ignore", populate_by_name=True)

    slots: int = Field(default=10, ge=1, le=100)
    secret: str = ""


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for name in os.environ:
        if name.startswith("MAINSPRING"):
            monkeypatch.delenv(name)


@pytest.fixture
def from_file(monkeypatch, tmp_path):
    def write(variable, text):
        (tmp_path / variable).write_text(text)
        monkeypatch.setenv(f"{variable}_FILE", str(tmp_path / variable))

    return write


def test_without_any_variable_the_defaults_hold():
    knobs = read(Knobs)
    assert (knobs.slots, knobs.health_host) == (10, "127.0.0.1")
    assert knobs.database_url.startswith("postgresql://")


def test_a_service_s_own_knob_has_its_prefix(monkeypatch):
    monkeypatch.setenv("MAINSPRING_TEST_SLOTS", "7")
    monkeypatch.setenv("MAINSPRING_OTHER_SLOTS", "8")
    monkeypatch.setenv("SLOTS", "9")
    assert read(Knobs).slots == 7


def test_the_servers_are_named_alike_for_every_service(monkeypatch):
    monkeypatch.setenv("MAINSPRING_DATABASE_URL", "postgresql://db/")
    monkeypatch.setenv("MAINSPRING_AMQP_URL", "amqp://a/,amqp://b/")
    knobs = read(Knobs)
    assert (knobs.database_url, knobs.amqp_url) == ("postgresql://db/", "amqp://a/,amqp://b/")


@pytest.mark.parametrize(
    ("variable", "url", "scheme"),
    [
        ("MAINSPRING_DATABASE_URL", "http://u:secret@db/", "postgresql://"),
        ("MAINSPRING_DATABASE_URL", "db:5432", "postgresql://"),
        ("MAINSPRING_DATABASE_DIRECT_URL", "mysql://u:secret@db/", "postgresql://"),
        ("MAINSPRING_AMQP_URL", "http://u:secret@broker/", "amqp://"),
        ("MAINSPRING_AMQP_URL", "amqp://a/,u:secret@b", "amqp://"),
        ("MAINSPRING_AMQP_URL", "", "amqp://"),
    ],
)
def test_a_url_of_something_else_is_refused_without_its_password(monkeypatch, variable, url, scheme):
    monkeypatch.setenv(variable, url)
    with pytest.raises(Misconfigured, match=f"{variable}: a URL must begin with {scheme}") as caught:
        read(Knobs)
    assert "secret" not in str(caught.value)


def test_the_direct_url_is_the_pooled_one_unless_set(monkeypatch):
    monkeypatch.setenv("MAINSPRING_DATABASE_URL", "postgresql://pooler/")
    assert read(Knobs).direct_url == "postgresql://pooler/"
    monkeypatch.setenv("MAINSPRING_DATABASE_DIRECT_URL", "postgresql://db/")
    assert read(Knobs).direct_url == "postgresql://db/"


def test_a_setting_is_read_from_the_file_that_is_named(from_file):
    from_file("MAINSPRING_DATABASE_URL", "postgresql://db/\n")
    from_file("MAINSPRING_TEST_SECRET", "hunter2\n")
    from_file("MAINSPRING_TEST_SLOTS", "7")
    knobs = read(Knobs)
    assert (knobs.database_url, knobs.secret, knobs.slots) == ("postgresql://db/", "hunter2", 7)


def test_the_variable_itself_comes_before_its_file(monkeypatch, from_file):
    from_file("MAINSPRING_TEST_SECRET", "from the file")
    monkeypatch.setenv("MAINSPRING_TEST_SECRET", "from the variable")
    assert read(Knobs).secret == "from the variable"  # noqa: S105  a test's word


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MAINSPRING_TEST_SLOTS", "many"),
        ("MAINSPRING_TEST_SLOTS", "0"),
        ("MAINSPRING_TEST_SLOTS", ""),
        ("MAINSPRING_TEST_HEALTH_PORT", "65536"),
        ("MAINSPRING_TEST_DATABASE_CONNECTIONS", "0"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_variable(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    with pytest.raises(Misconfigured, match=f"^{variable}: "):
        read(Knobs)


def test_a_wrong_value_of_a_file_is_refused_by_the_name_of_its_variable(from_file):
    from_file("MAINSPRING_TEST_SLOTS", "many")
    with pytest.raises(Misconfigured, match=r"^MAINSPRING_TEST_SLOTS: "):
        read(Knobs)


def test_a_refusal_does_not_show_the_value(from_file):
    from_file("MAINSPRING_TEST_SLOTS", "hunter2")
    with pytest.raises(Misconfigured) as refusal:
        read(Knobs)
    assert "hunter2" not in str(refusal.value)
