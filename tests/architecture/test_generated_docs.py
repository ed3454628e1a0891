"""Pages that are generated from the code are what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES: dict[Path, str] = runpy.run_path(str(DOCS / "generate.py"))["pages"]()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_generated_page_is_what_the_code_says(page: Path):
    assert page.read_text() == PAGES[page], "run `make docs`"
