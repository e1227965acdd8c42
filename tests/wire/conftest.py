"""How property tests run here: as many examples on a busy machine as on an idle one."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("ctctl-wire", deadline=None, max_examples=60)
settings.load_profile("ctctl-wire")
