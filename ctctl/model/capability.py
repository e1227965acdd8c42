"""What this host lets ctctl do, as probed, never as guessed from a version."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Capability(StrEnum):
    """Label values of `ctctl_capability_supported`."""

    CONNTRACK = "conntrack"
    KERNEL_ZONE_FLUSH = "kernel_zone_flush"
    VSWITCHD_ZONE_FLUSH = "vswitchd_zone_flush"
    TIMESTAMPS = "timestamps"
    OVS_LOG = "ovs_log"
    SAME_NETWORK_NAMESPACE = "same_network_namespace"


@dataclass(frozen=True, slots=True)
class Probe:
    """The answer to one capability question: yes, no, or not known, and one line of why."""

    capability: Capability
    is_supported: bool | None
    why: str
