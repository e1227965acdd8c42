"""Runs the scenes; exits with 0 only if every promise was kept.

Needs root, network namespaces and the lab's OVN; `make demo` sees to all of it. KEEP=1 leaves everything running
until Ctrl-C and prints where it is. DEMO_OVN chooses the generation: bookworm (23.03) or trixie (25.03).
DEMO_SVG=FILE saves a picture of two scenes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from tests.demo.narrative import Narrative
from tests.demo.scenes import ALL, Stage
from tests.lab.agent import LabAgent
from tests.lab.debian import ovn_tree
from tests.lab.namespace import Namespace, why_unavailable
from tests.lab.ovn import Ovn


def main() -> int:
    """Play every scene."""
    missing = why_unavailable()
    if missing is not None:
        print(f"make demo: {missing}; run it as root on a host that allows network namespaces", file=sys.stderr)
        return 2
    picture = os.environ.get("DEMO_SVG")
    tell = Narrative()
    suite = os.environ.get("DEMO_OVN", "trixie")
    with Namespace() as namespace, Ovn(namespace, ovn_tree(suite)) as ovn:
        versions = ovn.appctl("ovn-controller", "version").splitlines()[0]
        tell.say(f"a private {versions}, up in {ovn.start_seconds:.2f} s, in namespaces of its own")
        agent = LabAgent(namespace, ovn)
        stage = Stage(namespace, ovn, agent, tell)
        for play in ALL:
            play(stage)
        is_good = tell.finish()
        if picture is not None:
            tell.save_picture(picture)
        if os.environ.get("KEEP") == "1":
            _keep(tell, stage)
        for live in stage.live:
            live.stop()
        agent.stop()
    return 0 if is_good else 1


def _keep(tell: Narrative, stage: Stage) -> None:
    enter = f"nsenter --net=/proc/{stage.namespace.pid}/ns/net --mount=/proc/{stage.namespace.pid}/ns/mnt"
    tell.say("KEEP=1: everything stays up; end with Ctrl-C")
    tell.say(f"metrics    {enter} curl -s http://127.0.0.1:{stage.agent.port}/metrics")
    tell.say(f"zones      {sys.executable} -m ctctl zones --config {stage.agent.config}")
    tell.say(f"NB         {stage.ovn.nb}")
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
