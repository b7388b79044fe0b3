"""The samples of outbrain in plain pandas, term by term as the public description has them."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
import pandas as pd

DAY = 86_400_000
EPOCH = 1_465_876_799_998
THRESHOLDS = {"ad_id": 5, "document_id_promo": 5, "source_id_promo": 10, "publisher_id_promo": 10,
              "advertiser_id": 10, "campaign_id": 10}  # fmt: skip


def read(tables: Mapping[str, str], name: str) -> pd.DataFrame:
    return pd.read_csv(
        io.StringIO(tables[name]), na_values=["\\N", ""], keep_default_na=False, dtype={"entity_id": str}
    )


def joined(tables: Mapping[str, str]) -> pd.DataFrame:
    """Clicks with their events, ads and both documents, by ascending display and ad."""
    meta = read(tables, "documents_meta")
    rows = read(tables, "clicks_train").merge(read(tables, "events"), on="display_id", how="left")
    rows = rows.merge(read(tables, "promoted_content"), on="ad_id", how="left", suffixes=("", "_promo"))
    rows = rows.merge(meta, on="document_id", how="left")
    promo = meta.rename(columns=lambda name: f"{name}_promo")
    rows = rows.merge(promo, on="document_id_promo", how="left")
    for suffix in ("", "_promo"):
        published = pd.to_datetime(rows[f"publish_time{suffix}"])
        age = (pd.to_datetime(rows["timestamp"] + EPOCH, unit="ms") - published).dt.days.astype(float)
        rows[f"age{suffix}"] = age.where(age.isna() | ((age >= 0) & (age <= 3650)), 0.0)
    return rows.sort_values(["display_id", "ad_id"], ignore_index=True)


def rates(rows: pd.DataFrame, seen: pd.DataFrame, name: str) -> pd.Series:
    """A click-through rate of each row, from the rows ``seen``."""
    groups = seen.groupby(name)["clicked"]
    rate = (groups.sum() / groups.size()).where(groups.size() >= THRESHOLDS[name], 0.0)
    return rows[name].map(rate).fillna(0.0)


def similarity(tables: Mapping[str, str], kind: str, name: str, left: pd.Series, right: pd.Series) -> np.ndarray:
    """Dot products of normalised confidence * ln(N / df), over dense vectors."""
    table = read(tables, f"documents_{kind}")
    described = [read(tables, f) for f in tables if f.startswith("documents_")]
    n = max(int(frame["document_id"].max()) for frame in described) + 1
    matrix = table.pivot(index="document_id", columns=name, values="confidence_level").fillna(0.0)
    weighted = matrix * np.log(n / (matrix > 0).sum())
    norm = np.sqrt((weighted**2).sum(axis=1))
    weighted = weighted.div(norm.where(norm > 0, 1.0), axis=0)
    weighted = weighted.reindex(range(n + 1000), fill_value=0.0).to_numpy()
    return (weighted[left.fillna(n).astype(int)] * weighted[right.fillna(n).astype(int)]).sum(axis=1)
