"""The application in web.py: responds with a text, repeated on numbered lines."""

import web

web.config.debug = False
urls = ("^/([^/]+)/([^/]+)$", "lines")


class lines:
    def GET(self, text, n):
        try:
            n = int(n)
        except ValueError:
            raise web.notfound()
        for i in range(n):
            yield "%d: %s\n" % (i, text)


application = web.application(urls, globals()).wsgifunc()
