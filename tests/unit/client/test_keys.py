"""Keys are read from one line of text, and never shown."""

import base64
from pathlib import Path

import pytest

from stem import ConfigError, SignatureInvalid, UsageError
from stem.runtime.keys import Keyring

SECRET = base64.b64encode(b"s" * 32).decode()
SEED = base64.b64encode(b"e" * 32).decode()


def public_of(seed: str) -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return base64.b64encode(
        Ed25519PrivateKey.from_private_bytes(base64.b64decode(seed)).public_key().public_bytes_raw()
    ).decode()


@pytest.mark.parametrize("text", [f"a:hmac-sha256:{SECRET}", f"a:ed25519:{SEED}"])
def test_a_key_verifies_what_it_signed_and_nothing_else(text: str) -> None:
    ring = Keyring.parse(text)
    key_id, signature = ring.sign(b"data")
    ring.verify(key_id, b"data", signature)
    for wrong in (signature[:-4] + "AAA=", "", "not base64!", base64.b64encode(b"short").decode()):
        with pytest.raises(SignatureInvalid):
            ring.verify(key_id, b"data", wrong)
    with pytest.raises(SignatureInvalid, match="'a' does not match"):
        ring.verify(key_id, b"other data", signature)


def test_a_public_key_verifies_and_cannot_sign() -> None:
    key_id, signature = Keyring.parse(f"a:ed25519:{SEED}").sign(b"data")
    reader = Keyring.parse(f"a:ed25519-public:{public_of(SEED)}")
    reader.verify(key_id, b"data", signature)
    with pytest.raises(UsageError, match="None of the signing keys can sign"):
        reader.sign(b"data")


def test_the_first_key_that_can_sign_signs_and_all_verify() -> None:
    old, new = f"old:hmac-sha256:{SECRET}", f"new:ed25519:{SEED}"
    both = Keyring.parse(f"reader:ed25519-public:{public_of(SEED)}, {new}, {old}")
    assert both.sign(b"data")[0] == "new"
    both.verify(*_swap(Keyring.parse(old).sign(b"data")))
    with pytest.raises(SignatureInvalid, match="key 'new', which is not among"):
        Keyring.parse(old).verify(*_swap(both.sign(b"data")))


def test_keys_may_stand_in_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET + "\n")
    (tmp_path / "ring").write_text(f"a:hmac-sha256:{SECRET}\nb:ed25519:{SEED}\n")
    assert repr(Keyring.parse(f"a:hmac-sha256:@{tmp_path}/secret")) == "Keyring(a)"
    assert repr(Keyring.parse(f"@{tmp_path}/ring")) == "Keyring(a, b)"
    with pytest.raises(ConfigError, match=r"'a' should be in .*/none, which cannot be read: No such file"):
        Keyring.parse(f"a:hmac-sha256:@{tmp_path}/none")


def test_no_text_is_no_keys() -> None:
    assert not Keyring.parse("")


@pytest.mark.parametrize("text", [" ", ",", " , ", "\n", "@{}/empty", "@{}/blank"])
def test_a_text_that_holds_no_key_does_not_turn_signing_off(text: str, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "blank").write_text(" \n,\n")
    with pytest.raises(ConfigError, match="no key; add one as id:hmac"):
        Keyring.parse(text.format(tmp_path))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (SECRET, "not of the form"),
        (f"a:{SECRET}", "not of the form"),
        (f"a:rot13:{SECRET}", "'a' has an unknown algorithm"),
        ("a:hmac-sha256:!!!", "'a' is not base64"),
        ("a:hmac-sha256:c2hvcnQ=", "'a' has 5 bytes and needs at least 16"),
        ("a:ed25519:c2hvcnQ=", "'a' has 5 bytes, and an Ed25519 key has 32"),
        (f"a:hmac-sha256:{SECRET},a:ed25519:{SEED}", "'a' is given twice"),
    ],
)
def test_a_malformed_key_is_named_and_never_shown(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        Keyring.parse(text)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_keyring_shows_ids_only() -> None:
    ring = Keyring.parse(f"a:hmac-sha256:{SECRET}")
    assert SECRET not in repr(ring) + repr(vars(ring))


def _swap(signed: tuple[str, str]) -> tuple[str, bytes, str]:
    return signed[0], b"data", signed[1]
