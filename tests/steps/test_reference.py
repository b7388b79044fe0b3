from pathlib import Path

from components.steps.reference import reference


def test_the_parameter_reference_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "parameters.md"
    assert page.read_text() == reference(), "docs/parameters.md is stale: run make reference"
