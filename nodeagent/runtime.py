"""The seam between the agent and whatever runs containers.

Everything above this module deals in the values below and in the :class:`Runtime` protocol; :mod:`nodeagent.cri`
speaks to containerd, :mod:`nodeagent.hollow` keeps it all in memory. Times are nanoseconds since the epoch by the
node's clock, as CRI gives them; 0 means "not yet".
"""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

POD_NAME_LABEL = "io.kubernetes.pod.name"
POD_NAMESPACE_LABEL = "io.kubernetes.pod.namespace"
POD_UID_LABEL = "io.kubernetes.pod.uid"
CONTAINER_NAME_LABEL = "io.kubernetes.container.name"
HASH_ANNOTATION = "io.kubernetes.container.hash"
RESTART_COUNT_ANNOTATION = "io.kubernetes.container.restartCount"
TERMINATION_PATH_ANNOTATION = "io.kubernetes.container.terminationMessagePath"
TERMINATION_POLICY_ANNOTATION = "io.kubernetes.container.terminationMessagePolicy"
TERMINATION_FILE_ANNOTATION = "wharfinger.dev/termination-message-file"
GRACE_PERIOD_ANNOTATION = "io.kubernetes.pod.terminationGracePeriod"


class RuntimeFailure(Exception):  # noqa: N818  (a failure of the runtime; RuntimeError is taken)
    """Raised when the runtime refused or failed a call; the text is the runtime's."""


class RuntimeUnavailable(RuntimeFailure):
    """Raised when the runtime cannot be reached or does not answer in time."""


class RuntimeNotFound(RuntimeFailure):
    """Raised when the runtime knows no such sandbox, container or image."""


class RuntimeUnsupported(RuntimeFailure):
    """Raised when this kind of runtime can never do what is asked."""


class ContainerState(enum.Enum):
    """As CRI has them."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """A pod sandbox that the runtime knows."""

    id: str
    pod_uid: str
    pod_name: str
    pod_namespace: str
    attempt: int
    ready: bool
    created_at: int
    ips: tuple[str, ...] = ()
    host_network: bool = False


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """A container that the runtime knows, running or ended."""

    id: str
    sandbox_id: str
    pod_uid: str
    name: str
    """As in the pod's spec."""
    attempt: int
    state: ContainerState
    created_at: int
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    image: str = ""
    image_id: str = ""
    log_path: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """Of the parts of the spec that a restart takes to change."""
        return self.annotations.get(HASH_ANNOTATION, "")

    @property
    def restart_count(self) -> int:
        """How often the container had been restarted when this one was made."""
        text = self.annotations.get(RESTART_COUNT_ANNOTATION, "")
        return int(text) if text.isdecimal() else self.attempt


@dataclass(frozen=True, slots=True)
class PodRecord:
    """All that the runtime knows of one pod."""

    uid: str
    name: str = ""
    namespace: str = ""
    sandboxes: tuple[SandboxRecord, ...] = ()
    """Newest first."""
    containers: tuple[ContainerRecord, ...] = ()
    """Newest first."""

    def latest(self, name: str) -> ContainerRecord | None:
        """Return the newest container of that name."""
        return next((record for record in self.containers if record.name == name), None)

    def history(self, name: str) -> list[ContainerRecord]:
        """Return all containers of that name, newest first."""
        return [record for record in self.containers if record.name == name]

    @property
    def running(self) -> list[ContainerRecord]:
        """Containers that run, or may run."""
        return [c for c in self.containers if c.state in (ContainerState.RUNNING, ContainerState.UNKNOWN)]


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """An image on the node."""

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    size: int = 0
    """Bytes."""
    uid: int | None = None
    username: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeStatus:
    """Whether the runtime can start pods."""

    ready: bool
    network_ready: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeVersion:
    """Name and version, as in ``nodeInfo.containerRuntimeVersion``."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What a running container has used so far."""

    id: str
    name: str
    pod_uid: str
    pod_name: str
    pod_namespace: str
    cpu: int
    """Nanoseconds of processor time since it was started."""
    memory: int
    """Bytes of its working set."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command within a container gave."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""


@dataclass(frozen=True, slots=True)
class PortMapping:
    """A port of the node led to a port of the pod."""

    container_port: int
    host_port: int
    protocol: str = "TCP"
    host_ip: str = ""


@dataclass(frozen=True, slots=True)
class Resources:
    """cgroup limits; 0 means none."""

    cpu_shares: int = 0
    cpu_quota: int = 0
    cpu_period: int = 0
    memory_limit: int = 0
    oom_score_adj: int = 0


@dataclass(frozen=True, slots=True)
class Seccomp:
    """A seccomp profile: RuntimeDefault, Unconfined, or Localhost with the path of its file."""

    type: str = "Unconfined"
    path: str = ""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What a sandbox is made from."""

    name: str
    namespace: str
    uid: str
    attempt: int
    hostname: str
    log_directory: str
    cgroup_parent: str
    dns_servers: Sequence[str] = ()
    dns_searches: Sequence[str] = ()
    dns_options: Sequence[str] = ()
    port_mappings: Sequence[PortMapping] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_process_namespace: bool = False
    privileged: bool = False
    run_as_user: int | None = None
    run_as_group: int | None = None
    supplemental_groups: Sequence[int] = ()
    seccomp: Seccomp | None = None
    sysctls: Mapping[str, str] = field(default_factory=dict)
    runtime_handler: str = ""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the node within a container."""

    container_path: str
    host_path: str
    readonly: bool = False
    propagation: str = "None"
    """None, HostToContainer or Bidirectional."""


@dataclass(frozen=True, slots=True)
class Security:
    """What a container may."""

    privileged: bool = False
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_username: str = ""
    readonly_rootfs: bool = False
    add_capabilities: Sequence[str] = ()
    drop_capabilities: Sequence[str] = ()
    no_new_privileges: bool = False
    supplemental_groups: Sequence[int] = ()
    seccomp: Seccomp | None = None
    unmasked: bool = False
    """procMount Unmasked: no masked or read-only paths below /proc."""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What a container is made from."""

    name: str
    attempt: int
    image: str
    """Id or digest of an image on the node."""
    user_image: str
    """As the pod names it."""
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    working_dir: str = ""
    env: Sequence[tuple[str, str]] = ()
    mounts: Sequence[Mount] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    log_path: str = ""
    """Relative to the sandbox's log directory."""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    resources: Resources = Resources()
    security: Security = Security()
    pid_target: str = ""
    """The id of a container whose process namespace it shares."""


StreamOutput = tuple[str, bytes]
"""``stdout`` or ``stderr`` with bytes; at last ``status`` with a ``meta.v1.Status`` in JSON."""


class ProcessStreams(Protocol):
    """The streams of a process in a container. Writing raises ConnectionError when the process has ended."""

    async def stdin(self, data: bytes) -> None:
        """Send input, and wait while the process does not take it."""

    async def close_stdin(self) -> None:
        """Let the process read an end of file."""

    async def resize(self, width: int, height: int) -> None:
        """Set the columns and lines of its terminal."""

    def outputs(self) -> AsyncGenerator[StreamOutput, None]:
        """Yield what it writes, and at last its status. Raises RuntimeUnavailable when that breaks off."""

    async def close(self) -> None:
        """Leave it; what runs on is not ended by this."""


class PortStreams(Protocol):
    """A connection to a port of a pod. Writing raises ConnectionError when it has ended."""

    async def write(self, data: bytes) -> None:
        """Send, and wait while it is not taken."""

    async def write_eof(self) -> None:
        """Send no more."""

    async def read(self) -> bytes:
        """Return what has come; empty at the end."""

    async def failure(self) -> str:
        """Return, after the end, what went wrong; empty when nothing did."""

    async def close(self) -> None:
        """End it at once."""


class Runtime(Protocol):
    """What the agent asks of a container runtime. Every call may raise RuntimeFailure and its kinds."""

    async def version(self) -> RuntimeVersion:
        """Return the runtime's name and version."""

    async def status(self) -> RuntimeStatus:
        """Return whether pods can be started; never raises, an unreachable runtime is a status, too."""

    async def list_pods(self) -> Mapping[str, PodRecord]:
        """Return every pod by uid, without IPs, exit codes and times (those come from :meth:`inspect`)."""

    async def inspect(self, uid: str) -> PodRecord:
        """Return one pod in full; an empty record when nothing is known of it."""

    async def usage(self) -> Sequence[ContainerUse]:
        """Return what each running container has used; of runtimes that do not measure: nothing."""

    async def run_sandbox(self, spec: SandboxSpec) -> str:
        """Create and start a sandbox with its network; return its id."""

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox with all in it and release its network; it stays known. Does nothing when it is gone."""

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Forget a sandbox and its containers. Does nothing when it is gone."""

    async def create_container(self, sandbox_id: str, spec: ContainerSpec, sandbox: SandboxSpec) -> str:
        """Create a container, not started; return its id."""

    async def start_container(self, container_id: str) -> None:
        """Start a created container."""

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Ask a container to end, kill it after the grace; return when it has ended. Does nothing when it is gone."""

    async def remove_container(self, container_id: str) -> None:
        """Forget a container. Does nothing when it is gone."""

    async def exec(self, container_id: str, command: Sequence[str], timeout: float) -> ExecResult:
        """Run a command in a container to its end.

        Raises TimeoutError when it takes longer than `timeout` seconds.
        """

    async def open_exec(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> ProcessStreams:
        """Start a command in a running container and join its streams."""

    async def open_attach(
        self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> ProcessStreams:
        """Join the streams of a running container's first process."""

    async def open_port(self, sandbox_id: str, port: int) -> PortStreams:
        """Connect to a port within a sandbox's network; that nobody listens shows as its failure."""

    async def reopen_log(self, container_id: str) -> None:
        """Let the runtime open the container's log file anew, after it was renamed."""

    async def image(self, reference: str) -> ImageRecord | None:
        """Return an image on the node by any of its names."""

    async def list_images(self) -> Sequence[ImageRecord]:
        """Return all images on the node."""

    async def pull(self, reference: str, auth: Mapping[str, str] | None = None) -> str:
        """Fetch an image; return its id."""

    async def watch(self, changed: Callable[[str], None]) -> None:
        """Call `changed(pod uid)` (an empty uid: some pod) whenever something may have changed, for ever.

        Only a hint that spares waiting for the next relist: what is missed here is seen there.
        """

    async def close(self) -> None:
        """End connections."""
