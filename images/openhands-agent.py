"""The OpenHands agent server; with `--host ::` at every address of both families.

asyncio confines a server at `::` to IPv6, and the agent server reaches itself at 127.0.0.1.
"""

import socket

from openhands.agent_server import __main__ as agent_server


def socket_of_both_families(port: int) -> socket.socket:
    """The server listens on it once it has started: until then connections are refused."""
    bound = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    bound.bind(("::", port))
    return bound


class Server(agent_server.LoggingServer):
    def run(self, sockets: list[socket.socket] | None = None) -> None:
        if self.config.host == "::":
            if socket.has_dualstack_ipv6():
                sockets = [socket_of_both_families(self.config.port)]
            else:
                self.config.host = "0.0.0.0"
        super().run(sockets)


agent_server.LoggingServer = Server
agent_server.main()
