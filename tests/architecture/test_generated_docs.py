"""Pages that are generated from the code are what the code says."""

from __future__ import annotations

from pathlib import Path

from mainspring.domain.states import as_markdown

DOCS = Path(__file__).parents[2] / "docs"


def test_the_state_machine_s_page_is_the_table():
    assert (DOCS / "state-machine.md").read_text() == as_markdown()
