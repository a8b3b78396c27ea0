"""Makes the records of requests, as the policy says, and counts what is recorded."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from controlplane.apiserver.audit import policy as policies
from controlplane.apiserver.audit.logfile import LogFile
from controlplane.apiserver.audit.policy import Level
from controlplane.apiserver.audit.record import Record
from wharfinger.api.configfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.metrics_core import Metric

    from controlplane.apiserver.audit.policy import Policy
    from controlplane.apiserver.audit.source import Source
    from controlplane.apiserver.auth.attributes import Attributes
    from controlplane.apiserver.config import AuditConfig

log = logging.getLogger(__name__)


def configured(config: AuditConfig) -> Auditor | None:
    """Return the auditor that the flags ask for; None without a policy. Raises ConfigError, which names the field."""
    if config.policy is None and not config.log:
        return None
    if config.policy is None:
        raise ConfigError("--audit-log-path needs --audit-policy-file: without a policy nothing is logged")
    policy = policies.load(config.policy)
    if not config.log:
        raise ConfigError("--audit-policy-file needs --audit-log-path: where to write the log; - is standard output")
    log_file = LogFile(
        Path(config.log) if config.log != "-" else None,
        max_size=config.max_size << 20,
        max_age=config.max_age * 86_400.0,
        max_backups=config.max_backups,
    )
    auditor = Auditor(policy, log_file)
    REGISTRY.register(_Figures(auditor))
    return auditor


class _Figures(Collector):
    """Shows an auditor's counts to Prometheus, under kube-apiserver's names where it has them."""

    def __init__(self, auditor: Auditor) -> None:
        self._auditor = auditor

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        auditor, log_file = self._auditor, self._auditor.log
        levels = CounterMetricFamily("apiserver_audit_level", "Requests by the level of their record", labels=["level"])
        for level, count in auditor.levels.items():
            levels.add_metric([level.text], count)
        lost = CounterMetricFamily("apiserver_audit_error", "Audit events that are lost.", labels=["plugin"])
        lost.add_metric(["log"], log_file.lost + auditor.broken)
        return [
            CounterMetricFamily("apiserver_audit_event", "Audit events made.", value=auditor.events),
            levels,
            lost,
            CounterMetricFamily(
                "wharfinger_audit_write_failures",
                "Attempts to write the audit log that failed.",
                value=log_file.failures,
            ),
            GaugeMetricFamily(
                "wharfinger_audit_buffered_bytes", "Bytes of events that wait to be written.", value=log_file.buffered
            ),
        ]


class Auditor:
    """See the module."""

    def __init__(self, policy: Policy, log: LogFile) -> None:
        self._policy = policy
        self.log = log
        self.levels = dict.fromkeys(Level, 0)
        """How many requests were recorded at which level."""
        self.events = self.broken = 0
        """How many events were made; how many could not be, by a mistake of ours."""

    async def stop(self) -> None:
        """Write what is left."""
        await self.log.stop()

    def _emit(self, event: dict[str, Any]) -> None:
        try:
            line = orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)
        except TypeError as error:  # the request that it is about must not fail for it
            self.broken += 1
            log.error("an audit event cannot be written", extra={"audit_id": event["auditID"], "error": str(error)})
            return
        self.events += 1
        self.log.append(line)

    def begin(self, asked: Attributes, source: Callable[[], Source]) -> None:
        """Begin a request's record, which is the current one from now on, unless the policy wants none."""
        record = self._record(asked, source)
        if record is not None:
            record.begin()

    def refused(self, asked: Attributes, source: Callable[[], Source], *, tried: Iterable[str]) -> None:
        """Record a request whose sender nobody knows; `tried` are the kinds of its credentials."""
        record = self._record(asked, source)
        if record is not None:
            methods = ", ".join(tried)
            why = "Authentication failed, " + (f"attempted: {methods}" if methods else "no credentials provided")
            record.refused(why)

    def _record(self, asked: Attributes, source: Callable[[], Source]) -> Record | None:
        """Make a request's record, unless the policy wants none."""
        decision = self._policy.decide(asked)
        self.levels[decision.level] += 1
        return Record(asked, source(), decision, self._emit) if decision.level else None
