"""The order of versions: ``v2``, ``v1``, ``v1beta2``, ``v1beta1``, ``v1alpha1``, then other names by the alphabet.

Source: "Version priority" in Kubernetes' documentation of CustomResourceDefinitions.
"""

from __future__ import annotations

import re

_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?", re.ASCII)
_STABILITY = {None: 0, "beta": 1, "alpha": 2}


def priority(version: str) -> tuple[int, int, int, int, str]:
    """Return a key by which the preferred version sorts first."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (1, 0, 0, 0, version)
    return (0, _STABILITY[found[2]], -int(found[1]), -int(found[3] or 0), version)
