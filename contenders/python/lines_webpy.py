"""The application in web.py: a number of lines of a text."""

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
