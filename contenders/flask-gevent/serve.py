"""Serves a page with Flask on gevent. Usage: serve.py PORT"""

import sys

import flask
import gevent.pywsgi

app = flask.Flask(__name__)


@app.route("/")
def index():
    return open("index.html").read()


gevent.pywsgi.WSGIServer(("127.0.0.1", int(sys.argv[1])), app).serve_forever()
