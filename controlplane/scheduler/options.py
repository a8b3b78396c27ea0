"""The flags of the scheduler: kube-scheduler's names and defaults where they exist."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from controlplane.scheduler.config import Configuration, load
from controlplane.scheduler.profile import DEFAULT_SCHEDULER_NAME, Profile
from controlplane.scheduler.queue import INITIAL_BACKOFF, MAX_BACKOFF
from wharfinger.api.configfile import ConfigError
from wharfinger.client.config import Api, ClientConfig
from wharfinger.daemon import TLSFiles
from wharfinger.daemon.flags import boolean, duration, tls_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that can be set; durations in seconds."""

    kubeconfig: str | None = None
    context: str | None = None
    api: Api = "auto"
    bind_address: str = "127.0.0.1"
    secure_port: int = 10259
    grpc_port: int = 10260
    grpc_advertise_address: str = ""
    tls: TLSFiles | None = None
    profiles: tuple[Profile, ...] = ()
    initial_backoff: float = INITIAL_BACKOFF
    max_backoff: float = MAX_BACKOFF
    seed: int | None = None
    leader_elect: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    lease_namespace: str = "kube-system"
    lease_name: str = ""
    """Empty: kube-scheduler, or wharf-scheduler in a foreign cluster, where the former is taken."""
    log_level: str = "info"
    log_format: Literal["text", "json"] = "text"

    def client_config(self) -> ClientConfig:
        """Read the kubeconfig. Raises ConfigError."""
        return ClientConfig.load(kubeconfig=self.kubeconfig, context=self.context, api=self.api)


def parse(argv: Sequence[str] | None = None) -> Options:
    """Read the command line; a wrong flag or file ends the process with a message, as argparse does.

    What the file of ``--config`` says stands in for flags that are not given.
    """
    parser = argparse.ArgumentParser(
        prog="wharf-scheduler",
        description="Places pods on nodes; one of several schedulers leads.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--config", type=Path, help="KubeSchedulerConfiguration: profiles, plugins and their arguments")
    add("--kubeconfig", help="kubeconfig with the apiserver's address and our credentials")
    add("--context", help="context of the kubeconfig to use")
    add(
        "--api",
        choices=("auto", "grpc", "http"),
        default="auto",
        help="how to speak with the apiserver: gRPC, HTTP as with any Kubernetes, or what the kubeconfig has",
    )
    add("--bind-address", default="127.0.0.1", help="address of health, metrics and gRPC")
    add("--secure-port", type=int, default=10259, help="port of /healthz, /readyz and /metrics; 0 chooses one")
    add("--grpc-port", type=int, default=10260, help="port on which the apiserver asks for explanations; 0 chooses one")
    add("--grpc-advertise-address", default="", help="host of that port as the apiserver reaches it (bind address)")
    add("--tls-cert-file", type=Path, help="certificate to serve with; without one, plain HTTP and plain gRPC")
    add("--tls-private-key-file", type=Path, help="its key")
    add("--client-ca-file", type=Path, help="authority of the certificates that gRPC clients must show")
    add("--scheduler-name", default=DEFAULT_SCHEDULER_NAME, help="the spec.schedulerName of the pods to place")
    add("--seed", type=int, help="draw among equal nodes by this seed, so that runs can be repeated")
    add("--leader-elect", type=boolean, nargs="?", const=True, default=True, help="stand for election first")
    add("--leader-elect-lease-duration", type=duration, default=15.0, help="others wait this long after a renewal")
    add("--leader-elect-renew-deadline", type=duration, default=10.0, help="a leader that cannot renew steps down")
    add("--leader-elect-retry-period", type=duration, default=2.0, help="time between tries")
    add("--leader-elect-resource-namespace", default="kube-system", help="namespace of the Lease")
    add(
        "--leader-elect-resource-name", default="", help="name of the Lease (kube-scheduler; over HTTP wharf-scheduler)"
    )
    add("--log-level", choices=("debug", "info", "warning", "error"), type=str.lower, default="info", help="log level")
    add("--log-format", choices=("text", "json"), default="text", help="log format")
    first = parser.parse_args(argv)
    configuration = Configuration()
    if first.config is not None:
        try:
            configuration = load(first.config)
        except ConfigError as error:
            parser.error(f"--config: {error}")
        if first.scheduler_name != DEFAULT_SCHEDULER_NAME:
            parser.error("--scheduler-name and --config do not go together: profiles name their schedulers")
        parser.set_defaults(**configuration.flags)
    options = parser.parse_args(argv)
    try:
        tls = tls_files(options.tls_cert_file, options.tls_private_key_file, options.client_ca_file)
    except ValueError as error:
        parser.error(str(error))
    if tls is not None and tls.client_ca is None:
        parser.error("--client-ca-file is needed: the gRPC port demands client certificates")
    return Options(
        kubeconfig=options.kubeconfig,
        context=options.context,
        api=options.api,
        bind_address=options.bind_address,
        secure_port=options.secure_port,
        grpc_port=options.grpc_port,
        grpc_advertise_address=options.grpc_advertise_address,
        tls=tls,
        profiles=tuple(configuration.profiles) or (Profile(scheduler_name=options.scheduler_name),),
        initial_backoff=configuration.initial_backoff or INITIAL_BACKOFF,
        max_backoff=configuration.max_backoff or MAX_BACKOFF,
        seed=options.seed,
        leader_elect=options.leader_elect,
        lease_duration=options.leader_elect_lease_duration,
        renew_deadline=options.leader_elect_renew_deadline,
        retry_period=options.leader_elect_retry_period,
        lease_namespace=options.leader_elect_resource_namespace,
        lease_name=options.leader_elect_resource_name,
        log_level=options.log_level,
        log_format=options.log_format,
    )
