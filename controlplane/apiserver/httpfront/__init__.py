"""The Kubernetes HTTP API: requests in, the chain, answers out. It decides nothing that the chain decides.

`server` listens and maps errors, `routing` reads paths, `options` queries, `media` says which formats are wanted,
`calls` holds the verbs, `render` and `rows` make answers, `streaming` watches; `discovery`, `health` and `documents`
serve what is no resource.
"""
