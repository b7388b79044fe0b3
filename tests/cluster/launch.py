"""What KFP 2.17 puts around a step's command in its container, as one script: python launch.py COMMAND ...

Argo's executor is the container's first process. It passes signals on to the process group of KFP's launcher, which
handles none of them, and ends as soon as the launcher has ended; whatever is left of the group ends with the container.
The launcher downloads the inputs, runs the command and, if that succeeds, uploads the outputs. The store's address and
key are KFP's, not the step's.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

STORE = "KFREC_TEST_STORE_"
RESULTS = Path("/dev/termination-log")


def main(command: list[str]) -> int:
    launcher = os.fork()
    if not launcher:
        os.setpgid(0, 0)
        os._exit(launched(command))
    os.setpgid(launcher, launcher)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os.killpg(launcher, number))
    while True:
        ended, status = os.waitpid(-1, 0)  # the first process reaps orphans, too
        if ended == launcher:
            return os.waitstatus_to_exitcode(status) % 256


def launched(command: list[str]) -> int:
    given = json.loads(os.environ["KFREC_TEST_EXECUTOR_INPUT"])
    copies = Copies()
    for entry in given["inputs"]["artifacts"].values():
        copies.download(entry["artifacts"][0]["uri"])
    outputs = [entry["artifacts"][0]["uri"] for entry in given["outputs"]["artifacts"].values()]
    for uri in outputs:
        local(uri).parent.mkdir(parents=True, exist_ok=True)
    for entry in given["outputs"]["parameters"].values():
        Path(entry["outputFile"]).parent.mkdir(parents=True, exist_ok=True)
    words = [json.dumps(given) if word == "{{$}}" else word for word in command]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KFREC_TEST_")}
    # Whatever the step's own status was, KFP's launcher ends with 1.
    if subprocess.run(words, env=environment).returncode:
        return 1
    for uri in outputs:
        copies.upload(uri)
    if told := results(given["outputs"]):
        RESULTS.write_text(json.dumps(told))
    return 0


def results(outputs: dict) -> dict:
    """Output parameters, which a Python component writes into one file; KFP's launcher gives them to its own server."""
    file = Path(outputs["outputFile"])
    known = json.loads(file.read_text()).get("parameterValues", {}) if file.is_file() else {}
    return {name: value for name, value in known.items() if name in outputs["parameters"]}


def local(uri: str) -> Path:
    """s3://bucket/key is /s3/bucket/key, where KFP's SDK looks for it."""
    return Path("/s3") / uri.removeprefix("s3://")


class Copies:
    """From and to the bucket; every object whose key begins like an input's is downloaded, as KFP does."""

    def __init__(self) -> None:
        import boto3

        self._s3 = boto3.client(
            "s3",
            endpoint_url=os.environ[f"{STORE}URL"],
            aws_access_key_id=os.environ[f"{STORE}KEY"],
            aws_secret_access_key=os.environ[f"{STORE}SECRET"],
            region_name="us-east-1",
        )

    def download(self, uri: str) -> None:
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for entry in page.get("Contents", ()):
                target = Path("/s3") / bucket / entry["Key"]
                target.parent.mkdir(parents=True, exist_ok=True)
                if not entry["Key"].endswith("/"):
                    self._s3.download_file(bucket, entry["Key"], str(target))

    def upload(self, uri: str) -> None:
        bucket = uri.removeprefix("s3://").partition("/")[0]
        place = local(uri)
        for file in [place] if place.is_file() else place.rglob("*"):
            if file.is_file():
                self._s3.upload_file(str(file), bucket, str(file.relative_to(Path("/s3") / bucket)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
