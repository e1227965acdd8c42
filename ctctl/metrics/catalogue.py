"""Every metric ctctl can export, as data: the exposition, the reference page and `ctctl metrics` are made from it.

Says nothing about values. A family whose source has nothing to say is left out of a scrape, never exported as 0.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from ctctl.metrics.metric import CollectorError, Label, Metric, MetricType, Subject
from ctctl.model.actions import RouterChange
from ctctl.model.capability import Capability
from ctctl.model.counts import CountMethod, IncompleteReason
from ctctl.model.daemon import Daemon
from ctctl.model.flush import FailureReason, Reason, Strategy, Switch, Trigger
from ctctl.model.histogram import FLUSH_BOUNDS_S, STALL_BOUNDS_S, VERDICT_BOUNDS_S
from ctctl.model.ovn import OvnDatabase
from ctctl.model.stalls import CpuMode, DaemonThread, FlushPath
from ctctl.model.verdict import Verdict
from ctctl.model.zone import ZoneKind

COUNTER, GAUGE, HISTOGRAM, INFO = MetricType.COUNTER, MetricType.GAUGE, MetricType.HISTOGRAM, MetricType.INFO

STATISTICS: Final = (
    "found",
    "invalid",
    "insert",
    "insert_failed",
    "drop",
    "early_drop",
    "error",
    "search_restart",
    "clash_resolve",
    "chain_toolong",
)
"""Names of the kernel's per-CPU conntrack statistics, as the table's statistics carry them."""

COLLECTORS: Final[tuple[Subject, ...]] = tuple(s for s in Subject if s not in (Subject.SCRAPE, Subject.HTTP))


def _values(words: type[StrEnum]) -> tuple[str, ...]:
    return tuple(words)


COLLECTOR = Label("collector", "part of the exposition", tuple(COLLECTORS))
CT_ZONE = Label("ct_zone", "conntrack zone, decimal")
TRIGGER = Label("trigger", "what the verdict or flush answers to", _values(Trigger))
STRATEGY = Label("strategy", "how the flush was carried out", _values(Strategy))
DAEMON = Label("daemon", "the daemon", _values(Daemon))
THREAD = Label("thread", "kind of thread, never its number", _values(DaemonThread))
DATABASE = Label("database", "OVSDB database", _values(OvnDatabase))

_AT_SCRAPE = "at each scrape"
_AT_CHANGE = "whenever it changes"
_EACH_COUNT = "by each counting pass"

_SCRAPE = (
    Metric(
        "ctctl_build_info", INFO, Subject.SCRAPE, "This ctctl, always 1", "at start",
        labels=(Label("version", "version of ctctl"), Label("python", "version of the interpreter")),
    ),
    Metric(
        "ctctl_scrape_collector_success", GAUGE, Subject.SCRAPE,
        "Whether this part of the exposition could be built (1) or not (0)", _AT_SCRAPE,
        "stale data: see ctctl_collector_last_success_timestamp_seconds", (COLLECTOR,),
    ),
    Metric(
        "ctctl_scrape_collector_duration_seconds", GAUGE, Subject.SCRAPE,
        "Seconds it took to build this part of the exposition", _AT_SCRAPE, "encoding and sending", (COLLECTOR,),
    ),
    Metric(
        "ctctl_collector_last_success_timestamp_seconds", GAUGE, Subject.SCRAPE,
        "Unix time of the data this part is made of: the last counting pass for zones, the last answer of the kernel "
        "for table, the last state published by the agent for the others", _AT_SCRAPE, labels=(COLLECTOR,),
    ),
    Metric(
        "ctctl_collector_errors_total", COUNTER, Subject.SCRAPE,
        "Scrapes at which this part could not be built", _AT_SCRAPE,
        labels=(COLLECTOR, Label("reason", "class of the error", _values(CollectorError))),
    ),
)  # fmt: skip

_AGENT = (
    Metric(
        "ctctl_capability_supported", GAUGE, Subject.AGENT,
        "Whether this host was probed to offer a capability (1) or to lack it (0)", "by each probe",
        "capabilities not probed yet, which have no series",
        (Label("capability", "what was probed", _values(Capability)),),
    ),
    Metric(
        "ctctl_flush_switch", GAUGE, Subject.AGENT,
        "The global switch over all deletes: 1 for the position it is in, 0 for the others", _AT_CHANGE,
        labels=(Label("switch", "position", _values(Switch)),),
    ),
    Metric(
        "ctctl_flusher_lock_held", GAUGE, Subject.AGENT,
        "Whether this agent is the one flusher of its network namespace (1)", _AT_CHANGE,
        "flushers that do not take the lock",
    ),
    Metric("ctctl_flush_paused", GAUGE, Subject.AGENT, "Whether an operator paused flushing (1)", _AT_CHANGE),
    Metric(
        "ctctl_mass_change_brake", GAUGE, Subject.AGENT,
        "Whether automatic flushes are held because too many zones changed at once (1)", _AT_CHANGE,
    ),
    Metric(
        "ctctl_target_info", INFO, Subject.AGENT, "What this agent watches, always 1", _AT_CHANGE,
        'versions the daemons did not tell yet, which are ""',
        (
            Label("kernel_release", "uname -r"), Label("ovs_version", "as ovs-vswitchd tells it"),
            Label("ovn_version", "as ovn-controller tells it"),
            Label("datapath_type", "who keeps the connections", ("kernel", "userspace", "unknown")),
            Label("chassis", "system-id of this chassis"),
        ),
    ),
    Metric(
        "ctctl_ovsdb_connected", GAUGE, Subject.AGENT,
        "Whether a database is connected and its content confirmed (1)", _AT_CHANGE,
        "databases that are not configured on this node, which have no series", (DATABASE,),
    ),
    Metric(
        "ctctl_ovsdb_reconnects_total", COUNTER, Subject.AGENT, "Connections to a database after the first",
        _AT_CHANGE, labels=(DATABASE,),
    ),
    Metric(
        "ctctl_zone_map_confirmed_timestamp_seconds", GAUGE, Subject.AGENT,
        "Unix time at which the zone map was last known to be what the local database says", "about once a second",
    ),
    Metric(
        "ctctl_zone_map_malformed_keys", GAUGE, Subject.AGENT,
        "Keys ct-zone-… in the local database whose value is no zone number", _AT_CHANGE,
    ),
)  # fmt: skip

_STATISTIC_MEANINGS: Final = {
    "found": "Look-ups that found an entry while a port was being chosen for NAT",
    "invalid": "Packets that could not be tracked",
    "insert": "Entries inserted; current kernels leave it at 0",
    "insert_failed": "Entries that could not be inserted, often because an equal one came first",
    "drop": "Packets dropped because tracking failed, the full table included",
    "early_drop": "Unassured entries removed to make room in a full table",
    "error": "ICMP and other packets refused as malformed",
    "search_restart": "Look-ups restarted because the hash table changed underneath",
    "clash_resolve": "Races of two packets of one connection that were settled without loss",
    "chain_toolong": "Insertions refused because a hash chain was too long",
}

_TABLE = (
    Metric(
        "ctctl_conntrack_entries", GAUGE, Subject.TABLE,
        "Entries in the conntrack table of this network namespace, exact; unconfirmed, dying and expired ones included",
        _AT_SCRAPE,
    ),
    Metric(
        "ctctl_conntrack_entries_limit", GAUGE, Subject.TABLE,
        "Entries the table may hold (nf_conntrack_max), 0 = unlimited", _AT_SCRAPE,
    ),
    Metric(
        "ctctl_conntrack_buckets", GAUGE, Subject.TABLE, "Buckets of the kernel's hash table, shared by all "
        "network namespaces", _AT_SCRAPE,
    ),
    *(
        Metric(
            f"ctctl_conntrack_{name}_total", COUNTER, Subject.TABLE, f"{_STATISTIC_MEANINGS[name]}, all CPUs",
            _AT_SCRAPE, "what a 32-bit kernel counter wrapped more than once between two scrapes",
        )
        for name in STATISTICS
    ),
)  # fmt: skip

_ZONES = (
    Metric(
        "ctctl_ct_zone_entries", GAUGE, Subject.ZONES, "Entries of one conntrack zone", _EACH_COUNT,
        "empty zones, and those beyond the series limit: see ctctl_ct_zone_entries_unlisted", (CT_ZONE,),
    ),
    Metric(
        "ctctl_ct_zone_entries_unlisted", GAUGE, Subject.ZONES,
        "Entries of all zones that have no ctctl_ct_zone_entries series of their own", _EACH_COUNT,
    ),
    Metric(
        "ctctl_ct_zone_info", INFO, Subject.ZONES,
        "Owner of one conntrack zone, always 1; exactly one series per listed zone", _AT_CHANGE,
        "zones beyond the series limit: see ctctl_ct_zone_series_dropped",
        (
            CT_ZONE, Label("kind", "what the zone belongs to", _values(ZoneKind)),
            Label("owner", "router, switch or port name, empty for conflict, ownerless, foreign and host zones"),
            Label("alias", "second name of the datapath, as OpenStack shows it"),
        ),
    ),
    Metric(
        "ctctl_ct_zone_limit", GAUGE, Subject.ZONES, "Entries one zone may hold, 0 = unlimited", _AT_CHANGE,
        "zones without a limit of their own", (CT_ZONE,),
    ),
    Metric(
        "ctctl_ct_zone_stale_entries", GAUGE, Subject.ZONES,
        "Entries of one zone that are provably older than its present assignment", _EACH_COUNT,
        "entries that nothing can be proved about, and zones without stale entries", (CT_ZONE,),
    ),
    Metric(
        "ctctl_ct_zone_series_limit", GAUGE, Subject.ZONES,
        "Zones that may have series of their own (metrics.max_zone_series)", "at start",
    ),
    Metric(
        "ctctl_ct_zone_series_dropped", GAUGE, Subject.ZONES,
        "Zones that have no series of their own because of the limit", _AT_SCRAPE,
    ),
    Metric(
        "ctctl_ct_zones", GAUGE, Subject.ZONES, "Conntrack zones by state; a zone may be in several", _AT_CHANGE,
        "nonempty and ownerless before the first counting pass",
        (
            Label(
                "state", "assigned by a key; with entries; with entries and without owner; claimed by several owners",
                ("assigned", "nonempty", "ownerless", "conflicting"),
            ),
        ),
    ),
    Metric(
        "ctctl_ct_zones_available", GAUGE, Subject.ZONES,
        "Zone numbers of ovn-controller's range that no key uses", _AT_CHANGE,
        "numbers taken outside of OVN",
    ),
    Metric(
        "ctctl_ct_ownerless_entries", GAUGE, Subject.ZONES, "Entries in zones that nobody owns", _EACH_COUNT,
        "zones OVN never assigned while this agent watched, which count as foreign",
    ),
    Metric(
        "ctctl_ct_zones_renumbered_total", COUNTER, Subject.ZONES,
        "Zones of living routers that got another number, which cut their connections", _AT_CHANGE,
        "changes while the agent was not running",
    ),
    Metric(
        "ctctl_count_entries", GAUGE, Subject.ZONES, "Entries seen by the last counting pass, all zones", _EACH_COUNT,
        "entries that are unconfirmed, dying or expired",
    ),
    Metric(
        "ctctl_count_duration_seconds", HISTOGRAM, Subject.ZONES, "Seconds one counting pass took", _EACH_COUNT,
        "passes thrown away", (Label("method", "how the pass got its numbers", _values(CountMethod)),),
        FLUSH_BOUNDS_S,
    ),
    Metric(
        "ctctl_count_incomplete_total", COUNTER, Subject.ZONES, "Counting passes thrown away", _AT_CHANGE,
        labels=(Label("reason", "why", _values(IncompleteReason)),),
    ),
    Metric(
        "ctctl_count_sampling_ratio", GAUGE, Subject.ZONES,
        "Part of the table the last counting pass read; below 1 zone figures are estimates", _EACH_COUNT,
    ),
    Metric(
        "ctctl_count_protocol_entries", GAUGE, Subject.ZONES,
        "Entries by layer-4 protocol, where count.detail is on", _EACH_COUNT,
        labels=(Label("protocol", "protocol name, or its number"),),
    ),
    Metric(
        "ctctl_count_tcp_state_entries", GAUGE, Subject.ZONES, "TCP entries by state, where count.detail is on",
        _EACH_COUNT, labels=(Label("tcp_state", "the kernel's name of the state"),),
    ),
    Metric(
        "ctctl_count_assured_entries", GAUGE, Subject.ZONES,
        "Entries that saw traffic both ways (true) or not (false), where count.detail is on", _EACH_COUNT,
        labels=(Label("assured", "traffic both ways", ("true", "false")),),
    ),
)  # fmt: skip

_FLUSHES = (
    Metric(
        "ctctl_zone_verdicts_total", COUNTER, Subject.FLUSHES,
        "Assignments of a zone to a router that were judged, by verdict", _AT_CHANGE, "assignments found at start",
        (TRIGGER, Label("verdict", "what was found in the zone", _values(Verdict))),
    ),
    Metric(
        "ctctl_zone_verdict_seconds", HISTOGRAM, Subject.FLUSHES,
        "Seconds from the zone's key becoming visible to its verdict", _AT_CHANGE, labels=(TRIGGER,),
        bounds_s=VERDICT_BOUNDS_S,
    ),
    Metric(
        "ctctl_flushes_total", COUNTER, Subject.FLUSHES, "Flushes ctctl carried out", _AT_CHANGE,
        "flushes by OVN itself and by others", (TRIGGER, STRATEGY),
    ),
    Metric(
        "ctctl_flush_failures_total", COUNTER, Subject.FLUSHES, "Flushes that were tried and failed", _AT_CHANGE,
        labels=(TRIGGER, Label("reason", "why", _values(FailureReason))),
    ),
    Metric(
        "ctctl_flush_holds_total", COUNTER, Subject.FLUSHES, "Flushes that were not sent, for safety or by policy",
        _AT_CHANGE, labels=(TRIGGER, Label("reason", "why", _values(Reason))),
    ),
    Metric(
        "ctctl_flush_duration_seconds", HISTOGRAM, Subject.FLUSHES, "Seconds one flush took", _AT_CHANGE,
        labels=(STRATEGY,), bounds_s=FLUSH_BOUNDS_S,
    ),
    Metric(
        "ctctl_flush_estimated_seconds", GAUGE, Subject.FLUSHES, "Seconds flushing one zone would take now",
        "by each counting pass and flush", "strategies without an estimate", (STRATEGY,),
    ),
    Metric(
        "ctctl_flush_reaction_seconds", HISTOGRAM, Subject.FLUSHES,
        "Seconds from the zone's key becoming visible to the flush being sent", _AT_CHANGE, labels=(TRIGGER,),
        bounds_s=FLUSH_BOUNDS_S,
    ),
    Metric(
        "ctctl_flush_entries_deleted_total", COUNTER, Subject.FLUSHES, "Entries deleted", _AT_CHANGE,
        "entries of kernel-filtered flushes, whose number the kernel does not tell", (TRIGGER,),
    ),
    Metric(
        "ctctl_flush_entries_already_gone_total", COUNTER, Subject.FLUSHES,
        "Entries that had vanished before their delete arrived", _AT_CHANGE,
    ),
    Metric("ctctl_flush_pending", GAUGE, Subject.FLUSHES, "Flushes held for a reason that may pass", _AT_CHANGE),
    Metric(
        "ctctl_flush_oldest_pending_seconds", GAUGE, Subject.FLUSHES,
        "Seconds the oldest pending flush has been waiting, 0 when none is", _AT_SCRAPE,
    ),
    Metric("ctctl_flush_in_progress", GAUGE, Subject.FLUSHES, "Whether a flush is under way (1)", _AT_CHANGE),
)  # fmt: skip

_ROUTERS = (
    Metric(
        "ctctl_logical_routers", GAUGE, Subject.ROUTERS, "Logical routers", _AT_CHANGE,
        "known routers until an OVN database was read",
        (
            Label(
                "scope", "in the databases; with zones on this chassis; created and still without zones here",
                ("known", "local", "pending"),
            ),
        ),
    ),
    Metric(
        "ctctl_router_zone_ready_seconds", HISTOGRAM, Subject.ROUTERS,
        "Seconds from a zone number being allocated by ovn-controller to its key becoming visible", _AT_CHANGE,
        "zones whose allocation was not seen", bounds_s=VERDICT_BOUNDS_S,
    ),
    Metric(
        "ctctl_router_created_to_ready_seconds", HISTOGRAM, Subject.ROUTERS,
        "Seconds from the first sight of a router to the keys of its zones", _AT_CHANGE,
        "routers that took 5 minutes or more, because they had no port here", bounds_s=VERDICT_BOUNDS_S,
    ),
    Metric(
        "ctctl_router_events_total", COUNTER, Subject.ROUTERS, "Changes of logical routers seen from this chassis",
        _AT_CHANGE, "changes while the agent was not running", (Label("event", "what changed", _values(RouterChange)),),
    ),
)  # fmt: skip

_STALLS = (
    Metric(
        "ctctl_daemon_up", GAUGE, Subject.STALLS,
        "Whether a daemon's control socket accepts connections (1); a stalled daemon is up", "by each probe",
        labels=(DAEMON,),
    ),
    Metric(
        "ctctl_main_loop_probe_duration_seconds", HISTOGRAM, Subject.STALLS,
        "Seconds a daemon's main loop took to answer a probe", "by each answer", "probes still unanswered",
        (DAEMON,), STALL_BOUNDS_S,
    ),
    Metric(
        "ctctl_main_loop_stall_seconds", GAUGE, Subject.STALLS,
        "Age of the probe a daemon's main loop has not answered yet, 0 when none is open", _AT_SCRAPE,
        "stalls that began and ended between two scrapes", (DAEMON,),
    ),
    Metric(
        "ctctl_stall_episodes_total", COUNTER, Subject.STALLS,
        "Stalls seen by probe or log, one per stall however many lines it wrote", "at the end of each",
        labels=(DAEMON, THREAD),
    ),
    Metric(
        "ctctl_rcu_stall_seconds", HISTOGRAM, Subject.STALLS,
        "Longest wait vswitchd logged for a thread to quiesce, per stall; a lower bound", "at the end of each",
        "stalls in which no thread waited", (THREAD,), STALL_BOUNDS_S,
    ),
    Metric(
        "ctctl_long_poll_seconds", HISTOGRAM, Subject.STALLS,
        "Poll intervals a daemon logged as unreasonably long, exact", "as its log is read",
        "intervals below 1 s", (DAEMON, THREAD), STALL_BOUNDS_S,
    ),
    Metric(
        "ctctl_long_poll_cpu_seconds_total", COUNTER, Subject.STALLS,
        "CPU time in poll intervals logged as unreasonably long; far below their length means starved of CPU",
        "as the log is read", labels=(DAEMON, Label("mode", "where it was spent", _values(CpuMode))),
    ),
    Metric(
        "ctctl_coverage_long_poll_interval_total", COUNTER, Subject.STALLS,
        "The daemon's own coverage counter long_poll_interval", "every few seconds", "daemons before OVS 3.3",
        (DAEMON,),
    ),
    Metric(
        "ctctl_stalls_near_router_change_total", COUNTER, Subject.STALLS,
        "Stalls of vswitchd that overlapped the assignment of a router's zones; a correlation, no cause",
        "at the end of each",
    ),
    Metric(
        "ctctl_predicted_router_stall_seconds", GAUGE, Subject.STALLS,
        "Seconds that creating one router would block vswitchd's main loop now", _EACH_COUNT,
        "paths without a measurement to start from",
        (
            Label("path", "how vswitchd flushes a zone", _values(FlushPath)),
            Label("in_use", "whether this vswitchd takes this path", ("true", "false")),
        ),
    ),
    Metric(
        "ctctl_log_lines_total", COUNTER, Subject.STALLS, "Lines read from a daemon's log", "as its log is read",
        "lines written before the agent started", (DAEMON,),
    ),
    Metric(
        "ctctl_log_suppressed_lines_total", COUNTER, Subject.STALLS,
        "Messages a daemon said it dropped from its log because there were too many", "as its log is read",
        labels=(DAEMON,),
    ),
    Metric(
        "ctctl_log_skipped_bytes_total", COUNTER, Subject.STALLS,
        "Bytes of a daemon's log that were passed over unread because it grew too fast", "as its log is read",
        labels=(DAEMON,),
    ),
    Metric(
        "ctctl_log_last_read_timestamp_seconds", GAUGE, Subject.STALLS,
        "Unix time at which a daemon's log was last read to its end", "as its log is read", labels=(DAEMON,),
    ),
)  # fmt: skip

_HTTP = (
    Metric("ctctl_http_connections", GAUGE, Subject.HTTP, "Open HTTP connections", _AT_SCRAPE),
    Metric(
        "ctctl_http_connections_limit", GAUGE, Subject.HTTP,
        "Connections that may be open at once; a new one then takes the place of the longest idle one", "at start",
    ),
    Metric(
        "ctctl_web_config_last_read_good", GAUGE, Subject.HTTP,
        "Whether the web configuration in force is what its files say (1), or an older one because they cannot be used "
        "(0)", "within a second of a change", "a server without a web configuration file, which has no series",
    ),
    Metric(
        "ctctl_http_connections_dropped_total", COUNTER, Subject.HTTP, "HTTP connections ended by the server",
        _AT_SCRAPE, "connections the client ended",
        (
            Label(
                "reason",
                "room for a newer one; no whole request, or no reading of the answer, in time; "
                "more bytes than a request may have; a request that is none; failed TLS handshake",
                ("evicted", "deadline", "oversize", "malformed", "tls"),
            ),
        ),
    ),
)  # fmt: skip

CATALOGUE: Final[tuple[Metric, ...]] = (
    *_SCRAPE, *_AGENT, *_TABLE, *_ZONES, *_FLUSHES, *_ROUTERS, *_STALLS, *_HTTP,
)  # fmt: skip
"""Every family, in the order of the exposition. Beside them stand prometheus_client's process_* and python_*."""

METRICS: Final = MappingProxyType({metric.name: metric for metric in CATALOGUE})

_PAGE_TOP = """\
# Metrics

Every metric `ctctl agent` exports, generated from `ctctl/metrics/catalogue.py` (`ctctl metrics` prints the same).
Beside them stand the usual `process_*` and `python_*` families of the Prometheus client library.
A series is absent while there is nothing to say about it; it is never exported as 0 instead.
"""

_HEADINGS: Final = {
    Subject.SCRAPE: "The exposition itself",
    Subject.AGENT: "State",
    Subject.TABLE: "Conntrack table",
    Subject.ZONES: "Zones and counting",
    Subject.FLUSHES: "Verdicts and flushes",
    Subject.ROUTERS: "Routers",
    Subject.STALLS: "Stalls",
    Subject.HTTP: "HTTP",
}


def _section(metric: Metric) -> str:
    labels = "".join(
        f"* `{label.name}`: {label.meaning}"
        + (f" ({', '.join(f'`{value}`' for value in label.values)})" if label.values else "")
        + "\n"
        for label in metric.labels
    )
    buckets = f"* buckets, in seconds: {', '.join(f'{b:g}' for b in metric.bounds_s)}\n" if metric.bounds_s else ""
    bullets = f"\n{labels}{buckets}" if labels or buckets else ""
    return f"### `{metric.name}`\n\n{metric.type.value.capitalize()}. {metric.help}\n{bullets}"


def markdown() -> str:
    """The reference page of all metrics."""
    parts = [_PAGE_TOP]
    for subject, heading in _HEADINGS.items():
        parts.append(f"## {heading}\n")
        parts.extend(_section(metric) for metric in CATALOGUE if metric.subject is subject)
    return "\n".join(parts)


def as_data() -> list[dict[str, object]]:
    """The catalogue as JSON-ready values: one object per metric."""
    return [
        {
            "name": metric.name,
            "type": metric.type.value,
            "collector": metric.subject.value,
            "help": metric.help,
            "labels": [
                {"name": label.name, "meaning": label.meaning, "values": list(label.values)} for label in metric.labels
            ],
            "buckets": list(metric.bounds_s),
        }
        for metric in CATALOGUE
    ]
