"""`python3 -m tests.setup TARGET`: make this machine ready for one make target, then return.

Standard library only, because it runs before anything is installed. It installs what is missing and changes nothing
else: no service is started, nothing is removed or upgraded beyond what a package needs, and a second run finds
everything there and returns at once. Exit code 2, with one line that says what is missing and how to get it, when it
may not do that itself.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this runs before anything checked the machine's Python
    sys.exit("set-up: ctctl needs Python 3.11 or newer; run make with PYTHON=python3.11 (or newer)")

from tests.setup.errors import SetupError
from tests.setup.interrupts import end_tidily
from tests.setup.needs import NEEDS
from tests.setup.prepare import prepare

USAGE = 2


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in NEEDS:
        print(f"usage: python3 -m tests.setup {{{','.join(NEEDS)}}}", file=sys.stderr)
        return USAGE
    try:
        prepare(NEEDS[arguments[0]])
    except SetupError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return USAGE
    return 0


if __name__ == "__main__":
    end_tidily()
    sys.exit(main(sys.argv[1:]))
