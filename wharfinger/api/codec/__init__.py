"""Objects between messages, Kubernetes' JSON, YAML and the bytes that Kubernetes stores.

Everything is compiled from the descriptors of ``proto/`` at first use of a type; no kind is named here.
"""

from wharfinger.api.codec.canonical import canonical_bytes
from wharfinger.api.codec.decode import Decoded, Validation, from_json, read_object
from wharfinger.api.codec.encode import to_json, to_json_bytes
from wharfinger.api.codec.issues import FieldIssue
from wharfinger.api.codec.manifests import dump as to_yaml
from wharfinger.api.codec.manifests import from_yaml, load_documents, load_manifests
from wharfinger.api.codec.wire import from_protobuf

__all__ = [
    "Decoded", "FieldIssue", "Validation", "canonical_bytes", "from_json", "from_protobuf", "from_yaml",
    "load_documents", "load_manifests", "read_object", "to_json", "to_json_bytes", "to_yaml",
]  # fmt: skip
