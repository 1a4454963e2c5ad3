import json, os, sys

for line in sys.stdin:
    request = json.loads(line)
    result = {"length": len(request["params"]["text"]), "place": os.environ.get("PIP_CACHE_DIR", "nowhere")}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
