"""Queries to options."""

from __future__ import annotations

import pytest

from controlplane.apiserver.httpfront import options
from controlplane.apiserver.request import Body
from wharfinger.api.errors import BadRequestError, InvalidError


def test_lists() -> None:
    read = options.list_options({"limit": "5", "labelSelector": "a=b", "allowWatchBookmarks": "1", "unknown": "x"})
    assert (read.limit, read.labelSelector, read.allowWatchBookmarks) == (5, "a=b", True)
    assert not read.HasField("timeoutSeconds")
    for value in ("many", "", "1_0", str(2**63)):
        with pytest.raises(BadRequestError, match="limit"):
            options.list_options({"limit": value})


def test_writes() -> None:
    read = options.write_options({"dryRun": "All", "fieldManager": "me"}, "CreateOptions")
    assert (read.dry_run, read.field_manager, read.field_validation) == (True, "me", "Warn")
    applied = options.write_options({"fieldManager": "me", "force": "true"}, "PatchOptions", apply=True)
    assert applied.force
    for query, apply in (({"force": "true"}, False), ({}, True), ({"fieldManager": "a\n"}, False)):
        with pytest.raises(InvalidError):
            options.write_options(query, "PatchOptions", apply=apply)


def test_deletes_are_told_by_body_or_query() -> None:
    by_query = options.delete_options({"gracePeriodSeconds": "0", "propagationPolicy": "Orphan"}, None)
    assert (by_query.gracePeriodSeconds, by_query.propagationPolicy) == (0, "Orphan")
    text = b'{"kind":"DeleteOptions","apiVersion":"policy/v1","gracePeriodSeconds":5}'
    by_body = options.delete_options({"gracePeriodSeconds": "0"}, Body(text, "application/json"))
    assert by_body.gracePeriodSeconds == 5
    with pytest.raises(BadRequestError, match="Pod"):
        options.delete_options({}, Body(b'{"kind":"Pod"}', "application/json"))
