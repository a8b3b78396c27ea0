"""A containerd of one's own for each node, so that one machine can be several nodes.

Each :class:`NodeRuntime` has its own root, state, socket, CNI configuration and cgroup parent below one folder, and
(unless told otherwise) its own network namespace, joined to the host and the other nodes by a bridge on the host: node
addresses and pod networks are reachable from all of them, as in a cluster of machines. What is needed later (to stop or
purge it from another process) stands in ``node.json`` in its folder.

Two settings matter wherever the capability SYS_RESOURCE is missing (containers, many CI machines): without
``restrict_oom_score_adj`` every sandbox fails, and without ``netns_mounts_under_state_dir`` the nodes would share the
folder of pod network namespaces.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc

from wharfinger.devtools import images
from wharfinger.proto.cri import runtime_v1_pb2 as cri
from wharfinger.proto.cri import runtime_v1_pb2_grpc as cri_grpc

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_SOCKET_PATH_LIMIT = 107


class DevtoolsError(RuntimeError):
    """Raised when the machine lacks something, or a process that was started does not do what it should."""


@dataclass(frozen=True)
class Switch:
    """A bridge on the host that joins nodes with each other and with the host."""

    name: str = "wharf0"
    """At most 15 characters, a limit of Linux."""
    network: str = "10.213.0.0/24"
    """The host has the first address, node number N the (10 + N)th."""

    @property
    def host_address(self) -> str:
        """Where nodes reach the host."""
        return str(ipaddress.ip_network(self.network)[1])

    def node_address(self, index: int) -> str:
        """Return the address of node number `index` (from 1)."""
        return str(ipaddress.ip_network(self.network)[10 + index])

    @property
    def prefix_length(self) -> int:
        """Bits of the network's prefix."""
        return ipaddress.ip_network(self.network).prefixlen

    def up(self) -> None:
        """Make the bridge and let the host route between it and pod networks; does nothing when it is there."""
        if not _quiet("ip", "link", "show", "dev", self.name):
            _run("ip", "link", "add", self.name, "type", "bridge")
            _run("ip", "address", "add", f"{self.host_address}/{self.prefix_length}", "dev", self.name)
        _run("ip", "link", "set", self.name, "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def down(self) -> None:
        """Remove the bridge; its routes go with it."""
        if _quiet("ip", "link", "show", "dev", self.name):
            _run("ip", "link", "delete", self.name)


@dataclass(frozen=True)
class NodeRuntime:
    """One containerd and the network namespace that it runs in; see :meth:`prepare`."""

    directory: str
    name: str
    netns: str
    """Empty: the host's own network namespace."""
    pod_cidr: str
    bridge: str
    """Name of the bridge between the node's pods, within its network namespace."""
    node_ip: str
    gateway: str
    """Where the node reaches the host; empty without a switch."""
    link: str
    """The host's end of the cable to the node; empty without a switch."""
    prefix_length: int
    prefix: str = "wharf"
    """Begins the names of the network namespace and the cgroup parent."""

    @classmethod
    def prepare(
        cls,
        directory: Path,
        *,
        name: str,
        index: int = 1,
        own_netns: bool = True,
        pod_cidr: str = "",
        bridge: str = "cni0",
        switch: Switch | None = None,
        prefix: str = "wharf",
    ) -> NodeRuntime:
        """Write the configuration of a node below `directory` and remember it there; starts nothing.

        With a `switch` the node gets the switch's address number `index`; without one it is an island that only
        Unix sockets reach. `pod_cidr` is by default ``10.244.<index>.0/24``. Raises DevtoolsError for a folder whose
        name is too long for a socket.
        """
        directory = directory.resolve()
        netns = f"{prefix}-{name}" if own_netns else ""
        node = cls(
            directory=str(directory),
            name=name,
            netns=netns,
            pod_cidr=pod_cidr or f"10.244.{index}.0/24",
            bridge=bridge,
            node_ip=switch.node_address(index) if switch and own_netns else "",
            gateway=switch.host_address if switch and own_netns else "",
            link=f"{switch.name[:10]}n{index}" if switch and own_netns else "",
            prefix_length=switch.prefix_length if switch else 24,
            prefix=prefix,
        )
        if len(str(node.socket)) > _SOCKET_PATH_LIMIT:
            raise DevtoolsError(
                f"{node.socket}: a socket's path may have {_SOCKET_PATH_LIMIT} bytes; use a shorter folder"
            )
        for folder in ("root", "state", "cni", "certs.d", "ipam", "opt", "pod-logs"):
            (directory / folder).mkdir(parents=True, exist_ok=True)
        (directory / "containerd.toml").write_text(node._config())
        (directory / "cni" / "10-wharf.conflist").write_text(node._cni())
        (directory / "switch.json").write_text(json.dumps(asdict(switch) if switch else None))
        (directory / "node.json").write_text(json.dumps(asdict(node), indent=1))
        return node

    @classmethod
    def load(cls, directory: Path) -> NodeRuntime:
        """Return the node that was prepared in `directory`, perhaps by another process.

        Raises FileNotFoundError when none was.
        """
        return cls(**json.loads((directory / "node.json").read_text()))

    # -- where things are

    @property
    def path(self) -> Path:
        """The node's folder."""
        return Path(self.directory)

    @property
    def socket(self) -> Path:
        """Containerd's CRI socket."""
        return self.path / "c.sock"

    @property
    def log_file(self) -> Path:
        """What containerd printed."""
        return self.path / "containerd.log"

    @property
    def pod_logs(self) -> Path:
        """For the agent's ``--pod-logs-dir``."""
        return self.path / "pod-logs"

    @property
    def cgroup_parent(self) -> str:
        """For the agent's ``--cgroup-parent``."""
        return f"/{self.prefix}/{self.name}"

    @property
    def pid(self) -> int | None:
        """The process id of containerd while it runs."""
        try:
            pid = int((self.path / "containerd.pid").read_text())
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ValueError, ProcessLookupError):
            return None
        return pid if str(self.path / "containerd.toml").encode() in arguments else None

    def in_netns(self, *command: str) -> list[str]:
        """Return `command` so that it runs in the node's network namespace (where its agent belongs)."""
        return ["nsenter", f"--net=/run/netns/{self.netns}", "--", *command] if self.netns else list(command)

    # -- life

    def start(self, *, timeout: float = 30) -> None:
        """Start containerd if it does not run, wait until it serves CRI, and load the local images once.

        It outlives the caller. Raises DevtoolsError with the end of its log when it does not come up in `timeout`
        seconds.
        """
        if self.pid is None:
            self._network_up()
            with self.log_file.open("ab") as log:
                process = subprocess.Popen(
                    self.in_netns("containerd", "-c", str(self.path / "containerd.toml")),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    cwd="/",
                )
            (self.path / "containerd.pid").write_text(str(process.pid))
            self._wait_ready(process, timeout)
        self._load_images()

    def stop(self, *, timeout: float = 20) -> None:
        """Stop containerd; pods go on running, as they do on a real node."""
        if (pid := self.pid) is not None:
            _end(pid, timeout)
        (self.path / "containerd.pid").unlink(missing_ok=True)

    def kill(self) -> None:
        """End containerd with SIGKILL, as a crash would."""
        if (pid := self.pid) is not None:
            os.kill(pid, signal.SIGKILL)
            _wait_gone(pid, 10)

    def purge(self) -> None:
        """Remove every pod, containerd, mounts, cgroups, the network namespace and the folder."""
        if (self.path / "node.json").exists():
            try:
                self.start()
                self.remove_pods()
            except (DevtoolsError, grpc.RpcError, subprocess.SubprocessError) as error:
                print(f"{self.name}: pods were not removed in order, ending them by force: {error}")
        self.stop()
        self._end_shims()
        unmount_below(self.path)
        _remove_cgroups(self.cgroup_parent)
        if self.link:
            _quiet("ip", "link", "delete", self.link)
        if self.netns and Path("/run/netns", self.netns).exists():
            _run("ip", "netns", "delete", self.netns)
        shutil.rmtree(self.path, ignore_errors=True)

    def remove_pods(self) -> None:
        """Stop and remove every pod sandbox with its containers, asking containerd itself."""
        with self._channel() as channel:
            runtime = cri_grpc.RuntimeServiceStub(channel)  # type: ignore[no-untyped-call]
            for sandbox in runtime.ListPodSandbox(cri.ListPodSandboxRequest(), timeout=20).items:
                runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox.id), timeout=60)
                runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id), timeout=60)

    # -- inside

    def _channel(self) -> grpc.Channel:
        return grpc.insecure_channel(f"unix:{self.socket}", options=[("grpc.default_authority", "localhost")])

    def _wait_ready(self, process: subprocess.Popen[bytes], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise DevtoolsError(
                    f"containerd of {self.name} ended with {process.returncode}: {_tail(self.log_file)}"
                )
            with self._channel() as channel:
                stub = cri_grpc.RuntimeServiceStub(channel)  # type: ignore[no-untyped-call]
                try:
                    status = stub.Status(cri.StatusRequest(), timeout=2).status
                except grpc.RpcError:
                    status = cri.RuntimeStatus()
            if status.conditions and all(condition.status for condition in status.conditions):
                return
            time.sleep(0.05)
        raise DevtoolsError(f"containerd of {self.name} was not ready after {timeout:g} s: {_tail(self.log_file)}")

    def _load_images(self) -> None:
        with self._channel() as channel:
            stub = cri_grpc.ImageServiceStub(channel)  # type: ignore[no-untyped-call]
            present = {
                tag for image in stub.ListImages(cri.ListImagesRequest(), timeout=20).images for tag in image.repo_tags
            }
        if {images.BUSYBOX_IMAGE, images.PAUSE_IMAGE} <= present:
            return
        archive = self.path / "images.tar"
        images.write_archive(archive, images.local_images(find_busybox()))
        _run("ctr", "--address", str(self.socket), "-n", "k8s.io", "images", "import", str(archive))
        archive.unlink()

    def _network_up(self) -> None:
        if not self.netns:
            return
        if not Path("/run/netns", self.netns).exists():
            _run("ip", "netns", "add", self.netns)
            _run("ip", "-n", self.netns, "link", "set", "lo", "up")
        _run(*self.in_netns("sysctl", "-q", "-w", "net.ipv4.ip_forward=1"))
        if self.link and not _quiet("ip", "link", "show", "dev", self.link):
            switch = Switch(**json.loads((self.path / "switch.json").read_text()))
            switch.up()
            _run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.netns)
            _run("ip", "link", "set", self.link, "master", switch.name, "up")
            _run("ip", "-n", self.netns, "address", "add", f"{self.node_ip}/{self.prefix_length}", "dev", "eth0")
            _run("ip", "-n", self.netns, "link", "set", "eth0", "up")
            # The host knows the way to every node's pods, so it is the router between nodes, too.
            _run("ip", "-n", self.netns, "route", "add", "default", "via", self.gateway)
            _run("ip", "route", "replace", self.pod_cidr, "via", self.node_ip)

    def _end_shims(self) -> None:
        """End what containerd's shims left when it could not be asked; they carry the socket in their arguments."""
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                arguments = (folder / "cmdline").read_bytes().split(b"\0")
                if b"containerd-shim" in arguments[0] and str(self.socket).encode() in arguments:
                    for child in _children(int(folder.name)):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(child, signal.SIGKILL)
                    os.kill(int(folder.name), signal.SIGKILL)

    def _config(self) -> str:
        path = self.directory
        return f"""\
version = 2
root = "{path}/root"
state = "{path}/state"
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{path}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{find_cni()}"
    conf_dir = "{path}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{path}/certs.d"
"""

    def _cni(self) -> str:
        bridge = {
            "type": "bridge",
            "bridge": self.bridge,
            "isGateway": True,
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                "dataDir": f"{self.directory}/ipam",
                "ranges": [[{"subnet": self.pod_cidr}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
        return json.dumps({"cniVersion": "0.4.0", "name": f"wharf-{self.name}", "plugins": [bridge, portmap]}, indent=1)


def find_busybox() -> Path:
    """Return the static busybox of this machine; raises DevtoolsError when there is none."""
    for candidate in ("/bin/busybox", "/usr/bin/busybox", "/usr/local/bin/busybox"):
        if Path(candidate).exists():
            return Path(candidate)
    raise DevtoolsError("no busybox: install the package busybox-static")


def find_cni() -> Path:
    """Return the folder of the CNI plugins; raises DevtoolsError when there is none."""
    for candidate in ("/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"):
        if Path(candidate, "bridge").exists():
            return Path(candidate)
    raise DevtoolsError("no CNI plugins: install the package containernetworking-plugins")


def unmount_below(folder: Path) -> None:
    """Unmount everything at or below `folder`, deepest first."""
    prefix = str(folder.resolve())
    points = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split(" ")[4].encode().decode("unicode_escape")
        if point == prefix or point.startswith(prefix + "/"):
            points.append(point)
    for point in reversed(points):
        _quiet("umount", "-l", point)


def _remove_cgroups(parent: str) -> None:
    roots = {*_CGROUP_ROOT.iterdir(), _CGROUP_ROOT} if _CGROUP_ROOT.exists() else set()
    for root in roots:
        top = Path(f"{root}{parent}")
        if root.is_symlink() or not top.is_dir():
            continue
        for folder in sorted((path for path in top.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts)):
            with contextlib.suppress(OSError):
                folder.rmdir()
        for folder in (top, top.parent):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _end(pid: int, timeout: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        if not _wait_gone(pid, timeout):
            os.kill(pid, signal.SIGKILL)
            _wait_gone(pid, 10)


def _wait_gone(pid: int, timeout: float) -> bool:
    """Wait until the process has ended, reaping it when it is our own child."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DevtoolsError(f"`{' '.join(command)}` failed with {done.returncode}: {done.stderr.strip()}")


def _quiet(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _tail(path: Path, size: int = 2000) -> str:
    return path.read_bytes()[-size:].decode(errors="replace") if path.exists() else "(no log)"
