"""A headless Chromium by the WebDriver protocol: Debian's ``chromium-driver``, spoken to over HTTP."""

import base64
import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import which
from typing import Any

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1400,1000"]
PATIENCE_SECONDS = 90


class Browser:
    """One tab."""

    def __init__(self, driver: str) -> None:
        self._driver = driver
        options = {"browserName": "chrome", "goog:chromeOptions": {"args": ARGUMENTS}}
        session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        self._session = f"/session/{session['sessionId']}"

    def open(self, url: str) -> None:
        self._call("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """A function's body; what it returns."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script: str) -> Any:
        """Until the expression is true of the page; what it is then."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            found = self.run(f"return {script}")
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"after {PATIENCE_SECONDS} s still not: {script}")

    def press(self, selector: str, keys: str) -> None:
        found = self._call("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        self._call("POST", f"{self._session}/element/{found[ELEMENT]}/value", {"text": keys})

    def developer(self, command: str, **parameters: object) -> Any:
        """A command of Chrome's DevTools protocol."""
        return self._call("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def picture(self) -> bytes:
        """A PNG of what is seen."""
        return base64.b64decode(self._call("GET", f"{self._session}/screenshot"))

    def close(self) -> None:
        self._call("DELETE", self._session)

    def _call(self, method: str, path: str, value: object = None) -> Any:
        body = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(self._driver + path, body, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)["value"]


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser that goes with its driver, whatever happens."""
    program = which("chromedriver")
    assert program, "chromedriver is missing: apt-get install chromium chromium-driver"
    process = subprocess.Popen([program, "--port=0"], stdout=subprocess.PIPE, text=True)
    try:
        port = _port(process.stdout.readline if process.stdout else str)
        found = Browser(f"http://127.0.0.1:{port}")
        try:
            yield found
        finally:
            found.close()
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _port(line: Callable[[], str]) -> int:
    for text in iter(line, ""):
        if "started successfully on port" in text:
            return int(text.rstrip().rstrip(".").split()[-1])
    raise AssertionError("chromedriver ended before it listened")
