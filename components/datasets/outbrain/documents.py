"""Tables of documents and ads: built in memory, memory-mapped by readers.

A document has a source, a publisher and a time of publication, and terms of three kinds - categories, topics and
entities - with confidences. Its vector of a kind has the weight ``confidence * ln(N / df)`` for each term, where ``df``
is the number of documents with the term and ``N`` the largest document id plus one, divided by the vector's length
(L2). The similarity of two documents is the dot product of their vectors; it is 0 if one has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from components.datasets.outbrain.ids import MISSING, Positions, ids_of, text_hashes, to_buckets

# Terms of a document in its list.
LISTED = 3
NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Vectors:
    """Sparse vectors, one a document: those of document i are terms[start[i]:start[i + 1]], sorted.

    Attributes:
        start: int64 [documents + 1].
        terms: int64, term numbers.
        weights: float64.
        listed: int32 [documents, LISTED], buckets of the document's first terms in the file, right-padded with 0.
    """

    start: np.ndarray
    terms: np.ndarray
    weights: np.ndarray
    listed: np.ndarray


@dataclass(frozen=True)
class Documents:
    """All documents that a file describes, by ascending id, and all ads.

    Attributes:
        ids: int64 [documents].
        source: int64 [documents], MISSING where unknown; publisher likewise.
        published: int64 [documents], milliseconds since 1970, NO_TIME where unknown.
        ads: int64 [ads], sorted; the next three belong to them.
        ad_document: int64 [ads], MISSING where unknown; campaign and advertiser likewise.
    """

    ids: np.ndarray
    source: np.ndarray
    publisher: np.ndarray
    published: np.ndarray
    ads: np.ndarray
    ad_document: np.ndarray
    campaign: np.ndarray
    advertiser: np.ndarray


_ARRAYS = tuple(Documents.__dataclass_fields__)
_VECTOR_ARRAYS = tuple(Vectors.__dataclass_fields__)


def write_documents(
    folder: Path, meta: pa.Table, ads: pa.Table, terms: Mapping[str, pa.Table], buckets: Mapping[str, int]
) -> None:
    """Writes all tables into ``folder``. A document or an ad that a file lists twice keeps its first line.

    Args:
        terms: kind of term to a table of the schema ``TERM``.
        buckets: kind of term to the number of hash buckets of its list.
    """
    folder.mkdir()
    described = [meta["document_id"].to_numpy(), *(table["document_id"].to_numpy() for table in terms.values())]
    ids = np.unique(np.concatenate(described))
    positions = Positions(ids)
    meta_ids, lines = np.unique(described[0], return_index=True)
    at = positions.of(meta_ids)
    ad_ids, ad_lines = np.unique(ads["ad_id"].to_numpy(), return_index=True)

    def of_document(values: np.ndarray, unknown: int) -> np.ndarray:
        spread = np.full(len(ids), unknown, np.int64)
        spread[at] = values[lines]
        return spread

    published = meta["publish_time"].cast(pa.int64())
    documents = Documents(
        ids=ids,
        source=of_document(ids_of(meta["source_id"]), MISSING),
        publisher=of_document(ids_of(meta["publisher_id"]), MISSING),
        published=of_document(published.fill_null(int(NO_TIME)).to_numpy(), int(NO_TIME)),
        ads=ad_ids,
        ad_document=ids_of(ads["document_id"])[ad_lines],
        campaign=ids_of(ads["campaign_id"])[ad_lines],
        advertiser=ids_of(ads["advertiser_id"])[ad_lines],
    )
    for name in _ARRAYS:
        np.save(folder / f"{name}.npy", getattr(documents, name))
    largest = int(ids[-1]) if len(ids) else 0
    for kind, table in terms.items():
        vectors = _vectors(positions.of(table["document_id"].to_numpy()), table, len(ids), largest + 1, buckets[kind])
        for name in _VECTOR_ARRAYS:
            np.save(folder / f"{kind}-{name}.npy", getattr(vectors, name))


TERM = pa.schema([("document_id", pa.int64()), ("term", pa.int64()), ("confidence_level", pa.float64())])


def term_table(tables: Iterable[pa.Table], name: str) -> pa.Table:
    """Lines of a file of terms as a table of the schema ``TERM``; a text is replaced by its hash."""
    parts = [TERM.empty_table()]
    for table in tables:
        term = table[name]
        values = text_hashes(term) if pa.types.is_string(term.type) else ids_of(term)
        parts.append(pa.table([table["document_id"], pa.array(values), table["confidence_level"]], schema=TERM))
    return pa.concat_tables(parts).combine_chunks()


def _vectors(document: np.ndarray, table: pa.Table, documents: int, n: int, buckets: int) -> Vectors:
    term, confidence = table["term"].to_numpy(), table["confidence_level"].to_numpy()
    _, number = np.unique(term, return_inverse=True)
    order = np.lexsort((number, document))  # stable: the first line of a term comes first
    document, number, confidence = document[order], number[order], confidence[order]
    first = np.ones(len(order), bool)
    first[1:] = (document[1:] != document[:-1]) | (number[1:] != number[:-1])
    document, number, confidence, line = document[first], number[first], confidence[first], order[first]
    weights = confidence * np.log(n / np.maximum(np.bincount(number), 1))[number]
    length = np.sqrt(np.bincount(document, weights**2, documents))[document]
    weights = np.divide(weights, length, out=np.zeros_like(weights), where=length > 0)
    start = np.searchsorted(document, np.arange(documents + 1))

    in_file = np.lexsort((line, document))
    rank = np.arange(len(in_file)) - start[document[in_file]]
    listed = np.zeros((documents, LISTED), np.int32)
    shown = in_file[rank < LISTED]
    listed[document[shown], rank[rank < LISTED]] = to_buckets(term[line[shown]], buckets)
    return Vectors(start, number, weights, listed)


def load_documents(folder: Path) -> Documents:
    """The tables of documents and ads, memory-mapped."""
    return Documents(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS))


def load_vectors(folder: Path, kind: str) -> Vectors:
    """The vectors of a kind, memory-mapped."""
    return Vectors(*(np.load(folder / f"{kind}-{name}.npy", mmap_mode="r") for name in _VECTOR_ARRAYS))


def similarities(vectors: Vectors, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Similarity, float32 [n], of each document of ``left`` with the one of ``right``.

    Args:
        left: int64 [n], indices into the documents, -1 for none.
    """
    rows, at = _entries(vectors, left)
    other_rows, other_at = _entries(vectors, right)
    if not len(rows) or not len(other_rows):
        return np.zeros(len(left), np.float32)
    terms = int(vectors.terms.max()) + 1
    keys, others = rows * terms + vectors.terms[at], other_rows * terms + vectors.terms[other_at]
    positions = np.minimum(np.searchsorted(keys, others), len(keys) - 1)
    shared = keys[positions] == others
    products = vectors.weights[at[positions[shared]]] * vectors.weights[other_at[shared]]
    return np.bincount(other_rows[shared], products, len(left)).astype(np.float32)


def _entries(vectors: Vectors, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each entry of the vectors at ``positions``: its row, ascending, and its index among all entries."""
    known = np.where(positions < 0, 0, positions)
    start = vectors.start[known] if len(vectors.start) > 1 else np.zeros(len(positions), np.int64)
    lengths = np.where(positions < 0, 0, vectors.start[known + 1] - start) if len(vectors.start) > 1 else start
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    # Rows that begin at or before an entry, less one; an empty row begins where the next one does.
    rows = np.cumsum(np.bincount(ends - lengths, minlength=total + 1)[:total]) - 1
    return rows, start[rows] + np.arange(total) - (ends - lengths)[rows]
