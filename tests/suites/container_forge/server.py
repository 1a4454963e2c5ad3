"""A forge: git's own server behind basic authentication. Arguments: its directory, the user, the token."""

import base64
import http.server
import json
import os
import subprocess
import sys

ROOT, USER, TOKEN = sys.argv[1:]
EXPECTED = ["Basic " + base64.b64encode(f"{user}:{TOKEN}".encode()).decode() for user in (USER, "x-access-token")]


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
        if self.path.startswith("/api/"):
            return self.api(body)
        if self.headers.get("Authorization") not in EXPECTED:
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

    def api(self, body):
        if self.headers.get("Authorization") != f"token {TOKEN}":
            return self.reply(401, {}, b"{}")
        query = json.loads(body)["query"] if body else ""
        pull = {"id": "PR_1", "number": 1, "title": "a title", "state": "OPEN", "headRefName": "topic",
                "url": "https://forge.example/o/r/pull/1", "baseRefName": "main", "isCrossRepository": False,
                "headRepository": {"id": "R_own", "name": "r"}, "headRepositoryOwner": {"id": "U", "login": "o"}}
        own = {"id": "R_own", "name": "r", "owner": {"login": "o"}, "viewerPermission": "WRITE",
               "hasIssuesEnabled": True, "defaultBranchRef": {"name": "main"}, "pullRequest": pull,
               "pullRequests": {"nodes": [], "totalCount": 0}}
        data = {"repository": own}
        if "createPullRequest" in query:
            data = {"createPullRequest": {"pullRequest": pull}}
        elif "repo_000" in query:
            data = {"repo_000": own, "viewer": {"login": "me"}}
        answer = {"data": data} if query else {"title": "from the API"}
        self.reply(200, {"Content-Type": "application/json"}, json.dumps(answer).encode())

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
