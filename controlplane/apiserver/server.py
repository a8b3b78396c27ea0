"""The server put together: store, cache, chain, fronts; started and stopped in that order.

It may start before etcd: it waits for the cache to load, and only then listens. When etcd goes away later, the server
stays: writes and fresh reads wait for a bounded time and fail with 503, ``/readyz`` says so, and everything goes on
when etcd is back.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.apiserver import audit, bootstrap, usage
from controlplane.apiserver.addresses import Addresses
from controlplane.apiserver.admission import default_admission
from controlplane.apiserver.auth import modes
from controlplane.apiserver.auth.authorizer import MASTERS
from controlplane.apiserver.auth.bearer import Bearer, Source
from controlplane.apiserver.auth.bootstraptokens import BootstrapTokens
from controlplane.apiserver.auth.escalation import Escalation
from controlplane.apiserver.auth.rolebook import RoleBook
from controlplane.apiserver.auth.serviceaccounts import ServiceAccountTokens
from controlplane.apiserver.auth.tokens import TokenFile
from controlplane.apiserver.chain import Api, Limits
from controlplane.apiserver.encrypting import Encrypting
from controlplane.apiserver.etcd_service import EtcdService
from controlplane.apiserver.grpcfront.relays import Relays
from controlplane.apiserver.grpcfront.server import Authenticator, GrpcFront
from controlplane.apiserver.httpfront.server import HttpFront
from controlplane.apiserver.podstreams import Peers, PodStreams
from controlplane.apiserver.registry.conversion import CONVERSIONS
from controlplane.apiserver.registry.resources import cache_resource
from controlplane.apiserver.store import Cache, Store
from controlplane.apiserver.store.maintenance import Compactor
from controlplane.apiserver.store.transform import PLAIN
from wharfinger import hostport
from wharfinger.api import errors, kinds
from wharfinger.daemon import CertificateWatch, Check, Follower, TLSFiles, settle, spawn, stay_settled
from wharfinger.proto.native import etcd_v1_pb2_grpc
from wharfinger.signingkeys import Key, load_key, load_keys

if TYPE_CHECKING:
    from controlplane.apiserver.config import Config

log = logging.getLogger(__name__)

_STALE_SECONDS = 10.0
"""Two proofs missed: etcd does not answer, or this process does not get to run."""


class Server:
    """One apiserver."""

    def __init__(self, config: Config) -> None:
        if config.tls_cert is None or config.tls_key is None or config.client_ca is None:
            raise ValueError("--tls-cert-file, --tls-private-key-file and --client-ca-file are required")
        self._config = config
        self._tls = TLSFiles(config.tls_cert, config.tls_key, config.client_ca)
        self._encrypting = Encrypting(config.encryption) if config.encryption is not None else None
        self.store = Store(
            config.etcd,
            group_commit_max=config.group_commit_max,
            transformer=self._encrypting.transformer if self._encrypting is not None else PLAIN,
        )
        self.cache = Cache(self.store)
        self._register()
        tokens, accounts = self._token_sources()
        self._account_follower = self._account_key_follower(accounts) if accounts is not None else None
        book = RoleBook(self.cache)
        authorizers = modes.authorizers(config.authorization_modes, self.cache, book)
        admission = default_admission(
            self.cache,
            self.store,
            authorizers,
            last=[Escalation(authorizers, book)],
            not_ready=config.not_ready_toleration_seconds,
            unreachable=config.unreachable_toleration_seconds,
            mounts_tokens=accounts is not None and accounts.signs,
        )
        self.api = Api(
            store=self.store,
            cache=self.cache,
            authorizers=authorizers,
            admission=admission,
            limits=Limits(config.max_request_bytes, config.event_ttl),
            addresses=Addresses(self.cache, cidr=config.service_cidr, ports=config.service_ports),
            tokens=tokens,
            accounts=accounts,
            max_token_seconds=config.account_max_seconds,
            disabled=config.disabled,
        )
        self._peers = Peers(ca=config.kubelet_ca or config.client_ca, cert=config.kubelet_cert, key=config.kubelet_key)
        self.api.serve(
            found
            for found in usage.served(self.cache, self._peers)
            if (found.kind.group, found.kind.version) not in config.disabled
        )
        self._auditor = audit.configured(config.audit)
        self._authenticator = Authenticator(tokens, authorizers)
        etcd = EtcdService(self.store, self._authorize_etcd)
        self._pods = PodStreams(self.api, self._peers)
        relays = Relays(self.api, self._peers, self._pods)
        self._front = GrpcFront(
            self.api,
            relays,
            self._authenticator,
            more=lambda server: etcd_v1_pb2_grpc.add_EtcdServicer_to_server(etcd, server),  # type: ignore[no-untyped-call]
            auditor=self._auditor,
        )
        self._tasks: list[asyncio.Task[None]] = []
        checks = (Check("etcd", self._etcd_trouble), Check("serving", self._serving_trouble))
        self._http = HttpFront(
            self.api,
            relays,
            self._pods,
            tokens=tokens,
            accounts=accounts,
            checks=checks,
            tls=self._tls,
            request_bytes=config.max_request_bytes,
            request_seconds=config.request_timeout,
            auditor=self._auditor,
        )
        self.grpc_port = self.grpc_token_port = self.secure_port = 0
        self._serving = False

    def _token_sources(self) -> tuple[Bearer, ServiceAccountTokens | None]:
        """Return who knows bearer tokens, and who makes those of service accounts; None without a key."""
        config = self._config
        audiences = config.audiences or (config.account_issuer,)
        sources: list[Source] = [TokenFile.load(config.tokens)] if config.tokens is not None else []
        accounts = None
        if keys := self._account_keys():
            accounts = ServiceAccountTokens(
                keys, issuer=config.account_issuer, audiences=audiences, cache=self.cache,
                extends=config.account_extend,
            )  # fmt: skip
            sources.append(accounts)
        if config.bootstrap_tokens:
            sources.append(BootstrapTokens(self.cache))
        return Bearer(sources, audiences), accounts

    def _account_keys(self) -> list[Key]:
        """Read the keys of service accounts' tokens, first the one that signs. Raises OSError, ValueError."""
        signing = self._config.account_signing_key
        keys = [load_key(signing, private=True)] if signing is not None else []
        for path in self._config.account_keys:
            keys += load_keys(path)
        return keys

    def _account_key_follower(self, accounts: ServiceAccountTokens) -> Follower:
        """Return who takes changed key files into use."""
        signing = self._config.account_signing_key
        paths = (*([signing] if signing is not None else []), *self._config.account_keys)

        def load() -> None:
            accounts.replace(self._account_keys())
            log.info("other keys of service accounts are in use", extra={"files": " ".join(map(str, paths))})

        return Follower(lambda: paths, load, what="keys of service accounts")

    def _register(self) -> None:
        seen: set[str] = set()
        for kind in kinds.KINDS:
            if kind.stored and kind.etcd_prefix not in seen:
                seen.add(kind.etcd_prefix)
                self.cache.register(cache_resource(_storage_kind(kind.etcd_prefix)))

    async def _authorize_etcd(self, context: Any, method: str, verb: str) -> None:
        """Only masters may look after etcd."""
        user = self._front.caller(context, f"Etcd/{method}", verb)
        allowed = MASTERS in user.groups
        record = audit.current()
        if record is not None:
            record.authorized(allowed=allowed, reason="")
        if not allowed:
            raise errors.ForbiddenError(f'User "{user.name}" cannot {verb} etcd: only members of system:masters may')

    async def start(self) -> None:
        """Start, and return when requests are served. Raises OSError or RuntimeError when a port is taken."""
        config = self._config
        if self._auditor is not None:
            self._auditor.log.start()
        if config.secure_port >= 0:
            await self._http.start(config.bind_address, config.secure_port)
            self.secure_port = self._http.port
        await self.store.start()
        await self.cache.start()
        self.api.custom.update()
        self._tasks.append(spawn(self.api.custom.run(), name="custom kinds"))
        self._tasks.append(spawn(self.api.tender.run(), name="tending definitions"))
        await self._bootstrap()
        watch = CertificateWatch(
            {
                "server": self._tls.cert, "client-ca": self._tls.client_ca, "kubelet-client": config.kubelet_cert,
                "etcd-client": Path(config.etcd.cert_file) if config.etcd.cert_file else None,
            }
        )  # fmt: skip
        self._tasks.append(spawn(watch.run(), name="certificates"))
        self._tasks.append(spawn(self._peers.follower().run(), name="certificate for agents"))
        self._tasks.append(spawn(self.store.client.follower().run(), name="certificate for etcd"))
        if self._account_follower is not None:
            self._tasks.append(spawn(self._account_follower.run(), name="keys of service accounts"))
        if self._encrypting is not None and config.encryption_reload:
            self._tasks.append(spawn(self._encrypting.follower(self.cache).run(), name="encryption configuration"))
        compactor = Compactor(self.store, identity=f"{socket.gethostname()}-{os.getpid()}")
        self._tasks.append(spawn(compactor.run(), name="compactor"))
        at = partial(hostport.join, config.bind_address)
        self.grpc_port = await self._front.listen(
            at(config.grpc_port), self._tls.server_credentials(require_client=True)
        )
        if config.grpc_token_port >= 0:
            self.grpc_token_port = await self._front.listen(
                at(config.grpc_token_port), self._tls.server_credentials(require_client=False)
            )
        self._serving = self._http.serving = True
        settle()
        self._tasks.append(spawn(stay_settled(), name="stay settled"))
        log.info(
            "serving",
            extra={
                "grpc": at(self.grpc_port),
                "tokens": at(self.grpc_token_port) if self.grpc_token_port else "off",
                "http": at(self.secure_port) if self.secure_port else "off",
            },
        )

    async def _bootstrap(self) -> None:
        """Make the objects of a fresh cluster, however long etcd takes."""
        while True:
            try:
                await bootstrap.run(
                    self.api, self._config.service_cidr, roles="RBAC" in self._config.authorization_modes
                )
            except (errors.ServiceUnavailableError, errors.TimeoutError_) as error:
                log.warning("waiting for etcd", extra={"error": error.message})
                await asyncio.sleep(1)
                continue
            return

    def _etcd_trouble(self) -> str | None:
        if self.cache.stale_seconds < _STALE_SECONDS:
            return None
        return f"the watch cache last proved itself current {self.cache.stale_seconds:.0f} s ago"

    def _serving_trouble(self) -> str | None:
        return None if self._serving else "not listening yet, or no longer"

    async def stop(self) -> None:
        """Stop in the opposite order."""
        self._serving = self._http.serving = False
        self.cache.end_watches()  # clients go to another server, or come back; nobody has to wait for them
        await self._front.stop(self._config.shutdown_grace)
        self._pods.end()
        for task in self._tasks:
            task.cancel()
        await self._peers.close()
        await self.cache.stop()
        await self.store.stop()
        await self._http.close()
        if self._auditor is not None:
            await self._auditor.stop()


def _storage_kind(prefix: str) -> kinds.Kind:
    """Return the kind that is stored below a prefix: of several served ones, the one that needs no conversion."""
    found = [kind for kind in kinds.KINDS if kind.etcd_prefix == prefix]
    return next(kind for kind in found if (kind.group, kind.version, kind.resource) not in CONVERSIONS)
