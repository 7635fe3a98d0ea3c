"""``python -m benchmarks.agent_process``: a real agent without Kubernetes; every token may do everything."""

import argparse
import asyncio
import logging
import signal
from pathlib import Path

from colocation.agent.authorizer import Access, CachedAuthorizer, Identity
from colocation.agent.server import running_agent
from colocation.agent.settings import Settings
from colocation.common.logs import configure


class Everybody:
    """An ``Authorizer`` that lets everybody in, behind the same cache as the real one."""

    async def identify(self, token: str, peer: str = "") -> Identity:
        """See ``Authorizer``."""
        return Identity(f"bearer of {len(token)} characters", is_for_this_node=True)

    async def may(self, _identity: Identity, _access: Access) -> bool:
        """See ``Authorizer``."""
        return True


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with running_agent(settings, CachedAuthorizer(Everybody())):
        await stop.wait()


def main() -> None:
    """Run the agent."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", required=True)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--certificates", type=Path, required=True, help="folder with tls.crt and tls.key")
    given = parser.parse_args()
    configure("text")
    logging.getLogger("colocation").setLevel(logging.WARNING)
    settings = Settings(
        node=given.node,
        data_root=given.data_root,
        tls_certificate=given.certificates / "tls.crt",
        tls_key=given.certificates / "tls.key",
        host=given.host,
        port=given.port,
        health_port=given.port + 1,
        disk_headroom_fraction=0.0,
    )
    asyncio.run(serve(settings))


if __name__ == "__main__":
    main()
