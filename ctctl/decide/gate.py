"""Whether a flush may go ahead: every rule that can hold one back, in one place, each with its reason.

`judge` looks at all that is known when an order is made; `confirm` looks once more at what the local database says
right before the message is sent. Both refuse by value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ctctl.decide.zone_map import keys_claiming, parse_zone
from ctctl.model.flush import FlushOrder, Reason, Switch, Trigger
from ctctl.model.ids import HOST_ZONE, ZoneId
from ctctl.model.instant import Instant
from ctctl.model.ovs import BridgeView, DatapathType, LocalView
from ctctl.model.policy import FlushPolicy
from ctctl.model.zone import Zone, ZoneKind, ZoneMap

MAX_REPLY_AGE_S: Final = 0.1
"""A flush is sent at most this long after the reply that confirmed it."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """All that is known about the host at the moment of judging.

    `same_namespace`: this process and vswitchd share a network namespace, None = could not be told.
    `has_conntrack`: the kernel answers conntrack requests, None = not probed yet.
    """

    zone_map: ZoneMap
    local: LocalView | None
    policy: FlushPolicy
    is_map_fresh: bool
    is_flusher: bool
    is_paused: bool
    is_braked: bool
    has_budget: bool
    is_ovn_controller_up: bool
    same_namespace: bool | None
    has_conntrack: bool | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, as a closed word and as one line for people."""

    reason: Reason
    why: str


def judge(zone: ZoneId, trigger: Trigger, conditions: Conditions, former: Zone | None = None) -> Refusal | None:
    """None when the zone may be flushed now; otherwise the first rule that forbids it.

    `former`: the zone as the map had it when this agent saw it lose its owner; only with it may an unmapped zone go.

    Rules about the zone come first, then the host, then the operator's switches, then what may pass by itself.
    A dry run is refused last, so that it reports exactly what enforcing would have sent.
    """
    if zone == HOST_ZONE:
        return Refusal(Reason.ZONE_ZERO, "zone 0 holds the host's own connections")
    if conditions.local is None:
        return Refusal(Reason.MAP_NOT_FRESH, "the local OVSDB has not been read, so nobody knows whose the zone is")
    return (
        _zone_rules(zone, conditions.zone_map, conditions.local, former)
        or _host_rules(former or conditions.zone_map.zones[zone], conditions, conditions.local)
        or _operator_rules(former or conditions.zone_map.zones[zone], trigger, conditions)
        or _passing_rules(trigger, conditions)
        or _switch_rule(conditions.policy, Switch.DRY_RUN, Reason.DRY_RUN)
    )


def confirm(order: FlushOrder, view: LocalView, now: Instant) -> Refusal | None:
    """None when `view`, read at `view.confirmed`, still supports `order` and is fresh enough to act on at `now`."""
    if now.since(view.confirmed) > MAX_REPLY_AGE_S:
        return Refusal(Reason.MAP_NOT_FRESH, f"the confirming reply was {now.since(view.confirmed):.3f}s old")
    if order.not_after is not None and now.boot_s > order.not_after.boot_s:
        return Refusal(Reason.TOO_LATE, f"key became visible {now.since(order.visible):.1f}s ago")
    claims = keys_claiming(view, order.zone)
    if order.trigger is Trigger.ROUTER_REMOVED:
        return _confirm_unowned(claims, view)
    if len(claims) > 1:
        return Refusal(Reason.SHARED_ZONE, f"claimed by {', '.join(sorted(claims))}")
    if not claims:
        return Refusal(Reason.OWNER_CHANGED, f"no key assigns zone {order.zone} any more")
    if claims[0] != order.key:
        return Refusal(Reason.OWNER_CHANGED, f"now assigned by {claims[0]}, not {order.key}")
    return _datapath_rule(_bridge_assigning(order.zone, claims[0], view))


def _confirm_unowned(claims: tuple[str, ...], view: LocalView) -> Refusal | None:
    if claims:
        return Refusal(Reason.OWNER_CHANGED, f"now assigned by {', '.join(sorted(claims))}")
    return next(filter(None, map(_datapath_rule, view.bridges)), None)


def _zone_rules(zone: ZoneId, zone_map: ZoneMap, local: LocalView, former: Zone | None) -> Refusal | None:
    owner = zone_map.zones.get(zone)
    if owner is None:
        return None if former is not None and former.zone == zone else _unmapped(zone, local)
    if former is not None:
        return Refusal(Reason.OWNER_CHANGED, f"zone {zone} has an owner again")
    if owner.kind is ZoneKind.CONFLICT:
        return Refusal(Reason.SHARED_ZONE, _claimants(zone, owner, local))
    return None


def _unmapped(zone: ZoneId, local: LocalView) -> Refusal:
    if local.zone_ranges and not any(first <= zone <= last for first, last in local.zone_ranges):
        return Refusal(Reason.FOREIGN_ZONE, f"zone {zone} is outside OVN's range on this host")
    return Refusal(Reason.UNOWNED_ZONE, f"no ct-zone key assigns zone {zone}")


def _claimants(zone: ZoneId, owner: Zone, local: LocalView) -> str:
    claims = keys_claiming(local, zone)
    if len(claims) > 1:
        return f"claimed by {', '.join(sorted(claims))}"
    return f"key {owner.key} is shared by several datapaths or a port of that name"


def _host_rules(zone: Zone, conditions: Conditions, local: LocalView) -> Refusal | None:
    refusal = _datapath_rule(_bridge_named(zone.bridge, local))
    if refusal is not None:
        return refusal
    if conditions.same_namespace is False:
        return Refusal(Reason.WRONG_NAMESPACE, "ovs-vswitchd runs in another network namespace; use the host's")
    if conditions.same_namespace is None:
        return Refusal(Reason.NAMESPACE_UNKNOWN, "cannot tell whether ovs-vswitchd is in this network namespace")
    if not conditions.has_conntrack:
        return Refusal(Reason.CONNTRACK_UNAVAILABLE, "the kernel does not answer conntrack requests")
    return None


def _datapath_rule(bridge: BridgeView | None) -> Refusal | None:
    if bridge is None:
        return Refusal(Reason.OWNER_CHANGED, "the bridge that assigned the zone is gone")
    if bridge.datapath_type is not DatapathType.KERNEL:
        return Refusal(
            Reason.USERSPACE_DATAPATH, f"{bridge.name} tracks connections in ovs-vswitchd, not in the kernel"
        )
    return None


def _bridge_assigning(zone: ZoneId, key: str, view: LocalView) -> BridgeView | None:
    """The bridge whose `key` is this zone; another bridge may have the same key with another number."""
    return next((b for b in view.bridges if key in b.zone_keys and parse_zone(b.zone_keys[key]) == zone), None)


def _bridge_named(name: str | None, view: LocalView) -> BridgeView | None:
    return next((bridge for bridge in view.bridges if bridge.name == name), None)


def _operator_rules(zone: Zone, trigger: Trigger, conditions: Conditions) -> Refusal | None:
    refusal = _switch_rule(conditions.policy, Switch.OBSERVE, Reason.OBSERVE)
    if refusal is not None:
        return refusal
    if not conditions.is_flusher:
        return Refusal(Reason.NOT_THE_FLUSHER, "another ctctl holds the flusher lock of this network namespace")
    names = {zone.owner, zone.alias, zone.router}
    if trigger is not Trigger.MANUAL and not conditions.policy.exclude_routers.isdisjoint(names):
        return Refusal(Reason.EXCLUDED_ROUTER, f"{zone.owner} is in flush.exclude_routers")
    return None


def _switch_rule(policy: FlushPolicy, switch: Switch, reason: Reason) -> Refusal | None:
    return Refusal(reason, f"flush.switch is {switch}") if policy.switch is switch else None


def _passing_rules(trigger: Trigger, conditions: Conditions) -> Refusal | None:
    if conditions.is_paused:
        return Refusal(Reason.PAUSED, "paused by `ctctl pause`")
    if not conditions.is_map_fresh:
        return Refusal(Reason.MAP_NOT_FRESH, "the local OVSDB connection is not confirmed")
    if trigger is not Trigger.MANUAL:
        if not conditions.is_ovn_controller_up:
            return Refusal(Reason.OVN_CONTROLLER_DOWN, "ovn-controller does not answer, so its map may be stale")
        if conditions.is_braked:
            return Refusal(Reason.BRAKE, "too many zone changes within a minute")
    if not conditions.has_budget:
        return Refusal(Reason.OVER_BUDGET, f"{conditions.policy.budget_per_minute} flushes a minute are spent")
    return None
