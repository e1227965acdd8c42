"""The recorder notices what it is there for."""

from __future__ import annotations

import pytest

from ctctl.clients.netlink import NETLINK_NETFILTER, NetlinkSocket
from tests import flows
from tests.fake_kernel import FakeKernel
from tests.flows import Flow
from tests.netlink_recorder import Recorder, UnlimitedDeleteError

ZONE = flows.attr(18, b"\0\5")
ID = flows.attr(12, bytes(4))
TUPLE = flows.nest(1, flows.original_tuple(Flow(zone=5)))


def delete(*attributes: bytes) -> bytes:
    return flows.message(0x102, 5, 1, 0, bytes(4) + b"".join(attributes))


@pytest.mark.parametrize(
    "message",
    [
        delete(),
        delete(ZONE),
        delete(TUPLE, ID),
        delete(TUPLE, ZONE),
        delete(ZONE, ID),
        delete(flows.nest(25)),
        delete(flows.attr(18, b"\0\0"), flows.nest(25)),
        delete(flows.attr(18, b"\0\0\0\5"), flows.nest(25)),
        delete(ZONE, flows.attr(18, b"\0\0"), flows.nest(25)),
        delete(flows.nest(2, b""), ZONE),
        flows.message(0x101, 5, 1, 0, bytes(4)) + delete(),
        delete(ZONE, flows.nest(25)) + delete(flows.attr(18, b"\0\6")),
        delete(ZONE, flows.nest(25)) + delete(ZONE) + delete(ZONE),
    ],
)
def test_a_delete_that_is_not_limited_is_refused(message: bytes) -> None:
    watcher = Recorder()
    with pytest.raises(UnlimitedDeleteError):
        watcher.watch(message)
    assert watcher.violations


@pytest.mark.parametrize(
    "message",
    [
        delete(ZONE, flows.nest(25)),
        delete(ZONE, TUPLE, ID),
        delete(ZONE, flows.nest(25)) + delete(ZONE),
        flows.message(0x101, 5, 1, 0, bytes(4)),
        flows.message(0x105, 5, 1, 0, bytes(4)),
    ],
)
def test_whatever_is_limited_or_no_delete_may_pass(message: bytes) -> None:
    watcher = Recorder()
    watcher.watch(message)
    assert watcher.violations == []
    assert watcher.messages


def test_what_the_package_sends_is_recorded_and_what_is_refused_is_not_sent(
    kernel: FakeKernel, recorder: Recorder
) -> None:
    with NetlinkSocket(NETLINK_NETFILTER, timeout_s=1) as opened:
        opened.send(delete(ZONE, flows.nest(25)))
        with pytest.raises(UnlimitedDeleteError):
            opened.send(delete())
    assert len(recorder.deletes()) == 2
    assert len(kernel.deletes()) == 1
    recorder.violations.clear()
