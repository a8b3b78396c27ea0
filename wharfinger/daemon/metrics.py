"""Metrics that more than one daemon has, under Kubernetes' names."""

from prometheus_client import Gauge

LEADER = Gauge("leader_election_master_status", "Whether this process leads", ["name"])
