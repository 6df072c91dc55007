"""Serves the application with Tornado in several processes.

Usage: serve.py PORT[,PORT...] PROCESSES

All processes share a single port. Of several ports, each process has its own.
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


# All ports listen before a process serves one, so nginx can connect to each.
listeners = [processes.listen(int(port), 128) for port in sys.argv[1].split(",")]
processes.run(int(sys.argv[2]), lambda i: asyncio.run(serve(listeners[i % len(listeners)])))
