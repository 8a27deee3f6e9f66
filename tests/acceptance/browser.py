"""A real headless Chromium, driven over the DevTools protocol with aiohttp's WebSocket; no further dependency."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    *("--hide-scrollbars", "--lang=zh-CN", "--remote-debugging-port=0", "--remote-allow-origins=*"),
)
_START_S = 30.0
_WAIT_S = 15.0


def chromium_path() -> str | None:
    """The browser's program, None when the machine has none."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab: evaluate, wait, type, click, take pictures; collects console errors and exceptions."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.create_task(self._read())
        self.errors: list[str] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One DevTools command and its result."""
        number = next(self._ids)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        try:
            answer = await asyncio.wait_for(waiting, _START_S)
        finally:
            del self._waiting[number]
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error'].get('message')}")
        result: dict[str, Any] = answer.get("result", {})
        return result

    async def open(self, url: str) -> None:
        """Go to a URL and wait until the page says it is ready."""
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)
        await self.wait("document.body && document.body.dataset.ready === 'yes'")

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"].get("exception", {}).get("description")))
        return result.get("result", {}).get("value")

    async def wait(self, expression: str, limit_s: float = _WAIT_S) -> Any:
        """Until the expression is true; raises TimeoutError that names it."""
        deadline = asyncio.get_running_loop().time() + limit_s
        while True:
            value = await self.evaluate(expression)
            if value:
                return value
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"never true within {limit_s:g} s: {expression}")
            await asyncio.sleep(0.05)

    async def click(self, selector: str, text: str = "") -> None:
        """A real mouse click in the middle of the element (the one whose text contains ``text``)."""
        find = (
            f"[...document.querySelectorAll({json.dumps(selector)})].filter(e => e.textContent.includes({json.dumps(text)})"
            " && e.getClientRects().length).pop()"
        )
        await self.wait(f"!!({find})")
        box = await self.evaluate(
            f"(() => {{ const e = {find}; e.scrollIntoView({{block: 'nearest'}}); const r = e.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    async def type(self, text: str) -> None:
        """Text into the focused element, then nothing else."""
        await self.call("Input.insertText", text=text)

    async def press(self, key: str) -> None:
        """One key, for example Enter, Tab or Escape."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9}
        more = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes.get(key, 0), **more
            )
            more = {}

    async def size(self, width: int, height: int, scale: float = 1.0) -> None:
        """Set the window's size in CSS pixels."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600
        )

    async def picture(self, path: Path) -> int:
        """Save a PNG of what is on the screen; returns its size in bytes."""
        shot = await self.call("Page.captureScreenshot", format="png")
        data = base64.b64decode(shot["data"])
        _save(path, data)
        return len(data)

    async def close(self) -> None:
        """Stop listening."""
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        await self._socket.close()

    async def _read(self) -> None:
        async for message in self._socket:
            data = json.loads(message.data)
            if "id" in data and (waiting := self._waiting.get(data["id"])) and not waiting.done():
                waiting.set_result(data)
            elif data.get("method") == "Runtime.exceptionThrown":
                details = data["params"]["exceptionDetails"]
                self.errors.append(str(details.get("exception", {}).get("description") or details.get("text")))
            elif data.get("method") == "Log.entryAdded" and data["params"]["entry"]["level"] == "error":
                self.errors.append(str(data["params"]["entry"]["text"]))


@contextlib.asynccontextmanager
async def browser_page(program: str) -> AsyncIterator[Page]:
    """A fresh browser with an empty profile and one tab."""
    profile = Path(tempfile.mkdtemp(prefix="yzchrome"))
    process = await asyncio.create_subprocess_exec(
        program,
        *_FLAGS,
        f"--user-data-dir={profile}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        port = await _port(profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tabs = [tab for tab in await answer.json() if tab["type"] == "page"]
            socket = await session.ws_connect(tabs[0]["webSocketDebuggerUrl"], max_msg_size=0, heartbeat=None)
            page = Page(socket)
            yield page
            await page.close()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), 5)
        except TimeoutError:
            process.kill()
            await process.wait()
        shutil.rmtree(profile, ignore_errors=True)


async def _port(file: Path) -> int:
    deadline = asyncio.get_running_loop().time() + _START_S
    while asyncio.get_running_loop().time() < deadline:
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int(_first_line(file))
        await asyncio.sleep(0.05)
    raise TimeoutError("Chromium did not open its DevTools port")


def _first_line(file: Path) -> str:
    return file.read_text().splitlines()[0]


def _save(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
