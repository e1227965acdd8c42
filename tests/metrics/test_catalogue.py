"""The catalogue keeps the contract with those who script against it, and Prometheus' naming rules."""

from __future__ import annotations

import json
import re

import pytest

from ctctl.metrics.catalogue import CATALOGUE, METRICS, STATISTICS, as_data, markdown
from ctctl.metrics.metric import Metric, MetricType, Subject
from tests.metrics.golden import REFERENCE

CONTRACT: dict[str, tuple[str, ...]] = {
    "ctctl_build_info": ("version", "python"),
    "ctctl_scrape_collector_success": ("collector",),
    "ctctl_scrape_collector_duration_seconds": ("collector",),
    "ctctl_collector_last_success_timestamp_seconds": ("collector",),
    "ctctl_collector_errors_total": ("collector", "reason"),
    "ctctl_capability_supported": ("capability",),
    "ctctl_flush_switch": ("switch",),
    "ctctl_flusher_lock_held": (),
    "ctctl_flush_paused": (),
    "ctctl_mass_change_brake": (),
    "ctctl_target_info": ("kernel_release", "ovs_version", "ovn_version", "datapath_type", "chassis"),
    "ctctl_ovsdb_connected": ("database",),
    "ctctl_ovsdb_reconnects_total": ("database",),
    "ctctl_zone_map_confirmed_timestamp_seconds": (),
    "ctctl_conntrack_entries": (),
    "ctctl_conntrack_entries_limit": (),
    "ctctl_conntrack_buckets": (),
    **{f"ctctl_conntrack_{name}_total": () for name in STATISTICS},
    "ctctl_ct_zone_entries": ("ct_zone",),
    "ctctl_ct_zone_entries_unlisted": (),
    "ctctl_ct_zone_info": ("ct_zone", "kind", "owner", "alias"),
    "ctctl_ct_zone_limit": ("ct_zone",),
    "ctctl_ct_zones": ("state",),
    "ctctl_ct_zones_available": (),
    "ctctl_ct_ownerless_entries": (),
    "ctctl_ct_zone_stale_entries": ("ct_zone",),
    "ctctl_ct_zones_renumbered_total": (),
    "ctctl_count_duration_seconds": ("method",),
    "ctctl_count_incomplete_total": ("reason",),
    "ctctl_count_sampling_ratio": (),
    "ctctl_zone_verdicts_total": ("trigger", "verdict"),
    "ctctl_zone_verdict_seconds": ("trigger",),
    "ctctl_flushes_total": ("trigger", "strategy"),
    "ctctl_flush_failures_total": ("trigger", "reason"),
    "ctctl_flush_holds_total": ("trigger", "reason"),
    "ctctl_flush_duration_seconds": ("strategy",),
    "ctctl_flush_estimated_seconds": ("strategy",),
    "ctctl_flush_reaction_seconds": ("trigger",),
    "ctctl_flush_entries_deleted_total": ("trigger",),
    "ctctl_flush_entries_already_gone_total": (),
    "ctctl_flush_pending": (),
    "ctctl_flush_oldest_pending_seconds": (),
    "ctctl_flush_in_progress": (),
    "ctctl_logical_routers": ("scope",),
    "ctctl_router_zone_ready_seconds": (),
    "ctctl_router_created_to_ready_seconds": (),
    "ctctl_router_events_total": ("event",),
    "ctctl_daemon_up": ("daemon",),
    "ctctl_main_loop_probe_duration_seconds": ("daemon",),
    "ctctl_main_loop_stall_seconds": ("daemon",),
    "ctctl_stall_episodes_total": ("daemon", "thread"),
    "ctctl_rcu_stall_seconds": ("thread",),
    "ctctl_long_poll_seconds": ("daemon", "thread"),
    "ctctl_long_poll_cpu_seconds_total": ("daemon", "mode"),
    "ctctl_coverage_long_poll_interval_total": ("daemon",),
    "ctctl_stalls_near_router_change_total": (),
    "ctctl_predicted_router_stall_seconds": ("path", "in_use"),
    "ctctl_log_lines_total": ("daemon",),
    "ctctl_log_last_read_timestamp_seconds": ("daemon",),
}

each_metric = pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)


def test_every_metric_of_the_contract_is_there_with_its_labels() -> None:
    assert {name: METRICS[name].label_names for name in CONTRACT if name in METRICS} == CONTRACT


def test_no_name_is_given_twice() -> None:
    assert len(METRICS) == len(CATALOGUE)


@each_metric
def test_a_name_tells_its_type_and_unit(metric: Metric) -> None:
    assert re.fullmatch(r"ctctl_[a-z][a-z0-9_]*", metric.name)
    assert metric.name.endswith("_total") == (metric.type is MetricType.COUNTER)
    assert metric.name.endswith("_info") == (metric.type is MetricType.INFO)
    if metric.type is MetricType.HISTOGRAM:
        assert metric.name.endswith("_seconds")
    if "timestamp" in metric.name:
        assert metric.name.endswith("_timestamp_seconds")


@each_metric
def test_a_histogram_and_nothing_else_has_ascending_buckets(metric: Metric) -> None:
    assert bool(metric.bounds_s) == (metric.type is MetricType.HISTOGRAM)
    assert list(metric.bounds_s) == sorted(set(metric.bounds_s))


@each_metric
def test_help_says_what_and_when_in_one_line(metric: Metric) -> None:
    assert metric.counts[0].isupper()
    assert not metric.counts.endswith(".")
    assert "Refreshed " in metric.help
    assert "\n" not in metric.help


@each_metric
def test_no_label_clashes_with_what_a_target_is_labelled_with(metric: Metric) -> None:
    assert not {"zone", "node", "cluster", "instance", "job", "chassis", "le"} & (
        set(metric.label_names) - ({"chassis"} if metric.name == "ctctl_target_info" else set())
    )


def test_the_reference_page_is_what_the_catalogue_says() -> None:
    assert REFERENCE.read_text() == markdown(), "if it is meant: python -m tests.metrics.golden"


def test_the_reference_page_has_a_section_for_each_metric() -> None:
    sections = re.findall(r"^### `(.+)`$", markdown(), re.MULTILINE)
    assert sorted(sections) == sorted(METRICS)


def test_the_catalogue_as_data_survives_json() -> None:
    data = json.loads(json.dumps(as_data()))
    assert [one["name"] for one in data] == list(METRICS)
    assert {one["collector"] for one in data} == {subject.value for subject in Subject}
