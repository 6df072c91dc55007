"""Serves a page with Twisted. Usage: serve.py PORT"""

import sys

from twisted.internet import reactor
from twisted.web import resource, server


class Index(resource.Resource):
    isLeaf = True

    def render_GET(self, request):
        return open("index.html", "rb").read()


reactor.listenTCP(int(sys.argv[1]), server.Site(Index()), interface="127.0.0.1")
reactor.run()
