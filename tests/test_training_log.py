from pathlib import Path

from components.training_log import PARAMETER, TrainingLog, read_log


def test_records_have_the_public_loggers_format(tmp_path: Path) -> None:
    with TrainingLog(tmp_path / "log.json") as log:
        log.write(PARAMETER, {"lr": 0.01})
        log.write([1, 10], {"loss": 0.5})
        log.write([], {"test_auc": 0.8})
    lines = (tmp_path / "log.json").read_text().splitlines()
    assert all(line.startswith("DLLL {") for line in lines)
    records = read_log(tmp_path / "log.json")
    assert [(record["step"], record["data"]) for record in records] == [
        ("PARAMETER", {"lr": 0.01}),
        ([1, 10], {"loss": 0.5}),
        ([], {"test_auc": 0.8}),
    ]
    fields = {"timestamp", "elapsedtime", "datetime", "type", "step", "data", "metadata"}
    assert all(set(record) == fields and record["type"] == "LOG" for record in records)


def test_a_resumed_run_continues_the_log(tmp_path: Path) -> None:
    for append, loss in ((False, 1.0), (True, 2.0)):
        with TrainingLog(tmp_path / "log.json", append) as log:
            log.write([1, 1], {"loss": loss})
    assert [record["data"]["loss"] for record in read_log(tmp_path / "log.json")] == [1.0, 2.0]


def test_a_log_without_a_file_drops_records() -> None:
    with TrainingLog(None) as log:
        log.write([1, 1], {"loss": 1.0})
