"""The one place that says which version this is, for the server, the node agents and the command line.

The API is Kubernetes' of this minor version: clients compare it with their own. Ours follows after the plus sign.
"""

from functools import cache
from importlib import metadata

KUBERNETES = "v1.36.0"


@cache
def git_version() -> str:
    """Return what Kubernetes calls gitVersion. Reads the installed package, so only when somebody asks."""
    return f"{KUBERNETES}+wharfinger.{metadata.version('wharfinger')}"
