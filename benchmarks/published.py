"""The published settings of SIM, DIN and DIEN, which references and limits are for, where a default is another."""

from typing import Any

PUBLISHED: dict[str, Any] = {"dropout_rate": -1.0, "repetition": False, "user_dropout": 0.0}
