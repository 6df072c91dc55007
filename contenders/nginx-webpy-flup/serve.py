"""Serves the web.py application over FastCGI with flup.

Usage: serve.py SOCKET PROCESSES [threads]

The listening socket is the standard input of each process, as under spawn-fcgi.
"""

import os
import socket
import sys

import processes
from flup.server.fcgi import WSGIServer
from lines_webpy import application

# The limit of backlogs (net.core.somaxconn) on systems of the write-up's time. If the backlog is
# full, connecting fails at once, and nginx responds with 502.
BACKLOG = 128

listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
listener.listen(BACKLOG)
os.dup2(listener.fileno(), 0)
threads = sys.argv[3:] == ["threads"]


def serve(_):
    WSGIServer(application, bindAddress=None, multithreaded=threads, multiplexed=False).run()


processes.run(int(sys.argv[2]), serve)
