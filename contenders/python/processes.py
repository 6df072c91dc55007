"""Several processes that share what they listen on."""

import os
import socket
import sys


def listen(port, backlog):
    """Returns a socket that listens on a port of this machine."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", port))
    s.listen(backlog)
    return s


def run(n, serve):
    """Calls serve with 0, 1 and so on, each in a process of its own; one is this one."""
    if n == 1:
        serve(0)
        return
    for i in range(n):
        if os.fork() == 0:
            serve(i)
            os._exit(0)
    os.wait()
    sys.exit("a process of several has ended")
