"""Check whether keys and certificates can be used, and say so in a sentence."""

from pathlib import PurePath
from typing import TYPE_CHECKING

from stem.core.errors import ConfigError

if TYPE_CHECKING:
    from stem.core.settings.app import Settings


def signing(settings: "Settings") -> str:
    """Raises ConfigError."""
    return _keys(settings.signing_keys)


def control_signing(settings: "Settings") -> str:
    """Raises ConfigError."""
    return _keys(settings.control.keys)


def _keys(text: str) -> str:
    from stem.runtime.keys import Keyring

    return "on, the keys can be read" if Keyring.parse(text) else "off, there are no keys"


def tls(settings: "Settings") -> str:
    """Check the certificates of the stores and of the control endpoint. Raises ConfigError."""
    stores, control = settings.tls, settings.control
    told = []
    for what, ca_file, cert_file, key_file in (
        ("stores", stores.ca_file, stores.cert_file, stores.key_file),
        ("control", control.ca_file, control.cert_file, control.key_file),
    ):
        if ca_file or cert_file or key_file:
            check_files(what, ca_file, cert_file, key_file)
            told.append(f"{what}: the certificates can be used")
    if not stores.verify:
        told.append("stores: certificates are not verified (STEM_TLS_VERIFY=0)")
    return "; ".join(told) or "no certificates are configured"


def check_files(what: str, ca_file: PurePath | None, cert_file: PurePath | None, key_file: PurePath | None) -> None:
    """Load the files as a connection would. Raises ConfigError."""
    import ssl

    try:
        context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
        if cert_file is not None:
            context.load_cert_chain(str(cert_file), None if key_file is None else str(key_file))
    except OSError as error:  # ssl.SSLError is one as well
        files = ", ".join(str(file) for file in (ca_file, cert_file, key_file) if file is not None)
        cause = error.strerror or error
        raise ConfigError(f"TLS for {what} cannot use {files} ({cause}); correct the paths or the files.") from error
    if key_file is not None and cert_file is None:
        raise ConfigError(f"TLS for {what} has the key {key_file} and no certificate; name both.")
