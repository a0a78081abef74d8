"""Builds the transports that the settings name: those a worker listens on, and the one that a caller uses."""

from typing import TYPE_CHECKING

from stem.contracts.steering.control import CommandReceiver, CommandSender
from stem.contracts.steering.mail import Mail
from stem.contracts.store import Store
from stem.control.transports.broadcast import BroadcastTransport
from stem.control.transports.broker import BrokerTransport
from stem.control.transports.chain import TransportChain
from stem.control.transports.polling import PollingTransport
from stem.core.errors import ConfigError
from stem.core.settings.app import ControlSettings, Settings

if TYPE_CHECKING:
    from stem.control.transports.http_server import Probes


def command_receivers(
    settings: Settings, mail: Mail, worker_id: str, *, probes: "Probes | None" = None
) -> list[CommandReceiver]:
    """A worker hears its own box and the broadcast, or polls for both; and its HTTP endpoint, where it is to have one, which
    also answers `probes`. Raises ConfigError."""
    control, namespace = settings.control, settings.control_namespace
    found: list[CommandReceiver]
    if "polling" in control.transports:
        found = [PollingTransport(mail, namespace, worker_id, poll_seconds=control.poll_seconds)]
    else:
        found = [BrokerTransport(mail, namespace, worker_id), BroadcastTransport(mail, namespace, worker_id)]
    return found if control.http is None else [*found, _endpoint(settings, control.http, probes)]


def command_sender(settings: Settings, store: Store) -> CommandSender:
    """The transports of the settings, each for the workers that the one before it does not reach."""
    transports = [_command_sender(name, settings, store) for name in settings.control.transports]
    if len(transports) == 1:
        return transports[0]
    return TransportChain(transports, lambda: [pulse.heartbeat.worker_id for pulse in store.heartbeats.all()])


def _command_sender(name: str, settings: Settings, store: Store) -> CommandSender:
    namespace, control = settings.control_namespace, settings.control
    match name:
        case "broadcast":
            return BroadcastTransport(store.mail, namespace)
        case "polling":
            return PollingTransport(store.mail, namespace, poll_seconds=control.poll_seconds)
        case "http":
            return _http(control, store)
        case "broker":
            return BrokerTransport(store.mail, namespace)
        case _:
            raise ConfigError(f"There is no control transport {name!r}; use broker, broadcast, http or polling.")


def _http(control: ControlSettings, store: Store) -> CommandSender:
    import ssl

    from stem.control.transports.http import HttpTransport, caller_tls, endpoints_of
    from stem.control.transports.http_allowed import AllowedEndpoints

    files = (control.ca_file, control.cert_file, control.key_file)
    try:
        tls = caller_tls(*files) if any(files) else None
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"The certificates for control over HTTP cannot be used ({error}); check their files."
        ) from error
    allowed = AllowedEndpoints(control.http_allow, has_authority=control.ca_file is not None)
    return HttpTransport(endpoints_of(store.heartbeats), token=control.token or None, tls=tls, allowed=allowed)


def _endpoint(settings: Settings, address: str, probes: "Probes | None") -> CommandReceiver:
    import ssl

    try:
        from stem.control.transports.http_endpoint import HttpEndpoint, endpoint_tls
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "stem":
            raise
        raise ConfigError(
            f"A worker's control endpoint (STEM_CONTROL_HTTP) needs the package {package!r}; pip install 'stem-tasks[http]'."
        ) from error

    host, _, port = address.rpartition(":")
    control, tls = settings.control, None
    if control.cert_file is not None and control.key_file is not None:
        try:
            tls = endpoint_tls(control.cert_file, control.key_file, control.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"The certificate of the control endpoint cannot be used ({error}); check its files."
            ) from error
    return HttpEndpoint(host=host, port=int(port), token=control.token or None, tls=tls, probes=probes)
