"""A loan: heard, spent, over."""

from __future__ import annotations

import pytest

from mainspring.domain.errors import InvalidInput
from mainspring.runtime.lent_credit import LentCredit, Loan


def test_a_loan_is_what_its_text_says():
    loan = Loan("a.queue", 64, "mainspring_lent_1")
    assert Loan.from_text(loan.as_text()) == loan


def test_a_loan_ends_when_it_is_spent_or_taken_back():
    lent = LentCredit()
    for queue in ("a", "b", "c"):
        lent.hear(Loan(queue, 2, f"mainspring_lent_{queue}").as_text())
    for queue in ("a", "a", "a", "b", "unknown"):
        lent.spend(queue)
    lent.hear(Loan("c").as_text())
    assert lent.lenders(None) == {"b": "mainspring_lent_b"}
    assert (lent.lenders("a"), lent.lenders("b"), lent.lenders("c")) == ({}, {"b": "mainspring_lent_b"}, {})


def test_the_last_lender_counts():
    lent = LentCredit()
    lent.hear(Loan("q", 1, "mainspring_lent_first").as_text())
    lent.hear(Loan("q", 2, "mainspring_lent_second").as_text())
    lent.spend("q")
    assert lent.lenders("q") == {"q": "mainspring_lent_second"}


def test_after_a_gap_nothing_is_lent():
    lent = LentCredit()
    lent.hear(Loan("q", 64, "mainspring_lent_first").as_text())
    lent.hear("")
    assert lent.lenders("q") == {}


@pytest.mark.parametrize(
    "text", ["1  default", "1 mainspring_due default", f"1 mainspring_lent_{'x' * 60} q", "x - q", "1 - a queue", "1"]
)
def test_what_is_no_loan_is_refused(text):
    with pytest.raises((ValueError, InvalidInput)):
        LentCredit().hear(text)
