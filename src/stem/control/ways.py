"""Which transports the settings name: the ears of a worker, and the way an asker takes."""

from stem.contracts.control import AnsweringSide, AskingSide
from stem.contracts.mail import Mail
from stem.contracts.store import Store
from stem.control.transports.broadcast import BroadcastTransport
from stem.control.transports.broker import BrokerTransport
from stem.control.transports.chain import Chain
from stem.control.transports.polling import PollingTransport
from stem.core.config import Control, Settings
from stem.core.errors import ConfigError


def ears(settings: Settings, mail: Mail, worker_id: str) -> list[AnsweringSide]:
    """A worker hears its own box and the broadcast, or polls for both; and its HTTP endpoint, where it is to have one.
    Raises ConfigError."""
    control, namespace = settings.control, settings.control_namespace
    found: list[AnsweringSide]
    if "polling" in control.transports:
        found = [PollingTransport(mail, namespace, worker_id, poll_seconds=control.poll_seconds)]
    else:
        found = [BrokerTransport(mail, namespace, worker_id), BroadcastTransport(mail, namespace, worker_id)]
    return found if control.http is None else [*found, _endpoint(settings, control.http)]


def way(settings: Settings, store: Store) -> AskingSide:
    """The transports of the settings, each for the workers that the one before it does not reach."""
    ways = [_way(name, settings, store) for name in settings.control.transports]
    if len(ways) == 1:
        return ways[0]
    return Chain(ways, lambda: [pulse.heartbeat.worker_id for pulse in store.heartbeats.all()])


def _way(name: str, settings: Settings, store: Store) -> AskingSide:
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


def _http(control: Control, store: Store) -> AskingSide:
    import ssl

    from stem.control.transports.http import HttpTransport, asker_tls, endpoints_of
    from stem.control.transports.http_allowed import Allowed

    files = (control.ca_file, control.cert_file, control.key_file)
    try:
        tls = asker_tls(*files) if any(files) else None
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"The certificates for control over HTTP cannot be used ({error}); check their files."
        ) from error
    allowed = Allowed(control.http_allow, has_authority=control.ca_file is not None)
    return HttpTransport(endpoints_of(store.heartbeats), token=control.token or None, tls=tls, allowed=allowed)


def _endpoint(settings: Settings, address: str) -> AnsweringSide:
    import ssl

    from stem.control.transports.http_endpoint import HttpEndpoint, endpoint_tls

    host, _, port = address.rpartition(":")
    control, tls = settings.control, None
    if control.cert_file is not None and control.key_file is not None:
        try:
            tls = endpoint_tls(control.cert_file, control.key_file, control.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"The certificate of the control endpoint cannot be used ({error}); check its files."
            ) from error
    return HttpEndpoint(host=host, port=int(port), token=control.token or None, tls=tls)
