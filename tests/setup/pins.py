"""`python3 -m tests.setup.pins`: resolve the dependencies anew and write `.ci/constraints.txt`.

Run it with the oldest Python that ctctl supports; `make test-fresh` then proves the pins on the newest.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.setup.venv import BUILD_TOOLS, CONSTRAINTS, PYPROJECT

HEADER = """\
# Exactly what ctctl is developed and tested with, on Python 3.11 and 3.13. Written by `make pins`; not for editing.
# No index is named here: pip takes the machine's own.
"""


def main() -> int:
    project = tomllib.loads(PYPROJECT.read_text())
    wanted = [
        *BUILD_TOOLS,
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
    ]
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-I", "-m", "venv", scratch], check=True)
        pip = [str(Path(scratch) / "bin" / "python"), "-I", "-m", "pip", "--quiet"]
        subprocess.run([*pip, "install", "--upgrade", *wanted], check=True)
        frozen = subprocess.run([*pip, "freeze", "--all"], check=True, capture_output=True, text=True).stdout
    pins = sorted(
        (line for line in frozen.splitlines() if "==" in line and not line.startswith("pip==")), key=str.casefold
    )
    CONSTRAINTS.write_text(HEADER + "".join(f"{pin}\n" for pin in pins))
    return 0


if __name__ == "__main__":
    sys.exit(main())
