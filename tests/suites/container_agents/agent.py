"""Starts an MCP server with a minimal environment and sends it a thousand requests."""
import json, os, subprocess, sys

server = subprocess.Popen(
    sys.argv[1:],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
)
places = set()
for number in range(1000):
    request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"text": "x" * number}}
    server.stdin.write(json.dumps(request).encode() + b"\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    assert answer["id"] == number and answer["result"]["length"] == number, answer
    places.add(answer["result"]["place"])
server.stdin.close()
assert server.wait() == 0
print("1000 answers from", "/".join(" ".join(places).split("/")[:4]))
