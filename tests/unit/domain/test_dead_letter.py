"""How dead letters are grouped."""

from __future__ import annotations

import pytest

from mainspring.domain.dead_letter import fingerprint
from mainspring.domain.settlement import AttemptError


def error(kind="ValueError", file="/srv/app/billing.py", line=10, function="charge", message="boom"):
    traceback = (
        f'Traceback (most recent call last):\n  File "/srv/run.py", line 3, in execute\n    handler()\n'
        f'  File "{file}", line {line}, in {function}\n    raise\n{kind}: {message}\n'
    )
    return AttemptError(kind, message, traceback)


SAME = fingerprint("billing.charge", "exhausted", error())


def test_a_fingerprint_is_sixteen_hexadecimal_digits():
    assert len(SAME) == 16
    assert int(SAME, 16) >= 0


@pytest.mark.parametrize(
    "like",
    [error(line=99), error(file="/home/me/billing.py"), error(file="billing.py"), error(message="other")],
)
def test_line_folder_and_message_make_no_new_kind(like):
    assert fingerprint("billing.charge", "exhausted", like) == SAME


@pytest.mark.parametrize(
    ("task", "reason", "other"),
    [
        ("billing.refund", "exhausted", error()),
        ("billing.charge", "permanent", error()),
        ("billing.charge", "exhausted", error(kind="KeyError")),
        ("billing.charge", "exhausted", error(file="/srv/app/tax.py")),
        ("billing.charge", "exhausted", error(function="refund")),
        ("billing.charge", "exhausted", None),
        ("billing.charge", "exhausted", AttemptError("ValueError", "boom")),
    ],
)
def test_task_reason_type_and_last_frame_make_a_new_kind(task, reason, other):
    assert fingerprint(task, reason, other) != SAME


def test_parts_that_run_together_are_different_kinds():
    assert fingerprint("a", "bc", None) != fingerprint("ab", "c", None)


def test_a_fingerprint_is_the_same_in_every_release():
    assert fingerprint("billing.charge", "expired", None) == "ba2d01fd2b3e7023"
