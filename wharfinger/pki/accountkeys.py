"""The keys of service accounts' tokens, changed step by step: ``sa.key`` signs, all keys in ``sa.pub`` are accepted.

Several apiservers accept each other's tokens. So a key must be known to all of them before the first one signs with it,
and stay known for as long as somebody may show a token of it. Hence a change of keys is three changes of the files,
each of which must have reached every server before the next: :func:`add_key`, :func:`use_newest`, (tokens are made
anew), :func:`drop_old`.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from wharfinger import signingkeys, wholefile
from wharfinger.pki.files import locked
from wharfinger.pki.issuing import key_pem
from wharfinger.pki.pairs import PKIError

_SIGNING, _NEXT, _ACCEPTED = "sa.key", "sa.next.key", "sa.pub"


def add_key(folder: Path) -> bool:
    """Make the next key and accept its tokens; returns whether there was none yet. Raises PKIError, OSError."""
    with locked(folder):
        signing = _read(folder / _SIGNING)
        made = not (folder / _NEXT).exists()
        if made:
            wholefile.write(folder / _NEXT, key_pem(ec.generate_private_key(ec.SECP256R1())))
        accepted = signingkeys.load_keys(folder / _ACCEPTED) if (folder / _ACCEPTED).exists() else []
        _accept(folder, [signing, _read(folder / _NEXT), *accepted])
    return made


def use_newest(folder: Path) -> bool:
    """Sign with the next key; returns whether there was one. Raises PKIError, OSError."""
    with locked(folder):
        if not (folder / _NEXT).exists():
            return False
        coming = _read(folder / _NEXT)
        if coming.id not in {key.id for key in signingkeys.load_keys(folder / _ACCEPTED)}:
            raise PKIError(f"{folder / _ACCEPTED} lacks the next key: `wharf pki service-account add-key` first")
        (folder / _NEXT).replace(folder / _SIGNING)
    return True


def drop_old(folder: Path) -> int:
    """Accept only the key that signs; returns how many others were dropped. Raises PKIError, OSError."""
    with locked(folder):
        signing = _read(folder / _SIGNING)
        others = {key.id for key in signingkeys.load_keys(folder / _ACCEPTED)} - {signing.id}
        if others:
            _accept(folder, [signing])
        (folder / _NEXT).unlink(missing_ok=True)
    return len(others)


def _read(path: Path) -> signingkeys.Key:
    try:
        return signingkeys.load_key(path, private=True)
    except FileNotFoundError as error:
        raise PKIError(f"{path} does not exist; `wharf pki init` makes it") from error
    except ValueError as error:
        raise PKIError(str(error)) from error


def _accept(folder: Path, keys: list[signingkeys.Key]) -> None:
    blocks = {
        key.id: key.public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        for key in keys
    }  # fmt: skip
    wholefile.write(folder / _ACCEPTED, b"".join(blocks.values()), mode=0o644)
