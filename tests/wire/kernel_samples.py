"""What real kernels sent, as captured by `capture.py`."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Sample:
    """One kernel's answers, by name of the request; sequence number 1 throughout."""

    release: str
    answers: dict[str, list[bytes]]

    @property
    def dump(self) -> list[bytes]:
        """The blocks of a whole dump."""
        return self.answers["dump"]

    def portid(self, name: str = "dump") -> int:
        """The port id that an answer was sent to."""
        return int(struct.unpack_from("=I", self.answers[name][0], 12)[0])


def _load(path: Path) -> Sample:
    text = json.loads(path.read_text(encoding="utf-8"))
    release = text.pop("release")
    return Sample(release, {name: [bytes.fromhex(block) for block in blocks] for name, blocks in text.items()})


SAMPLES = [_load(path) for path in sorted(Path(__file__).with_name("samples").glob("*.json"))]
each_kernel = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.release)
