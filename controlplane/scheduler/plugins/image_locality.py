"""ImageLocality: prefer nodes that have the pod's images already, big ones above all.

An image counts with its size times the share of nodes that have it, lest one node draws everything; the sum becomes 0
to 100 between 23 MB and 1,000 MB for each container.
"""

from __future__ import annotations

import numpy as np

from controlplane.scheduler.framework import MAX_SCORE, Aspect, Ints, Rows, Score, ScorePlugin
from controlplane.scheduler.nodetable import NodeTable
from controlplane.scheduler.podinfo import PodClass

_MEGABYTE = 1024 * 1024
_LEAST = 23 * _MEGABYTE
_MOST_PER_CONTAINER = 1000 * _MEGABYTE


class ImageLocality(ScorePlugin):
    """Scores by the images of the pod that a node reports to have."""

    name = "ImageLocality"

    def prepare_score(self, pod: PodClass, table: NodeTable) -> Score:
        """Prepare to look for the images of the pod."""
        return _Score(table, tuple(normalised(image) for image in pod.images))


def normalised(image: str) -> str:
    """Return the name with the tag that is implied; what is before it stays as written, as in Kubernetes."""
    return f"{image}:latest" if image.rfind(":") <= image.rfind("/") else image


class _Score(Score):
    plugin = ImageLocality.name
    reads = Aspect.IMAGES

    def __init__(self, table: NodeTable, images: tuple[str, ...]) -> None:
        self._table = table
        self._images = images

    def stamp(self) -> int:
        return self._table.images_stamp

    def raw(self, rows: Rows) -> Ints:
        table = self._table
        total = np.zeros(table.size, np.int64)
        for name in self._images:
            image = table.images.get(name)
            if image is not None:
                counts = int(image.size * (len(image.rows) / len(table)))
                total[list(image.rows)] += counts
        most = _MOST_PER_CONTAINER * max(len(self._images), 1)
        bounded: Ints = np.clip(total[rows], _LEAST, most)
        return MAX_SCORE * (bounded - _LEAST) // (most - _LEAST)
