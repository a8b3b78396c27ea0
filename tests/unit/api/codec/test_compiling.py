from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from wharfinger.api.codec.compiling import Compiled
from wharfinger.api.codec.schema import descriptor_of, info_of
from wharfinger.api.types import apiextensions

SCHEMA = descriptor_of(apiextensions.JSONSchemaProps)


class Counter:
    """Builds functions that name their type; types below are built first, as the codecs do."""

    def __init__(self) -> None:
        self.built: list[str] = []
        self.fail = False
        self.compiled: Compiled[Callable[[], str]] = Compiled(self._build)

    def _build(self, descriptor: Any, announce: Callable[[Callable[[], str]], None]) -> Callable[[], str]:
        def name() -> str:
            return str(descriptor.name)

        self.built.append(descriptor.name)
        announce(name)
        for field in info_of(descriptor).fields:
            if field.message is not None:
                self.compiled.of(field.message)
        if self.fail and descriptor.name == "JSON":
            raise ValueError("no JSON today")
        return name


def test_types_that_contain_themselves_are_built_once() -> None:
    counter = Counter()
    assert counter.compiled.of(SCHEMA)() == "JSONSchemaProps"
    assert len(counter.built) == len(set(counter.built)) > 5
    before = list(counter.built)
    counter.compiled.of(SCHEMA)
    assert counter.built == before


def test_nothing_is_published_of_a_compilation_that_failed() -> None:
    counter = Counter()
    counter.fail = True
    with pytest.raises(ValueError, match="no JSON today"):
        counter.compiled.of(SCHEMA)
    counter.fail = False
    assert counter.compiled.of(SCHEMA)() == "JSONSchemaProps"
    assert counter.built.count("JSON") == 2


def test_threads_get_the_same_finished_functions() -> None:
    counter = Counter()
    found: list[Callable[[], str]] = []
    threads = [threading.Thread(target=lambda: found.append(counter.compiled.of(SCHEMA))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(counter.built) == len(set(counter.built))
