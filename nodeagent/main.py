"""The daemon ``wharf-nodeagent``: one real node, or many hollow ones in one process."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from nodeagent import identity, joining, rootlock
from nodeagent.agent import AgentSettings, NodeAgent, Shared
from nodeagent.configsource import ApiConfigSource
from nodeagent.cri.runtime import CriRuntime
from nodeagent.fencing import Renewals
from nodeagent.heartbeat import Heartbeats
from nodeagent.hollow import HollowRuntime
from nodeagent.logrotation import LogRotation
from nodeagent.machine import Machine, read_machine
from nodeagent.metrics import RUNNING_CONTAINERS, RUNNING_PODS
from nodeagent.node import NodeSettings
from nodeagent.options import Options, parse
from nodeagent.podfeed import PodFeed
from nodeagent.runtime import ContainerState
from nodeagent.sandboxes import SandboxSettings
from nodeagent.statuswriter import StatusWriter
from nodeagent.streaming import StreamServer
from wharfinger import daemon
from wharfinger.client import Client, ClientConfig, ConfigError
from wharfinger.client.recorder import EventRecorder

log = logging.getLogger(__name__)

COMPONENT = "kubelet"
"""The name that events carry: tools look for it."""
STARTS_AT_ONCE = 50
_M_ARENA_MAX = -8
"""mallopt(3)."""
HOLLOW_RELIST_SECONDS = 600.0
HOLLOW_LOOK_SECONDS = 60.0
HOLLOW_CAPACITY = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi"}


def main(argv: Sequence[str] | None = None) -> None:
    """Run until SIGTERM or SIGINT. Ends with 1 and a message when the configuration is wrong."""
    options = parse(argv)
    _stay_small()
    daemon.setup_logging(options.log_level, options.log_format)
    try:
        rootlock.take(options.root_dir)
        if not options.bootstrap_kubeconfig:
            ClientConfig.load(options.kubeconfig, options.context)  # what is wrong is said at once
    except (ConfigError, rootlock.RootTakenError, OSError) as error:
        sys.exit(f"wharf-nodeagent: {error}")
    try:
        daemon.run(partial(run, options))
    except ConfigError as error:
        sys.exit(f"wharf-nodeagent: {error}")


async def run(options: Options, stop: asyncio.Event) -> None:
    """Join the cluster if need be, then serve. Raises ConfigError."""
    if options.bootstrap_kubeconfig and options.kubeconfig and joining.is_needed(options.kubeconfig):
        joined = daemon.spawn(
            joining.join(
                bootstrap=options.bootstrap_kubeconfig,
                kubeconfig=options.kubeconfig,
                directory=identity.directory_of(options),
                node=options.node_name or read_machine(options.root_dir).hostname,
            ),
            name="joining",
        )
        stopping = daemon.spawn(_stopped(stop), name="stop")
        await asyncio.wait([joined, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not joined.done():
            joined.cancel()
            return
        joined.result()
    await serve(options, ClientConfig.load(options.kubeconfig, options.context), stop)


def _stay_small() -> None:
    """Keep glibc from giving each of gRPC's threads a heap of its own: some 10 MB for nothing. Elsewhere: no effect."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)
    daemon.settle()


class _LoopPulse:
    """When the event loop last showed life, for the heartbeat's thread to see."""

    def __init__(self) -> None:
        self.seen = time.monotonic()

    async def beat(self) -> None:
        while True:
            self.seen = time.monotonic()
            await asyncio.sleep(0.5)


async def serve(options: Options, config: ClientConfig, stop: asyncio.Event) -> None:
    """Bring the node or nodes up and keep them so, until `stop` is set."""
    machine = read_machine(options.root_dir)
    pulse = _LoopPulse()
    renewals = None if options.hollow else Renewals(options.root_dir / "last-renewal")
    heartbeats = Heartbeats(
        config,
        interval=options.heartbeat_interval,
        loop_seen=lambda: pulse.seen,
        stall_seconds=options.heartbeat_stall_limit,
        acknowledged=renewals.acknowledged if renewals is not None else lambda at: None,
    )
    async with Client(config) as client:
        name = options.node_name or machine.hostname
        writer = client.writer()
        shared = Shared(
            client=client,
            writer=writer,
            statuses=StatusWriter(client, writer=writer),
            events=EventRecorder(client, component=COMPONENT, host="" if options.hollow else name),
            heartbeats=heartbeats,
            feed=PodFeed(client, node_name="" if options.hollow else name),
            source=ApiConfigSource(client),
            renewals=renewals,
        )
        agents = (
            _hollow_agents(shared, options, machine)
            if options.hollow
            else [_agent(shared, options, config, machine, name)]
        )
        serving = options.tls_cert_file or options.rotate_server_certificates
        streams = StreamServer(agents) if options.port and serving else None
        health = _health(options, agents, heartbeats)
        papers = identity.Identity(options, agents[0], client=client, heartbeats=heartbeats, streams=streams)
        tasks = [
            daemon.spawn(papers.run(), name="certificates"),
            daemon.spawn(pulse.beat(), name="pulse"),
            daemon.spawn(daemon.watchdog(), name="watchdog"),
            starting := daemon.spawn(_start(shared, agents), name="start"),
            stopping := daemon.spawn(_stopped(stop), name="stop"),
        ]
        if not options.hollow:
            rotation = LogRotation(
                agents[0].runtime, max_size=options.container_log_max_size, max_files=options.container_log_max_files
            )
            tasks.append(daemon.spawn(rotation.run(), name="log rotation"))
        heartbeats.start()
        try:
            if streams is not None and options.tls_cert_file:
                await streams.start(options)
            if health is not None:
                await health.start()
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()  # an agent that cannot begin must not stay as if it were one
                await stopping
        finally:
            daemon.notify("STOPPING=1")
            heartbeats.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if streams is not None:
                await streams.close()
            if health is not None:
                await health.close()
            await asyncio.gather(*(agent.close() for agent in agents))
            await shared.feed.close()
            await shared.statuses.settle(2.0)
            await shared.statuses.close()
            if isinstance(shared.events, EventRecorder):
                await shared.events.close()
            await writer.close()


async def _stopped(stop: asyncio.Event) -> None:
    await stop.wait()


async def _start(shared: Shared, agents: Sequence[NodeAgent]) -> None:
    gate = asyncio.Semaphore(STARTS_AT_ONCE)

    async def bring_up(agent: NodeAgent) -> None:
        async with gate:
            await agent.start()

    feed = daemon.spawn(shared.feed.start(), name="pod feed")
    await asyncio.gather(feed, *(bring_up(agent) for agent in agents))
    log.info("ready", extra={"nodes": len(agents)})
    daemon.notify("READY=1")


def _agent(shared: Shared, options: Options, config: ClientConfig, machine: Machine, name: str) -> NodeAgent:
    address = options.node_ip or _own_address(config.endpoints[0])
    settings = AgentSettings(
        node=NodeSettings(
            name=name,
            addresses=(address,),
            port=options.port,
            labels=options.node_labels,
            taints=options.register_with_taints,
            max_pods=options.max_pods,
            capacity=options.capacity,
            reserved=options.system_reserved,
        ),
        sandboxes=SandboxSettings(
            pod_logs_dir=options.pod_logs_dir.absolute(),
            cgroup_parent=options.cgroup_parent,
            resolv_conf=options.resolv_conf,
            cluster_dns=options.cluster_dns,
            cluster_domain=options.cluster_domain,
            seccomp_root=options.root_dir.absolute() / "seccomp",
        ),
        root_dir=options.root_dir.absolute(),
        services=service_variables(config.server),
        pod_pids_limit=max(0, options.pod_max_pids),
        allowed_sysctls=options.allowed_unsafe_sysctls,
        relist_seconds=options.relist_interval,
        look_seconds=options.node_status_update_frequency,
        full_seconds=options.node_status_report_frequency,
        quiet_seconds=2 * options.heartbeat_interval,
        monitor_grace_period=options.node_monitor_grace_period,
    )
    return NodeAgent(shared, settings, CriRuntime(options.runtime_endpoint), machine)


def _hollow_agents(shared: Shared, options: Options, machine: Machine) -> list[NodeAgent]:
    agents = []
    for number in range(1, options.hollow + 1):
        name = f"{options.hollow_prefix}{number}"
        settings = AgentSettings(
            node=NodeSettings(
                name=name,
                addresses=("127.0.0.1",),
                port=options.port,
                labels={"wharfinger.dev/hollow": "true", **options.node_labels},
                taints=options.register_with_taints,
                max_pods=options.max_pods,
                capacity={**HOLLOW_CAPACITY, **options.capacity},
                reserved=options.system_reserved,
            ),
            sandboxes=SandboxSettings(pod_logs_dir=Path("/nonexistent"), cgroup_parent=""),
            root_dir=options.root_dir,
            services={},
            hollow=True,
            relist_seconds=HOLLOW_RELIST_SECONDS,
            look_seconds=min(HOLLOW_LOOK_SECONDS, options.node_status_report_frequency),
            full_seconds=options.node_status_report_frequency,
        )
        facts = replace(machine, machine_id=f"{number:032x}", system_uuid=f"{number:032x}", hostname=name)
        agents.append(NodeAgent(shared, settings, HollowRuntime(), facts))
    return agents


def _health(options: Options, agents: Sequence[NodeAgent], heartbeats: Heartbeats) -> daemon.HealthServer | None:
    if not options.healthz_port:
        return None

    def runtime() -> str | None:
        return next((agent.pods.runtime_trouble for agent in agents if agent.pods.runtime_trouble), None)

    def beating() -> str | None:
        limit = options.heartbeat_interval * 3 + 10
        for agent in agents:
            seconds = heartbeats.last_renewed(agent.name)
            if seconds is None or seconds > limit:
                return f"the lease of {agent.name} was not renewed for a while"
        return None

    def pods(ready: bool) -> int:
        return sum(
            any(sandbox.ready for sandbox in record.sandboxes) is ready
            for agent in agents
            for record in agent.pods.seen.values()
        )

    def containers(state: ContainerState) -> int:
        records = (record for agent in agents for record in agent.pods.seen.values())
        return sum(one.state is state for record in records for one in record.containers)

    RUNNING_PODS.set_function(lambda: pods(True))
    for state in ContainerState:
        RUNNING_CONTAINERS.labels(state.value).set_function(partial(containers, state))

    checks = (daemon.Check("runtime", runtime), daemon.Check("heartbeat", beating))
    return daemon.HealthServer(options.healthz_address, options.healthz_port, checks=checks)


def _own_address(endpoint: str) -> str:
    """Return the address of this host that leads to the apiserver."""
    host, _, port = endpoint.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host.strip("[]"), int(port)))  # sends nothing, only chooses a route
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


def service_variables(server: str) -> dict[str, str]:
    """Return the variables by which programs in pods find the API: a real apiserver, until services are routed."""
    address = urlsplit(server)
    if not address.hostname:
        return {}
    host, port = address.hostname, str(address.port or 443)
    url = f"tcp://{host}:{port}"
    return {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_SERVICE_PORT_HTTPS": port,
        "KUBERNETES_PORT": url,
        f"KUBERNETES_PORT_{port}_TCP": url,
        f"KUBERNETES_PORT_{port}_TCP_PROTO": "tcp",
        f"KUBERNETES_PORT_{port}_TCP_PORT": port,
        f"KUBERNETES_PORT_{port}_TCP_ADDR": host,
    }


if __name__ == "__main__":
    main()
