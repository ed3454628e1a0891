"""How long a worker may believe in its lease."""

from __future__ import annotations

import pytest

from mainspring.domain.errors import Misconfigured
from mainspring.domain.lease import LeaseTerms


def test_a_lease_is_given_up_a_margin_before_its_end():
    terms = LeaseTerms(lease=15, beat=5, margin=3)
    assert terms.trust == 12
    assert terms.trusted_until(100.0) == 112.0


def test_the_defaults_survive_a_lost_beat():
    terms = LeaseTerms()
    assert (terms.lease, terms.beat, terms.margin) == (15, 5, 3)
    assert 2 * terms.beat < terms.trust


@pytest.mark.parametrize(
    ("lease", "beat", "margin"),
    [(3, 1, 3), (15, 12, 3), (15, 20, 3), (15, 0, 3), (15, -1, 3), (15, 5, 0), (15, 5, -1), (0, 0, 0), (2, 1, 3)],
)
def test_terms_that_could_lose_a_lease_between_two_beats_are_refused(lease, beat, margin):
    with pytest.raises(Misconfigured, match="beat"):
        LeaseTerms(lease, beat, margin)
