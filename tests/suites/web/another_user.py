"""Sends requests without credentials to a server, and prints their statuses."""

import http.client
import sys

port, host = int(sys.argv[1]), sys.argv[2]
for method, path in [
    ("GET", "/"),
    ("GET", "/api/sessions"),
    ("GET", "/api/stream"),
    ("POST", "/api/sessions"),
    ("POST", "/sign-in"),
    ("GET", "/media/" + "0" * 64),
]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request(method, path, headers={"Host": host})
    print(connection.getresponse().status, end=" ")
