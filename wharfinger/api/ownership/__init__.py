"""Who owns which fields of an object: ``metadata.managedFields``, and server-side apply that goes by it.

`fields` knows the sets and finds the fields of an object by its schema, `merging` joins what was applied with what is
there, `managers` keeps the entries and decides about conflicts. The rules are those of Kubernetes'
structured-merge-diff.

Objects are tracked from their first apply on, or from their creation when the creator says its name: the same freedom
that Kubernetes' tracking has (`trackOnCreateProbability`), and what keeps controllers' writes cheap.
"""

from wharfinger.api.ownership.managers import Applied, apply, created, is_tracked, updated

__all__ = ["Applied", "apply", "created", "is_tracked", "updated"]
