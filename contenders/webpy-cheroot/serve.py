"""The application in web.py on CherryPy's server: serve.py port processes"""

import sys

import cheroot.wsgi
import processes
from lines_webpy import application

address = ("127.0.0.1", int(sys.argv[1]))


def serve(_):
    # The backlog of 40 is the write-up's, and the threads are as many as by default.
    cheroot.wsgi.Server(address, application, request_queue_size=40, reuse_port=True).start()


processes.run(int(sys.argv[2]), serve)
