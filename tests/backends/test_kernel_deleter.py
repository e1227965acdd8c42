"""Deleting: the safest request first, every refusal an outcome of its own, and never more than was named."""

from __future__ import annotations

import errno
import ipaddress
from collections.abc import Callable
from dataclasses import replace

import pytest

from ctctl.backends.kernel import KernelDeleter, KernelReader, selection
from ctctl.backends.kernel.failures import failure
from ctctl.clients.netlink import InterruptedDumpError, KernelRefusedError, OverrunError, TruncatedError
from ctctl.errors import CtctlError, PermissionDeniedError, ProtocolError, TimedOutError, UnavailableError
from ctctl.model.conntrack import EntryKey
from ctctl.model.counts import CountIncompleteError, IncompleteReason
from ctctl.model.flush import FailureReason, FlushFailure, FlushResult, Strategy
from ctctl.wire.conntrack_delete import MAX_DELETES_PER_SEND
from tests import flows
from tests.backends.contract import many, zones
from tests.backends.test_kernel_reader import Clock
from tests.fake_kernel import DELETE, FILTER, GET, STATS, TUPLE_ORIG, Block, FakeKernel, Request
from tests.flows import Flow

(FIVE,) = zones(5)


@pytest.fixture
def deleter() -> KernelDeleter:
    return KernelDeleter(Clock())


def answering(kind: int, answer: Callable[[Request, list[Block]], list[Block]]) -> Callable[..., list[Block]]:
    return lambda request, blocks: answer(request, blocks) if request.kind == kind else blocks


def error(number: int) -> Callable[[Request, list[Block]], list[Block]]:
    return lambda request, _: [
        flows.message(2, 0, request.seq, request.portid, flows.struct.pack("=i", -number) + bytes(16))
    ]


def keys(number: int, zone: int = 5) -> list[EntryKey]:
    flow = Flow(zone=zone)
    return [
        EntryKey(*zones(zone), 2, flows.original_tuple(replace(flow, sport=1024 + n)), 1 + n) for n in range(number)
    ]


def test_a_flush_is_probed_with_a_control_before_it_is_sent(kernel: FakeKernel, deleter: KernelDeleter) -> None:
    deleter.flush_zone(FIVE)
    kinds = [request.kind for request in kernel.sent]
    assert kinds.count(DELETE) == 1
    assert kinds[:3] == [STATS, GET, GET]
    assert kinds[-1] == DELETE
    probes = [sorted(request.attributes()) for request in kernel.sent[1:3]]
    assert probes == [[18, 26], [26]]
    assert kernel.open_sockets == 0


def test_every_flush_is_probed_anew(kernel: FakeKernel, deleter: KernelDeleter) -> None:
    kernel.insert(many(5, 3) + many(6, 3))
    deleter.flush_zone(FIVE)
    kernel.filters_by_zone = False  # as after a change of network namespace, or a restore on another kernel
    kernel.insert(many(5, 3))
    result = deleter.flush_zone(FIVE)
    assert isinstance(result, FlushResult)
    assert result.strategy is Strategy.ENTRY_DELETE
    assert {flow.zone for flow in kernel.table} == {6}


def test_a_kernel_that_ignores_zones_is_never_sent_a_flush(kernel: FakeKernel, deleter: KernelDeleter) -> None:
    kernel.filters_by_zone = False
    kernel.insert(many(5, 3) + many(6, 3))
    deleter.flush_zones(zones(5, 7))
    assert kernel.deletes()
    assert all(TUPLE_ORIG in request.attributes() for request in kernel.deletes())


def test_the_plain_form_follows_only_a_refused_guarded_one(kernel: FakeKernel, deleter: KernelDeleter) -> None:
    kernel.knows_filter = False
    kernel.insert(many(5, 3) + many(6, 3))
    assert isinstance(deleter.flush_zone(FIVE), FlushResult)
    assert [FILTER in request.attributes() for request in kernel.deletes()] == [True, False]
    assert {flow.zone for flow in kernel.table} == {6}


def test_the_plain_form_is_not_sent_when_the_probe_no_longer_says_yes(
    kernel: FakeKernel, deleter: KernelDeleter
) -> None:
    kernel.knows_filter = False
    kernel.insert(many(5, 3) + many(6, 3))

    def tamper(request: Request, blocks: list[Block]) -> list[Block]:
        if request.kind == DELETE:
            kernel.filters_by_zone = False
        return blocks

    kernel.tamper = tamper
    outcome = deleter.flush_zone(FIVE)
    assert isinstance(outcome, FlushFailure)
    assert outcome.reason is FailureReason.KERNEL_ERROR
    assert len(kernel.deletes()) == 1
    assert len(kernel.table) == 6


REFUSALS = {
    errno.EPERM: FailureReason.PERMISSION,
    errno.EACCES: FailureReason.PERMISSION,
    errno.EINTR: FailureReason.INTERRUPTED,
    errno.ENOBUFS: FailureReason.OVERRUN,
    errno.EINVAL: FailureReason.KERNEL_ERROR,
    errno.EBUSY: FailureReason.KERNEL_ERROR,
}


@pytest.mark.parametrize(("number", "reason"), REFUSALS.items())
def test_each_refusal_of_a_flush_is_an_outcome_of_its_own(
    kernel: FakeKernel, deleter: KernelDeleter, number: int, reason: FailureReason
) -> None:
    kernel.tamper = answering(DELETE, error(number))
    outcome = deleter.flush_zone(FIVE)
    assert isinstance(outcome, FlushFailure)
    assert (outcome.zone, outcome.reason) == (5, reason)
    assert "zone 5" in outcome.why
    assert len(kernel.deletes()) == 1
    assert kernel.open_sockets == 0


@pytest.mark.parametrize(("number", "reason"), REFUSALS.items())
def test_each_refusal_of_an_entry_delete_is_an_outcome_of_its_own(
    kernel: FakeKernel, deleter: KernelDeleter, number: int, reason: FailureReason
) -> None:
    kernel.insert(many(5, 10) + many(6, 1))

    def tamper(request: Request, blocks: list[Block]) -> list[Block]:
        return error(number)(request, blocks) if request.seq == 4 else blocks

    chosen = [*found(kernel, 5), *found(kernel, 6)]
    kernel.tamper = answering(DELETE, tamper)
    of_five, of_six = deleter.delete_entries(chosen)
    assert isinstance(of_five, FlushFailure)
    assert (of_five.reason, of_five.deleted, of_five.already_gone) == (reason, 9, 0)
    assert isinstance(of_six, FlushResult), "one zone's failure is not another's"
    assert of_six.deleted == 1


def found(kernel: FakeKernel, zone: int) -> list[EntryKey]:
    return [
        EntryKey(*zones(zone), flow.family, flows.original_tuple(flow), flow.entry_id)
        for flow in kernel.table
        if flow.zone == zone
    ]


def test_a_lost_acknowledgement_of_a_flush_is_a_timeout(kernel: FakeKernel, deleter: KernelDeleter) -> None:
    kernel.tamper = answering(DELETE, lambda *_: [])
    outcome = deleter.flush_zone(FIVE, timeout_s=0.5)
    assert isinstance(outcome, FlushFailure)
    assert outcome.reason is FailureReason.TIMEOUT


def test_a_lost_acknowledgement_of_a_batch_fails_every_zone(kernel: FakeKernel, deleter: KernelDeleter) -> None:
    kernel.insert(many(5, 3) + many(6, 3))
    chosen = [*found(kernel, 5), *found(kernel, 6)]
    kernel.tamper = answering(DELETE, lambda *_: [])
    outcomes = deleter.delete_entries(chosen)
    assert [(o.zone, o.reason) for o in outcomes if isinstance(o, FlushFailure)] == [
        (5, FailureReason.TIMEOUT),
        (6, FailureReason.TIMEOUT),
    ]
    assert kernel.open_sockets == 0


def test_a_foreign_acknowledgement_is_not_ours(kernel: FakeKernel, deleter: KernelDeleter) -> None:
    kernel.insert(many(5, 3))

    def tamper(request: Request, blocks: list[Block]) -> list[Block]:
        foreign = flows.message(2, 0, request.seq, request.portid + 1, bytes(20))
        stale = flows.message(2, 0, request.seq + 5, request.portid, b"\xff\xff\xff\xff" + bytes(16))
        return [foreign, stale, *blocks]

    kernel.tamper = answering(DELETE, tamper)
    assert isinstance(deleter.flush_zone(FIVE), FlushResult)


def test_an_overrun_leaves_the_outcome_unknown_and_says_so(kernel: FakeKernel, deleter: KernelDeleter) -> None:
    kernel.insert(many(5, 3))
    chosen = found(kernel, 5)
    kernel.tamper = answering(DELETE, lambda *_: [OSError(errno.ENOBUFS, "no buffer space")])
    (outcome,) = deleter.delete_entries(chosen)
    assert isinstance(outcome, FlushFailure)
    assert outcome.reason is FailureReason.OVERRUN


def test_deletes_leave_in_batches_that_a_receive_buffer_bears(
    kernel: FakeKernel, deleter: KernelDeleter, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    from ctctl.clients.netlink import NetlinkSocket

    send = NetlinkSocket.send

    def counted(self: NetlinkSocket, data: bytes) -> None:
        before = len(kernel.sent)
        send(self, data)
        sizes.append(len(kernel.sent) - before)

    monkeypatch.setattr(NetlinkSocket, "send", counted)
    (outcome,) = deleter.delete_entries(keys(300))
    assert isinstance(outcome, FlushResult)
    assert (outcome.deleted, outcome.already_gone) == (0, 300)
    assert sizes == [MAX_DELETES_PER_SEND, MAX_DELETES_PER_SEND, 300 - 2 * MAX_DELETES_PER_SEND]
    assert [request.flags for request in kernel.deletes()].count(0x5) == len(sizes), "one acknowledgement a batch"


def test_a_key_that_no_dump_yields_stops_everything_before_anything_is_sent(
    kernel: FakeKernel, deleter: KernelDeleter
) -> None:
    for wrong in (replace(keys(1)[0], tuple_orig=b""), replace(keys(1)[0], entry_id=-1)):
        with pytest.raises(ValueError, match="zone 5"):
            deleter.delete_entries([*keys(400), wrong])
    assert kernel.sent == []


def test_a_zone_of_any_size_is_deleted_while_the_dump_goes_on(
    kernel: FakeKernel, deleter: KernelDeleter, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.filters_by_zone = False
    kernel.insert(many(5, 300) + many(6, 10))
    monkeypatch.setattr(selection, "KEYS_AT_ONCE", 40)
    outcome = deleter.flush_zone(FIVE)
    assert isinstance(outcome, FlushResult)
    assert (outcome.deleted, outcome.already_gone) == (300, 0)
    dumps = [n for n, request in enumerate(kernel.sent) if request.kind == GET]
    assert dumps[-1] < min(n for n, request in enumerate(kernel.sent) if request.kind == DELETE)
    assert len(kernel.table) == 10


def test_a_flush_by_dump_that_is_disturbed_is_finished_by_the_next_dump(
    kernel: FakeKernel, deleter: KernelDeleter, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.filters_by_zone = False
    kernel.insert(many(5, 60))
    monkeypatch.setattr(selection, "KEYS_AT_ONCE", 20)
    seen: list[Request] = []

    def tamper(request: Request, blocks: list[Block]) -> list[Block]:
        if request.kind == GET and not request.attributes():
            seen.append(request)
            if len(seen) == 1:
                return [*blocks[:2], OSError(errno.ENOBUFS, "no")]
        return blocks

    kernel.tamper = tamper
    outcome = deleter.flush_zone(FIVE)
    assert isinstance(outcome, FlushResult)
    assert (outcome.deleted, len(seen), kernel.table) == (60, 2, [])


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EPERM, FailureReason.PERMISSION),
        (errno.EINTR, FailureReason.INCOMPLETE_DUMP),
        (errno.ENOBUFS, FailureReason.INCOMPLETE_DUMP),
        (errno.ENOMEM, FailureReason.KERNEL_ERROR),
    ],
)
def test_a_flush_by_dump_fails_with_its_dump(
    kernel: FakeKernel, deleter: KernelDeleter, number: int, reason: FailureReason
) -> None:
    kernel.filters_by_zone = False
    kernel.insert(many(5, 3))
    kernel.tamper = lambda request, blocks: (
        error(number)(request, blocks) if request.kind == GET and not request.attributes() else blocks
    )
    outcomes = deleter.flush_zones(zones(5, 6))
    assert [(o.zone, o.reason) for o in outcomes if isinstance(o, FlushFailure)] == [(5, reason), (6, reason)]
    assert kernel.open_sockets == 0


def test_a_flush_by_dump_ends_when_its_time_is_up(kernel: FakeKernel, deleter: KernelDeleter) -> None:
    kernel.filters_by_zone = False
    kernel.insert(many(6, 200))
    outcome = deleter.flush_zone(FIVE, timeout_s=1.0)
    assert isinstance(outcome, FlushFailure)
    assert outcome.reason is FailureReason.TIMEOUT


@pytest.mark.parametrize("attribute", ["permits", "has_ctnetlink"])
def test_when_the_probe_cannot_be_asked_nothing_is_sent(
    kernel: FakeKernel, deleter: KernelDeleter, attribute: str
) -> None:
    setattr(kernel, attribute, False)
    outcomes = deleter.flush_zones(zones(5, 6))
    expected = FailureReason.PERMISSION if attribute == "permits" else FailureReason.UNAVAILABLE
    assert [(o.zone, o.reason) for o in outcomes if isinstance(o, FlushFailure)] == [(5, expected), (6, expected)]
    assert kernel.deletes() == []


def test_equal_zones_are_flushed_once(kernel: FakeKernel, deleter: KernelDeleter) -> None:
    assert [o.zone for o in deleter.flush_zones(zones(5, 6, 5))] == [5, 6]
    assert len(kernel.deletes()) == 2


def test_address_and_zone_are_checked_again_on_every_entry(kernel: FakeKernel, deleter: KernelDeleter) -> None:
    kernel.insert([Flow(zone=5, src="10.0.0.9"), Flow(zone=6, src="10.0.0.9"), Flow(zone=5, src="10.0.0.8")])
    deleter.delete_address(zones(5), ipaddress.ip_address("10.0.0.9"))
    assert [request.attributes()[TUPLE_ORIG] for request in kernel.deletes()] == [
        flows.original_tuple(Flow(zone=5, src="10.0.0.9"))
    ]


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (PermissionDeniedError("x"), FailureReason.PERMISSION),
        (TimedOutError("x"), FailureReason.TIMEOUT),
        (UnavailableError("x"), FailureReason.UNAVAILABLE),
        (OverrunError("x"), FailureReason.OVERRUN),
        (TruncatedError("x"), FailureReason.MALFORMED),
        (ProtocolError("x"), FailureReason.MALFORMED),
        (InterruptedDumpError("x"), FailureReason.INTERRUPTED),
        (KernelRefusedError("x", errno.EBUSY), FailureReason.KERNEL_ERROR),
        *(
            (CountIncompleteError(IncompleteReason(why), "x"), reason)
            for why, reason in {
                "interrupted": FailureReason.INCOMPLETE_DUMP,
                "table_resized": FailureReason.INCOMPLETE_DUMP,
                "overrun": FailureReason.INCOMPLETE_DUMP,
                "kernel_error": FailureReason.KERNEL_ERROR,
                "timeout": FailureReason.TIMEOUT,
                "stopped": FailureReason.TIMEOUT,
                "malformed": FailureReason.MALFORMED,
                "permission": FailureReason.PERMISSION,
                "unavailable": FailureReason.UNAVAILABLE,
            }.items()
        ),
    ],
)
def test_every_error_has_its_place_among_the_reasons(raised: CtctlError, reason: FailureReason) -> None:
    outcome = failure(FIVE, raised, 3, 4)
    assert (outcome.reason, outcome.deleted, outcome.already_gone) == (reason, 3, 4)
    assert "x" in outcome.why


def test_reader_and_deleter_agree_on_what_is_there(kernel: FakeKernel, deleter: KernelDeleter) -> None:
    kernel.insert(many(5, 30) + many(6, 5))
    deleter.flush_zone(FIVE)
    assert KernelReader(Clock()).count(lambda: False).entries_by_zone == {6: 5}
