"""What this server says it is.

The API is Kubernetes' of this minor version; fields newer than that are accepted and have no effect.
"""

from wharfinger.version import git_version

MAJOR = "1"
MINOR = "36"
GIT_VERSION = git_version()
