"""What the pages for newcomers show, as a newcomer runs it after the first trainings."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.docs.commands import ROOT, Shown, commands_of

PAGES = ("tutorial.md", "runs.md", "predict.md")
# They train for minutes, need a cluster, resume a run that failed, or end one that runs; other tests run them.
ELSEWHERE = ("submit", "sweep", "reproduce", "completion", "stop")
# They start a server.
SERVERS = ("ui", "serve")
# It scores every item for every user of the training; tests/predict runs it on a small shop.
EVERYONE = "--all"
_RUN = r"\d{8}-\d{6}-[0-9a-f]{4}|RUN|EARLIER"


def text_of(page: str, run: str) -> str:
    """A page with the name of a run that exists in place of those that it shows."""
    return re.sub(rf"(?<![\w-])({_RUN})(?![\w-])", run, (ROOT / "docs" / page).read_text())


def commands(run: str) -> Iterator[list[str]]:
    """The words of each kfrec command in the blocks of the pages, in the order of the pages, that runs here."""
    for page in PAGES:
        for command in commands_of(page, text_of(page, run)):
            if _runs_here(command):
                _, *words = command.words
                yield [*words, "--print-only"] if words[0] in SERVERS else words


def _runs_here(command: Shown) -> bool:
    program, *words = command.words
    if command.is_mention or program != "kfrec" or words[0] in ELSEWHERE or EVERYONE in words:
        return False
    return words[0] != "run" or "prediction" in words


def snippets(page: str, run: str) -> list[str]:
    """The indented or fenced blocks of a page that are Python."""
    text = text_of(page, run)
    indented = [
        re.sub("(?m)^    ", "", block).strip() for block in re.findall(r"(?m)((?:^    .*\n|^\n(?=    ))+)", text)
    ]
    fenced = re.findall(r"(?s)^```python\n(.*?)^```", text, re.MULTILINE)
    return [block for block in (*indented, *fenced) if re.match(r"(import|from|model\.)", block)]


def requests(page: str) -> list[dict[str, object]]:
    """The bodies that a page sends to the server."""
    blocks = re.findall(r"(?m)((?:^    .*\n)+)", text_of(page, ""))
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if "curl" in line]
    return [json.loads(words[words.index("-d") + 1]) for words in map(shlex.split, lines)]


def paths(run: str) -> set[str]:
    """The paths of a run's files that the pages name."""
    return {
        path.rstrip(".")
        for page in (ROOT / "docs").glob("*.md")
        for path in re.findall(rf"runs/{run}/[\w./-]+", text_of(page.name, run))
    }


def prepare(folder: Path) -> None:
    """Writes the files that the commands read; rows.csv is that of the tutorial."""
    import pandas as pd

    (rows,) = re.findall(r"(?s)```text\n(user,history,item\n.*?)```", (ROOT / "docs" / "tutorial.md").read_text())
    (folder / "rows.csv").write_text(rows)
    table = pd.read_csv(folder / "rows.csv")
    (folder / "days").mkdir(exist_ok=True)
    for path in (folder / "rows.parquet", folder / "days" / "monday.parquet"):
        table.assign(history=table["history"].str.split("|")).to_parquet(path)
    table[["item"]].drop_duplicates().to_csv(folder / "items.csv", index=False)
    table[["user"]].drop_duplicates().iloc[:2].to_csv(folder / "users.csv", index=False)
