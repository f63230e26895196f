"""The release that this copy plays; the wheel builder writes it anew for each release."""

__version__ = "0.5.23"
