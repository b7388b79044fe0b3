import subprocess

import pytest

from components import registry
from pipelines.cli import COMMANDS, main


@pytest.mark.parametrize(
    ("words", "expected"),
    [("kfrec ''", set(COMMANDS)), ("kfrec run --model ''", set(registry.names(registry.MODELS)))],
)
def test_bash_completes_commands_and_models(words: str, expected: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = f"{capsys.readouterr().out}\nCOMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}; _shtab_kfrec\n"
    done = subprocess.run(
        ["bash", "-c", script + 'printf "%s\\n" "${COMPREPLY[@]}"'], capture_output=True, text=True, check=True
    )
    assert expected <= set(done.stdout.split())
