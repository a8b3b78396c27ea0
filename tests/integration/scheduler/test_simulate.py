"""Simulate and pending, from the client through the apiserver to the scheduler."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.integration.scheduler.conftest import World
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.proto.native import scheduling_v1_pb2 as native


async def test_simulate_and_pending(world: World) -> None:
    await world.node("s-1", cpu="1")
    await world.pod("there", cpu="500m")
    await world.bound("there")
    pod = core.Pod()
    pod.metadata.generateName, pod.metadata.namespace = "new-", world.namespace
    pod.spec.containers.add(name="c", image="registry.example/app:1").resources.requests["cpu"].string = "500m"
    stored = await world.pods.create(pod, dry_run=True)
    stored.metadata.name = "new"
    request = native.SimulateRequest(pods=[native.SimulatedPods(pod=stored.SerializeToString(), count=2)])
    reply = await world.client.simulate(request)
    assert [placement.node for placement in reply.placements] == ["s-1", ""]
    assert "Insufficient cpu" in reply.placements[1].message
    assert [pod.metadata.name for pod in (await world.pods.list(namespace=world.namespace)).items] == ["there"]
    with pytest.raises(errors.BadRequestError, match="cannot be read"):
        await world.client.simulate(native.SimulateRequest(nodes=[b"\xff"]))
    await world.pod("large", cpu="7")
    await world.refused("large")
    groups = (await world.client.pending(world.namespace)).groups
    assert [(group.state, list(group.pods)) for group in groups] == [("unschedulable", [f"{world.namespace}/large"])]
    assert list(groups[0].suggestions) == ["request at most 500m cpu (to fit on s-1)"]


MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: registry.example/app:1, resources: {requests: {cpu: 600m}}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
"""


async def wharf(world: World, *arguments: str, code: int = 0) -> str:
    """Run the command line; returns what it prints."""
    program = str(Path(sys.executable).parent / "wharf")
    process = await asyncio.create_subprocess_exec(
        program, "--kubeconfig", str(world.cluster.kubeconfig), "-n", world.namespace, *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode == code, err.decode()
    return out.decode()


async def test_the_command_line(world: World, tmp_path: Path) -> None:
    await world.node("c-1", cpu="1")
    await world.pod("large", cpu="7")
    await world.refused("large")
    path = tmp_path / "web.yaml"
    path.write_text(MANIFEST)
    said = json.loads(await wharf(world, "simulate", "-f", str(path), "-o", "json", code=1))
    assert sorted(placement["node"] for placement in said["placements"]) == ["", "", "c-1"]
    shown = await wharf(world, "simulate", "-f", str(path), "--add-node", "more*2,cpu=1,label:zone=a")
    assert "3 of 3 pods fit, on 3 of 3 nodes. Nothing was changed." in shown
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: file}\nstatus: {allocatable: {cpu: 8, pods: 9}}\n")
    said = json.loads(await wharf(world, "simulate", "-f", str(path), "--nodes", str(nodes), "-o", "json"))
    assert [placement["node"] for placement in said["placements"]] == ["file"] * 3
    assert "1 unschedulable, the longest for" in await wharf(world, "why", "--pending")
    assert json.loads(await wharf(world, "why", "--pending", "-o", "json"))["groups"][0]["count"] == 1
    assert "c-1" in await wharf(world, "map")
    assert json.loads(await wharf(world, "map", "-o", "json"))["waiting"] == 1
