"""What ``wharf`` does with streams, on a real node: run, exec, attach, cp, port-forward."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.conformance.conftest import Stage
from tests.conformance.test_kubectl_streams import SECONDS, read_until
from wharfinger.devtools.images import BUSYBOX_IMAGE


class Wharf:
    """Runs it in a namespace."""

    def __init__(self, stage: Stage, namespace: str) -> None:
        self.environment = {**os.environ, "KUBECONFIG": str(stage.cluster.kubeconfig), "PYTHONUNBUFFERED": "1"}
        self._namespace = namespace

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "wharfinger.cli.main", "-n", self._namespace, *arguments]

    def __call__(self, *arguments: str, stdin: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            self.command(*arguments), env=self.environment, input=stdin, capture_output=True, timeout=90, check=False
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout!r}\n{done.stderr!r}"
        return done


@pytest.fixture(scope="module")
def wharf(stage: Stage) -> Wharf:
    namespace = stage.namespace("wharf")
    serve = "mkdir /www; echo it works > /www/index.html; exec httpd -f -p 8080 -h /www"
    stage.pod(namespace, "web", "sh", "-c", serve)
    return Wharf(stage, namespace)


def test_exec(wharf: Wharf) -> None:
    done = wharf("exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 3", code=3)
    assert (done.stdout, done.stderr) == (b"out\n", b"err\ncommand terminated with exit code 3\n")
    data = os.urandom(1 << 20)
    assert wharf("exec", "-i", "web", "--", "cat", stdin=data).stdout == data
    assert b"not found" in wharf("exec", "web", "--", "no-such-program", code=1).stderr


def test_a_terminal_of_a_pod_that_goes_with_its_session(wharf: Wharf) -> None:
    ours, theirs = pty.openpty()
    arguments = ("run", "shell", "-it", "--rm", f"--image={BUSYBOX_IMAGE}", "--restart=Never", "--command", "--", "sh")
    process = subprocess.Popen(
        wharf.command(*arguments), env=wharf.environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    read_until(ours, b"try pressing enter")  # the prompt was there before us
    os.write(ours, b"echo $((40 + 2)); exit 7\n")
    read_until(ours, b"\r\n42\r\n")
    read_until(ours, b'pod "shell" deleted')
    assert process.wait(SECONDS) == 7
    os.close(ours)
    os.close(theirs)
    assert b"NotFound" in wharf("get", "pod", "shell", code=1).stderr


def test_run_of_what_ends_at_once(wharf: Wharf) -> None:
    arguments = ("run", "hello", f"--image={BUSYBOX_IMAGE}", "--restart=Never", "--attach", "--rm", "-q", "--command")
    done = wharf(*arguments, "--", "sh", "-c", "echo hello; exit 4", code=4)
    assert done.stdout == b"hello\n"
    assert wharf("run", "later", f"--image={BUSYBOX_IMAGE}", "--", "sleep", "1").stdout == b"pod/later created\n"


def test_cp(wharf: Wharf, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "big").write_bytes(os.urandom(3 << 20))
    (source / "sub" / "small").write_bytes(b"x")
    wharf("cp", str(source), "web:/tmp")
    wharf("cp", str(source / "big"), "web:/tmp/other", "--no-preserve")
    for there in ("/tmp/source/big", "/tmp/other"):
        wharf("cp", f"web:{there}", str(tmp_path / "back"))
        assert (tmp_path / "back").read_bytes() == (source / "big").read_bytes()
    wharf("cp", "web:/tmp/source", str(tmp_path / "folder"))
    assert (tmp_path / "folder" / "sub" / "small").read_bytes() == b"x"
    assert b"No such file" in wharf("cp", "web:/nothing", str(tmp_path / "nothing"), code=1).stderr


def test_port_forward(wharf: Wharf) -> None:
    process = subprocess.Popen(
        wharf.command("port-forward", "web", ":8080", "--address=127.0.0.1"), env=wharf.environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        local = re.findall(r"127\.0\.0\.1:(\d+)", read_until(process.stdout.fileno(), b"-> 8080\n").decode())[0]
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=SECONDS) as answer:
                assert answer.read() == b"it works\n"
    finally:
        process.kill()
        process.communicate()
