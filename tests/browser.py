"""A headless Chromium driven over its DevTools protocol, through a pipe, with nothing but the standard library."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PATIENCE = 30.0  # seconds for one answer

# The browser reads from file 3 and writes to file 4. Both ends are first moved out of the way of these numbers.
_START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page of a browser, and all that it complained of in `errors`. Chromium's messages end in a zero byte."""

    def __init__(self, program: str) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="browser", ignore_cleanup_errors=True)
        self._in, write_there = os.pipe()
        read_there, self._out = os.pipe()
        arguments = [program, "--headless", "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}"]
        arguments += ["--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            arguments.append("--no-sandbox")  # it refuses to run as root otherwise
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, str(read_there), str(write_there), *arguments],
            pass_fds=(read_there, write_there),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_there)
        os.close(write_there)
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.frames: list[str] = []  # sessions of the frames in the page, to `run` in
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True)

    def close(self) -> None:
        """End the browser."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._in)
        os.close(self._out)
        self.folder.cleanup()

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """The answer to one command, of the page or of one of its frames. Raises RuntimeError where it is refused."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if session := session or self._session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self._receive(end)
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
        raise TimeoutError(method)

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self._in, 1 << 16)
            if not piece:
                raise ConnectionError("the browser is gone")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, told = message.get("method"), message.get("params", {})
        self._events.append({"method": method})
        if method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(part.get("value")) for part in told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.errors.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Target.attachedToTarget" and told["targetInfo"]["type"] == "iframe":
            self.frames.append(told["sessionId"])

    # What a person does

    def open(self, path: Path, width: int = 1400, height: int = 900, dark: bool = False, still: bool = True) -> None:
        """Show a file in a window of a size, and wait until it is ready."""
        self.errors, self.requests, self.frames = [], [], []
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        features.append({"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"})
        self.send("Emulation.setEmulatedMedia", features=features)
        self._events = []
        self.send("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + PATIENCE
        while {"method": "Page.loadEventFired"} not in self._events:
            self._receive(end)
        self.settle()
        for frame in self.frames:
            for domain in ("Runtime", "Log"):
                self.send(f"{domain}.enable", session=frame)

    def settle(self) -> None:
        """Wait until what was begun is done and drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))")

    def run(self, script: str, frame: str | None = None) -> Any:
        """The value of an expression in the page or in a frame of it; promises are waited for."""
        answer = self.send("Runtime.evaluate", frame, expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def key(self, *keys: str, shift: bool = False) -> None:
        """Press keys one after the other, called as in KeyboardEvent.key."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39}
        codes |= {"ArrowDown": 40, "Home": 36, "End": 35}
        for name in keys:
            text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
            code = codes.get(name) or (ord(name.upper()) if len(name) == 1 else 0)
            more: dict[str, Any] = {"key": name, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
            self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **more)
            self.send("Input.dispatchKeyEvent", type="keyUp", **more)
        self.settle()

    def middle(self, selector: str) -> tuple[float, float]:
        """Where the middle of an element is. Raises RuntimeError where there is no such element."""
        box = self.run(f"(e => (b => [b.x + b.width / 2, b.y + b.height / 2])(e.getBoundingClientRect()))"
                       f"(document.querySelector({json.dumps(selector)}))")  # fmt: skip
        return box[0], box[1]

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """One event of the mouse: mousePressed, mouseReleased, mouseMoved or mouseWheel."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, start: tuple[float, float], by: tuple[float, float]) -> None:
        """Press, move and let go."""
        (x, y), (dx, dy) = start, by
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for part in (0.3, 0.6, 1.0):
            self.mouse("mouseMoved", x + dx * part, y + dy * part, button="left", buttons=1)
        self.mouse("mouseReleased", x + dx, y + dy, button="left", clickCount=1)
        self.settle()

    def write(self, text: str) -> None:
        """Type text where the focus is."""
        self.send("Input.insertText", text=text)
        self.settle()

    def move(self, selector: str) -> None:
        """Rest the mouse on an element."""
        self.mouse("mouseMoved", *self.middle(selector))
        self.settle()

    def click(self, selector: str) -> None:
        """Click on an element."""
        x, y = self.middle(selector)
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", buttons=1, clickCount=1)
        self.settle()
