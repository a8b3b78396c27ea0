"""From a pod to its sandbox: host name, DNS, ports, namespaces, cgroup. Pure, but for reading the node's resolv.conf.

https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nodeagent.containers import seccomp
from nodeagent.resources import qos_class
from nodeagent.runtime import PortMapping, SandboxSpec
from wharfinger.api.types import core

MAX_HOSTNAME = 63


@dataclass(frozen=True, slots=True)
class DNS:
    """What a resolv.conf says."""

    servers: Sequence[str] = ()
    searches: Sequence[str] = ()
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What the node's flags say about sandboxes."""

    pod_logs_dir: Path
    cgroup_parent: str
    resolv_conf: Path = Path("/etc/resolv.conf")
    cluster_dns: Sequence[str] = ()
    """Addresses of the cluster's DNS; without them every pod uses the node's."""
    cluster_domain: str = "cluster.local"
    seccomp_root: Path = field(default_factory=lambda: Path("/var/lib/kubelet/seccomp"))


def pod_log_dir(settings: SandboxSettings, pod: core.Pod) -> Path:
    """Return the folder of a pod's logs, as other tools expect it."""
    metadata = pod.metadata
    return settings.pod_logs_dir / f"{metadata.namespace}_{metadata.name}_{metadata.uid}"


def pod_cgroup(settings: SandboxSettings, pod: core.Pod) -> str:
    """Return the parent of the cgroups of a pod's containers; empty for the runtime's own choice."""
    if not settings.cgroup_parent:
        return ""
    quality = qos_class(pod)
    middle = "" if quality == "Guaranteed" else f"/{quality.lower()}"
    return f"{settings.cgroup_parent.rstrip('/')}/kubepods{middle}/pod{pod.metadata.uid}"


def hostname(pod: core.Pod, settings: SandboxSettings) -> str:
    """Return the pod's host name: its own wish, else its name, cut to what Linux takes."""
    if pod.spec.hostnameOverride:
        return pod.spec.hostnameOverride
    name = (pod.spec.hostname or pod.metadata.name)[:MAX_HOSTNAME].rstrip("-.")
    if pod.spec.setHostnameAsFQDN and (domain := pod_domain(pod, settings)):
        return f"{name}.{domain}"
    return name


def pod_domain(pod: core.Pod, settings: SandboxSettings) -> str:
    """Return the domain that a pod with a subdomain is in; empty otherwise."""
    if not pod.spec.subdomain:
        return ""
    return f"{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{settings.cluster_domain}"


def read_resolv_conf(path: Path) -> DNS:
    """Return what a resolv.conf says; nothing when it is missing."""
    servers: list[str] = []
    searches: list[str] = []
    options: list[str] = []
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return DNS()
    for line in lines:
        words = line.split("#")[0].split(";")[0].split()
        if len(words) < 2:
            continue
        if words[0] == "nameserver":
            servers.append(words[1])
        elif words[0] in ("search", "domain"):
            searches = [word.rstrip(".") or word for word in words[1:]]
        elif words[0] == "options":
            options = words[1:]
    return DNS(servers, searches, options)


def dns(pod: core.Pod, settings: SandboxSettings) -> DNS:
    """Return a pod's DNS settings by its dnsPolicy, with its dnsConfig added."""
    node = read_resolv_conf(settings.resolv_conf)
    policy = pod.spec.dnsPolicy or "ClusterFirst"
    if policy == "None":
        base = DNS()
    elif policy == "Default" or not settings.cluster_dns or (policy == "ClusterFirst" and pod.spec.hostNetwork):
        base = node
    else:
        domain = settings.cluster_domain
        searches = [f"{pod.metadata.namespace}.svc.{domain}", f"svc.{domain}", domain]
        base = DNS(settings.cluster_dns, [*searches, *node.searches], ["ndots:5"])
    if not pod.spec.HasField("dnsConfig"):
        return base
    extra = pod.spec.dnsConfig
    options = {option.partition(":")[0]: option for option in base.options}
    for added in extra.options:
        options[added.name] = f"{added.name}:{added.value}" if added.HasField("value") else added.name
    return DNS(
        servers=_unique([*base.servers, *extra.nameservers]),
        searches=_unique([*base.searches, *extra.searches]),
        options=list(options.values()),
    )


def _unique(values: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(values))


def sandbox_spec(pod: core.Pod, attempt: int, settings: SandboxSettings) -> SandboxSpec:
    """Return what the runtime makes the pod's sandbox from."""
    spec, metadata = pod.spec, pod.metadata
    names = dns(pod, settings)
    context = spec.securityContext
    containers = [*spec.initContainers, *spec.containers]
    ports = [
        PortMapping(port.containerPort, port.hostPort, port.protocol or "TCP", port.hostIP)
        for container in containers
        for port in container.ports
        if port.hostPort and not spec.hostNetwork
    ]
    return SandboxSpec(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        attempt=attempt,
        hostname=hostname(pod, settings),
        log_directory=str(pod_log_dir(settings, pod)),
        cgroup_parent=pod_cgroup(settings, pod),
        dns_servers=names.servers,
        dns_searches=names.searches,
        dns_options=names.options,
        port_mappings=ports,
        labels=dict(metadata.labels),
        annotations=dict(metadata.annotations),
        host_network=spec.hostNetwork,
        host_pid=spec.hostPID,
        host_ipc=spec.hostIPC,
        share_process_namespace=spec.shareProcessNamespace,
        privileged=any(container.securityContext.privileged for container in containers),
        run_as_user=context.runAsUser if context.HasField("runAsUser") else None,
        run_as_group=context.runAsGroup if context.HasField("runAsGroup") else None,
        supplemental_groups=list(context.supplementalGroups),
        seccomp=seccomp(None, context, settings.seccomp_root),
        sysctls={sysctl.name: sysctl.value for sysctl in context.sysctls},
        runtime_handler="",
    )
