"""The status page in a real Chromium: at three widths, in both schemes, fresh without flicker, usable without a mouse.

Pictures go to `$CTCTL_ARTIFACTS` where that is set.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ctctl.clients.clock import now
from ctctl.metrics.page.history import STEP_S, Step
from ctctl.metrics.web import WebServer
from ctctl.metrics.web_settings import WebSettings
from ctctl.model.snapshot import Snapshot
from tests.host.browser import Browser, browsing, chromium
from tests.metrics.serving import LOOPBACK
from tests.metrics.snapshots import busy_snapshot, table_stats
from tests.metrics.test_status_page import hostile_snapshot

pytestmark = [pytest.mark.host, pytest.mark.slow]

Scene = Callable[[Browser, str], Awaitable[None]]


@dataclass
class Node:
    """An agent whose snapshot a scene can change."""

    snapshot: Snapshot

    def serve(self) -> WebServer:
        server = WebServer(WebSettings(LOOPBACK), lambda: replace(self.snapshot, at=now()), table_stats, now)
        last = int(now().boot_s // STEP_S)
        for ago in range(250, 0, -1):
            busy = ago % 17 == 0
            server._history._steps.append(Step(last - ago, 9_000 + 40 * (250 - ago), 11.2 * busy, 2 * busy, 1 * busy))
        server.start()
        return server


def play(node: Node, scene: Scene) -> None:
    program = chromium()
    if program is None:
        missing = "needs chromium, from the Debian package of that name"
        pytest.fail(missing) if os.environ.get("CTCTL_REQUIRE_LAB") else pytest.skip(missing)
    server = node.serve()
    host, port = server.addresses[0]

    async def run() -> None:
        async with browsing(program) as browser:
            await scene(browser, f"http://{host}:{port}/")
            assert browser.complaints == []

    try:
        asyncio.run(run())
    finally:
        server.stop()


REFRESH = "document.dispatchEvent(new Event('visibilitychange'))"


async def shown(browser: Browser, text: str) -> None:
    """Wait until the page says `text`."""
    for _ in range(100):
        if text in await browser.run("document.body.innerText"):
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"{text!r} is not shown")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 820, 1280])
def test_it_fits_every_width_and_complains_of_nothing(width: int, scheme: str, tmp_path: Path) -> None:
    pictures: list[bytes] = []

    async def scene(browser: Browser, url: str) -> None:
        await browser.look(width, scheme)
        await browser.open(url)
        assert await browser.run("document.documentElement.scrollWidth") <= width
        back = await browser.run("getComputedStyle(document.body).backgroundColor")
        brightness = sum(int(part) for part in back.removeprefix("rgb(").removesuffix(")").split(",")) / 3
        assert (brightness > 128) == (scheme == "light")
        assert await browser.run("document.querySelectorAll('svg .bar').length") > 20
        pictures.append(await browser.picture())

    play(Node(busy_snapshot()), scene)
    Path(os.environ.get("CTCTL_ARTIFACTS", tmp_path), f"status-{width}-{scheme}.png").write_bytes(pictures[0])


def test_hostile_names_do_nothing_and_do_not_break_the_layout(tmp_path: Path) -> None:
    async def scene(browser: Browser, url: str) -> None:
        await browser.look(390, "light")
        await browser.open(url)
        assert await browser.run("document.documentElement.scrollWidth") <= 390
        assert await browser.run("document.images.length") == 0
        await browser.run(REFRESH)
        await browser.run("new Promise(done => setTimeout(done, 500))")
        assert await browser.run("document.images.length") == 0

    play(Node(hostile_snapshot()), scene)


def test_it_refreshes_in_place_and_keeps_focus_scroll_and_nodes() -> None:
    node = Node(busy_snapshot())

    async def scene(browser: Browser, url: str) -> None:
        await browser.look(820, "light")
        await browser.open(url)
        await browser.run(
            "window.kept = document.querySelector('#holders table'); scrollTo(0, 400);"
            "document.querySelector('.scroll').focus({preventScroll: true})"
        )
        node.snapshot = replace(node.snapshot, is_paused=True)
        await browser.run(REFRESH)
        await shown(browser, "Flushing is paused")
        assert await browser.run("window.kept === document.querySelector('#holders table')")
        assert await browser.run("document.activeElement.className") == "scroll"
        assert await browser.run("scrollY") == 400

    play(node, scene)


def test_it_refreshes_by_itself() -> None:
    node = Node(busy_snapshot())

    async def scene(browser: Browser, url: str) -> None:
        await browser.open(url)
        node.snapshot = replace(node.snapshot, is_braked=True)
        for _ in range(3):
            await asyncio.sleep(2)
        await shown(browser, "mass-change brake")

    play(node, scene)


def test_it_says_when_the_agent_no_longer_answers() -> None:
    async def scene(browser: Browser, url: str) -> None:
        await browser.open(url)
        await browser.run("window.fetch = () => Promise.reject(new Error('gone'))")
        await browser.run(REFRESH)
        await shown(browser, "no answer from ctctl")
        assert await browser.run("document.body.classList.contains('lost')")

    play(Node(busy_snapshot()), scene)


def test_everything_can_be_reached_and_used_by_keyboard() -> None:
    async def scene(browser: Browser, url: str) -> None:
        await browser.open(url)
        await browser.press("Tab", "Tab")
        assert await browser.run("document.activeElement.id") == "refresh"
        assert await browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        await browser.press(" ", "Space", " ")
        assert await browser.run("document.activeElement.getAttribute('aria-pressed')") == "true"
        assert await browser.run("document.activeElement.textContent") == "Resume refresh"
        reached = []
        for _ in range(5):
            await browser.press("Tab", "Tab")
            reached.append(await browser.run("document.activeElement.ariaLabel || document.activeElement.textContent"))
        assert reached == ["Largest routers", "Largest zones", "Metrics", "Readiness", "Liveness"]

    play(Node(busy_snapshot()), scene)


def test_a_screen_reader_finds_its_way() -> None:
    async def scene(browser: Browser, url: str) -> None:
        await browser.open(url)
        spoken = await browser.spoken()
        roles = {role for role, _ in spoken}
        assert {"main", "banner", "contentinfo", "navigation", "heading", "status", "table", "image"} <= roles
        regions = [name for role, name in spoken if role == "region"]
        assert {"What is wrong", "The last hour", "Who holds the most entries", "What ctctl saw and did"} <= set(
            regions
        )
        assert all(name for role, name in spoken if role in ("image", "button", "link", "region", "heading", "table"))
        assert [name for role, name in spoken if role == "table"] == ["Largest routers", "Largest zones"]
        (meter,) = [name for role, name in spoken if role == "meter"]
        assert meter == "Table in use"

    play(Node(busy_snapshot()), scene)
