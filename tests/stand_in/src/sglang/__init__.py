"""A test double that takes the place of SGLang: same entry point, log, API and ways of dying; no model, no GPU."""

from sglang.version import __version__ as __version__
