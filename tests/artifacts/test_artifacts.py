import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from components.artifacts import adopt, open_artifact, publishing
from components.artifacts.folder import MANIFEST, listed_paths, require_listed
from components.errors import KfrecError


def write(folder: Path, text: str = "hello") -> None:
    with publishing(folder, step="download", parameters={"seed": 1}) as staging:
        (staging.path / "sub").mkdir()
        (staging.path / "sub" / "a.txt").write_text(text)
        staging.rows["reviews"] = 3


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    write(tmp_path / "raw")
    return tmp_path / "raw"


def test_a_published_folder_opens_with_its_rows_and_parameters(raw: Path) -> None:
    artifact = open_artifact(raw)
    assert (artifact.step, artifact.rows, artifact.parameters) == ("download", {"reviews": 3}, {"seed": 1})
    assert [entry.path for entry in artifact.files] == ["sub/a.txt"]


def test_the_checksum_is_the_castagnoli_crc_in_base64(tmp_path: Path) -> None:
    # CRC32C of "123456789" is 0xE3069283, the check value of the polynomial (RFC 3720, appendix B.4 family).
    write(tmp_path / "raw", "123456789")
    assert open_artifact(tmp_path / "raw").files[0].crc32c == "4waSgw=="


def test_equal_content_gives_an_equal_digest(tmp_path: Path) -> None:
    write(tmp_path / "one")
    write(tmp_path / "two")
    write(tmp_path / "three", "other")
    digests = [open_artifact(tmp_path / name).digest for name in ("one", "two", "three")]
    assert digests[0] == digests[1] != digests[2]


def test_inputs_are_recorded_by_digest(raw: Path, tmp_path: Path) -> None:
    read = open_artifact(raw)
    with publishing(tmp_path / "parquet", step="preprocess", inputs={"raw": read}) as staging:
        (staging.path / "b.txt").write_text("x")
    assert open_artifact(tmp_path / "parquet").inputs == {"raw": read.digest}


def test_a_failed_write_leaves_the_earlier_artifact_and_no_litter(tmp_path: Path) -> None:
    write(tmp_path / "raw", "first")
    with pytest.raises(ZeroDivisionError), publishing(tmp_path / "raw", step="download") as staging:
        (staging.path / "a.txt").write_text("second")
        raise ZeroDivisionError
    assert (tmp_path / "raw" / "sub" / "a.txt").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_a_second_write_replaces_the_first_whole(tmp_path: Path) -> None:
    write(tmp_path / "raw", "first")
    with publishing(tmp_path / "raw", step="download") as staging:
        (staging.path / "b.txt").write_text("second")
    assert [entry.path for entry in open_artifact(tmp_path / "raw").files] == ["b.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_a_full_disk_is_one_line_and_leaves_the_earlier_artifact(tmp_path: Path) -> None:
    write(tmp_path / "raw", "first")
    with pytest.raises(KfrecError, match="disk is full"), publishing(tmp_path / "raw", step="download"):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "raw" / "big"))
    assert open_artifact(tmp_path / "raw").files[0].path == "sub/a.txt"


def test_a_folder_that_cannot_be_made_names_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(KfrecError, match="a file stands where a folder"),
        publishing(tmp_path / "file" / "raw", step="download"),
    ):
        pass


def test_an_unfinished_folder_says_how_to_accept_ones_own_data(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "metadata.json").write_text("{}")
    with pytest.raises(KfrecError, match=r"_manifest\.json: missing.*python -m components\.artifacts"):
        open_artifact(tmp_path / "mine")
    adopt(tmp_path / "mine")
    assert open_artifact(tmp_path / "mine").step == "adopted"


def test_an_empty_folder_cannot_be_adopted(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match="no files here"):
        adopt(tmp_path)


def test_a_truncated_file_is_named_with_both_sizes(raw: Path) -> None:
    (raw / "sub" / "a.txt").write_text("hell")
    with pytest.raises(KfrecError, match=r"a\.txt: 4 bytes, _manifest\.json says 5"):
        open_artifact(raw)


def test_a_missing_file_is_named(raw: Path) -> None:
    (raw / "sub" / "a.txt").unlink()
    with pytest.raises(KfrecError, match=r"a\.txt: listed in _manifest\.json but missing"):
        open_artifact(raw)


def test_verify_finds_changed_bytes_of_the_same_length(raw: Path) -> None:
    (raw / "sub" / "a.txt").write_text("jello")
    with pytest.raises(KfrecError, match="checksum differs"):
        open_artifact(raw).verify()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"files": []}, "digest does not match"),
        ({"format": 99}, "is of format 99, this kfrec reads 1; use the kfrec that wrote it, or run"),
    ],
)
def test_an_edited_manifest_is_refused(raw: Path, change: dict[str, Any], line: str) -> None:
    manifest = raw / MANIFEST
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | change))
    with pytest.raises(KfrecError, match=line):
        open_artifact(raw)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe{"])
def test_what_is_not_a_manifest_is_refused(raw: Path, content: bytes) -> None:
    (raw / MANIFEST).write_bytes(content)
    with pytest.raises(KfrecError, match="not a manifest"):
        open_artifact(raw)


def test_another_steps_output_is_refused(raw: Path) -> None:
    with pytest.raises(KfrecError, match="raw: was written by step download, but an output of preprocess is needed"):
        open_artifact(raw, steps=("preprocess",))


def test_data_of_ones_own_may_stand_in_for_any_step(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    adopt(tmp_path)
    assert open_artifact(tmp_path, steps=("preprocess",)).step == "adopted"


def test_only_listed_files_are_data_and_others_are_told(
    raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("sub/b.txt", "sub/deeper/c.txt", "sub/d.json"):
        (raw / name).parent.mkdir(exist_ok=True)
        (raw / name).write_text("x")
    assert open_artifact(raw).paths("sub/*.txt") == [raw / "sub" / "a.txt"]
    (told,) = capsys.readouterr().out.splitlines()
    assert told.startswith(
        f"{tmp_path}/raw/sub/b.txt: not listed in _manifest.json, so it is not read; remove it, or run"
    )


def test_a_pattern_ends_at_a_slash_and_at_both_ends(tmp_path: Path) -> None:
    with publishing(tmp_path / "out", step="preprocess") as staging:
        for name in ("train/a.parquet", "old/train/a.parquet", "train/old/a.parquet", "train/a.parquet.bak"):
            (staging.path / name).parent.mkdir(parents=True, exist_ok=True)
            (staging.path / name).write_text("x")
    assert open_artifact(tmp_path / "out").paths("train/*.parquet") == [tmp_path / "out" / "train" / "a.parquet"]


def test_a_file_by_name_must_be_listed(raw: Path) -> None:
    (raw / "b.txt").write_text("x")
    artifact = open_artifact(raw)
    assert artifact.file("sub/a.txt") == raw / "sub" / "a.txt"
    with pytest.raises(KfrecError, match=r"b\.txt: not listed in _manifest\.json; remove it, or run the download step"):
        artifact.file("b.txt")


def test_a_folder_must_hold_listed_files_only(raw: Path) -> None:
    require_listed(raw, ["sub", "absent"])
    (raw / "sub" / "b.txt").write_text("x")
    with pytest.raises(KfrecError, match=r"sub/b\.txt: not listed"):
        require_listed(raw, ["sub"])


def test_in_a_folder_without_a_manifest_any_file_is_data(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    require_listed(tmp_path, ["a.txt"])
    assert listed_paths(tmp_path, "*.txt") == [tmp_path / "a.txt"]


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/hostname", "sub/../../outside.txt"])
def test_a_manifest_that_lists_a_file_outside_its_folder_is_refused(raw: Path, path: str) -> None:
    manifest = raw / MANIFEST
    manifest.write_text(manifest.read_text().replace("sub/a.txt", path))
    with pytest.raises(KfrecError, match=f"lists {path}, which is outside the folder"):
        open_artifact(raw)


def test_an_artifact_knows_the_parameters_of_every_step_before_it(raw: Path, tmp_path: Path) -> None:
    with publishing(
        tmp_path / "parquet",
        step="preprocess",
        inputs={"raw": open_artifact(raw)},
        parameters={"seed": 2},
    ) as staging:
        (staging.path / "b.txt").write_text("x")
    inputs = {"parquet": open_artifact(tmp_path / "parquet")}
    with publishing(tmp_path / "tfrecord", step="tfrecord", inputs=inputs, parameters={"seed": 3}) as staging:
        (staging.path / "c.txt").write_text("x")
    artifact = open_artifact(tmp_path / "tfrecord")
    assert artifact.lineage == {"download": {"seed": 1}, "preprocess": {"seed": 2}}
    assert artifact.history == {**artifact.lineage, "tfrecord": {"seed": 3}}


def test_a_manifest_from_before_there_was_a_lineage_has_none(raw: Path) -> None:
    manifest = raw / MANIFEST
    body = json.loads(manifest.read_text())
    del body["lineage"]
    manifest.write_text(json.dumps(body))
    assert open_artifact(raw).lineage == {}


def test_an_artifact_may_have_links_to_files_of_the_user(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "data", tmp_path / "cache"
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / "part").write_text("records")
    (folder / "part").symlink_to("../cache/part")
    (folder / "same").symlink_to("part")
    (tmp_path / "link").symlink_to(folder)
    adopt(tmp_path / "link")
    assert [entry.path for entry in open_artifact(tmp_path / "link").files] == ["part", "same"]
    (folder / "more").symlink_to(elsewhere)
    with pytest.raises(KfrecError, match=r"more: is a link to a folder, whose files are not seen; link the files"):
        adopt(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of other users")
def test_a_link_out_of_an_artifact_of_others_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "part").write_text("records")
    (folder / "part").symlink_to(tmp_path / "part")
    adopt(folder)
    for path in (folder, tmp_path / "part", folder / "part"):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    for read in (open_artifact, adopt):
        with pytest.raises(KfrecError, match=r"part: is a link that leads out of"):
            read(folder)
