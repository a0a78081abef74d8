"""`app.conf`: Celery's settings, read when they are first needed, from objects, modules or Django's settings."""

import os
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

from stem.compat.celery.app.settings import DEFAULTS, IGNORED, OLD_NAMES, REFUSED
from stem.compat.celery.exceptions import ImproperlyConfigured
from stem.compat.celery.refused import BROKERS, NotBridged

JSON_CONTENT = {"json", "application/json"}


class CeleryConf(MutableMapping[str, Any]):
    """Settings by name, as attributes and as items. What is set here counts before the sources, later ones first."""

    def __init__(self) -> None:
        vars(self).update(_own={}, _sources=[], _read=None)

    def add_source(self, source: Any, namespace: str | None) -> None:
        vars(self)["_sources"].append((source, namespace))
        vars(self)["_read"] = None

    def add_defaults(self, values: Mapping[str, Any]) -> None:
        vars(self)["_sources"].insert(0, (dict(values), None))
        vars(self)["_read"] = None

    @property
    def settings(self) -> dict[str, Any]:
        """All that is set, by today's names."""
        found = vars(self)["_read"]
        if found is None:
            found = {}
            for source, namespace in vars(self)["_sources"]:
                found.update(_settings_of(source, namespace))
            vars(self)["_read"] = found
        return {**found, **vars(self)["_own"]}

    def __getitem__(self, name: str) -> Any:
        name = _today(name)
        found = self.settings
        return found[name] if name in found else DEFAULTS[name]

    def __setitem__(self, name: str, value: Any) -> None:
        vars(self)["_own"][_today(name)] = value

    def __delitem__(self, name: str) -> None:
        vars(self)["_own"].pop(_today(name), None)

    def __iter__(self) -> Iterator[str]:
        return iter({**DEFAULTS, **self.settings})

    def __len__(self) -> int:
        return len({**DEFAULTS, **self.settings})

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            if name in IGNORED:
                return None
            raise AttributeError(f"There is no setting {name!r}.") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def table(self, **_options: Any) -> dict[str, Any]:
        return dict(self)

    humanize = table


def check_conf(conf: CeleryConf) -> None:
    """Refuse what would silently mean something else. Raises NotBridged."""
    for name, value in conf.settings.items():
        if name in REFUSED and value not in (None, False, (), [], {}):
            raise NotBridged(f"The setting {name} is not part of the Celery bridge. {REFUSED[name]}")
    for name in ("task_serializer", "result_serializer"):
        if conf[name] not in JSON_CONTENT:
            raise NotBridged(f"{name} is {conf[name]!r}, and Stem carries JSON only; set it to 'json'.")
    content = conf["accept_content"]
    if content and not JSON_CONTENT & set(content):
        raise NotBridged(f"accept_content is {content!r}, and Stem carries JSON only; add 'json'.")


def broker_url(conf: CeleryConf) -> str | None:
    """The URL for Stem; None leaves it to Stem's own settings. STEM_BROKER_URL counts first. Raises NotBridged."""
    url = own_broker_url(conf)
    if os.environ.get("STEM_BROKER_URL") or not url:
        return None
    scheme, _, rest = url.partition("://")
    if scheme.lower() in BROKERS:
        raise NotBridged(
            f"broker_url names {BROKERS[scheme.lower()]}, and Stem keeps tasks in SQLite, Redis or Postgres; "
            "set broker_url or STEM_BROKER_URL to redis://…, postgresql://… or sqlite:///…"
        )
    return f"{scheme.removeprefix('sqla+')}://{rest}"


def own_broker_url(conf: CeleryConf) -> str | None:
    url = conf["broker_url"] or conf["broker_write_url"] or os.environ.get("CELERY_BROKER_URL")
    if isinstance(url, list | tuple):
        url = url[0] if url else None
    return url.split(";")[0] if url else None


def _today(name: str) -> str:
    """The name of a setting today."""
    if name in OLD_NAMES:
        return OLD_NAMES[name]
    return name.lower() if name.isupper() else name


def _settings_of(source: Any, namespace: str | None) -> dict[str, Any]:
    values = _values(_loaded(source) if isinstance(source, str) else source)
    if namespace:
        prefix = f"{namespace.upper()}_"
        found = {name[len(prefix) :].lower(): value for name, value in values.items() if name.startswith(prefix)}
        old = {OLD_NAMES[f"CELERY_{name.upper()}"]: value for name, value in found.items() if _is_old(name)}
        return {**found, **old}
    found = {OLD_NAMES[name]: value for name, value in values.items() if name in OLD_NAMES}
    return {**found, **{name: value for name, value in values.items() if name.islower() and not name.startswith("_")}}


def _is_old(name: str) -> bool:
    return name not in DEFAULTS and f"CELERY_{name.upper()}" in OLD_NAMES


def _values(source: Any) -> Mapping[str, Any]:
    if isinstance(source, Mapping):
        return source
    return {name: getattr(source, name) for name in dir(source) if not name.startswith("__")}


def _loaded(path: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        head, _, tail = module.rpartition(".")
        if attribute or not head or not (error.name or "").startswith(module):
            raise ImproperlyConfigured(
                f"There is no module {error.name!r} for config_from_object({path!r})."
            ) from error
        return getattr(import_module(head), tail)
    return getattr(found, attribute) if attribute else found
