"""Fixtures: a server for the whole folder, a namespace a test, and ``wharf`` as a process of its own."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd, have_etcd
from wharfinger import pki

_numbers = itertools.count(1)


@dataclass
class Wharf:
    """Runs ``wharf`` in a namespace, as a user would."""

    kubeconfig: Path
    namespace: str
    folder: Path

    def environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "wharfinger.cli.main", *arguments]

    def run(self, *arguments: str, stdin: str = "", code: int = 0) -> tuple[str, str]:
        """Run a command, check its exit code, and return what it printed on stdout and stderr."""
        done = subprocess.run(
            self.command(*arguments), env=self.environment(), input=stdin, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stdout, done.stderr

    def __call__(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        """Run a command and return its stdout (its stderr when it is to fail)."""
        out, err = self.run(*arguments, stdin=stdin, code=code)
        return err if code else out

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command that goes on; the caller ends it."""
        return subprocess.Popen(
            self.command(*arguments), env={**self.environment(), "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip


@pytest.fixture(scope="session")
def cli_server() -> Iterator[Apiserver]:
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    with Etcd() as etcd, Apiserver(etcd.endpoint) as server:
        yield server


@pytest.fixture
def wharf(cli_server: Apiserver, tmp_path: Path) -> Wharf:
    config = cli_server.config()
    namespace = f"cli-{next(_numbers)}"
    kubeconfig = pki.write_kubeconfig(
        tmp_path / "kubeconfig", server="https://127.0.0.1:1", grpc_endpoints=config.endpoints, ca=config.ca,
        cert=config.cert, key=config.key, namespace=namespace,
    )  # fmt: skip
    made = Wharf(kubeconfig, namespace, tmp_path)
    made("create", "-f", "-", stdin=f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n")
    return made
