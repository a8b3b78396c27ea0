"""The Common Expression Language, as far as rules of custom resources use it (``x-kubernetes-validations``).

`syntax` parses, `program` compiles an expression into nested functions (with `operators`, `loops` and `fields`) and
runs it under a budget (`frame`), `values` are the types that JSON does not have, `library` holds the functions: CEL's
own and those that Kubernetes adds (lists, strings, regular expressions, URLs, IP addresses, quantities, sets,
optionals, formats).

No Python package fits: those that are kept either lack Kubernetes' functions and ways to add methods, or bring sixteen
megabytes; and rules run in the write path of the server, so that cost and limits must be in hand. Expressions are
checked for syntax, unknown names, functions and numbers of arguments when they are compiled; types are looked at when
they run.

Sources: the language definition at cel.dev, and "Common Expression Language in Kubernetes" in Kubernetes'
documentation.
"""

from wharfinger.api.cel.program import Program, compile_expression
from wharfinger.api.cel.values import CelError

__all__ = ["CelError", "Program", "compile_expression"]
