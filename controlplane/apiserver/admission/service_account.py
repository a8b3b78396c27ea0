"""ServiceAccount: a pod runs as an account of its namespace, ``default`` when it names none, and gets its token.

The token comes by a projected volume of three sources, as in Kubernetes: the token itself, which the node's agent asks
for and renews, the authority's certificate from the namespace's config map, and the namespace's name. Accounts and pods
can opt out. A server that cannot sign tokens mounts none, and takes ``default`` as there: with nothing to mount, the
account is but a name.

An account may limit its pods to the secrets that it lists (`ENFORCE`), as far as Kubernetes looks: secret volumes,
environments and pull secrets, but not secrets in projected volumes.

Source: "Service Accounts" in Kubernetes' documentation.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step
from controlplane.apiserver.auth.nodegraph import MIRROR, references
from controlplane.apiserver.auth.serviceaccounts import PROJECTED_SECONDS
from controlplane.apiserver.registry.names import generated
from wharfinger.api.errors import ForbiddenError
from wharfinger.api.types import core

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache
    from wharfinger.api.kinds import Kind

_PREFIX = "/registry/serviceaccounts/"
_DEFAULT = "default"
_VOLUME = "kube-api-access-"
_NAMES = 8
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
ROOT_CA = "kube-root-ca.crt"
ENFORCE = "kubernetes.io/enforce-mountable-secrets"
"""Annotation of an account: pods that run as it may use no secrets but those that it lists."""
_TRUE = ("1", "t", "T", "true", "TRUE", "True")


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
        """New pods, and those that get ephemeral containers."""
        return operation in ("create", "update") and kind.group_resource == "pods"

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Set the name, and the older field that carries the same; then all that the account brings."""
        spec = obj.spec
        if old is not None:
            if request.subresource == "ephemeralcontainers":
                self._check_ephemeral(request, obj)
            return None
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

    def _check_ephemeral(self, request: Request, pod: core.Pod) -> None:
        entry = self._cache.get(f"{_PREFIX}{request.namespace}/{pod.spec.serviceAccountName}")
        if entry is None or MIRROR in pod.metadata.annotations or not limits(entry.decoded):
            return
        ephemeral = [container.ephemeralContainerCommon for container in pod.spec.ephemeralContainers]
        if why := _unlisted_in("ephemeral container", ephemeral, entry.decoded):
            raise _forbidden(pod, why)

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
        plain = core.Pod()
        plain.CopyFrom(pod)
        del plain.metadata.annotations[MIRROR]  # by which nothing would count as referenced
        if any(resource == "secrets" for resource, _ in references(plain)):
            raise _forbidden(pod, "a mirror pod may not reference secrets")
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
        if limits(account) and (why := unlisted(spec, account)):
            raise _forbidden(pod, why)


def limits(account: core.ServiceAccount) -> bool:
    """Whether an account limits its pods to its own secrets."""
    return account.metadata.annotations.get(ENFORCE, "") in _TRUE


def unlisted(spec: core.PodSpec, account: core.ServiceAccount) -> str:
    """Return what of a new pod uses a secret that its account does not list; empty when nothing does."""
    listed = {reference.name for reference in account.secrets}
    for volume in spec.volumes:
        source = volume.volumeSource
        if source.HasField("secret") and source.secret.secretName not in listed:
            return f'volume with secret.secretName="{source.secret.secretName}" {_reason(account)}'
    if why := (
        _unlisted_in("init container", spec.initContainers, account)
        or _unlisted_in("container", spec.containers, account)
    ):  # fmt: skip
        return why
    pulls = {reference.name for reference in account.imagePullSecrets}
    for index, reference in enumerate(spec.imagePullSecrets):
        if reference.name not in pulls:
            return f'imagePullSecrets[{index}].name="{reference.name}" {_reason(account, "imagePullSecret")}'
    return ""


def _unlisted_in(
    what: str, containers: Iterable[core.Container | core.EphemeralContainerCommon], account: core.ServiceAccount
) -> str:  # fmt: skip
    listed = {reference.name for reference in account.secrets}
    for container in containers:
        for variable in container.env:
            if variable.valueFrom.HasField("secretKeyRef"):
                name = variable.valueFrom.secretKeyRef.localObjectReference.name
                if name not in listed:
                    used = f'envVar {variable.name} referencing secret.secretName="{name}"'
                    return f"{what} {container.name} with {used} {_reason(account)}"
        for source in container.envFrom:
            if source.HasField("secretRef") and (name := source.secretRef.localObjectReference.name) not in listed:
                used = f'envFrom referencing secret.secretName="{name}"'
                return f"{what} {container.name} with {used} {_reason(account)}"
    return ""


def _reason(account: core.ServiceAccount, what: str = "secret") -> str:
    return f"is not allowed because service account {account.metadata.name} does not reference that {what}"


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
    token.path, token.expirationSeconds = "token", PROJECTED_SECONDS
    authority = projected.sources.add().configMap
    authority.localObjectReference.name = ROOT_CA
    authority.items.add(key="ca.crt", path="ca.crt")
    namespace = projected.sources.add().downwardAPI.items.add(path="namespace")
    namespace.fieldRef.apiVersion, namespace.fieldRef.fieldPath = "v1", "metadata.namespace"
    return volume


_TOKEN_VOLUME = _token_volume()


def _forbidden(pod: core.Pod, why: str) -> ForbiddenError:
    return ForbiddenError(f'pods "{pod.metadata.name}" is forbidden: {why}', name=pod.metadata.name, kind="pods")
