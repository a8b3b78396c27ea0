"""The sums that the resource plugins compare with a node's columns: what a pod needs, and what it counts as in scores.

What a pod needs is defined once for the whole project, in :mod:`wharfinger.api.pods`. Scores use other sums, in which a
container without a request counts as 100m and 200 MB, so that pods that ask for nothing do not all land on one node.
"""

from __future__ import annotations

from wharfinger.api import pods
from wharfinger.api.pods import Amounts
from wharfinger.api.types import core


def needed(pod: core.Pod) -> Amounts:
    """Return what the pod takes from its node; raises ValueError for a quantity that is none."""
    return pods.effective_requests(pod)


def occupied(pod: core.Pod) -> Amounts:
    """Return what a placed pod counts as in scores: pod-level requests need no defaults for the containers."""
    missing = pods.NONZERO_REQUESTS
    if pod.spec.HasField("resources"):
        plain = pods.effective_requests(pod)
        missing = {name: text for name, text in missing.items() if name not in plain}
    return pods.effective_requests(pod, missing=missing)


def scored(pod: core.Pod) -> Amounts:
    """Return what the pod to place counts as in NodeResourcesFit's score.

    kube-scheduler leaves out pod-level requests there (seen in its recorded decisions), and there alone.
    """
    if pod.spec.HasField("resources"):
        copy = core.Pod()
        copy.CopyFrom(pod)
        copy.spec.ClearField("resources")
        pod = copy
    return pods.effective_requests(pod, missing=pods.NONZERO_REQUESTS)
