"""Selectors become an address, an index and a rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.apiserver.registry.selection import select
from wharfinger.api import kinds
from wharfinger.api.errors import BadRequestError
from wharfinger.api.types import core

_POD = kinds.of(core.Pod)


def _select(fields: str = "", labels: str = "", namespace: str = "") -> Any:
    return select(_POD, namespace, label_selector=labels, field_selector=fields, view=lambda entry: entry.decoded)


def _entry(**fields: str) -> Any:
    pod = core.Pod()
    pod.metadata.labels.update(fields)
    pod.status.phase = fields.get("phase", "")
    return SimpleNamespace(decoded=pod)


def test_nothing_selects_everything() -> None:
    chosen = _select(namespace="a")
    assert (chosen.namespace, chosen.name, chosen.index, chosen.matches, chosen.selective) == (
        "a", "", None, None, False,
    )  # fmt: skip


def test_what_the_cache_can_find_needs_no_check() -> None:
    chosen = _select("spec.nodeName=n1,metadata.name=web,metadata.namespace=default")
    assert (chosen.namespace, chosen.name, chosen.index) == ("default", "web", ("spec.nodeName", "n1"))
    assert chosen.matches is None
    assert chosen.selective


def test_the_empty_node_is_found_by_the_index_too() -> None:
    chosen = _select("spec.nodeName=")
    assert (chosen.index, chosen.matches) == (("spec.nodeName", ""), None)


def test_the_rest_is_checked() -> None:
    chosen = _select("spec.nodeName=n1,status.phase=Running", "app=web")
    assert chosen.index == ("spec.nodeName", "n1")
    assert chosen.matches(_entry(app="web", phase="Running"))
    assert not chosen.matches(_entry(app="web", phase="Pending"))
    assert not chosen.matches(_entry(app="db", phase="Running"))


def test_contradictions_select_nothing() -> None:
    assert _select("metadata.namespace=b", namespace="a").empty
    chosen = _select("spec.nodeName=n1,spec.nodeName=n2")
    assert chosen.matches is not None


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(BadRequestError, match=r"spec\.priority"):
        _select("spec.priority=1")
