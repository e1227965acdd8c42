"""A real Chromium, driven over its debugging protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp


def chromium() -> str | None:
    """The browser's program, None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page. `complaints`: everything the page wrote to the console, every exception and every refused load."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._loaded = asyncio.Event()
        self._session = ""
        self.complaints: list[str] = []

    async def listen(self) -> None:
        """Sort what the browser says; runs beside the scene."""
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                answer = self._answers.pop(said["id"])
                if "error" in said:
                    answer.set_exception(RuntimeError(said["error"]["message"]))
                else:
                    answer.set_result(said["result"])
            elif said["method"] in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(str(said["params"]))
            elif said["method"] == "Page.javascriptDialogOpening":
                self.complaints.append(f"dialog: {said['params']['message']}")
            elif said["method"] == "Page.loadEventFired":
                self._loaded.set()

    async def tell(self, method: str, **parameters: Any) -> Any:
        """One command and its result."""
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        command = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(command | ({"sessionId": self._session} if self._session else {}))
        return await asyncio.wait_for(answer, 60)

    async def attach(self) -> None:
        """Take hold of a new page."""
        target = await self.tell("Target.createTarget", url="about:blank")
        attached = await self.tell("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Accessibility"):
            await self.tell(f"{domain}.enable")

    async def open(self, url: str) -> None:
        """Go to `url` and wait until it is loaded."""
        self._loaded.clear()
        await self.tell("Page.navigate", url=url)
        await asyncio.wait_for(self._loaded.wait(), 60)

    async def run(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        told = await self.tell("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            raise RuntimeError(str(told["exceptionDetails"]))
        return told["result"].get("value")

    async def press(self, key: str, code: str, text: str = "") -> None:
        """One key, down and up."""
        for kind in ("keyDown", "keyUp"):
            await self.tell(
                "Input.dispatchKeyEvent", type=kind, key=key, code=code, text=text if kind == "keyDown" else ""
            )

    async def look(self, width: int, scheme: str) -> None:
        """Be a window of that width, in a light or dark colour scheme."""
        await self.tell(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        await self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def picture(self) -> bytes:
        """The whole page as a PNG."""
        shot = await self.tell("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    async def spoken(self) -> list[tuple[str, str]]:
        """(role, name) of everything a screen reader would meet, in order."""
        tree = await self.tell("Accessibility.getFullAXTree")
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree["nodes"]
            if not node["ignored"]
        ]


@asynccontextmanager
async def browsing(program: str) -> AsyncIterator[Browser]:
    """A browser without a window, with a profile of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            "--disable-background-networking", f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank",
            stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            address = await asyncio.wait_for(_debugging_address(process), 60)
            async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as socket:
                browser = Browser(socket)
                listening = asyncio.create_task(browser.listen())
                await browser.attach()
                yield browser
                listening.cancel()
        finally:
            process.terminate()
            await process.wait()


async def _debugging_address(process: asyncio.subprocess.Process) -> str:
    if process.stderr is None:
        raise RuntimeError("its standard error is not read")
    async for line in process.stderr:
        if b"DevTools listening on " in line:
            return line.decode().split()[-1]
    raise RuntimeError(f"the browser ended with {await process.wait()}")
