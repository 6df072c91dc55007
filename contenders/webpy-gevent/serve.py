"""Serves the web.py application with gevent. Usage: serve.py PORT PROCESSES"""

import sys

import gevent.pywsgi
import gevent.socket
import processes
from lines_webpy import application

listener = processes.listen(int(sys.argv[1]), 256)


def serve(_):
    shared = gevent.socket.socket(fileno=listener.fileno())
    gevent.pywsgi.WSGIServer(shared, application, log=None).serve_forever()


processes.run(int(sys.argv[2]), serve)
