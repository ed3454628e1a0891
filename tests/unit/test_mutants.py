"""The list of mutants follows the code: what each takes out is there, once, and the tests that it names exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS

ROOT = Path(__file__).parents[2]
each = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


@each
def test_what_a_mutant_takes_out_is_there(mutant):
    for edit in mutant.edits:
        assert edit.old in (ROOT / edit.path).read_text(), edit.path


@each
def test_the_tests_that_have_to_notice_exist(mutant):
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text()
