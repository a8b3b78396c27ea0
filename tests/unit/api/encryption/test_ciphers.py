"""The constructions against published vectors, and what is refused."""

from __future__ import annotations

import os

import pytest

from wharfinger.api.encryption.ciphers import AesCbc, AesGcm, Cipher, CipherError, SecretBox


def fixed(monkeypatch: pytest.MonkeyPatch, value: bytes) -> None:
    def urandom(size: int) -> bytes:
        assert size == len(value)
        return value

    monkeypatch.setattr(os, "urandom", urandom)


def test_aescbc_is_that_of_sp_800_38a(monkeypatch: pytest.MonkeyPatch) -> None:
    """NIST SP 800-38A, F.2.5: CBC-AES256."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    iv = bytes.fromhex("000102030405060708090a0b0c0d0e0f")
    plain = bytes.fromhex(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    wanted = bytes.fromhex(
        "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d"
        "39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b"
    )
    fixed(monkeypatch, iv)
    sealed = AesCbc(key).seal(plain, b"/registry/secrets/a/b")
    assert sealed[: 16 + 64] == iv + wanted
    assert len(sealed) == 16 + 64 + 16  # whole blocks get one more, of padding
    assert AesCbc(key).open(sealed, b"") == plain


def test_aesgcm_is_that_of_the_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    """McGrew and Viega, "The Galois/Counter Mode of Operation", test case 16."""
    key = bytes.fromhex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")
    nonce = bytes.fromhex("cafebabefacedbaddecaf888")
    context = bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
    plain = bytes.fromhex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
    )
    wanted = bytes.fromhex(
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
        "76fc6ece0f4e1768cddf8853bb2d551b"
    )
    fixed(monkeypatch, nonce)
    assert AesGcm(key).seal(plain, context) == nonce + wanted
    assert AesGcm(key).open(nonce + wanted, context) == plain


def test_secretbox_is_that_of_nacl() -> None:
    """NaCl's own test ``secretbox``."""
    key = bytes.fromhex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389")
    nonce = bytes.fromhex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37")
    plain = bytes.fromhex(
        "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c61296cdc3c0123"
        "3561f41db66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde048977eb48f59ffd49"
        "24ca1c60902e52f0a089bc76897040e082f937763848645e0705"
    )
    wanted = bytes.fromhex(
        "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186ac0dfc17c98"
        "dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae90224368517acfeabd"
        "6bb3732bc0e9da99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5"
    )
    assert SecretBox(key).open(nonce + wanted, b"") == plain
    sealed = SecretBox(key).seal(plain, b"")
    assert len(sealed) == 24 + 16 + len(plain)
    assert SecretBox(key).open(sealed, b"") == plain


CIPHERS = [AesCbc, AesGcm, SecretBox]


@pytest.mark.parametrize("make", CIPHERS)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 4096])
def test_all_sizes_come_back(make: type[Cipher], size: int) -> None:
    cipher, value = make(b"k" * 32), os.urandom(size)
    sealed = cipher.seal(value, b"/registry/x")
    assert cipher.open(sealed, b"/registry/x") == value
    assert sealed != cipher.seal(value, b"/registry/x")  # never the same twice


@pytest.mark.parametrize("make", CIPHERS)
def test_what_is_too_short_is_refused(make: type[Cipher]) -> None:
    for size in (0, 1, 16, 27, 31):
        with pytest.raises(CipherError):
            make(b"k" * 32).open(b"x" * size, b"")


@pytest.mark.parametrize("make", [AesGcm, SecretBox])
def test_changed_bytes_and_other_keys_are_refused(make: type[Cipher]) -> None:
    sealed = make(b"k" * 32).seal(b"value", b"/a")
    with pytest.raises(CipherError):
        make(b"j" * 32).open(sealed, b"/a")
    with pytest.raises(CipherError):
        make(b"k" * 32).open(sealed[:-1] + bytes([sealed[-1] ^ 1]), b"/a")


def test_aesgcm_binds_a_value_to_its_place() -> None:
    with pytest.raises(CipherError):
        AesGcm(b"k" * 32).open(AesGcm(b"k" * 32).seal(b"value", b"/a"), b"/b")
