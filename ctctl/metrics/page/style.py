"""Style and script of the status page, and the policy that lets these two, and nothing else, apply."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Final

from ctctl.metrics.page.markup import Markup

_ASSETS: Final = files("ctctl.metrics.page") / "assets"

STYLE: Final = Markup((_ASSETS / "status.css").read_text(encoding="utf-8"))
SCRIPT: Final = Markup((_ASSETS / "status.js").read_text(encoding="utf-8"))

_DRAWING: Final = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><rect width='16' height='16' rx='3' fill='#0b62c4'/>"
    "<path d='M3 11h3l2-6 2 6h3' fill='none' stroke='#fff' stroke-width='1.6'/></svg>"
)
ICON: Final = f"data:image/svg+xml;base64,{base64.b64encode(_DRAWING.encode()).decode()}"


def _hash(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


CONTENT_SECURITY_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_hash(STYLE)}'; script-src 'sha256-{_hash(SCRIPT)}'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
