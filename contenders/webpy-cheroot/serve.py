"""Serves the web.py application with CherryPy's server. Usage: serve.py PORT PROCESSES"""

import sys

import cheroot.wsgi
import processes
from lines_webpy import application

address = ("127.0.0.1", int(sys.argv[1]))


def serve(_):
    # The backlog of 40 is the write-up's. The number of threads is the default.
    cheroot.wsgi.Server(address, application, request_queue_size=40, reuse_port=True).start()


processes.run(int(sys.argv[2]), serve)
