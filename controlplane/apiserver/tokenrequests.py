"""``serviceaccounts/NAME/token``: makes a token of an account, bound perhaps to a pod, a secret or a node.

Source: the TokenRequest API and its checks in Kubernetes' documentation, and a real server's recorded answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.apiserver.auth.serviceaccounts import Bound
from controlplane.apiserver.request import Answer
from wharfinger.api import codec, errors, kinds, times, validation
from wharfinger.api.types import authentication

if TYPE_CHECKING:
    from controlplane.apiserver.admission import Admission
    from controlplane.apiserver.auth.serviceaccounts import ServiceAccountTokens
    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache

KIND = kinds.of(authentication.TokenRequest)
_DEFAULT_SECONDS = 3600
_PREFIXES = {"Pod": "/registry/pods/", "Secret": "/registry/secrets/", "Node": "/registry/minions/"}


class TokenRequests:
    """Answers token requests; `tokens` None: this server has no key to sign with."""

    def __init__(
        self, cache: Cache, admission: Admission, tokens: ServiceAccountTokens | None, *, max_seconds: int = 0
    ) -> None:
        self._cache = cache
        self._admission = admission
        self._tokens = tokens
        self._max = max_seconds

    async def create(self, request: Request, asked: authentication.TokenRequest) -> Answer:
        """Make a token for the account that the request names.

        Raises NotFoundError, InvalidError, BadRequestError, ConflictError.
        """
        tokens = self._tokens
        if tokens is None or not tokens.signs:
            raise errors.ServiceUnavailableError(
                "this server has no key to sign tokens of service accounts with (--service-account-signing-key-file)"
            )
        await self._cache.fresh()
        # Before anything is defaulted: what a node may ask for depends on what it really asked.
        for step in self._admission.steps("create", request.kind):
            waiting = step.admit(request, asked, None)
            if waiting is not None:
                await waiting
        account = self._object("serviceaccounts", f"/registry/serviceaccounts/{request.namespace}/", request.name)
        if asked.metadata.name not in ("", request.name) or asked.metadata.namespace not in ("", request.namespace):
            raise errors.BadRequestError("metadata: name and namespace must be those of the address, or be left out")
        if not asked.spec.HasField("expirationSeconds"):
            asked.spec.expirationSeconds = _DEFAULT_SECONDS
        if not asked.spec.audiences:
            asked.spec.audiences.extend(tokens.audiences)
        if causes := validation.validate_create(asked):
            raise errors.invalid(KIND.kind, KIND.group, "", causes)
        if self._max and asked.spec.expirationSeconds > self._max:
            request.warnings.append(
                f"requested expiration of {asked.spec.expirationSeconds} seconds shortened to {self._max} seconds"
            )
            asked.spec.expirationSeconds = self._max
        bound = self._bound(request, asked.spec.boundObjectRef) if asked.spec.HasField("boundObjectRef") else []
        asked.metadata.Clear()
        asked.metadata.name, asked.metadata.namespace = request.name, request.namespace
        asked.metadata.uid = account.metadata.uid
        asked.metadata.creationTimestamp.CopyFrom(times.now())
        asked.status.Clear()
        made = tokens.issue(
            request.namespace,
            request.name,
            account.metadata.uid,
            audiences=asked.spec.audiences,
            seconds=asked.spec.expirationSeconds,
            bound=bound,
        )
        asked.status.expirationTimestamp.seconds = made.ends
        if not request.options.dry_run:
            asked.status.token = made.token
        return Answer(KIND, codec.canonical_bytes(asked), created=True)

    def _bound(self, request: Request, reference: authentication.BoundObjectReference) -> list[Bound]:
        kind = reference.kind
        if kind not in _PREFIXES or reference.apiVersion not in ("", "v1"):
            raise errors.BadRequestError(f"cannot bind token for serviceaccount to object of type {kind or 'none'}")
        place = _PREFIXES[kind] + ("" if kind == "Node" else f"{request.namespace}/")
        found = self._object(f"{kind.lower()}s", place, reference.name)
        uid = found.metadata.uid
        if reference.uid not in ("", uid):
            raise errors.conflict(
                kind,
                reference.name,
                f"the UID in the bound object reference ({reference.uid}) is not the object's ({uid})",
            )
        bound = [Bound(kind.lower(), reference.name, uid)]
        if kind == "Pod":
            if found.spec.serviceAccountName != request.name:
                raise errors.BadRequestError(
                    f'cannot bind a token of the account "{request.name}" to a pod that runs as '
                    f'"{found.spec.serviceAccountName}"'
                )
            node = self._cache.get(f"/registry/minions/{found.spec.nodeName}") if found.spec.nodeName else None
            if node is not None:
                bound.append(Bound("node", found.spec.nodeName, node.decoded.metadata.uid))
        return bound

    def _object(self, resource: str, prefix: str, name: str) -> Any:
        entry = self._cache.get(prefix + name)
        if entry is None:
            raise errors.not_found(resource, name)
        return entry.decoded
