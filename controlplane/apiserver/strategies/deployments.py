"""Deployments and DaemonSets: changes beyond the spec that count, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.strategies.base import Strategy, same

if TYPE_CHECKING:
    from controlplane.apiserver.request import Request
    from wharfinger.api.types import apps

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DeploymentStrategy(Strategy):
    """How deployments differ: annotations count as a change, because some of them steer the roll-out."""

    def changes_generation(self, obj: apps.Deployment, old: apps.Deployment) -> bool:
        """Whether the spec or an annotation changed."""
        return dict(obj.metadata.annotations) != dict(old.metadata.annotations) or super().changes_generation(obj, old)

    def keep_metadata(self, obj: apps.Deployment, old: apps.Deployment) -> None:
        """Labels are not the business of those who report status."""
        obj.metadata.labels.clear()
        obj.metadata.labels.update(old.metadata.labels)


class DaemonSetStrategy(Strategy):
    """How daemon sets differ: an annotation counts the generations of the template."""

    def prepare_for_create(self, obj: apps.DaemonSet, request: Request) -> None:
        """Start the template's generation at 1."""
        super().prepare_for_create(obj, request)
        annotations = obj.metadata.annotations
        try:
            given = int(annotations.get(TEMPLATE_GENERATION, ""))
        except ValueError:
            given = 0
        annotations[TEMPLATE_GENERATION] = str(max(given, 1))

    def prepare_for_update(self, obj: apps.DaemonSet, old: apps.DaemonSet, request: Request) -> None:
        """Count the template's generation, which only the server may."""
        super().prepare_for_update(obj, old, request)
        try:
            generation = int(old.metadata.annotations.get(TEMPLATE_GENERATION, ""))
        except ValueError:
            generation = 0
        if not same(obj.spec.template, old.spec.template):
            generation += 1
        obj.metadata.annotations[TEMPLATE_GENERATION] = str(generation)
