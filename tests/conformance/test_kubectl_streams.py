"""Stock kubectl binaries and streams of a real container: exec, attach, cp, port-forward, logs.

Up to 1.29 they speak SPDY only, from 1.30 WebSocket for exec, attach and cp, from 1.31 for port-forward, too.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.conftest import Kubectl, Stage, kubectl_binaries
from wharfinger.devtools.images import BUSYBOX_IMAGE

BINARIES = kubectl_binaries()
pytestmark = pytest.mark.skipif(not BINARIES, reason="needs kubectl on the path")
every_version = pytest.mark.parametrize("binary", BINARIES, ids=lambda path: path.name)
SECONDS = 30.0


@pytest.fixture(scope="module")
def namespace(stage: Stage) -> str:
    """A namespace with pods that all versions use: `web` serves a file, `echo` repeats what it hears."""
    namespace = stage.namespace("streams")
    serve = "mkdir /www; echo it works > /www/index.html; exec httpd -f -p 8080 -h /www"
    stage.pod(namespace, "web", "sh", "-c", serve)
    echo = "while read line; do echo heard $line; echo to stderr >&2; done"
    stage.pod(namespace, "echo", "sh", "-c", echo, stdin=True)
    stage.pod(namespace, "shell", "sh", stdin=True, tty=True)
    return namespace


@pytest.fixture
def kubectl(binary: Path, stage: Stage, namespace: str) -> Kubectl:
    return stage.kubectl(binary, namespace)


def read_until(descriptor: int, text: bytes) -> bytes:
    """Read until a text has come."""
    found = b""
    deadline = time.monotonic() + SECONDS
    while text not in found:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"waited in vain for {text!r}: {found!r}"
        piece = os.read(descriptor, 4096)
        assert piece, f"ended before {text!r}: {found!r}"
        found += piece
    return found


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A terminal of 80 columns and 24 lines: our end and the one for kubectl."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


@every_version
def test_exec(kubectl: Kubectl) -> None:
    done = kubectl.run("exec", "web", "--", "sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    data = os.urandom(1 << 20)
    assert kubectl.run("exec", "-i", "web", "--", "cat", stdin=data).stdout == data
    counted = kubectl.run("exec", "-i", "web", "--", "sh", "-c", "cat | wc -c", stdin=b"x" * 100_000)
    assert counted.stdout.split() == [b"100000"], "the end of stdin is heard"
    for code in (1, 3, 137):
        assert f"exit code {code}" in kubectl("exec", "web", "--", "sh", "-c", f"exit {code}", code=code)
    assert kubectl.run("exec", "web", "--", "dd", "if=/dev/zero", "bs=64k", "count=64").stdout == bytes(4 << 20)
    failure = kubectl.run("exec", "web", "--", "no-such-program", code=1).stderr
    assert b"no-such-program" in failure
    assert b"not found" in failure
    assert "not valid for pod" in kubectl("exec", "web", "-c", "ghost", "--", "true", code=1)
    assert "NotFound" in kubectl("exec", "ghost", "--", "true", code=1)


@every_version
def test_exec_with_a_terminal(kubectl: Kubectl, terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    process = kubectl.start("exec", "-it", "web", "--", "sh", stdin=theirs, stdout=theirs, stderr=theirs)
    read_until(ours, b"# ")
    os.write(ours, b"stty size; tty\n")
    assert b"24 80" in read_until(ours, b"/dev/pts/")
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 43, 132, 0, 0))
    process.send_signal(28)  # SIGWINCH: no terminal of ours controls it
    deadline = time.monotonic() + SECONDS
    while True:
        os.write(ours, b"stty size\n")
        if b"43 132" in read_until(ours, b"# "):
            break
        assert time.monotonic() < deadline
    os.write(ours, b"exit 5\n")
    assert process.wait(SECONDS) == 5


@every_version
def test_attach(kubectl: Kubectl, binary: Path, terminal: tuple[int, int]) -> None:
    process = kubectl.start("attach", "-i", "echo")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{binary.name}\n".encode())
    process.stdin.flush()
    read_until(process.stdout.fileno(), f"heard {binary.name}\n".encode())
    process.kill()
    process.communicate()
    ours, theirs = terminal
    process = kubectl.start("attach", "-it", "shell", stdin=theirs, stdout=theirs, stderr=theirs)
    os.write(ours, b"echo $((40 + 2))\n")
    read_until(ours, b"\r\n42\r\n")
    process.kill()
    process.communicate()


@every_version
def test_cp(kubectl: Kubectl, binary: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "big").write_bytes(os.urandom(3 << 20))
    (source / "sub" / "small").write_bytes(b"x")
    there = f"/tmp/{binary.name}"
    kubectl("cp", str(source), f"web:{there}")
    assert kubectl("exec", "web", "--", "cat", f"{there}/sub/small") == "x"
    kubectl("cp", f"web:{there}", str(tmp_path / "back"))
    for name in ("big", "sub/small"):
        assert (tmp_path / "back" / name).read_bytes() == (source / name).read_bytes()


@every_version
def test_port_forward(kubectl: Kubectl, binary: Path) -> None:
    process = kubectl.start(
        "port-forward", "pod/web", ":8080", ":8081", "--address=127.0.0.1", stdin=subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        text = read_until(process.stdout.fileno(), b"-> 8081\n").decode()
        good, bad = re.findall(r"127\.0\.0\.1:(\d+)", text)
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{good}/", timeout=SECONDS) as answer:
                assert answer.read() == b"it works\n"
        with pytest.raises(OSError):  # noqa: PT011  (a reset or an empty answer, by version)
            urllib.request.urlopen(f"http://127.0.0.1:{bad}/", timeout=SECONDS)
        read_until(process.stderr.fileno(), b"8081")
    finally:
        process.kill()
        process.communicate()


@every_version
def test_logs(kubectl: Kubectl, stage: Stage, namespace: str, binary: Path) -> None:
    name = f"log-{binary.name.replace('.', '-')}"
    stage.pod(namespace, name, "sh", "-c", "echo one; while [ ! -e /go ]; do sleep 0.1; done; echo two; sleep 3600")
    assert kubectl("logs", name) == "one\n"
    assert re.fullmatch(r"20\S+Z one\n", kubectl("logs", name, "--timestamps", "--tail=1"))
    process = kubectl.start("logs", "-f", name)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"one\n")
    kubectl("exec", name, "--", "touch", "/go")
    read_until(process.stdout.fileno(), b"two\n")
    kubectl("delete", "pod", name, "--wait=false")
    assert process.wait(SECONDS) == 0


@every_version
def test_run_with_stdin(kubectl: Kubectl, binary: Path) -> None:
    name = f"run-{binary.name.replace('.', '-')}"
    script = "read line; echo heard $line; exit 3"
    arguments = ("run", name, "-i", "--rm", "--restart=Never", f"--image={BUSYBOX_IMAGE}", "--command", "--")
    done = kubectl.run(*arguments, "sh", "-c", script, stdin=b"a line\n", code=3)
    assert b"heard a line\n" in done.stdout
    assert "NotFound" in kubectl("get", "pod", name, code=1)
