"""Ids: UUID version 7, in the order of time."""

from __future__ import annotations

from uuid import RFC_4122

import pytest

from mainspring.domain.ids import RisingIds, first_id_at, uuid7

NOW = 1_767_225_600_000
ALL_BITS = (1 << 200) - 1


@pytest.mark.parametrize("randomness", [0, 1, (1 << 62) - 1, 1 << 62, ALL_BITS])
def test_an_id_has_the_version_and_the_variant_of_its_standard(randomness):
    id_ = uuid7(NOW, randomness)
    assert (id_.version, id_.variant) == (7, RFC_4122)


@pytest.mark.parametrize("randomness", [0, ALL_BITS])
def test_the_first_48_bits_are_the_milliseconds(randomness):
    assert uuid7(NOW, randomness).int >> 80 == NOW


def test_the_example_of_the_standard_is_made():
    """RFC 9562, appendix A.6."""
    id_ = uuid7(0x017F22E279B0, 0xCC3 << 62 | 0x18C4DC0C0C07398F)
    assert str(id_) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


def test_a_later_millisecond_comes_after_whatever_the_random_bits():
    assert uuid7(NOW, ALL_BITS) < uuid7(NOW + 1, 0)


def test_every_random_bit_tells_ids_apart():
    assert len({uuid7(NOW, 1 << bit) for bit in range(74)}) == 74


def test_a_boundary_lies_between_two_milliseconds():
    assert uuid7(NOW - 1, ALL_BITS) < first_id_at(NOW) < uuid7(NOW, 0)


def test_ids_of_a_process_rise_whatever_its_clock_does():
    ids = RisingIds()
    clock = [0, 0, 0, 5, 3, -1000, 5, 6, 6]
    made = [ids.make(NOW + at, randomness) for at in clock for randomness in (ALL_BITS, 0, 1 << 73, 1)]
    assert made == sorted(set(made))
    assert [made[0].int >> 80, made[-1].int >> 80] == [NOW, NOW + 6]
