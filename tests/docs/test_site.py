"""The pages of docs/ build as a site without a warning: links, anchors and the navigation are complete."""

from __future__ import annotations

from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    return folder


def test_every_page_of_docs_is_built(site: Path) -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages <= {path.stem for path in site.glob("*.html")}


def test_a_diagram_is_left_to_mermaid(site: Path) -> None:
    assert '<pre class="mermaid">' in (site / "architecture.html").read_text()


def test_pages_fetch_no_fonts(site: Path) -> None:
    assert "fonts.g" not in (site / "index.html").read_text()
