"""exec, attach and port-forward at the agent itself, over gRPC, to containers of a real containerd.

One cluster for all tests of this module. The apiserver's relays and clients' protocols have tests of their own
(``tests/integration``, ``tests/conformance``); here the first client is the agent's.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import grpc
import grpc.aio
import psutil
import pytest

from tests.support import containerd
from tests.support.clusters import started
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.client import Client, ClientConfig, ResourceClient
from wharfinger.devtools.cluster import SCHEDULER, Cluster, Settings
from wharfinger.proto.native import streams_v1_pb2 as native
from wharfinger.proto.native import streams_v1_pb2_grpc

pytestmark = pytest.mark.skipif(
    bool(containerd.why_not()), reason=f"cannot run containers here: {containerd.why_not()}"
)

EOF: Any = getattr(grpc.aio, "EOF")  # noqa: B009
MIB = 1 << 20
HTTP_GET = b"GET / HTTP/1.0\r\n\r\n"
SERVE = "mkdir -p /www; echo it works > /www/index.html; exec httpd -f -p %d -h /www"
PODS = {
    "box": "sleep 3600",
    "web": SERVE % 8080,
    "echo": "while read line; do echo heard $line; echo to stderr >&2; done; exit 5",
    "ended": "exit 0",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with started(Settings(nodes=1, without=[SCHEDULER])) as cluster:
        asyncio.run(make_pods(cluster))
        yield cluster


async def make_pods(cluster: Cluster) -> None:
    async with Client(ClientConfig.load(cluster.kubeconfig)) as client:
        pods = client.resource(core.Pod)
        for name, command in {**PODS, "host": SERVE % 18080}.items():
            pod = core.Pod()
            pod.metadata.name, pod.metadata.namespace = name, "default"
            pod.spec.nodeName, pod.spec.terminationGracePeriodSeconds = "node-1", 1
            pod.spec.restartPolicy = "Never"
            pod.spec.hostNetwork = name == "host"
            pod.spec.containers.add(
                name="c", image="wharf.local/busybox:1", command=["sh", "-c", command], stdin=name == "echo"
            )
            pod.spec.automountServiceAccountToken = False
            await until("the namespace has its account", partial(created, pods, pod))

        async def ready() -> bool:
            phases = {pod.metadata.name: pod.status.phase for pod in (await pods.list(namespace="default")).items}
            return phases == {name: "Succeeded" if name == "ended" else "Running" for name in phases}

        await until("the pods run", ready)


async def created(pods: ResourceClient[core.Pod], pod: core.Pod) -> bool:
    try:
        await pods.create(pod)
    except errors.ForbiddenError:
        return False
    return True


async def until(what: str, holds: Callable[[], Awaitable[bool]], seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while not await holds():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        await asyncio.sleep(0.05)


@asynccontextmanager
async def agent_of(cluster: Cluster, user: str = "apiserver-kubelet-client") -> AsyncIterator[Any]:
    pki = cluster.pki
    credentials = grpc.ssl_channel_credentials(
        (pki / "ca.crt").read_bytes(), (pki / f"{user}.key").read_bytes(), (pki / f"{user}.crt").read_bytes()
    )
    address = f"{cluster.runtime('node-1').node_ip}:10250"
    async with grpc.aio.secure_channel(address, credentials, options=[("grpc.http2.bdp_probe", 0)]) as channel:
        yield streams_v1_pb2_grpc.StreamsStub(channel)


@pytest.fixture
async def agent(cluster: Cluster) -> AsyncIterator[Any]:
    async with agent_of(cluster) as stub:
        yield stub


class Result:
    """What an exec or attach gave."""

    def __init__(self) -> None:
        self.stdout, self.stderr = bytearray(), bytearray()
        self.status: dict[str, Any] = {}

    @property
    def code(self) -> int:
        """The process's exit code."""
        if self.status["status"] == "Success":
            return 0
        assert self.status["reason"] == "NonZeroExitCode", self.status
        return int(next(one["message"] for one in self.status["details"]["causes"] if one["reason"] == "ExitCode"))


def opening(*command: str, pod: str = "box", **more: Any) -> native.StreamInput:
    settings: dict[str, Any] = {"stdout": True, "stderr": not more.get("tty"), **more}
    wanted = native.StreamOpen(namespace="default", pod=pod, command=command, **settings)
    return native.StreamInput(open=wanted)


async def begin(call: Any, message: Any) -> Any:
    """Open a call; raises what the agent says before it is open."""
    await call.write(message)
    first = await call.read()
    assert first.opened
    return call


async def outputs(call: Any, result: Result | None = None) -> Result:
    result = result or Result()
    while (output := await call.read()) is not EOF:
        match output.WhichOneof("output"):
            case "stdout":
                result.stdout += output.stdout
            case "stderr":
                result.stderr += output.stderr
            case "status":
                result.status = json.loads(output.status)
    return result


async def execute(agent: Any, *command: str, stdin: bytes | None = None, **more: Any) -> Result:
    call = await begin(agent.Exec(), opening(*command, stdin=stdin is not None, **more))
    if stdin is not None:
        await call.write(native.StreamInput(stdin=stdin))
        await call.write(native.StreamInput(close_stdin=True))
    return await outputs(call)


async def test_output_and_exit_code(agent: Any) -> None:
    result = await execute(agent, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.code) == (b"out\n", b"err\n", 3)
    result = await execute(agent, "true", container="c")
    assert (result.stdout, result.stderr, result.code) == (b"", b"", 0)


async def test_stdin_ends_where_the_client_ends_it(agent: Any) -> None:
    result = await execute(agent, "wc", "-c", stdin=bytes(3 * MIB))
    assert (result.stdout.strip(), result.code) == (b"%d" % (3 * MIB), 0)
    call = await begin(agent.Exec(), opening("cat", stdin=True))
    for word in (b"one", b"two"):  # an answer before the end
        await call.write(native.StreamInput(stdin=word))
        assert (await call.read()).stdout == word
    await call.done_writing()
    assert (await outputs(call)).code == 0


async def test_process_that_leaves_its_stdin_unread(agent: Any) -> None:
    # More than fits into a pipe would keep containerd 1.6 itself waiting for ever: see nodeagent/cri/streaming.py.
    result = await execute(agent, "true", stdin=bytes(40_000))
    assert result.code == 0
    call = await begin(agent.Exec(), opening("sh", "-c", "exec sleep 0.2", stdin=True))
    result = await outputs(call)  # its stdin is never closed
    assert result.code == 0


async def test_terminal(agent: Any) -> None:
    call = await begin(agent.Exec(), opening("sh", stdin=True, tty=True))
    await call.write(native.StreamInput(resize=native.TerminalSize(width=100, height=33)))
    result = Result()
    while b"33 100" not in result.stdout:  # the size arrives when it does
        await call.write(native.StreamInput(stdin=b"stty size; echo to stderr >&2\n"))
        result.stdout += (await call.read()).stdout
    await call.write(native.StreamInput(stdin=b"exit 4\n"))
    await outputs(call, result)
    assert b"to stderr\r\n" in result.stdout
    assert (result.stderr, result.code) == (b"", 4)


async def test_megabytes_and_a_client_that_does_not_read(cluster: Cluster, agent: Any) -> None:
    pid = cluster.pid("node-1")
    assert pid is not None
    before = psutil.Process(pid).memory_info().rss
    idle = await begin(agent.Exec(), opening("cat", "/dev/zero"))
    call = await begin(agent.Exec(), opening("dd", "if=/dev/zero", "bs=1M", "count=50", stderr=False))
    size = 0
    status = b""
    while (output := await call.read()) is not EOF:
        size += len(output.stdout)
        status = output.status
    assert size == 50 * MIB
    assert json.loads(status)["status"] == "Success"
    assert psutil.Process(pid).memory_info().rss < before + 40 * MIB
    idle.cancel()


async def test_many_at_once(agent: Any) -> None:
    results = await asyncio.gather(*(execute(agent, "sh", "-c", f"cat; exit {n}", stdin=b"%d" % n) for n in range(24)))
    assert [(bytes(result.stdout), result.code) for result in results] == [(b"%d" % n, n) for n in range(24)]


async def test_client_that_is_gone_ends_the_streams(agent: Any) -> None:
    call = await begin(agent.Exec(), opening("sh", "-c", "cat > /dev/null; echo over > /tmp/gone", stdin=True))
    call.cancel()

    async def over() -> bool:
        return (await execute(agent, "cat", "/tmp/gone")).stdout == b"over\n"

    await until("the process has read an end of file", over)


async def test_program_that_does_not_exist(agent: Any) -> None:
    result = await execute(agent, "/no/such/program")
    assert result.status["status"] == "Failure"
    assert result.status["reason"] == "InternalError"
    assert "no such file or directory" in result.status["message"]


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        (opening("true", pod="nobody"), "NOT_FOUND", '"nobody" not found'),
        (opening("true", container="d"), "INVALID_ARGUMENT", "container d is not valid"),
        (opening("true", uid="other"), "NOT_FOUND", '"box" not found'),
        (opening("true", pod="ended"), "NOT_FOUND", "container not found"),
        (opening(), "INVALID_ARGUMENT", "command"),
        (opening("true", stdout=False, stderr=False), "INVALID_ARGUMENT", "stdin, stdout"),
        (native.StreamInput(stdin=b"x"), "INVALID_ARGUMENT", "open"),
    ],
    ids=["pod", "container", "uid", "ended", "command", "streams", "first"],
)
async def test_refused_before_it_is_open(agent: Any, message: native.StreamInput, code: str, text: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match=text) as caught:
        await begin(agent.Exec(), message)
    assert caught.value.code().name == code


async def test_only_the_apiserver_and_administrators(cluster: Cluster) -> None:
    async with agent_of(cluster, "user-node-1") as agent:
        for method in (agent.Exec, agent.Attach, agent.PortForward):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await method().read()  # refused unheard; what is sent to a call that has ended may hide why it has
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_attach(agent: Any) -> None:
    call = await begin(agent.Attach(), opening(pod="echo", stdin=True))
    other = await begin(agent.Attach(), opening(pod="echo"))
    await call.write(native.StreamInput(stdin=b"hello\n"))
    for one in (call, other):
        result = Result()
        while not (result.stdout and result.stderr):
            output = await one.read()
            result.stdout += output.stdout
            result.stderr += output.stderr
        assert (result.stdout, result.stderr) == (b"heard hello\n", b"to stderr\n")
    other.cancel()
    call.cancel()


def forward(pod: str, port: int) -> native.ForwardInput:
    return native.ForwardInput(open=native.ForwardOpen(namespace="default", pod=pod, port=port))


async def answer(agent: Any, pod: str, port: int) -> bytes:
    call = await begin(agent.PortForward(), forward(pod, port))
    await call.write(native.ForwardInput(data=HTTP_GET))
    data, last = b"", None
    while (output := await call.read()) is not EOF:
        data += output.data
        last = output.WhichOneof("output")
    assert last == "closed"
    return data


async def test_connections_to_a_port(agent: Any) -> None:
    answers = await asyncio.gather(*(answer(agent, "web", 8080) for _ in range(10)))
    assert all(one.startswith(b"HTTP/1.1 200 OK") and one.endswith(b"it works\n") for one in answers)
    assert (await answer(agent, "host", 18080)).endswith(b"it works\n")


async def test_port_where_nobody_listens(agent: Any) -> None:
    call = await begin(agent.PortForward(), forward("web", 9))
    output = await call.read()
    assert "refused" in output.error
    assert await call.read() is EOF


@pytest.mark.parametrize(("pod", "port", "code"), [("nobody", 80, "NOT_FOUND"), ("web", 70_000, "INVALID_ARGUMENT")])
async def test_port_refused_before_it_is_open(agent: Any, pod: str, port: int, code: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await begin(agent.PortForward(), forward(pod, port))
    assert caught.value.code().name == code


async def test_half_closed_connection_is_answered(agent: Any) -> None:
    call = await begin(agent.PortForward(), forward("web", 8080))
    await call.write(native.ForwardInput(data=HTTP_GET))
    await call.write(native.ForwardInput(close=True))
    data = b""
    while (output := await call.read()) is not EOF:
        data += output.data
    assert data.endswith(b"it works\n")


async def test_runtime_that_goes_away_is_told(cluster: Cluster, agent: Any) -> None:
    call = await begin(agent.Exec(), opening("cat", stdin=True))
    cluster.kill("containerd-node-1")
    try:
        told = ""
        try:
            result = await outputs(call)
            told = f"{result.status['status']}: {result.status['message']}"
        except grpc.aio.AioRpcError as error:
            told = f"{error.code().name}: {error.details()}"
        assert "runtime" in told
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await begin(agent.Exec(), opening("true"))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        cluster.start("containerd-node-1")

    async def back() -> bool:
        try:
            return (await execute(agent, "true")).code == 0
        except grpc.aio.AioRpcError:
            return False

    await until("commands run again", back)
