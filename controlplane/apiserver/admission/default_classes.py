"""DefaultStorageClass and DefaultIngressClass: what names no class gets the default one.

A claim with an empty name has made a choice, and keeps it. Of several defaults the youngest counts, and of equally old
ones the first by name, as in Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.apiserver.admission.base import Operation, Step

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from controlplane.apiserver.request import Request
    from controlplane.apiserver.store import Cache
    from wharfinger.api.kinds import Kind


class _DefaultClass(Step):
    resource: ClassVar[str]
    """What is completed."""
    prefix: ClassVar[str]
    """Where the classes are stored."""
    marks: ClassVar[tuple[str, ...]]
    """Annotations of which one makes a class the default."""
    field: ClassVar[str]
    """Of the spec, for the class' name."""
    older: ClassVar[str]
    """The annotation that named the class before there was a field."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def concerns(self, operation: Operation, kind: Kind) -> bool:
        """New objects of the resource."""
        return operation == "create" and kind.group_resource == self.resource

    def admit(self, request: Request, obj: Any, old: Any) -> Awaitable[None] | None:
        """Set the class when none is named and there is a default."""
        if obj.spec.HasField(self.field) or self.older in obj.metadata.annotations:
            return None
        classes = [
            entry.decoded.metadata
            for entry in self._cache.list(self.prefix).entries
            if any(entry.decoded.metadata.annotations.get(mark) == "true" for mark in self.marks)
        ]
        if classes:
            classes.sort(key=lambda metadata: (-metadata.creationTimestamp.seconds, metadata.name))
            setattr(obj.spec, self.field, classes[0].name)
        return None


class DefaultStorageClass(_DefaultClass):
    """Fills in the class of new claims."""

    name: ClassVar[str] = "DefaultStorageClass"
    resource = "persistentvolumeclaims"
    prefix = "/registry/storageclasses/"
    marks = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
    field = "storageClassName"
    older = "volume.beta.kubernetes.io/storage-class"


class DefaultIngressClass(_DefaultClass):
    """Fills in the class of new ingresses."""

    name: ClassVar[str] = "DefaultIngressClass"
    resource = "ingresses.networking.k8s.io"
    prefix = "/registry/ingressclasses/"
    marks = ("ingressclass.kubernetes.io/is-default-class",)
    field = "ingressClassName"
    older = "kubernetes.io/ingress.class"
