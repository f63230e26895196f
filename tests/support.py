"""What tests of all kinds share."""

from __future__ import annotations

from agent.running import run

__all__ = ["run"]
