"""Judges objects by Kubernetes' rules, and says for each cause which field is wrong and what would be right.

::

    object ──▶ rules of its kind (one file a kind or topic) ──▶ causes, in the reference's order
                    │ built from
                    ▼
               names · metadata · common · resources · pod_spec …

:func:`validate_create` and :func:`validate_update` expect an object that is decoded, defaulted
(:mod:`wharfinger.api.defaults`) and prepared by the server: it has its namespace and generated name, an update has the
uid and creationTimestamp of the old object where the client left them out. The answer is empty when all is right.

Kinds without a file of their own are judged by their metadata alone: that is what every object has in common, and
what Kubernetes does for kinds without rules.

The first pass is the kind's, the second the general one. On a create the general pass only runs when the kind found
nothing; on an update it runs first, and its causes stand beside the kind's, doubled where both see the same.
"""

from __future__ import annotations

from google.protobuf.message import Message

from wharfinger.api import kinds
from wharfinger.api.codec.selfcoded import SelfCoded
from wharfinger.api.errors import FieldError
from wharfinger.api.validation import metadata, names, tables
from wharfinger.api.validation.errors import Errors
from wharfinger.api.validation.registry import Rules, only_metadata, status_metadata

__all__ = ["validate_create", "validate_update"]

_RULES: dict[type[Message], Rules] = tables.collect()
_FALLBACK = {
    True: only_metadata(namespaced=True),
    False: only_metadata(namespaced=False),
}
_NAMESPACED: dict[type[Message], bool] = {kind.message: kind.namespaced for kind in kinds.KINDS}
_STORED = frozenset(kind.message for kind in kinds.KINDS if kind.stored)
_NO_RULES = Rules(create=lambda obj, errors: None, update=lambda obj, old, errors: None)
"""Of reviews and the like, which are answered and forgotten."""


def _rules(cls: type[Message]) -> Rules:
    found = _RULES.get(cls)
    if found is None:
        if issubclass(cls, SelfCoded):
            return cls.rules()
        found = _RULES[cls] = _FALLBACK[_NAMESPACED[cls]] if cls in _STORED else _NO_RULES
    return found


def validate_create(obj: Message) -> list[FieldError]:
    """Return what is wrong with a new object, in the order in which Kubernetes reports it."""
    cls = type(obj)
    errors = Errors()
    _rules(cls).create(obj, errors)
    if not errors and cls in _STORED:
        own = getattr(obj, "metadata")  # noqa: B009  (every kind has it, Message does not say so)
        if cls in tables.UNCHECKED_METADATA:
            metadata.validate(own, errors, namespaced=_NAMESPACED[cls], name=names.path_segment)
        else:
            # All the rest of the general pass is part of the kind's.
            errors.complaints("metadata.name", own.name, names.path_segment(own.name))
    return errors


def validate_update(obj: Message, old: Message, *, subresource: str = "") -> list[FieldError]:
    """Return what is wrong with a changed object, judged against the one it replaces.

    `subresource` is the one the change goes through: ``status``, ``ephemeralcontainers``, ``resize``, ``finalize``,
    ``approval``; a ``scale`` is judged as an object of its own.
    """
    cls = type(obj)
    errors = Errors()
    own, was = getattr(obj, "metadata"), getattr(old, "metadata")  # noqa: B009
    if cls in _STORED:
        metadata.validate(own, errors, namespaced=_NAMESPACED[cls], name=names.path_segment)
        metadata.validate_update(own, was, errors)
    rules = _rules(cls)
    judge = rules.update if not subresource else rules.subresources.get(subresource, status_metadata)
    judge(obj, old, errors)
    return errors
