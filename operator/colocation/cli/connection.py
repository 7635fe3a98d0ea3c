"""The connection to the API server: which cluster, as whom, and when a refusal can be believed.

The cluster and the credentials come from the kubeconfig (with its credential plugins) or from the pod's account.
"""

import contextlib
import errno
import logging
import shlex
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, cast

import urllib3
from kubernetes import client, config
from kubernetes.config import kube_config
from urllib3.exceptions import InsecureRequestWarning
from yaml import YAMLError

from .errors import CommandFailed
from .terminal.output import tell

REQUEST_SECONDS = 10.0
ANSWER_SECONDS = 30.0
"""Between two bytes of an answer."""
PAUSE_SECONDS = 0.5
STARTING_SECONDS = 25.0
"""An API server is ready a few seconds after its start."""
READING_ROLES_SECONDS = 5.0
"""For this long, a server that refuses ``/readyz`` is taken for one that has not read the roles yet."""
_REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class Connection(client.ApiClient):
    """A client whose refusals (401, 403) can be believed.

    An API server that has just started has not read all roles and accounts, and refuses allowed requests and good
    tokens. So only a refusal given after the server reported that it is ready counts. A refused request did nothing,
    so writes may be repeated, too.
    """

    def __init__(self, configuration: client.Configuration) -> None:
        super().__init__(configuration)
        self._answers_readyz = True

    def call_api(self, *request: Any, **options: Any) -> Any:  # the client is untyped
        """One request; what was refused is asked once more when the server is ready.

        Gives up on a server that does not answer; the client by itself would wait without end.
        """
        options["_request_timeout"] = options.get("_request_timeout") or (REQUEST_SECONDS, ANSWER_SECONDS)
        answer = super().call_api(*request, **options)
        if answer.status not in _REFUSALS:
            return answer
        answer.read()  # makes the connection free again
        self.wait_until_ready(anonymously=answer.status == HTTPStatus.UNAUTHORIZED)
        return super().call_api(*request, **options)

    def wait_until_ready(self, anonymously: bool = False) -> None:
        """Wait until the server reports that it is ready, or has refused ``/readyz`` for so long that it always will.

        ``anonymously``: without credentials, which most servers allow; expired ones they would refuse.

        Raises:
            CommandFailed: it does not become ready.
        """
        began = time.monotonic()
        while self._answers_readyz:
            status, waited = self._readiness(anonymously), time.monotonic() - began
            if status in _REFUSALS:
                self._answers_readyz = waited < READING_ROLES_SECONDS
            elif status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _PASSING:
                return
            elif waited >= STARTING_SECONDS:
                raise CommandFailed(
                    f"the API server refused the request, and is not ready: it answers {status} to /readyz since "
                    f"{STARTING_SECONDS:.0f} s; it may not have read all roles yet, so run the command again later"
                )
            time.sleep(PAUSE_SECONDS)

    def _readiness(self, anonymously: bool) -> int:
        request = self.param_serialize("GET", "/readyz", auth_settings=[] if anonymously else ["BearerToken"])
        answer = super().call_api(*request, _request_timeout=REQUEST_SECONDS)
        answer.read()
        return int(answer.status)


SILENCE_SECONDS = 5.0
"""A credential plugin that takes longer is named: it may wait for the user to log in, or without end."""

_UNREADABLE = (OSError, UnicodeDecodeError, YAMLError, AttributeError, KeyError, TypeError, ValueError)
"""What the client's library raises for a file that is no kubeconfig."""
_NOT_FOUND = f"[Errno {errno.ENOENT}]"


def connect(context: str | None) -> Connection:
    """A client from the kubeconfig (``KUBECONFIG``), or from the pod that this runs in.

    Raises:
        ConfigException: neither is there, or the kubeconfig cannot be read.
        CommandFailed: the kubeconfig's credential plugin gives no credentials.
    """
    settings = client.Configuration()
    try:
        _load(context, settings)
    except config.ConfigException:
        if context is not None:
            raise
        try:
            config.load_incluster_config(client_configuration=settings)
        except config.ConfigException:
            _load(None, settings)
    if not settings.verify_ssl:  # set in the kubeconfig; kubectl does not warn with each request either
        urllib3.disable_warnings(InsecureRequestWarning)
    settings.retries = 1
    return Connection(settings)


def namespace_of(context: str | None) -> str | None:
    """The namespace that a context of the kubeconfig names, which need not have a current one; None when it names none,
    or there is no such context.
    """
    try:
        merged = kube_config.KubeConfigMerger(kube_config.KUBE_CONFIG_DEFAULT_LOCATION).config
        chosen = kube_config.KubeConfigLoader(merged, active_context=context).current_context if merged else None
    except (config.ConfigException, *_UNREADABLE):
        return None
    return cast("str | None", chosen["context"].get("namespace")) if chosen else None


def _load(context: str | None, settings: client.Configuration) -> None:
    """Load the kubeconfig. The client's library names a missing entry, but not a file that is no kubeconfig."""
    files = kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    try:
        merged = kube_config.KubeConfigMerger(files)
        if merged.config is None:
            raise config.ConfigException(f"{files} does not exist")
        _check_context(merged.config, context, files)
        loader = _Loader(
            merged.config, active_context=context, config_base_path=None, config_persister=merged.save_changes
        )
        loader.load_and_set(settings)
    except _UNREADABLE as error:
        why = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise config.ConfigException(f"{files} cannot be read as a kubeconfig: {why}") from error


def _check_context(merged: Any, context: str | None, files: str) -> None:
    """Refuse the name of a context that is not there."""
    names = [str(one["name"]) for one in merged.safe_get("contexts") or ()]
    if context is not None and context not in names:
        raise config.ConfigException(f"{files} has no context {context!r}; there are: {', '.join(names) or 'none'}")


class _Loader(kube_config.KubeConfigLoader):
    """The client's library, which only logs why a credential plugin failed, and goes on without credentials."""

    def _load_from_exec_plugin(self) -> bool | None:
        user: Any = self._user
        plugin = user.safe_get("exec")
        if not plugin:
            return None
        command = shlex.join(str(word) for word in (plugin.get("command") or "", *(plugin.get("args") or ())))
        with _errors_of_the_library() as errors, _named_when_silent(command):
            if super()._load_from_exec_plugin():
                return True
        raise CommandFailed(_failure(command, plugin.get("installHint"), errors))


def _failure(command: str, install_hint: object, errors: list[str]) -> str:
    """Which plugin failed, why, and what to do."""
    said = " ".join(" ".join(errors).removeprefix("exec: ").split())
    why, advice = f"failed: {said}", "run it by itself to see why, log in again, or choose another --context"
    if said.startswith(_NOT_FOUND):
        why, advice = "was not found", "install it, put its folder on PATH, or choose another --context"
    hint = f"\n{str(install_hint).strip()}" if install_hint else ""
    return f"the kubeconfig gets its credentials by `{command}`, which {why}; {advice}{hint}"


@contextlib.contextmanager
def _errors_of_the_library() -> Iterator[list[str]]:
    """What it logs by the root logger, which prints none of it meanwhile."""
    messages: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        messages.append(record.getMessage())
        return False

    root = logging.getLogger()
    root.addFilter(keep)
    try:
        yield messages
    finally:
        root.removeFilter(keep)


@contextlib.contextmanager
def _named_when_silent(command: str) -> Iterator[None]:
    """Print what the command waits for. A plugin may wait for the user to log in, so it is not ended."""
    message = f"waiting for the kubeconfig's credentials: `{command}` has not answered yet; end it with Ctrl-C"
    timer = threading.Timer(SILENCE_SECONDS, tell, (message,), {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
