from __future__ import annotations

import pytest

from nodeagent.admission import admit
from tests.unit.nodeagent.podkit import make_pod
from wharfinger.api.types import core


def node():
    result = core.Node()
    result.metadata.name = "n1"
    result.metadata.labels["kubernetes.io/os"] = "linux"
    for name, amount in {"cpu": "2", "memory": "1Gi", "pods": "2"}.items():
        result.status.allocatable[name].string = amount
    return result


def wants(cpu="", memory="", port=0):
    pod = make_pod()
    for name, amount in {"cpu": cpu, "memory": memory}.items():
        if amount:
            pod.spec.containers[0].resources.requests[name].string = amount
    if port:
        pod.spec.containers[0].ports.add(containerPort=80, hostPort=port, protocol="TCP")
    return pod


def reason(pod, others=(), where=None):
    refusal = admit(pod, where or node(), others)
    return refusal.reason if refusal else None


def test_room():
    assert reason(wants(cpu="2")) is None
    assert reason(wants(cpu="2001m")) == "OutOfcpu"
    assert reason(wants(cpu="1"), [wants(cpu="1500m")]) == "OutOfcpu"
    assert reason(wants(memory="2Gi")) == "OutOfmemory"
    assert reason(wants(), [wants(), wants()]) == "OutOfpods"


def test_ports():
    assert reason(wants(port=80), [wants(port=81)]) is None
    assert reason(wants(port=80), [wants(port=80)]) == "NodePorts"


def test_selector_and_affinity():
    pod = wants()
    pod.spec.nodeSelector["disk"] = "ssd"
    assert reason(pod) == "NodeAffinity"
    where = node()
    where.metadata.labels["disk"] = "ssd"
    assert reason(pod, where=where) is None


def test_taints_count_only_with_no_execute():
    where = node()
    where.spec.taints.add(key="k", effect="NoSchedule")
    assert reason(wants(), where=where) is None
    where.spec.taints.add(key="k", effect="NoExecute")
    assert reason(wants(), where=where) == "TaintToleration"


@pytest.mark.parametrize(("name", "allowed"), [("net.ipv4.tcp_syncookies", True), ("kernel/msgmax", False)])
def test_sysctls(name, allowed):
    pod = wants()
    pod.spec.securityContext.sysctls.add(name=name, value="1")
    assert reason(pod) == (None if allowed else "SysctlForbidden")
    assert admit(pod, node(), [], allowed_sysctls=["kernel.*"]) is None


def test_operating_system():
    pod = wants()
    pod.spec.os.name = "windows"
    assert reason(pod) == "PodOSNotSupported"
