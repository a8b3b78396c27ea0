"""Encryption at rest, by Kubernetes' EncryptionConfiguration: the bytes in etcd are those that kube-apiserver writes.

`ciphers` are the constructions (aescbc, aesgcm, secretbox), `configuration` is the file, `transformer` applies it to
the keys and values of the store. Libraries of ciphers are imported when a configuration names them: a server without
one does not carry them.
"""

from wharfinger.api.encryption.configuration import API_VERSION, MARK, Encryption, load, parse
from wharfinger.api.encryption.transformer import Transformer, group_resource_of

__all__ = ["API_VERSION", "MARK", "Encryption", "Transformer", "group_resource_of", "load", "parse"]
