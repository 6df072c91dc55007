"""The application in Tornado, in several processes.

usage: serve.py ports processes

Ports are separated by commas. One is shared by all processes, else each has its own.
"""

import asyncio
import sys

import processes
import tornado.httpserver
import tornado.web


class Lines(tornado.web.RequestHandler):
    def get(self, text, n):
        for i in range(int(n)):
            self.write("%d: %s\n" % (i, text))


async def serve(listener):
    listener.setblocking(False)
    application = tornado.web.Application([(r"^/([^/]+)/([0-9]+)$", Lines)])
    tornado.httpserver.HTTPServer(application).add_socket(listener)
    await asyncio.Event().wait()


# All ports are open before any of them is served, so that nginx finds them all.
listeners = [processes.listen(int(port), 128) for port in sys.argv[1].split(",")]
processes.run(int(sys.argv[2]), lambda i: asyncio.run(serve(listeners[i % len(listeners)])))
