"""A loan: heard, spent, over."""

from __future__ import annotations

from mainspring.runtime.lent_credit import LentCredit, Loan


def test_a_loan_is_what_its_text_says():
    loan = Loan("a queue", 64, "mainspring_lent_1")
    assert Loan.from_text(loan.as_text()) == loan


def test_a_loan_ends_when_it_is_spent_or_taken_back():
    lent = LentCredit()
    for queue in ("a", "b", "c"):
        lent.hear(Loan(queue, 2, f"of-{queue}").as_text())
    for queue in ("a", "a", "a", "b", "unknown"):
        lent.spend(queue)
    lent.hear(Loan("c").as_text())
    assert lent.lenders(None) == {"b": "of-b"}
    assert (lent.lenders("a"), lent.lenders("b"), lent.lenders("c")) == ({}, {"b": "of-b"}, {})


def test_the_last_lender_counts():
    lent = LentCredit()
    lent.hear(Loan("q", 1, "first").as_text())
    lent.hear(Loan("q", 2, "second").as_text())
    lent.spend("q")
    assert lent.lenders("q") == {"q": "second"}


def test_after_a_gap_nothing_is_lent():
    lent = LentCredit()
    lent.hear(Loan("q", 64, "first").as_text())
    lent.hear("")
    assert lent.lenders("q") == {}
