"""Programs that tests start as processes of their own, and end by their process id."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

BACKEND = Path(__file__).resolve().parents[1]
START_SECONDS = 30


class StandInModel:
    """The stand-in model server of `tests.standin_model`, for as long as the `with` block runs."""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.standin_model", "--port", "0"],
            cwd=BACKEND,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.base_url = f"http://127.0.0.1:{self._announced_port()}"
        self._client = httpx2.Client(base_url=self.base_url, timeout=30, trust_env=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
        self._end()

    @property
    def pid(self) -> int:
        return self.process.pid

    def control(self, mode: str = "answer", **settings: Any) -> None:
        """Set how the calls that follow are answered: `delay_seconds`, `answer`, `times`."""
        self._client.post("/control", json={"mode": mode, **settings}).raise_for_status()

    def calls(self, *, in_flight: int | None = None) -> dict[str, Any]:
        """What was asked so far; with `in_flight`, as soon as exactly that many calls are under way."""
        params = {} if in_flight is None else {"in_flight": in_flight}
        calls: dict[str, Any] = self._client.get("/control/calls", params=params).raise_for_status().json()
        if "timed_out" in calls:
            raise TimeoutError(f"{calls['in_flight']} calls are in flight, not {in_flight}")
        return calls

    def _announced_port(self) -> int:
        assert self.process.stdout is not None
        too_slow = threading.Timer(START_SECONDS, self.process.kill)
        too_slow.start()
        try:
            line = self.process.stdout.readline()
        finally:
            too_slow.cancel()
        if not line:
            self._end()
            raise RuntimeError("the stand-in model did not start")
        return int(json.loads(line)["port"])

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
