"""The constructions of Kubernetes' providers, as its ``pkg/storage/value/encrypt`` defines them.

========== ==============================================================================================
aescbc     16 random bytes of IV, then AES-CBC of the value padded as PKCS #7 does (RFC 5652, 6.3)
aesgcm     12 random bytes of nonce, then AES-GCM with its tag; the key in etcd is authenticated with it
secretbox  24 random bytes of nonce, then NaCl's secretbox (XSalsa20 and Poly1305), the tag first
========== ==============================================================================================

aescbc does not authenticate: whoever can write etcd can change such a value unseen. aesgcm's random nonces are safe
for some hundred thousand writes a key, which is why Kubernetes wants its keys changed often. secretbox has neither
weakness. The place of a value (`context`) is its key in etcd; only aesgcm binds a value to it, so only there a value
that was copied to another key is refused.
"""

from __future__ import annotations

import os
from typing import Protocol

_BLOCK = 16
_NONCE = 12


class CipherError(ValueError):
    """Raised when a value cannot be decrypted: the wrong key, or not the bytes that were written."""


class Cipher(Protocol):
    """One key of one provider."""

    def seal(self, value: bytes, context: bytes) -> bytes:
        """Encrypt."""
        ...

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Decrypt. Raises CipherError."""
        ...


class AesCbc(Cipher):
    """Provider aescbc."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives import ciphers, padding

        self._ciphers = ciphers
        self._padding = padding.PKCS7(_BLOCK * 8)
        self._key = ciphers.algorithms.AES(key)

    def seal(self, value: bytes, context: bytes) -> bytes:
        """Encrypt."""
        iv = os.urandom(_BLOCK)
        padder = self._padding.padder()
        encryptor = self._ciphers.Cipher(self._key, self._ciphers.modes.CBC(iv)).encryptor()
        return iv + encryptor.update(padder.update(value) + padder.finalize()) + encryptor.finalize()

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Decrypt. Raises CipherError."""
        if len(sealed) < 2 * _BLOCK or len(sealed) % _BLOCK:
            raise CipherError(f"{len(sealed)} bytes are no IV and whole blocks of {_BLOCK}")
        decryptor = self._ciphers.Cipher(self._key, self._ciphers.modes.CBC(sealed[:_BLOCK])).decryptor()
        unpadder = self._padding.unpadder()
        try:
            padded = decryptor.update(sealed[_BLOCK:]) + decryptor.finalize()
            return unpadder.update(padded) + unpadder.finalize()
        except ValueError as error:
            raise CipherError("the padding is not what it must be: another key, or changed bytes") from error


class AesGcm(Cipher):
    """Provider aesgcm."""

    def __init__(self, key: bytes) -> None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._invalid = InvalidTag
        self._aead = AESGCM(key)

    def seal(self, value: bytes, context: bytes) -> bytes:
        """Encrypt."""
        nonce = os.urandom(_NONCE)
        return nonce + self._aead.encrypt(nonce, value, context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Decrypt. Raises CipherError."""
        if len(sealed) < _NONCE + _BLOCK:
            raise CipherError(f"{len(sealed)} bytes are no nonce and tag")
        try:
            return self._aead.decrypt(sealed[:_NONCE], sealed[_NONCE:], context)
        except self._invalid as error:
            raise CipherError("the tag does not fit: another key, another place, or changed bytes") from error


class SecretBox(Cipher):
    """Provider secretbox."""

    def __init__(self, key: bytes) -> None:
        from nacl.exceptions import CryptoError
        from nacl.secret import SecretBox as Box

        self._invalid = CryptoError
        self._box = Box(key)

    def seal(self, value: bytes, context: bytes) -> bytes:
        """Encrypt."""
        return bytes(self._box.encrypt(value))

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Decrypt. Raises CipherError."""
        try:
            return bytes(self._box.decrypt(sealed))
        except (self._invalid, ValueError, TypeError) as error:
            raise CipherError("the tag does not fit: another key, or changed bytes") from error
