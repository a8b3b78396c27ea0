"""OpenAPI v3 and v2 of what is served, made from the descriptors of ``proto/``.

Clients use it for two things: ``kubectl explain`` shows the descriptions, and ``kubectl`` looks whether a kind's PATCH
takes the parameter ``fieldValidation`` and then leaves validation to the server. `schemas` describes messages, `paths`
operations, `documents` puts them together; descriptions are the comments of ``proto/``.
"""

from wharfinger.api.openapi.documents import v2_document, v3_document

__all__ = ["v2_document", "v3_document"]
