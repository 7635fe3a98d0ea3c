"""``python -m colocation.agent``: serve until SIGTERM."""

import asyncio
import signal
import sys

from kubernetes.aio.config import ConfigException

from colocation.common.logs import configure

from .authorizer import CachedAuthorizer, KubernetesAuthorizer, ReviewGuard
from .certificate_keeper import KubernetesCertificateRequests
from .front import FrontEnded
from .server import running_agent
from .settings import Settings, settings_from


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with KubernetesAuthorizer(settings.node) as kubernetes:
        authorizer = CachedAuthorizer(ReviewGuard(kubernetes, settings.node))
        requests = KubernetesCertificateRequests(kubernetes.api, settings.signer_name, settings.certificate_seconds)
        async with running_agent(settings, authorizer, requests if settings.signer_name else None) as running:
            ended = asyncio.create_task(running.front.ended.wait())
            await asyncio.wait((ended, asyncio.create_task(stop.wait())), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise FrontEnded("nginx ended unexpectedly; its last lines are in the log")


def main() -> None:
    """Run the agent."""
    settings = settings_from(sys.argv[1:])
    configure(settings.log_format)
    try:
        asyncio.run(_serve(settings))
    except ConfigException as error:
        sys.exit(f"the API server cannot be reached: {error}; run in a pod with a ServiceAccount, or set KUBECONFIG")
    except FrontEnded as error:
        sys.exit(f"the agent stops: {error}")
    except OSError as error:
        sys.exit(f"the agent cannot serve: {error}; check data root, certificate and ports (see --help)")


if __name__ == "__main__":
    main()
