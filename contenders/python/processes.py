"""Processes that share listening sockets."""

import os
import socket
import sys


def listen(port, backlog):
    """Returns a socket that listens on a port of 127.0.0.1."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", port))
    s.listen(backlog)
    return s


def run(n, serve):
    """Calls serve(0) to serve(n-1), each in its own process; a single one runs in this process."""
    if n == 1:
        serve(0)
        return
    for i in range(n):
        if os.fork() == 0:
            serve(i)
            os._exit(0)
    os.wait()
    sys.exit("a serving process has ended")
