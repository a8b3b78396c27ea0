"""OpenAPI v3 and v2 of what is served, made from the descriptors of ``proto/``.

Clients use it for two things: ``kubectl explain`` shows the descriptions, and ``kubectl`` looks whether a kind's PATCH
takes the parameter ``fieldValidation`` and then leaves validation to the server. `schemas` describes messages, `paths`
operations, `documents` puts them together, `binary` writes v2 as protobuf; descriptions are the comments of ``proto/``.
"""

from wharfinger.api.openapi.binary import ACCEPTED as BINARY_ACCEPTED
from wharfinger.api.openapi.binary import CONTENT_TYPE as BINARY
from wharfinger.api.openapi.binary import encode as encode_binary
from wharfinger.api.openapi.documents import v2_document, v3_document

__all__ = ["BINARY", "BINARY_ACCEPTED", "encode_binary", "v2_document", "v3_document"]
