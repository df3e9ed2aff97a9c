"""A pull consumer as somebody might have one: takes orders for resized images from a queue, and says what
came of them. It knows Cloudflare Queues' REST API and nothing of pullq."""

import base64
import json
import urllib.request


class Queue:
    """`url` goes up to and with the queue's id: .../client/v4/accounts/{account}/queues/{queue}"""

    def __init__(self, url, token):
        self.url = url
        self.token = token

    def post(self, path, body):
        request = urllib.request.Request(
            f"{self.url}/{path}",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["result"]


def work_off(queue, resize):
    """Works off one batch: what was resized is acknowledged, what failed is tried again later.

    Gives back the results, and how many failed.
    """
    messages = queue.post("messages/pull", {"batch_size": 10, "visibility_timeout_ms": 30_000})["messages"]
    results, acks, retries = [], [], []
    for message in messages:
        try:
            # A body of content type json comes in base64.
            order = json.loads(base64.b64decode(message["body"]))
            results.append(resize(order["image"], order["width"]))
            acks.append({"lease_id": message["lease_id"]})
        except Exception:
            retries.append({"lease_id": message["lease_id"], "delay_seconds": 1})
    if messages:
        queue.post("messages/ack", {"acks": acks, "retries": retries})
    return results, len(retries)
