"""What the codecs cost per object, in microseconds of one core: no processes, no etcd."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.report import Report
from wharfinger.api import codec, storage
from wharfinger.api.types import core

SMALL: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
    "spec": {
        "containers": [
            {"name": "c", "image": "busybox:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
        ]
    },
}


def _full() -> dict[str, Any]:
    """Return a pod as a cluster has it after a while: defaulted, tolerating, mounted, running."""
    probe = {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 10, "timeoutSeconds": 1}
    started = {"running": {"startedAt": "2026-01-02T03:04:05Z"}}
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    tolerated = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    return {
        **SMALL,
        "metadata": {**SMALL["metadata"], "uid": "0" * 36, "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {
            "containers": [
                {
                    **SMALL["spec"]["containers"][0],
                    "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
                    "env": [{"name": f"E{n}", "value": str(n)} for n in range(4)],
                    "livenessProbe": probe,
                    "readinessProbe": probe,
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    "terminationMessagePath": "/dev/termination-log",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "restartPolicy": "Always",
            "nodeName": "node-1",
            "securityContext": {},
            "tolerations": [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in tolerated],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.5",
            "startTime": "2026-01-02T03:04:05Z",
            "conditions": [
                {"type": name, "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"} for name in conditions
            ],
            "containerStatuses": [
                {"name": "c", "state": started, "ready": True, "restartCount": 0, "image": "i", "imageID": "i"}
            ],
        },
    }


async def measure(*, runs: int, quick: bool) -> Report:
    """Measure each direction for a pod as it is submitted and one as it runs."""
    report = Report("codec")
    rounds = 200 if quick else 2000
    for size, document in (("small", SMALL), ("full", _full())):
        pod = codec.from_json(document, core.Pod, validation="Strict").message
        text = codec.to_json_bytes(pod)
        value = storage.encode(pod)
        raw = storage.unwrap(value)[2]
        steps: dict[str, Callable[[], Any]] = {
            "JSON text to object, strict": partial(codec.from_json, text, core.Pod, validation="Strict"),
            "object to JSON text": partial(codec.to_json_bytes, pod),
            "object to stored value": partial(storage.encode, pod),
            "stored value to object": partial(storage.decode, value),
            "protobuf of a client to object": partial(codec.from_protobuf, raw, core.Pod),
            "version overlay": partial(storage.with_resource_version, raw, 123456789),
        }
        for name, step in steps.items():
            step()  # compiles the codec of the types
            seconds = [min(timeit.repeat(step, number=rounds, repeat=3)) / rounds for _ in range(runs)]
            at_most = {"object to JSON text": 30.0}.get(name) if size == "small" else None
            report.add(f"{size} pod: {name}", [second * 1e6 for second in seconds], "µs", at_most=at_most)
        report.add(f"{size} pod: stored bytes", [float(len(value))], "bytes")
    return report
