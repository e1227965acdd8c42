"""The one error of the set-up: a single line that says what is missing and how to get it."""

from __future__ import annotations


class SetupError(Exception):
    """The machine is not ready and the set-up may not, or could not, make it so."""
