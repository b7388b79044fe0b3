"""What a report says of the data."""

from components.contract import Metric
from components.report import Story
from components.report.page import Facts, render


def test_rates_are_written_as_a_reader_reads_them() -> None:
    data = {"out_of_vocabulary_rate": {"item": 0.0123456789, "user": 0.0}, "unknown_share": 1 / 3, "rows": 198502}
    page = render(Story("Decided", "Why.", [], []), Facts("shop", data, {}), [Metric("auc", "AUC")])
    assert "<td>item 0.01235, user 0</td>" in page
    assert "<td>0.3333</td>" in page and "<td>198502</td>" in page
