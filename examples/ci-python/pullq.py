"""Starts pullq for a test suite: on a port of its own, its storage deleted at the end. Needs Node on the
machine, and Python's standard library alone."""

import json
import subprocess
import urllib.request

from consumer import Queue

# `npx pullq --dev` takes this token, and any 32 hexadecimal digits for an account.
TOKEN = "dev-token"
ACCOUNT = "0123456789abcdef0123456789abcdef"


class Pullq:
    def __init__(self):
        self.process = subprocess.Popen(
            ["npx", "pullq", "--port", "0", "--temporary", "--dev"], stdout=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"pullq ended with {self.process.wait()} before it was ready")
        self.url = line.strip().removeprefix("pullq ready on ")

    def queue(self, name):
        """A new queue with a pull consumer."""
        queues = f"{self.url}/client/v4/accounts/{ACCOUNT}/queues"
        queue_id = self._call("POST", queues, {"queue_name": name})["queue_id"]
        self._call("POST", f"{queues}/{queue_id}/consumers", {"type": "http_pull", "settings": {"max_retries": 3}})
        return Queue(f"{queues}/{queue_id}", TOKEN)

    def send(self, queue, body):
        self._call("POST", f"{queue.url}/messages", {"body": body})

    def backlog(self, queue):
        """How many messages are not acknowledged yet."""
        return self._call("GET", f"{queue.url}/metrics")["backlog_count"]

    def stop(self):
        """Comes back when pullq has ended and its storage is deleted."""
        self.process.terminate()
        # npx passes no signal on; pullq notices that it is gone, and holds its end of stdout until it has ended itself.
        self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait(timeout=20)

    @staticmethod
    def _call(method, url, body=None):
        request = urllib.request.Request(
            url,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["result"]
