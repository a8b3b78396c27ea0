"""What this server says it is.

The API is Kubernetes' of this minor version; fields newer than that are accepted and have no effect.
"""

MAJOR = "1"
MINOR = "36"
GIT_VERSION = "v1.36.0+wharfinger.1"
