"""The application in web.py by FastCGI, on flup: serve.py socket processes [threads]

As under spawn-fcgi, the processes find the socket as their standard input.
"""

import os
import socket
import sys

import processes
from flup.server.fcgi import WSGIServer
from lines_webpy import application

# What a system of the write-up's time cut any backlog to (net.core.somaxconn). A socket
# whose backlog is full refuses at once, and nginx answers 502.
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
