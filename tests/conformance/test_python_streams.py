"""What the Python packages `kubernetes` and `lightkube` do with containers: logs, exec, attach, port-forward.

Against the cluster with a real node; the rest of their doings is in the folder ``python``.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.conftest import Stage

kubernetes = pytest.importorskip("kubernetes", reason="needs the extra `test` (pip install -e .[test])")
pytest.importorskip("lightkube", reason="needs the extra `test` (pip install -e .[test])")

from kubernetes import client as k8s  # noqa: E402
from kubernetes import config as k8s_config  # noqa: E402
from kubernetes import watch  # noqa: E402
from kubernetes.client.exceptions import ApiException  # noqa: E402
from kubernetes.stream import portforward, stream  # noqa: E402

SECONDS = 30
SCRIPT = "mkdir -p /www && echo from-the-pod > /www/index.html && httpd -p 8080 -h /www; echo begun; exec sleep 3600"


@pytest.fixture(scope="module")
def pod(stage: Stage) -> tuple[str, str]:
    """A namespace and a pod in it that serves HTTP."""
    namespace = stage.namespace("py")
    return namespace, stage.pod(namespace, "web", "sh", "-c", SCRIPT)


@pytest.fixture
def core(stage: Stage) -> Iterator[Any]:
    """A client of its own for each test: the package's `stream` exchanges the calls of the one that it is given."""
    settings = k8s.Configuration()
    k8s_config.load_kube_config(str(stage.cluster.kubeconfig), client_configuration=settings)
    with k8s.ApiClient(settings) as made:
        yield k8s.CoreV1Api(made)


def _exec(core: Any, pod: tuple[str, str], *command: str, **more: Any) -> Any:
    arguments = {"stdout": True, "stderr": True, "stdin": False, "tty": False} | more
    return stream(core.connect_get_namespaced_pod_exec, pod[1], pod[0], command=list(command), **arguments)


def test_logs(core: Any, pod: tuple[str, str]) -> None:
    namespace, name = pod
    assert core.read_namespaced_pod_log(name, namespace) == "begun\n"
    lines = watch.Watch().stream(core.read_namespaced_pod_log, name=name, namespace=namespace, tail_lines=1)
    assert next(lines) == "begun"
    with pytest.raises(ApiException) as refused:
        core.read_namespaced_pod_log(name, namespace, container="nobody")
    assert refused.value.status == 400


def test_exec_returns_output(core: Any, pod: tuple[str, str]) -> None:
    assert _exec(core, pod, "echo", "a", "b") == "a b\n"
    both = _exec(core, pod, "sh", "-c", "echo out; echo err >&2")
    assert sorted(both.split()) == ["err", "out"]
    large = _exec(core, pod, "sh", "-c", "seq 1 50000")
    assert large.split() == [str(number) for number in range(1, 50001)]


def test_exec_tells_streams_and_exit_codes_apart(core: Any, pod: tuple[str, str]) -> None:
    talk = _exec(
        core, pod, "sh", "-c", "read line; echo got $line; echo bad >&2; exit 7", stdin=True, _preload_content=False
    )
    talk.write_stdin("hello\n")
    talk.run_forever(timeout=SECONDS)
    assert (talk.read_stdout(), talk.read_stderr(), talk.returncode) == ("got hello\n", "bad\n", 7)
    talk.close()
    fine = _exec(core, pod, "true", _preload_content=False)
    fine.run_forever(timeout=SECONDS)
    assert fine.returncode == 0


def test_exec_with_a_terminal(core: Any, pod: tuple[str, str]) -> None:
    shell = _exec(core, pod, "sh", stdin=True, tty=True, _preload_content=False)
    shell.write_channel(4, '{"Width":111,"Height":33}')
    shell.write_stdin("until stty size | grep '33 111'; do sleep 0.1; done; exit\n")
    shell.run_forever(timeout=SECONDS)
    assert "33 111" in shell.read_stdout()
    shell.close()


def test_exec_where_it_cannot_be(core: Any, pod: tuple[str, str]) -> None:
    with pytest.raises(ApiException) as missing:
        _exec(core, (pod[0], "nobody"), "true")
    assert missing.value.status in (0, 404)  # the package reads no status out of a refused handshake
    assert "404" in str(missing.value)


def test_port_forward(core: Any, pod: tuple[str, str]) -> None:
    """An HTTP answer through it, as the package's own example does it: the forward is the connection's socket."""
    forward = portforward(core.connect_get_namespaced_pod_portforward, pod[1], pod[0], ports="8080,9")
    connection = forward.socket(8080)
    connection.setblocking(True)
    connection.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
    answer = b""
    while chunk := connection.recv(4096):
        answer += chunk
    connection.close()
    assert answer.endswith(b"from-the-pod\n")
    assert forward.error(8080) is None
    refused = forward.socket(9)
    refused.setblocking(True)
    assert refused.recv(10) == b""
    assert "9" in forward.error(9)


def test_port_forward_under_urllib(core: Any, pod: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(address: tuple[str, int], *_: Any, **__: Any) -> Any:
        forward = portforward(core.connect_get_namespaced_pod_portforward, pod[1], pod[0], ports=str(address[1]))
        return forward.socket(address[1])

    real = socket.create_connection

    def choose(address: tuple[str, int], *more: Any, **named: Any) -> Any:
        return connect(address) if address[0] == "the-pod" else real(address, *more, **named)

    monkeypatch.setattr(socket, "create_connection", choose)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open("http://the-pod:8080/index.html", timeout=SECONDS) as answer:
        assert answer.read() == b"from-the-pod\n"


# In a process of its own, whose last connection this is: when its WebSocket ends, this client's thread may write the
# farewell of TLS to the descriptor that another connection has got meanwhile (seen in a packet trace, httpx2 2.16).
LIGHTKUBE = """\
import json, sys, lightkube
kubeconfig, namespace, name, seconds = sys.argv[1:]
client = lightkube.Client(config=lightkube.KubeConfig.from_file(kubeconfig))
log = list(client.log(name, namespace=namespace))
done = client.exec(
    name, namespace=namespace, command=["sh", "-c", "cat; echo e >&2; exit 3"], stdin="in\\n", stdout=True, stderr=True,
    timeout=int(seconds),
)
print(json.dumps([log, done.stdout, done.stderr, done.exit_code]))
"""


def test_lightkube_logs_and_execs(stage: Stage, pod: tuple[str, str]) -> None:
    command = [sys.executable, "-c", LIGHTKUBE, str(stage.cluster.kubeconfig), *pod, str(SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["begun\n"], "in\n", "e\n", 3]
