"""`ctctl flush --everywhere`: the request for all nodes, as text. ctctl itself sends nothing to other nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from ctctl.config.settings import Settings
from ctctl.model.flush import Address
from ctctl.model.ids import FlushableZoneId

VALID_S: Final = 3600.0
"""How long a printed request is good for; edit the line to change it."""


def instructions(
    zones: tuple[FlushableZoneId, ...],
    routers: tuple[str, ...],
    address: Address | None,
    now_wall_s: float,
    settings: Settings,
) -> str:
    """The requests file's content with one entry per router (and one for the zones), and how to deliver it."""
    stamp = datetime.fromtimestamp(now_wall_s, UTC)
    until = datetime.fromtimestamp(now_wall_s + VALID_S, UTC)
    lines = ["requests:"]
    for number, what in enumerate([*(f"router: {_quoted(name)}" for name in routers), *_zones_line(zones)], 1):
        lines += [f"  - id: flush-{stamp:%Y%m%dT%H%M%SZ}-{number}", f"    {what}"]
        if address is not None:
            lines.append(f'    address: "{address}"')
        lines.append(f"    not_after: {until:%Y-%m-%dT%H:%M:%SZ}")
    file = settings.flush.requests_file or "/etc/ctctl/requests.yaml"
    return _HEAD.format(file=file) + "\n".join(lines) + "\n"


_HEAD: Final = """\
# Each node carries a request out at most once, until not_after, and only while flush.triggers.requested is `always`.
# Plain nodes: put this text into {file} on each of them (flush.requests_file).
# Kubernetes: put it into the ConfigMap that flush.requests_file is mounted from, with this text saved as requests.yaml:
#   kubectl create configmap ctctl-requests --from-file=requests.yaml --dry-run=client -o yaml | kubectl apply -f -
# Then on any node: ctctl events | grep flush-
"""


def _zones_line(zones: tuple[FlushableZoneId, ...]) -> list[str]:
    return [f"zones: [{', '.join(map(str, zones))}]"] if zones else []


def _quoted(name: str) -> str:
    """A YAML double-quoted scalar: names come from people and databases."""
    escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in name)
    return f'"{escaped}"'
