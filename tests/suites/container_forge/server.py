"""A forge: git's own server behind basic authentication. Arguments: its directory, the user, the token."""

import base64
import http.server
import os
import subprocess
import sys

ROOT, USER, TOKEN = sys.argv[1:]
EXPECTED = "Basic " + base64.b64encode(f"{USER}:{TOKEN}".encode()).decode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        whole = b""
        while size := int(self.rfile.readline(), 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def answer(self):
        body = self.body()
        if self.headers.get("Authorization") != EXPECTED:
            return self.reply(401, {"WWW-Authenticate": "Basic"}, b"who are you?\n")
        path, _, query = self.path.partition("?")
        environment = dict(
            os.environ,
            GIT_PROJECT_ROOT=ROOT,
            GIT_HTTP_EXPORT_ALL="1",
            REMOTE_USER=USER,
            REQUEST_METHOD=self.command,
            PATH_INFO=path,
            QUERY_STRING=query,
            CONTENT_TYPE=self.headers.get("Content-Type", ""),
            CONTENT_LENGTH=str(len(body)),
            HTTP_CONTENT_ENCODING=self.headers.get("Content-Encoding", ""),
            GIT_PROTOCOL=self.headers.get("Git-Protocol", ""),
        )
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True)
        head, _, text = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        status = int(fields.pop("Status", "200 OK").split()[0])
        self.reply(status, fields, text)

    def reply(self, status, fields, text):
        self.send_response(status)
        for name, value in {**fields, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = answer


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
