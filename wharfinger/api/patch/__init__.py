"""Patches: JSON patch, merge patch and strategic merge patch on Kubernetes' JSON, answered as Kubernetes answers.

The three functions take and return plain JSON values and leave their arguments alone; :func:`apply` does all that the
apiserver's PATCH does between the stored object and the validation of the patched one. Which malformed patch is a 400,
which a 422 and which a bare 500 follows what a real kube-apiserver answers.
"""

from wharfinger.api.patch.entry import PATCH_TYPES, PatchType, apply, parse
from wharfinger.api.patch.json import json_patch
from wharfinger.api.patch.merge import merge_patch
from wharfinger.api.patch.strategic import strategic_merge

__all__ = ["PATCH_TYPES", "PatchType", "apply", "json_patch", "merge_patch", "parse", "strategic_merge"]
