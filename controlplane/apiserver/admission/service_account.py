"""ServiceAccount: a pod runs as an account of its namespace, ``default`` when it names none, and gets its token.

The token comes by a projected volume of three sources, as in Kubernetes: the token itself, which the node's agent asks
for and renews, the authority's certificate from the namespace's config map, and the namespace's name. Accounts and pods
can opt out. A server that cannot sign tokens mounts none, and takes ``default`` as there: with nothing to mount, the
account is but a name.

Source: "Service Accounts" in Kubernetes' documentation.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step
from controlplane.apiserver.auth.nodegraph import MIRROR
from controlplane.apiserver.registry.names import generated
from wharfinger.api.errors import ForbiddenError
from wharfinger.api.types import core

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache
    from wharfinger.api.kinds import Kind

_PREFIX = "/registry/serviceaccounts/"
_DEFAULT = "default"
_VOLUME = "kube-api-access-"
_NAMES = 8
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
ROOT_CA = "kube-root-ca.crt"
TOKEN_SECONDS = 3607
"""An hour, and seven seconds by which such tokens are told from those that somebody asked for."""


class ServiceAccount(Step):
    """Fills in the account's name and what comes with it, and refuses accounts that do not exist."""

    name: ClassVar[str] = "ServiceAccount"

    def __init__(self, cache: Cache, *, mounts: bool = False) -> None:
        """`mounts`: whether tokens can be had."""
        self._cache = cache
        self._mounts = mounts
        # A volume's name must be unique within its pod alone. So a few names do, in turn, and pods of one template
        # have few forms: what has been judged once (see validation) need not be judged for each of them.
        self._names = itertools.cycle([generated(_VOLUME) for _ in range(_NAMES)])

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """New pods."""
        return operation == "create" and kind.group_resource == "pods"

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Set the name, and the older field that carries the same; then all that the account brings."""
        spec = obj.spec
        if MIRROR in obj.metadata.annotations:
            self._check_mirror(obj)
            return None  # made by its node, which may give it no account
        account = spec.serviceAccountName or spec.serviceAccount or _DEFAULT
        spec.serviceAccountName = spec.serviceAccount = account
        entry = self._cache.get(f"{_PREFIX}{request.namespace}/{account}")
        if entry is not None:
            self._complete(obj, entry.decoded)
            return None
        if account == _DEFAULT and not self._mounts:
            return None
        return self._look_again(request.namespace, account, obj)

    async def _look_again(self, namespace: str, account: str, pod: core.Pod) -> None:
        await self._cache.fresh()
        entry = self._cache.get(f"{_PREFIX}{namespace}/{account}")
        if entry is None:
            raise _forbidden(
                pod,
                f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
                + ("; it is made shortly after its namespace" if account == _DEFAULT else ""),
            )
        self._complete(pod, entry.decoded)

    @staticmethod
    def _check_mirror(pod: core.Pod) -> None:
        if pod.spec.serviceAccountName or pod.spec.serviceAccount:
            raise _forbidden(pod, "a mirror pod may not reference service accounts")
        for volume in pod.spec.volumes:
            if any(source.HasField("serviceAccountToken") for source in volume.volumeSource.projected.sources):
                raise _forbidden(pod, "a mirror pod may not use ServiceAccountToken volume projections")

    def _complete(self, pod: core.Pod, account: core.ServiceAccount) -> None:
        spec = pod.spec
        if not spec.imagePullSecrets:
            spec.imagePullSecrets.extend(account.imagePullSecrets)
        chosen = next((one for one in (spec, account) if one.HasField("automountServiceAccountToken")), None)
        if self._mounts and (chosen is None or chosen.automountServiceAccountToken):
            _mount_token(spec, next(self._names))


def _mount_token(spec: core.PodSpec, name: str) -> None:
    """Mount the token into every container that has nothing at its place; `name` is for the volume, if it has none."""
    known = next((volume.name for volume in spec.volumes if volume.name.startswith(_VOLUME)), "")
    name = known or name
    mounted = False
    for container in (*spec.initContainers, *spec.containers):
        if not any(mount.mountPath == MOUNT_PATH for mount in container.volumeMounts):
            container.volumeMounts.add(name=name, mountPath=MOUNT_PATH, readOnly=True)
            mounted = True
    if known or not mounted:
        return
    volume = spec.volumes.add()
    volume.CopyFrom(_TOKEN_VOLUME)
    volume.name = name


def _token_volume() -> core.Volume:
    volume = core.Volume()
    projected = volume.volumeSource.projected
    projected.defaultMode = 0o644
    token = projected.sources.add().serviceAccountToken
    token.path, token.expirationSeconds = "token", TOKEN_SECONDS
    authority = projected.sources.add().configMap
    authority.localObjectReference.name = ROOT_CA
    authority.items.add(key="ca.crt", path="ca.crt")
    namespace = projected.sources.add().downwardAPI.items.add(path="namespace")
    namespace.fieldRef.apiVersion, namespace.fieldRef.fieldPath = "v1", "metadata.namespace"
    return volume


_TOKEN_VOLUME = _token_volume()


def _forbidden(pod: core.Pod, why: str) -> ForbiddenError:
    return ForbiddenError(f'pods "{pod.metadata.name}" is forbidden: {why}', name=pod.metadata.name, kind="pods")
