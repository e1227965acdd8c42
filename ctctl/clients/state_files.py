"""Small files in the state directory that outlive the agent: whether it is paused."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ctctl.errors import UnavailableError

_PAUSED: Final = "paused"
_DONE_REQUESTS: Final = "done-requests"


def is_paused(directory: Path) -> bool:
    """Claims that `ctctl pause` was given and not taken back, also across restarts; so does one that cannot be read."""
    try:
        return (directory / _PAUSED).exists()
    except OSError:
        return True


def set_paused(directory: Path, *, is_paused: bool) -> None:
    """Remember the pause, or forget it.

    Raises:
        UnavailableError: the state directory cannot be written.
    """
    marker = directory / _PAUSED
    try:
        if is_paused:
            marker.touch()
        else:
            marker.unlink(missing_ok=True)
    except OSError as error:
        raise UnavailableError(
            f"cannot {'remember' if is_paused else 'forget'} the pause in {marker}: {error.strerror}",
            remedy="make state.dir writable",
        ) from error


def done_requests(directory: Path) -> frozenset[str]:
    """Ids of the flush requests that this node dealt with; none where nothing was written yet."""
    try:
        text = (directory / _DONE_REQUESTS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    return frozenset(text.split("\n")) - {""}


def add_done_request(directory: Path, name: str) -> None:
    """Remember that a request was dealt with.

    Raises:
        UnavailableError: the state directory cannot be written; then the request must not be carried out.
    """
    path = directory / _DONE_REQUESTS
    try:
        with path.open("a", encoding="utf-8") as file:
            # A line that a full disk tore ends here, too.
            file.write(f"\n{name}\n")
    except OSError as error:
        raise UnavailableError(
            f"cannot remember a request in {path}: {error.strerror}", remedy="make state.dir writable"
        ) from error
