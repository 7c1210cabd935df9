"""Starts a conversation and polls until its agent has ended: the way of the public documentation, with nothing but the standard library."""

import json
import os
import time
from urllib.parse import urlencode
from urllib.request import Request, urlopen

base = os.environ["BASE_URL"]
headers = {"Authorization": f"Bearer {os.environ['API_KEY']}", "Content-Type": "application/json"}


def call(method, path, params=None, body=None):
    query = f"?{urlencode(params)}" if params else ""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(base + path + query, data=data, headers=headers, method=method), timeout=20) as answer:
        return json.load(answer)


def start(**fields):
    message = {"content": [{"type": "text", "text": "Say hello."}]}
    return call("POST", "/api/v1/app-conversations", body={"initial_message": message, **fields})


task = start(selected_repository="acme/shop")
# What a link is printed with before there is a conversation.
link = f"{base}/conversations/{task.get('app_conversation_id') or task.get('id')}"
with urlopen(link, timeout=20) as page:
    assert page.status == 200

conversation_id = None
for _ in range(300):
    tasks = call("GET", "/api/v1/app-conversations/start-tasks", params={"ids": task["id"]})
    if tasks and tasks[0].get("status") == "READY":
        conversation_id = tasks[0].get("app_conversation_id")
        break
    assert tasks and tasks[0].get("status") != "ERROR", tasks
    time.sleep(0.1)
print("ready", conversation_id)

for _ in range(300):
    conversations = call("GET", "/api/v1/app-conversations", params={"ids": conversation_id})
    if conversations and conversations[0].get("execution_status") in ("finished", "error", "stuck"):
        break
    time.sleep(0.1)
print("ended", conversations[0]["execution_status"], conversations[0]["sandbox_status"])

seen = []
page = call("GET", "/api/v1/app-conversations/search", params={"limit": 1})
while True:
    seen += [item["id"] for item in page["items"]]
    if page["next_page_id"] is None:
        break
    page = call("GET", "/api/v1/app-conversations/search", params={"limit": 1, "page_id": page["next_page_id"]})
print("found", conversation_id in seen, len(seen) == len(set(seen)))
print("unknown", call("GET", "/api/v1/app-conversations", params={"ids": "00000000000000000000000000000000"}))
