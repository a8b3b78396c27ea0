"""A private etcd for tests: own ports, own data folder, real process.

``Etcd`` is a plain class, so that tests that kill and restart it (and tools outside pytest) can use it too::

    with Etcd() as etcd:
        ...  # etcd.endpoint is "127.0.0.1:PORT"
        etcd.kill()      # SIGKILL, the data stays
        etcd.restart()   # the same data on the same ports

Every method is blocking and ends only the process that this object started. In an asyncio test use
``await asyncio.to_thread(etcd.restart)`` where the loop must go on meanwhile.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

START_TIMEOUT = 20.0
"""Seconds until an etcd that does not answer counts as failed."""


def have_etcd() -> bool:
    """Tell whether an etcd binary is on the path."""
    return shutil.which("etcd") is not None


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


@dataclass(frozen=True)
class TLSFiles:
    """Paths of a throw-away CA and of one certificate, good for the server and for clients."""

    ca: Path
    cert: Path
    key: Path


def make_tls(folder: Path) -> TLSFiles:
    """Write a CA and a certificate for 127.0.0.1 and localhost below `folder`."""
    now = datetime.datetime.now(datetime.UTC)

    def name(common: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])

    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = (
        x509.CertificateBuilder()
        .subject_name(name("test-ca"))
        .issuer_name(name("test-ca"))
        .public_key(ca_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    cert = (
        x509.CertificateBuilder()
        .subject_name(name("etcd"))
        .issuer_name(name("test-ca"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
            ),
            critical=False,
        )
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    files = TLSFiles(folder / "ca.crt", folder / "etcd.crt", folder / "etcd.key")
    files.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    files.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


class Etcd:
    """One etcd process with everything of its own; see the module.

    `arguments` are further flags (``--quota-backend-bytes=…``). With `tls` it demands client certificates.
    `initial_cluster` and `name` make it a member of a larger cluster (see :func:`cluster`).
    """

    def __init__(
        self,
        *,
        arguments: tuple[str, ...] = (),
        tls: bool = False,
        fsync: bool = True,
        name: str = "default",
        ports: tuple[int, int] | None = None,
        initial_cluster: str = "",
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wharf-etcd-"))
        self.client_port, self.peer_port = ports or tuple(free_ports(2))
        self.tls = make_tls(self.folder) if tls else None
        self.name = name
        self._arguments = arguments
        self._fsync = fsync
        self._initial_cluster = initial_cluster
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """``host:port`` for clients."""
        return f"127.0.0.1:{self.client_port}"

    @property
    def pid(self) -> int:
        """The process id; an error when it does not run."""
        if self._process is None:
            raise RuntimeError("etcd is not running")
        return self._process.pid

    @property
    def version(self) -> str:
        """As the binary says: ``3.4.23``."""
        done = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=True)
        return done.stdout.split()[2]

    @property
    def log(self) -> Path:
        """What the process printed, over all its lives."""
        return self.folder / "etcd.log"

    def start(self, *, wait: bool = True) -> Self:
        """Start the process on the data that is there; with `wait` return when it answers."""
        if self._process is not None:
            raise RuntimeError(f"etcd is running already, pid {self._process.pid}")
        scheme = "https" if self.tls else "http"
        client, peer = f"{scheme}://{self.endpoint}", f"http://127.0.0.1:{self.peer_port}"
        command = [
            "etcd", "--name", self.name, "--data-dir", str(self.folder / "data"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", self._initial_cluster or f"{self.name}={peer}",
            "--logger", "zap", "--log-level", "warn",
        ]  # fmt: skip
        if self.tls:
            command += [
                "--cert-file", str(self.tls.cert), "--key-file", str(self.tls.key),
                "--trusted-ca-file", str(self.tls.ca), "--client-cert-auth",
            ]  # fmt: skip
        if not self._fsync:
            command.append("--unsafe-no-fsync")
        command += self._arguments
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout: float = START_TIMEOUT) -> None:
        """Return when the process serves clients; raise RuntimeError with its log when it does not."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            if self._healthy():
                return
            time.sleep(0.02)
        raise RuntimeError(f"etcd did not start; its log ends with:\n{self.log.read_text()[-3000:]}")

    def _healthy(self) -> bool:
        # A linearizable read answers only once there is a leader; a listening port alone would be too early.
        arguments = ["etcdctl", "--endpoints", ("https://" if self.tls else "http://") + self.endpoint]
        if self.tls:
            arguments += ["--cacert", str(self.tls.ca), "--cert", str(self.tls.cert), "--key", str(self.tls.key)]
        arguments += ["--command-timeout=2s", "--dial-timeout=1s", "get", "\x01health"]
        try:
            with socket.create_connection(("127.0.0.1", self.client_port), timeout=1):
                pass
        except OSError:
            return False
        env = {**os.environ, "ETCDCTL_API": "3"}
        return subprocess.run(arguments, env=env, capture_output=True, check=False).returncode == 0

    def kill(self) -> None:
        """SIGKILL: as if the power failed. The data stays."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM and wait. The data stays."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def pause(self) -> None:
        """SIGSTOP: alive, connected, and silent."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT after :meth:`pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self, *, kill: bool = True, wait: bool = True) -> None:
        """End the process (SIGKILL, or SIGTERM when not `kill`) and start it on the same data and ports."""
        if kill:
            self.kill()
        else:
            self.terminate()
        self.start(wait=wait)

    def stop(self) -> None:
        """End the process and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ctl(self, *arguments: str) -> str:
        """Run etcdctl against it and return what it printed."""
        command = ["etcdctl", "--endpoints", ("https://" if self.tls else "http://") + self.endpoint]
        if self.tls:
            command += ["--cacert", str(self.tls.ca), "--cert", str(self.tls.cert), "--key", str(self.tls.key)]
        env = {**os.environ, "ETCDCTL_API": "3"}
        done = subprocess.run([*command, *arguments], env=env, capture_output=True, text=True, check=True)
        return done.stdout

    def __enter__(self) -> Self:
        return self if self._process else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def cluster(members: int = 3) -> list[Etcd]:
    """Start a cluster of several members on this host; stop each of them."""
    ports = free_ports(2 * members)
    pairs = [(ports[2 * i], ports[2 * i + 1]) for i in range(members)]
    initial = ",".join(f"m{i}=http://127.0.0.1:{peer}" for i, (_, peer) in enumerate(pairs))
    made = [Etcd(name=f"m{i}", ports=pair, initial_cluster=initial) for i, pair in enumerate(pairs)]
    try:
        for member in made:
            member.start(wait=False)
        for member in made:
            member.wait_ready()
    except BaseException:
        for member in made:
            member.stop()
        raise
    return made
