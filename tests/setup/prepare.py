"""From what a target needs to a machine that has it: packages, the environment, and what is only unpacked."""

from __future__ import annotations

from tests.lab.apt import AptError
from tests.lab.debian import cache_directory
from tests.setup import packages, venv
from tests.setup.command import log_path
from tests.setup.errors import SetupError
from tests.setup.lock import exclusive
from tests.setup.needs import Need
from tests.setup.paths import CLONE


def prepare(need: Need) -> None:
    """Make the machine ready for `need`; returns at once when it is.

    Raises:
        SetupError: it is not, and cannot be made so from here.
    """
    names = packages.names_in(CLONE / path for path in need.package_lists)
    if packages.missing(names) or not venv.is_current():
        with exclusive(cache_directory() / "set-up.lock"):
            log_path().unlink(missing_ok=True)
            # Asked again under the lock: another set-up may have done it meanwhile.
            if lacking := packages.missing(_with_venv_package(names)):
                packages.install(lacking)
            if not venv.is_current():
                venv.create()
    try:
        for unpack in need.unpacked:
            unpack()
    except AptError as error:
        raise SetupError(f"cannot unpack what the tests start: {error}") from error


def _with_venv_package(names: list[str]) -> list[str]:
    if venv.is_current() or venv.can_create():
        return names
    return [*names, "python3-venv"]
