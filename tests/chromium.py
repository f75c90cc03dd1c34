"""A page in headless Chromium, through its pipe for debugging: nothing has to be installed but the
browser."""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SWITCHES = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-quic --disable-extensions "
    "--disable-dev-shm-usage --remote-debugging-pipe"
).split()


def find_chromium() -> str | None:
    """The path of the browser, None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One tab of a headless browser; closed at the end of `with`."""

    def __enter__(self) -> "Browser":
        command = find_chromium()
        if command is None:
            raise FileNotFoundError(f"There is no browser; one of {', '.join(NAMES)} is needed.")
        self.folder = tempfile.TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True)
        (reads, self.writes), (self.reads, writes) = os.pipe(), os.pipe()
        inside = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (reads, writes)]

        def connect() -> None:
            os.dup2(inside[0], 3)
            os.dup2(inside[1], 4)

        self.process = subprocess.Popen(
            [command, *SWITCHES, f"--user-data-dir={self.folder.name}", "about:blank"],
            preexec_fn=connect,
            pass_fds=(3, 4),
            stderr=subprocess.DEVNULL,
        )
        for end in (reads, writes, *inside):
            os.close(end)
        self.number = 0
        self.rest = b""
        self.session = ""
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(20)
        os.close(self.writes)
        os.close(self.reads)
        self.folder.cleanup()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol, and its result."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        content = json.dumps(message).encode() + b"\0"
        while content:
            content = content[os.write(self.writes, content) :]
        while (answer := self.receive()).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def receive(self) -> dict[str, Any]:
        """The next message."""
        while b"\0" not in self.rest:
            block = os.read(self.reads, 1 << 20)
            if not block:
                raise RuntimeError("The browser has ended.")
            self.rest += block
        message, _, self.rest = self.rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def open(self, path: Path) -> None:
        """A file, from the disk and without network."""
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self.send("Network.emulateNetworkConditions", **offline)
        self.send("Page.navigate", url=path.resolve().as_uri())

    def run(self, expression: str) -> Any:
        """The value of an expression, awaited."""
        found = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def texts(self, selector: str) -> list[str]:
        """The texts of the elements that a selector finds."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        texts: list[str] = self.run(f"{found}.map((each) => each.textContent)")
        return texts

    def resize(self, width: int) -> None:
        """A narrow window is that of a phone."""
        self.width = width
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def overflow(self) -> int:
        """The pixels by which a page is wider than its window."""
        pixels: int = self.run("document.documentElement.scrollWidth")
        return pixels - self.width

    def wait(self, expression: str, seconds: float = 60) -> None:
        """Until an expression is true; raises TimeoutError."""
        end = time.monotonic() + seconds
        while not self.run(expression):
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{expression} did not become true; the page says: "
                    f"{self.run('document.body.innerText')}"
                )
            time.sleep(0.02)


def translated(browser: Browser, line: str, beam: int, more: str = "") -> tuple[str, float]:
    """What the page shows after a line was typed into it, and the milliseconds until then."""
    return tuple(
        browser.run(f"""(async () => {{
        const [source, beam] = [document.getElementById("source"), document.getElementById("beam")];
        const before = document.body.dataset.done || "0";
        beam.value = "{beam}";
        source.value = {json.dumps(line + more)};
        const start = performance.now();
        source.dispatchEvent(new Event("input"));
        while ((document.body.dataset.done || "0") === before) await new Promise((resolve) => setTimeout(resolve, 1));
        const text = [...document.querySelectorAll("#translation p")].map((each) => each.textContent).join("\\n");
        return [text, performance.now() - start];
    }})()""")  # noqa: E501
    )
