"""A queue's credit, lent: a scheduler lets the apis release a lone job with its own insert, which saves a statement.

A loan names a queue, how many jobs each api may release, and the channel on which its lender hears what to publish. It
is a notification and no row: whoever misses one lets the schedulers release, as everybody does without a loan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from mainspring.domain.job import check_name
from mainspring.store.jobs import NOBODY

#: A lender's channel, or that of none. Postgres takes 63 bytes at most.
_LENDER = re.compile(r"mainspring_lent_\w{1,40}|-", re.ASCII)


class Loan(NamedTuple):
    """``jobs`` of ``queue`` may be released by each api; 0: none any more."""

    queue: str
    jobs: int = 0
    lender: str = "-"

    def as_text(self) -> str:
        """As a notification carries it."""
        return f"{self.jobs} {self.lender} {self.queue}"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Of a notification's text. Raises ValueError, InvalidInput: whoever has a connection can say something."""
        jobs, lender, queue = text.split(" ", 2)
        check_name("queue", queue)
        if not _LENDER.fullmatch(lender):
            raise ValueError(f"no lender's channel: {lender}")
        return cls(queue, int(jobs), lender)


@dataclass(slots=True)
class LentCredit:
    """What one api has been lent."""

    _loans: dict[str, Loan] = field(default_factory=dict)

    def hear(self, text: str) -> None:
        """A loan, or its end; "": what was heard may be out of date."""
        if not text:
            self._loans.clear()
            return
        self._note(Loan.from_text(text))

    def lenders(self, queue: str | None) -> Mapping[str, str]:
        """The lender's channel of ``queue``; of all queues while its name isn't known."""
        if queue is None:
            return {name: loan.lender for name, loan in self._loans.items()}
        return {queue: self._loans[queue].lender} if queue in self._loans else NOBODY

    def spend(self, queue: str) -> None:
        """One job of it has been released."""
        loan = self._loans.get(queue)
        if loan is not None:
            self._note(loan._replace(jobs=loan.jobs - 1))

    def _note(self, loan: Loan) -> None:
        if loan.jobs > 0:
            self._loans[loan.queue] = loan
        else:
            self._loans.pop(loan.queue, None)
