r"""kubectl's dialect of JSONPath: ``{range .items[*]}{.metadata.name}{"\n"}{end}``.

A template is text with expressions in braces. The dialect is older than RFC 9535 and differs from every library:
results of one expression are joined by blanks, ``@`` and ``$`` both mean the current object, filters compare but know
neither ``&&`` nor functions, slices out of bounds are errors. What it means is documented under "JSONPath Support" in
Kubernetes' reference; where that is silent, kubectl's observed behaviour counts.

A template is parsed once into small immutable nodes; evaluation is a walk over plain JSON values.
"""

from wharfinger.api.jsonpath.evaluation import Template, go_number
from wharfinger.api.jsonpath.nodes import JSONPathError
from wharfinger.api.jsonpath.parsing import parse, relaxed

__all__ = ["JSONPathError", "Template", "go_number", "parse", "relaxed"]
