"""Checks of a running pullq with the CloudEvents SDK for Python, both its older module (v1) and its
newer one (core): what it sends in either mode it reads back equal, and a worker's round.

    python cloudevents_python_sdk.py BASE_URL

Prints a JSON object a line, {"name", "failure"}, for each check; ends with 1 if any failed.
"""

import itertools
import json
import sys
from datetime import datetime, timezone

import requests
from cloudevents.core.bindings import http as core_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as CoreEvent
from cloudevents.v1 import conversion
from cloudevents.v1.http import CloudEvent, from_json

from checks import run

BASE_URL = sys.argv[1]
numbers = itertools.count(1)


def equal(got, expected, what=""):
    if got != expected:
        raise AssertionError(f"{what or 'value'}: got {got!r}, expected {expected!r}")


def new_channel():
    return f"python-ce-{next(numbers)}"


def post(path, query=None, **rest):
    response = requests.post(f"{BASE_URL}/ce/queue/{path}", params=query, timeout=30, **rest)
    answer = response.json()
    equal(answer["is_error"], False, f"{response.status_code} {answer['message']}")
    return response.status_code, answer["data"]


def send(headers, body, query=None):
    equal(post("send", query, headers=dict(headers), data=body)[0], 202)


def receive(channel, **options):
    query = {"channel": channel, "client_id": "python", "max_messages": 10, "wait_timeout": 2, **options}
    data = post("receive", query)[1]
    equal(len(data["messages"]), data["messages_received"])
    return data["messages"]


DATA = [
    ("application/json", {"task": 1, "nested": [None, True, "é🚀"]}),
    ("application/json", "just a string"),
    ("application/json", [1, 2.5]),
    ("application/vnd.example+json", {"a": 1}),
]


def v1_event(channel, media_type, data, **extensions):
    attributes = {"type": "com.example.test", "source": "/python", "subject": channel, **extensions}
    if media_type:
        attributes["datacontenttype"] = media_type
    return CloudEvent(attributes, data)


def v1_structured_events_are_read_back_equal():
    for media_type, data in [*DATA, ("text/plain", "Grüße\n"), ("application/xml", "<x/>"), (None, {"a": 1}), (None, None)]:
        channel = new_channel()
        sent = v1_event(channel, media_type, data, traceparent="00-a-b-01")
        send(*conversion.to_structured(sent))
        equal(from_json(json.dumps(receive(channel)[0])), sent)


def v1_binary_events_are_read_back_equal():
    for media_type, data in [*DATA[:1], *DATA[2:], ("text/xml", b"<x/>")]:
        channel = new_channel()
        sent = v1_event(channel, media_type, data)
        send(*conversion.to_binary(sent))
        received = from_json(json.dumps(receive(channel)[0]))
        equal(received.get_attributes(), sent.get_attributes())
        equal(received.data, data.decode() if isinstance(data, bytes) else data)


def v1_binary_events_without_data_have_none():
    channel = new_channel()
    sent = v1_event(channel, None, None)
    headers, body = conversion.to_binary(sent)
    send(headers, body)
    received = receive(channel)[0]
    equal(received["id"], sent["id"])
    equal([name for name in received if name.startswith("data")], [])


def v1_bytes_are_kept():
    channel = new_channel()
    for convert in (conversion.to_structured, conversion.to_binary):
        send(*convert(v1_event(channel, "application/octet-stream", b"\x00\xff")))
        equal(from_json(json.dumps(receive(channel)[0])).data, b"\x00\xff", convert.__name__)


def v1_extensions_keep_their_types_in_structured_mode():
    channel = new_channel()
    send(*conversion.to_structured(v1_event(channel, None, {}, flag=True, count=-7, text="7")))
    received = receive(channel)[0]
    equal([received["flag"], received["count"], received["text"]], [True, -7, "7"])


def core_event(channel, media_type, data, **extensions):
    attributes = {
        "id": f"core-{next(numbers)}",
        "specversion": "1.0",
        "type": "com.example.test",
        "source": "/python",
        "subject": channel,
        "time": datetime(2026, 11, 30, 10, 40, 0, 123456, tzinfo=timezone.utc),
        **extensions,
    }
    if media_type:
        attributes["datacontenttype"] = media_type
    return CoreEvent(attributes, data)


def core_read(message):
    return JSONFormat().read(CoreEvent, json.dumps(message))


def check_core(to_message, media_type, data, **extensions):
    channel = new_channel()
    sent = core_event(channel, media_type, data, **extensions)
    message = to_message(sent, JSONFormat())
    send(message.headers, message.body)
    received = core_read(receive(channel)[0])
    equal(received.get_attributes(), sent.get_attributes())
    equal(received.get_data(), data)


def core_structured_events_are_read_back_equal():
    for media_type, data in [*DATA, ("text/plain", "Grüße\n"), ("application/octet-stream", b"\x00\xff")]:
        check_core(core_http.to_structured, media_type, data, flag=True, count=-7, text="a b € 100%")


def core_binary_events_are_read_back_equal_with_their_headers_percent_encoded():
    for media_type, data in [DATA[0], *DATA[2:], ("text/plain", "Grüße\n"), ("application/octet-stream", b"\x00\xff")]:
        check_core(core_http.to_binary, media_type, data, text='a b € 100% "quoted" %41')


def a_workers_round():
    channel = new_channel()
    submit = lambda number: send(*conversion.to_structured(v1_event(channel, "application/json", {"number": number})))
    for number in (1, 2, 3):
        submit(number)
    for _ in range(2):
        equal(len(receive(channel, is_peek="true")), 3, "a look leaves them")
    equal(len(receive(channel, is_peek=True)), 3, "requests spells it True")
    for number in (1, 2, 3):
        jobs = receive(channel, max_messages=1, wait_timeout=5)
        equal([job["data"] for job in jobs], [{"number": number}])
    submit(4)
    equal(post("ack_all", {"channel": channel, "client_id": "python", "wait_timeout": 5}), (200, {"affected_messages": 1}))
    equal(receive(channel, wait_timeout=0), [])


CHECKS = [
    v1_structured_events_are_read_back_equal,
    v1_binary_events_are_read_back_equal,
    v1_binary_events_without_data_have_none,
    v1_bytes_are_kept,
    v1_extensions_keep_their_types_in_structured_mode,
    core_structured_events_are_read_back_equal,
    core_binary_events_are_read_back_equal_with_their_headers_percent_encoded,
    a_workers_round,
]


if __name__ == "__main__":
    sys.exit(run(CHECKS))
