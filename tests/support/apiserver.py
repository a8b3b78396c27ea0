"""A private apiserver for tests: a real process over a real etcd, with an authority and users of its own.

::

    with Etcd() as etcd, Apiserver(etcd.endpoint) as server:
        async with server.client() as client:                       # a member of system:masters
            ...
        async with server.client("alice", ["devs"]) as client: ...  # any other user
        server.kill(); server.start()                               # SIGKILL; the same ports again

Blocking calls, like :mod:`tests.support.etcd`. Several servers may share a folder, and with it the authority.
"""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from tests.support.etcd import free_ports
from wharfinger import pki
from wharfinger.client import Client, ClientConfig

START_TIMEOUT = 40.0
TOKENS = 'admin-token,admin,u-admin,"system:masters"\nalice-token,alice,u-alice,"devs"\n'


class Apiserver:
    """One apiserver process; see the module. `flags` are further flags of ``wharf-apiserver``."""

    def __init__(self, etcd: str, *flags: str, folder: Path | None = None) -> None:
        self._own = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="wharf-apiserver-"))
        self.etcd = etcd
        self.flags = flags
        self._process: subprocess.Popen[bytes] | None = None
        self._ca = pki.ensure_ca(self.folder, "test-ca")
        pki.ensure_server(
            self._ca, self.folder, "apiserver", name="wharf-apiserver", dns=["localhost"], ips=["127.0.0.1"]
        )
        self._user("system:apiserver", ["system:masters"])
        (self.folder / "tokens.csv").write_text(TOKENS)
        self.grpc_port, self.token_port, self.secure_port = free_ports(3)
        self.log = self.folder / f"apiserver-{self.grpc_port}.log"

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, *, wait: bool = True) -> None:
        """Start the process, and wait until it is ready."""
        assert self._process is None
        folder = self.folder
        command = [
            sys.executable, "-m", "controlplane.apiserver.main",
            "--etcd-servers", self.etcd, "--bind-address", "127.0.0.1",
            "--grpc-port", str(self.grpc_port), "--grpc-token-port", str(self.token_port),
            "--secure-port", str(self.secure_port),
            "--tls-cert-file", str(folder / "apiserver.crt"), "--tls-private-key-file", str(folder / "apiserver.key"),
            "--client-ca-file", str(folder / "ca.crt"), "--token-auth-file", str(folder / "tokens.csv"),
            "--kubelet-client-certificate", str(folder / "system-apiserver.crt"),
            "--kubelet-client-key", str(folder / "system-apiserver.key"),
            "--shutdown-grace", "0.5", *self.flags,
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_TIMEOUT
        while wait and self.health("/readyz")[0] != 200:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the apiserver did not become ready:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.05)

    def health(self, path: str) -> tuple[int, str]:
        """Ask the health port; code 0 when nobody answers."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        try:
            with urllib.request.urlopen(
                f"https://127.0.0.1:{self.secure_port}{path}", timeout=5, context=context
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def kill(self) -> None:
        """End the process with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End the process in order."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def close(self) -> None:
        self.stop()
        if self._own:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _user(self, name: str, groups: list[str]) -> tuple[bytes, bytes]:
        stem = name.replace(":", "-")
        made = pki.ensure_client(self._ca, self.folder, stem, name=name, groups=groups)
        return Path(made.cert_path).read_bytes(), Path(made.key_path).read_bytes()

    def config(
        self, name: str = "admin", groups: list[str] | None = None, *, more: tuple[str, ...] = ()
    ) -> ClientConfig:
        """Return the configuration of a user's client; `more` are further endpoints."""
        cert, key = self._user(name, ["system:masters"] if groups is None else groups)
        ca = (self.folder / "ca.crt").read_bytes()
        return ClientConfig(endpoints=[self.endpoint, *more], ca=ca, cert=cert, key=key)

    def client(self, name: str = "admin", groups: list[str] | None = None, *, more: tuple[str, ...] = ()) -> Client:
        """Return a client of a user with a certificate; without groups: a master."""
        return Client(self.config(name, groups, more=more))

    def token_client(self, token: str) -> Client:
        """Return a client of the token port."""
        ca = (self.folder / "ca.crt").read_bytes()
        return Client(ClientConfig(endpoints=[f"127.0.0.1:{self.token_port}"], ca=ca, token=token))


def pause(pid: int) -> None:
    """Stop a process without ending it."""
    os.kill(pid, signal.SIGSTOP)


def resume(pid: int) -> None:
    """Let a stopped process go on."""
    os.kill(pid, signal.SIGCONT)
