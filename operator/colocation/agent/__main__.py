"""``python -m colocation.agent``: serve until SIGTERM."""

import asyncio
import logging
import signal
import sys

from .authorizer import CachedAuthorizer
from .kubernetes_authorizer import KubernetesAuthorizer
from .server import running_agent
from .settings import Settings, settings_from


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with KubernetesAuthorizer() as kubernetes, running_agent(settings, CachedAuthorizer(kubernetes)):
        await stop.wait()


def main() -> None:
    """Run the agent."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(_serve(settings_from(sys.argv[1:])))


if __name__ == "__main__":
    main()
