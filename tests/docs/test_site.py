"""The pages of docs/ build as a site without a warning: links, anchors and the navigation are complete."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from tests.waiting import LONGEST

ROOT = Path(__file__).parents[2]
_BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    return folder


@pytest.mark.slow
def test_every_page_of_docs_is_built(site: Path) -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages <= {path.stem for path in site.glob("*.html")}


def test_a_diagram_is_left_to_mermaid(site: Path) -> None:
    assert '<pre class="mermaid">' in (site / "architecture.html").read_text()


def test_pages_fetch_no_fonts(site: Path) -> None:
    assert "fonts.g" not in (site / "index.html").read_text()


def test_the_first_page_needs_no_network(site: Path) -> None:
    home = (site / "index.html").read_text()
    assert 'src="images/overview.svg"' in home and "mermaid" not in home
    assert (site / "images" / "overview.svg").is_file()
    assert not re.findall(r'<(?:script|img)[^>]* src="https?://[^"]*"', home)


@pytest.mark.slow
@pytest.mark.skipif(not _BROWSER, reason="no chromium here")
def test_a_search_from_the_disk_finds_pages(site: Path, tmp_path: Path) -> None:
    page = f"{(site / 'index.html').as_uri()}?q=champion"
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    options += ["--virtual-time-budget=10000", "--dump-dom", page]
    shown = subprocess.run(
        [str(_BROWSER), *options], capture_output=True, text=True, check=True, timeout=LONGEST
    ).stdout
    assert re.search(r'md-search-result__meta">\d+ matching documents<', shown)
