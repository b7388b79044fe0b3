"""YAML from others: a few hundred bytes of aliases may describe gigabytes, so what they expand to is bounded."""

from __future__ import annotations

from typing import Any

import yaml

_LARGEST = 1_000_000


def parse(text: str) -> Any:
    """The value of a YAML document.

    Raises:
        yaml.YAMLError: the text is not YAML, sets a key twice, is nested too deeply, or its aliases expand to more than
            a million values.
    """
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _values(node, {}) > _LARGEST:
            raise yaml.YAMLError(f"its aliases (*name) expand to more than {_LARGEST:,} values")
        return loader.construct_document(node)
    except RecursionError:
        raise yaml.YAMLError("nested too deeply") from None
    finally:
        loader.dispose()


def _values(node: yaml.Node, counted: dict[int, int]) -> int:
    """Values in a node, those behind aliases included; infinitely many where an alias is within its own anchor."""
    if id(node) not in counted:
        counted[id(node)] = _LARGEST + 1  # until it is known
        if isinstance(node, yaml.MappingNode):
            _require_unique(node)
        children = node.value if isinstance(node, yaml.CollectionNode) else []
        pairs = (child for entry in children for child in (entry if isinstance(entry, tuple) else (entry,)))
        counted[id(node)] = 1 + sum(_values(child, counted) for child in pairs)
    return counted[id(node)]


def _require_unique(node: yaml.MappingNode) -> None:
    """Rejects a mapping that sets a key twice, of which PyYAML would take the last value."""
    seen: set[str] = set()
    for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
        if key.value in seen:
            raise yaml.YAMLError(f"line {key.start_mark.line + 1} sets {key.value} a second time")
        seen.add(key.value)
