"""Small raw folders of outbrain for the tests, and how to read what comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from components.artifacts import adopt
from tests.preprocess import running

Tables = dict[str, str]
DAY = 86_400_000

preprocess = partial(running.preprocess, dataset="outbrain")
error_of = partial(running.error_of, dataset="outbrain")

# Two displays of day 0 and one of day 11, of three ads; document 9 is not described anywhere.
SMALL: Tables = {
    "clicks_train": "display_id,ad_id,clicked\n1,5,1\n1,6,0\n2,6,0\n2,7,1\n3,5,0\n3,7,1\n",
    "events": (
        "display_id,uuid,document_id,timestamp,platform,geo_location\n"
        f"1,u,1,10,1,US>CA>803\n2,v,2,20,\\N,GB\n3,u,9,{11 * DAY},3,\n"
    ),
    "promoted_content": "ad_id,document_id,campaign_id,advertiser_id\n5,3,1,1\n6,4,1,2\n7,9,2,2\n",
    "documents_meta": (
        "document_id,source_id,publisher_id,publish_time\n"
        "1,10,20,2016-06-13 00:00:00\n2,11,,\\N\n3,\\N,21,2016-06-14 00:00:00\n4,12,22,2016-06-01 12:00:00\n"
    ),
    "documents_categories": "document_id,category_id,confidence_level\n1,31,0.9\n2,32,0.5\n3,31,0.4\n",
    "documents_topics": "document_id,topic_id,confidence_level\n1,0,0.6\n1,1,0.3\n3,1,0.5\n4,0,0.2\n",
    "documents_entities": "document_id,entity_id,confidence_level\n1,f9ee,0.7\n4,f9ee,0.6\n",
}


def raw_folder(folder: Path, tables: Mapping[str, str] = SMALL, /, **changed: str) -> Path:
    """A raw artifact of these files, without their ending, some of them with other text."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {**tables, **changed}.items():
        (folder / f"{name}.csv").write_text(text)
    adopt(folder)
    return folder


def samples(output: Path, split: str) -> pd.DataFrame:
    """All samples of a split by ascending display and ad."""
    tables = [pq.read_table(path).to_pandas() for path in sorted((output / split).glob("part.*.parquet"))]
    return pd.concat(tables).sort_values(["display_id", "ad_id"], ignore_index=True)


def random_tables(displays: int, seed: int) -> Tables:
    """Displays of 2 to 5 of 30 ads on 40 documents, over 13 days, with missing values and unknown documents."""
    rng = np.random.default_rng(seed)
    clicks, events = ["display_id,ad_id,clicked"], ["display_id,uuid,document_id,timestamp,platform,geo_location"]
    for display in rng.permutation(displays) + 1:
        ads = rng.choice(np.arange(1, 31), rng.integers(2, 6), replace=False)
        clicked = min(rng.integers(0, len(ads)), rng.integers(0, len(ads)))
        clicks += [f"{display},{ad},{int(place == clicked)}" for place, ad in enumerate(ads)]
        platform = rng.choice(["1", "2", "3", "\\N"])
        place = rng.choice(["US>CA>803", "US>NY>501", "US>CA", "GB", "\\N", ""])
        events.append(f"{display},u,{rng.integers(1, 45)},{int(rng.random() * 13 * DAY)},{platform},{place}")
    ads_lines, meta = (
        ["ad_id,document_id,campaign_id,advertiser_id"],
        ["document_id,source_id,publisher_id,publish_time"],
    )
    for ad in range(1, 29):
        ads_lines.append(
            f"{ad},{rng.integers(1, 45)},{rng.integers(0, 9)},{rng.choice(['1', '2', '3', chr(92) + 'N'])}"
        )
    for document in range(1, 41):
        year = rng.choice([1999, 2014, 2016, 2017])
        time = rng.choice([f"{year}-{rng.integers(1, 7):02d}-{rng.integers(1, 29):02d} 10:11:12", "\\N"])
        source, publisher = rng.choice(["1", "2", ""]), rng.choice(["7", "8", "\\N"])
        meta.append(f"{document},{source},{publisher},{time}")
    tables = {"clicks_train": clicks, "events": events, "promoted_content": ads_lines, "documents_meta": meta}
    for file, name in (("categories", "category_id"), ("topics", "topic_id"), ("entities", "entity_id")):
        lines = [f"document_id,{name},confidence_level"]
        for document in range(1, 39):
            terms = rng.choice(12, rng.integers(0, 6), replace=False)
            named = [f"{term:04x}" if file == "entities" else str(term) for term in terms]
            lines += [f"{document},{term},{rng.random():.3f}" for term in named]
        tables[f"documents_{file}"] = lines
    return {name: "\n".join(lines) + "\n" for name, lines in tables.items()}
