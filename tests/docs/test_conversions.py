"""The commands that the documents give to convert public files do so."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from components.datasets.amazon_reviews.lines import parse_items, parse_reviews
from components.datasets.criteo.columns import LINE
from components.workflows.text_blocks import blocks
from tests.docs.commands import ROOT


def run(commands: str, folder: Path) -> None:
    """Runs commands of a page in a folder, with this Python and this kfrec."""
    commands = re.sub(r"(?m)^python\b", sys.executable, commands)
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"PYTHONPATH={ROOT}\nexport PYTHONPATH\n{commands}"], cwd=folder, check=True
    )


@pytest.mark.parametrize(("name", "first"), [("day_23", "label"), ("test.txt", "int_1")])
def test_a_file_of_criteo_becomes_csv_with_a_name_for_each_value(tmp_path: Path, name: str, first: str) -> None:
    page = (ROOT / "docs" / "predict.md").read_text()
    (made,) = re.findall(rf"(?m)^    (python -c .*)\n    (tr .* < {re.escape(name)} .*)$", page)
    fields = [str(number) for number in range(len(LINE.names))][LINE.names.index(first) :]
    (tmp_path / name).write_text("\t".join(fields) + "\n")
    run("\n".join(made), tmp_path)
    (converted,) = tmp_path.glob("*.csv")
    head, row = (line.split(",") for line in converted.read_text().splitlines())
    assert dict(zip(head, row, strict=True)) == dict(zip(LINE.names[LINE.names.index(first) :], fields, strict=True))


REVIEWS = {
    "Books.json.gz": {
        "overall": 5.0,
        "verified": True,
        "reviewerID": "A1",
        "asin": "B1",
        "unixReviewTime": 1_500_000_000,
    },
    "Books.jsonl": {"rating": 5.0, "user_id": "A1", "asin": "B1v", "parent_asin": "B1", "timestamp": 1_500_000_000_000},
}
ITEMS = {
    "Books.json.gz": ("meta_Books.json.gz", "asin", "category"),
    "Books.jsonl": ("meta_Books.jsonl", "parent_asin", "categories"),
}


def write(path: Path, rows: list[dict[str, object]]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
@pytest.mark.parametrize("name", REVIEWS)
def test_amazons_later_reviews_get_the_names_of_2014(tmp_path: Path, name: str) -> None:
    page = (ROOT / "docs" / "bring-your-own-data.md").read_text()
    (commands,) = (block for block in re.findall(r"```bash\n(.*?)```", page, re.DOTALL) if f" {name} " in block)
    meta, item, category = ITEMS[name]
    write(tmp_path / name, [REVIEWS[name]])
    write(
        tmp_path / meta,
        [{item: "B1", "title": "Odes", category: ["Books", "Poetry"]}, {item: "B2", category: []}, {item: "B3"}],
    )
    (tmp_path / "FOLDER").mkdir()
    run(commands, tmp_path)
    (reviews,), (items,) = ((tmp_path / "FOLDER").glob(pattern) for pattern in ("reviews_*.json*", "meta_*.json*"))
    (table, bad), (described, others) = (
        parse(block) for parse, path in ((parse_reviews, reviews), (parse_items, items)) for block in blocks(path)
    )
    assert not bad and not others
    assert table.to_pylist()[0]["reviewerID"] == "A1" and table.to_pylist()[0]["asin"] == "B1"
    assert [list(row.values()) for row in described.to_pylist()] == [
        ["B1", "Poetry", "Odes"],
        ["B2", None, None],
        ["B3", None, None],
    ]
