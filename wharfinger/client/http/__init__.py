"""The API of any Kubernetes cluster, over its HTTPS port: the same faces as the gRPC client's, other insides."""
