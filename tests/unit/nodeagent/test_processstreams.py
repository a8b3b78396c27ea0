"""Between a client's messages and a process, both of which are played here."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from nodeagent import processstreams
from nodeagent.hollow import HollowRuntime
from nodeagent.processstreams import EOF
from nodeagent.runtime import ContainerState, PodRecord, RuntimeFailure, RuntimeNotFound, RuntimeUnavailable
from tests.unit.nodeagent.podkit import container, make_pod, record
from wharfinger.api import errors
from wharfinger.proto.native import streams_v1_pb2 as native

STATUS = b'{"status":"Success"}'


class Context:
    """A call whose client sends `inputs`; `patient`: and then neither ends nor leaves."""

    def __init__(self, *inputs: Any, patient: bool = False) -> None:
        self._inputs, self._patient = list(inputs), patient
        self.written: list[Any] = []

    async def read(self) -> Any:
        if self._inputs:
            return self._inputs.pop(0)
        if self._patient:
            await asyncio.Event().wait()
        return EOF

    async def write(self, message: Any) -> None:
        self.written.append(message)


class Process:
    """Notes what it is told; ends when its stdin has ended, or at once."""

    def __init__(self, *, waits: bool = True, fails: Exception | None = None) -> None:
        self.told: list[Any] = []
        self._fails = fails
        self._over = asyncio.Event()
        if not waits:
            self._over.set()

    async def stdin(self, data: bytes) -> None:
        self.told.append(data)

    async def close_stdin(self) -> None:
        self.told.append("end")
        self._over.set()

    async def resize(self, width: int, height: int) -> None:
        self.told.append((width, height))

    async def outputs(self) -> Any:
        yield "stdout", b"out"
        yield "stderr", b"err"
        await self._over.wait()
        if self._fails is not None:
            raise self._fails
        yield "status", STATUS

    async def close(self) -> None:
        self.told.append("close")


def size(width: int, height: int) -> native.StreamInput:
    return native.StreamInput(resize=native.TerminalSize(width=width, height=height))


@pytest.mark.parametrize("last", [[native.StreamInput(close_stdin=True), native.StreamInput(stdin=b"late")], []])
async def test_process_from_its_start_to_its_end(last: list[native.StreamInput]) -> None:
    context = Context(native.StreamInput(stdin=b"in"), size(80, 24), *last)
    process = Process()
    await processstreams.serve_process(context, process, native.StreamOpen(stdin=True, tty=True))
    assert process.told == [b"in", (80, 24), "end", "close"]
    assert context.written == [
        native.StreamOutput(opened=True),
        native.StreamOutput(stdout=b"out"),
        native.StreamOutput(stderr=b"err"),
        native.StreamOutput(status=STATUS),
    ]


async def test_what_was_not_asked_for_is_not_passed_on() -> None:
    context = Context(native.StreamInput(stdin=b"in"), native.StreamInput(close_stdin=True), size(80, 24), patient=True)
    process = Process(waits=False)
    await processstreams.serve_process(context, process, native.StreamOpen(stdout=True))
    assert process.told == ["close"]


async def test_runtime_that_fails_midway_is_a_status() -> None:
    context = Context(patient=True)
    process = Process(waits=False, fails=RuntimeUnavailable("the runtime went away"))
    await processstreams.serve_process(context, process, native.StreamOpen(stdout=True))
    status = json.loads(context.written[-1].status)
    assert (status["status"], status["reason"]) == ("Failure", "InternalError")
    assert "the runtime went away" in status["message"]
    assert process.told == ["close"]


async def test_client_that_is_gone_leaves_nothing_behind() -> None:
    process = Process()
    task = asyncio.create_task(
        processstreams.serve_process(Context(patient=True), process, native.StreamOpen(stdout=True))
    )
    before = asyncio.all_tasks() - {task}
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert process.told == ["close"]
    assert asyncio.all_tasks() <= before


class Port:
    def __init__(self, *pieces: bytes, failure: str = "") -> None:
        self._pieces, self._failure = [*pieces, b""], failure
        self.told: list[Any] = []

    async def write(self, data: bytes) -> None:
        self.told.append(data)

    async def write_eof(self) -> None:
        self.told.append("end")

    async def read(self) -> bytes:
        while not self.told:
            await asyncio.sleep(0)
        return self._pieces.pop(0)

    async def failure(self) -> str:
        return self._failure

    async def close(self) -> None:
        self.told.append("close")


@pytest.mark.parametrize(
    ("failure", "last"), [("", native.ForwardOutput(closed=True)), ("refused", native.ForwardOutput(error="refused"))]
)
async def test_connection_to_a_port(failure: str, last: native.ForwardOutput) -> None:
    context, port = (
        Context(native.ForwardInput(data=b"get"), native.ForwardInput(close=True)),
        Port(b"got", failure=failure),
    )
    await processstreams.serve_port(context, port)
    assert port.told == [b"get", "end", "close"]
    assert context.written == [native.ForwardOutput(opened=True), native.ForwardOutput(data=b"got"), last]


class Agent:
    def __init__(self, runtime: Any) -> None:
        self.runtime = runtime


class Runtime:
    """Knows one pod; `fails` is what it raises instead."""

    def __init__(self, known: PodRecord, fails: Exception | None = None) -> None:
        self._known, self._fails = known, fails

    async def inspect(self, uid: str) -> PodRecord:
        if self._fails is not None:
            raise self._fails
        return self._known


class Worker:
    def __init__(self) -> None:
        self.pod, self.uid = make_pod("c"), "u1"


WANTED: dict[str, Any] = {"command": ["true"], "stdout": True}


async def open_process(runtime: Any, **wanted: Any) -> Any:
    agent: Any = Agent(runtime)
    worker: Any = Worker()
    return await processstreams.open_process(agent, worker, "c", native.StreamOpen(**wanted), attach=False)


@pytest.mark.parametrize(
    ("state", "text"),
    [(None, "has not been started yet"), (ContainerState.CREATED, "created"), (ContainerState.EXITED, "exited")],
)
async def test_container_that_does_not_run(state: ContainerState | None, text: str) -> None:
    known = record() if state is None else record(container("c", state))
    with pytest.raises(errors.NotFoundError, match=f'container not found \\("c"\\).*{text}'):
        await open_process(Runtime(known), **WANTED)


@pytest.mark.parametrize("wanted", [{"stdout": True}, {"command": ["true"]}], ids=["command", "streams"])
async def test_nothing_to_do(wanted: dict[str, Any]) -> None:
    with pytest.raises(errors.BadRequestError):
        await open_process(Runtime(record(container("c"))), **wanted)


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (RuntimeNotFound("x"), errors.NotFoundError),
        (RuntimeUnavailable("x"), errors.ServiceUnavailableError),
        (RuntimeFailure("x"), errors.InternalError),
    ],
)
async def test_failures_of_the_runtime(failure: Exception, raised: type[errors.StatusError]) -> None:
    with pytest.raises(raised):
        await open_process(Runtime(record(), failure), **WANTED)


async def test_hollow_containers_run_nothing() -> None:
    hollow = HollowRuntime()
    streams = {"stdin": False, "stdout": True, "stderr": False, "tty": False}
    for refused in (
        hollow.open_exec("x", ["true"], **streams), hollow.open_attach("x", **streams), hollow.open_port("x", 80)
    ):  # fmt: skip
        with pytest.raises(errors.BadRequestError, match="hollow node"):
            await processstreams.of_runtime(refused)


@pytest.mark.parametrize("port", [0, 65_536])
async def test_numbers_that_are_no_port(port: int) -> None:
    agent: Any = Agent(Runtime(record()))
    worker: Any = Worker()
    with pytest.raises(errors.BadRequestError, match="port"):
        await processstreams.open_port(agent, worker, port)
