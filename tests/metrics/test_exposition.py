"""What a scrape says, family by family, and in which format and encoding."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from ctctl.errors import PermissionDeniedError, TimedOutError, UnavailableError
from ctctl.metrics.catalogue import COLLECTORS, METRICS
from ctctl.metrics.collectors import SnapshotCollector, build_registry
from ctctl.metrics.exposition import Exposer, Format, accepts_gzip, negotiate
from ctctl.metrics.metric import MetricType
from ctctl.model.counts import TableStats
from ctctl.model.flush import Switch
from ctctl.model.snapshot import Snapshot
from tests.metrics.golden import GOLDEN, exposition
from tests.metrics.prometheus_tree import promtool
from tests.metrics.snapshots import NOW, before, busy_snapshot, empty_snapshot, table_stats

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(
    snapshot: Callable[[], Snapshot | None] = busy_snapshot, read: Callable[[], TableStats] = table_stats
) -> Samples:
    return samples_of(SnapshotCollector(snapshot, read, lambda: NOW))


def samples_of(collector: SnapshotCollector) -> Samples:
    samples: Samples = {}
    for family in collector.collect():
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in samples, f"{sample} is given twice"
            samples[key] = sample.value
    return samples


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


def names(samples: Samples) -> set[str]:
    return {name for name, _ in samples}


def test_the_whole_exposition_is_the_golden_one() -> None:
    assert exposition() == GOLDEN.read_text(), "if it is meant: python -m tests.metrics.golden"


def test_the_golden_exposition_holds_every_metric_of_the_catalogue() -> None:
    families = {family.name for family in text_string_to_metric_families(GOLDEN.read_text())}
    missing = {
        name
        for name, metric in METRICS.items()
        if (name.removesuffix("_total") if metric.type is MetricType.COUNTER else name) not in families
    }
    assert missing == {name for name in METRICS if name.startswith(("ctctl_http_", "ctctl_web_"))}


@pytest.mark.parametrize("snapshot", [busy_snapshot, empty_snapshot, lambda: None])
def test_promtool_finds_nothing_to_say_about_it(snapshot: Callable[[], Snapshot | None]) -> None:
    registry = build_registry(SnapshotCollector(snapshot, table_stats, lambda: NOW))
    body = Exposer(registry)._make(Format.TEXT, is_gzip=False).body
    done = subprocess.run([promtool(), "check", "metrics"], input=body, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_openmetrics_says_the_same_as_the_classic_format() -> None:
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(busy_snapshot, table_stats, lambda: NOW))
    exposer = Exposer(registry)
    classic = exposer._make(Format.TEXT, is_gzip=False).body.decode()
    openmetrics = exposer._make(Format.OPENMETRICS, is_gzip=False).body.decode()
    assert openmetrics.endswith("# EOF\n")

    def said(families: object) -> dict[object, float]:
        return {
            (s.name, frozenset(s.labels.items())): s.value
            for family in families  # type: ignore[attr-defined]
            for s in family.samples
            if "duration_seconds" not in s.name
        }

    assert said(parse_openmetrics(openmetrics)) == said(text_string_to_metric_families(classic))


def test_gzip_unpacks_to_the_same_bytes() -> None:
    registry = CollectorRegistry()
    exposer = Exposer(registry)
    plain, packed = (exposer._make(Format.OPENMETRICS, is_gzip=is_gzip) for is_gzip in (False, True))
    assert (packed.encoding, gzip.decompress(packed.body)) == ("gzip", plain.body)


@pytest.mark.parametrize(
    ("accept", "served"),
    [
        ("", Format.TEXT),
        ("*/*", Format.TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Format.TEXT),
        ("application/openmetrics-text", Format.OPENMETRICS),
        (
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1",
            Format.OPENMETRICS,
        ),
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75",
            Format.OPENMETRICS,
        ),
        ("application/openmetrics-text;version=0.0.1;q=0.2,text/plain;version=0.0.4;q=0.9", Format.TEXT),
        ("application/openmetrics-text;version=9.9.9", Format.TEXT),
        ("application/openmetrics-text;q=0", Format.TEXT),
        ("application/openmetrics-text;q=banana", Format.OPENMETRICS),
        (",;=,;;;q=", Format.TEXT),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", Format.TEXT),
    ],
)
def test_the_format_is_what_the_client_prefers_of_what_is_served(accept: str, served: Format) -> None:
    assert negotiate(accept) is served


@pytest.mark.parametrize(
    ("accept_encoding", "is_gzip"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("", False),
        ("identity", False),
        ("xgzip", False),
    ],
)
def test_gzip_is_used_where_the_client_takes_it(accept_encoding: str, is_gzip: bool) -> None:
    assert accepts_gzip(accept_encoding) is is_gzip


def test_before_the_first_snapshot_the_table_is_there_and_nothing_is_made_up() -> None:
    samples = scrape(lambda: None)
    assert value(samples, "ctctl_conntrack_entries") == 10_200
    assert value(samples, "ctctl_scrape_collector_success", collector="table") == 1
    assert value(samples, "ctctl_scrape_collector_success", collector="zones") == 0
    assert not {name for name in names(samples) if name.startswith(("ctctl_flush", "ctctl_ct_", "ctctl_daemon"))}


def test_an_agent_that_knows_nothing_exports_no_figures_it_does_not_have() -> None:
    samples = scrape(empty_snapshot)
    for name in (
        "ctctl_ct_zone_entries_unlisted", "ctctl_ct_ownerless_entries", "ctctl_ct_zones_available",
        "ctctl_count_sampling_ratio", "ctctl_zone_map_confirmed_timestamp_seconds", "ctctl_daemon_up",
        "ctctl_main_loop_stall_seconds", "ctctl_capability_supported", "ctctl_ovsdb_connected",
        "ctctl_ct_zones_renumbered_total", "ctctl_stalls_near_router_change_total",
    ):  # fmt: skip
        assert name not in names(samples)
    assert value(samples, "ctctl_logical_routers", scope="known") is None
    assert value(samples, "ctctl_collector_last_success_timestamp_seconds", collector="zones") is None


def test_known_label_values_of_enabled_triggers_start_at_zero() -> None:
    samples = scrape(empty_snapshot)
    assert value(samples, "ctctl_flushes_total", trigger="router_created", strategy="kernel_filter") == 0
    assert value(samples, "ctctl_flush_holds_total", trigger="router_created", reason="over_budget") == 0
    assert value(samples, "ctctl_zone_verdict_seconds_count", trigger="router_created") == 0
    assert value(samples, "ctctl_collector_errors_total", collector="table", reason="unavailable") == 0


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UnavailableError("nf_conntrack is not loaded"), "unavailable"),
        (PermissionDeniedError("CAP_NET_ADMIN is missing"), "permission"),
        (TimedOutError("no answer"), "timeout"),
        (ZeroDivisionError(), "bug"),
    ],
)
def test_an_unreadable_table_is_absent_counted_and_alone(error: Exception, reason: str) -> None:
    def read() -> TableStats:
        raise error

    samples = scrape(read=read)
    assert not {name for name in names(samples) if name.startswith("ctctl_conntrack_")}
    assert value(samples, "ctctl_scrape_collector_success", collector="table") == 0
    assert value(samples, "ctctl_collector_errors_total", collector="table", reason=reason) == 1
    assert value(samples, "ctctl_collector_last_success_timestamp_seconds", collector="table") is None
    assert value(samples, "ctctl_scrape_collector_success", collector="zones") == 1


def test_a_table_that_comes_back_is_there_again_and_its_errors_stay_counted() -> None:
    answers: list[Exception | TableStats] = [UnavailableError("gone"), UnavailableError("gone"), table_stats()]

    def read() -> TableStats:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    collector = SnapshotCollector(busy_snapshot, read, lambda: NOW)
    for _ in range(2):
        samples_of(collector)
    samples = samples_of(collector)
    assert value(samples, "ctctl_conntrack_entries") == 10_200
    assert value(samples, "ctctl_collector_errors_total", collector="table", reason="unavailable") == 2
    assert value(samples, "ctctl_collector_last_success_timestamp_seconds", collector="table") == NOW.wall_s


def test_a_bug_in_one_part_costs_that_part_only_and_leaves_nothing_half_said() -> None:
    wrong_bounds = replace(
        busy_snapshot().tallies, router_created_to_ready=busy_snapshot().tallies.probe_seconds.popitem()[1]
    )
    samples = scrape(lambda: replace(busy_snapshot(), tallies=wrong_bounds))
    assert not {name for name in names(samples) if name.startswith(("ctctl_logical_routers", "ctctl_router_"))}
    success = {c: value(samples, "ctctl_scrape_collector_success", collector=c) for c in COLLECTORS}
    assert success == {c: 0 if c == "routers" else 1 for c in COLLECTORS}
    assert value(samples, "ctctl_collector_errors_total", collector="routers", reason="bug") == 1


def test_a_stall_is_as_old_as_it_is_now_not_as_when_it_was_published() -> None:
    later = replace(NOW, boot_s=NOW.boot_s + 60.0)
    samples = samples_of(SnapshotCollector(busy_snapshot, table_stats, lambda: later))
    assert value(samples, "ctctl_main_loop_stall_seconds", daemon="ovs-vswitchd") == 64.5
    assert value(samples, "ctctl_main_loop_stall_seconds", daemon="ovn-controller") == 0
    assert value(samples, "ctctl_flush_oldest_pending_seconds") == 72.0


def test_a_clock_read_just_before_a_probe_was_sent_gives_no_negative_age() -> None:
    early = before(100.0)
    samples = samples_of(SnapshotCollector(busy_snapshot, table_stats, lambda: early))
    assert value(samples, "ctctl_main_loop_stall_seconds", daemon="ovs-vswitchd") == 0
    assert value(samples, "ctctl_flush_oldest_pending_seconds") == 0


def test_the_switch_is_one_position_and_not_the_others() -> None:
    samples = scrape(lambda: replace(busy_snapshot(), switch=Switch.OBSERVE))
    assert {s: value(samples, "ctctl_flush_switch", switch=s) for s in Switch} == {
        Switch.ENFORCE: 0,
        Switch.DRY_RUN: 0,
        Switch.OBSERVE: 1,
    }


def test_a_database_that_is_not_configured_here_has_no_series() -> None:
    samples = scrape()
    assert value(samples, "ctctl_ovsdb_connected", database="OVN_Southbound") == 0
    assert value(samples, "ctctl_ovsdb_connected", database="OVN_Northbound") is None


def test_the_age_of_zone_data_is_that_of_the_pass_not_of_the_snapshot() -> None:
    samples = scrape()
    assert value(samples, "ctctl_collector_last_success_timestamp_seconds", collector="zones") == before(2.0).wall_s
    assert value(samples, "ctctl_collector_last_success_timestamp_seconds", collector="agent") == before(0.2).wall_s


def test_process_and_python_families_are_there() -> None:
    registry = build_registry(SnapshotCollector(busy_snapshot, table_stats, lambda: NOW))
    found = {family.name for family in registry.collect()}
    assert {"process_resident_memory_bytes", "process_cpu_seconds", "process_open_fds", "python_info"} <= found


def test_a_histogram_counts_up_to_its_total() -> None:
    samples = scrape()
    name = "ctctl_flush_duration_seconds"
    assert value(samples, f"{name}_bucket", strategy="kernel_filter", le="0.025") == 2
    assert value(samples, f"{name}_bucket", strategy="kernel_filter", le="30.0") == 2
    assert value(samples, f"{name}_bucket", strategy="kernel_filter", le="+Inf") == 3
    assert value(samples, f"{name}_count", strategy="kernel_filter") == 3
    assert value(samples, f"{name}_sum", strategy="kernel_filter") == pytest.approx(45.045)
