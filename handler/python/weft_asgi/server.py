"""The Weft behind an app: one that runs elsewhere, or a child process, one for this process, which ends with it."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import IO

# A request waits so long for the start. Packages of the application that are installed first may take longer.
START_SECS = 60
# All requests come from one address.
ONE_ADDRESS = {"WEFT_STREAMS_PER_ADDRESS": "0"}


class Started:
    """A child process. It stops when its standard input ends: with `close`, or with this process, however that ends."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        # In a session of its own: Ctrl-C in a terminal reaches this process only.
        self.child = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", "0", "--json", "--tied"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**ONE_ADDRESS, **os.environ, **env},
            start_new_session=True,
        )
        self.url: Future[str] = Future()
        assert self.child.stdout is not None
        Thread(target=self._read, args=(self.child.stdout,), daemon=True).start()

    def _read(self, stdout: IO[bytes]) -> None:
        for line in stdout:
            if not self.url.done():
                self.url.set_result(json.loads(line)["url"])
        code = self.child.wait()
        if not self.url.done():
            self.url.set_exception(RuntimeError(f"Weft has ended with exit code {code}; it has printed why"))

    def close(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()
        self.child.wait()


_started: dict[tuple[Path, Path], Started] = {}


class Server:
    """Finds or starts a Weft."""

    def __init__(
        self,
        application: str | Path,
        data: str | Path,
        url: str | None,
        dev: bool,
        env: Mapping[str, str],
        command: Sequence[str] | None,
    ) -> None:
        self.url = None if url is None else url.rstrip("/")
        self._key = (Path(application).resolve(), Path(data).resolve())
        self._dev = dev
        self._env = env
        self._command = command

    async def ready(self) -> str:
        """Its URL, when it serves."""
        if self.url is not None:
            return self.url
        started = _started.get(self._key)
        if started is None or started.child.poll() is not None:
            application, data = self._key
            flags = ["dev" if self._dev else "start", "--app", str(application), "--data", str(data)]
            started = _started[self._key] = Started([*(self._command or find_command()), *flags], self._env)
        if started.url.done():
            return started.url.result()
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(started.url)), START_SECS)
        except TimeoutError:
            raise RuntimeError(f"Weft has not started within {START_SECS} s, and is still waited for") from None

    async def close(self) -> None:
        """Stops the Weft that was started here."""
        started = _started.pop(self._key, None) if self.url is None else None
        if started is not None:
            await asyncio.to_thread(started.close)


def find_command() -> list[str]:
    """That of the folder first, as npx does."""
    local = Path("node_modules/.bin/weft")
    found = str(local.resolve()) if local.exists() else shutil.which("weft")
    if found is None:
        raise RuntimeError("the command weft was not found: npm install weft-server, or give command= or url=")
    return [found]
