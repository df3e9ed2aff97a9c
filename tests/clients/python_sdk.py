"""Checks of a running pullq with Cloudflare's official Python SDK: what its users do,
and what Cloudflare's page on pull consumers promises them.

    python python_sdk.py BASE_URL TOKEN ACCOUNT_ID

Prints a JSON object a line, {"name", "failure"}, for each check; ends with 1 if any failed.
"""

import asyncio
import base64
import itertools
import json
import re
import sys
import time
import traceback

import cloudflare
from cloudflare import AsyncCloudflare, Cloudflare

BASE_URL, TOKEN, ACCOUNT = sys.argv[1:4]
UNKNOWN_ID = "0" * 32

# No retries: one that succeeds the second time would hide a failure.
OPTIONS = {"api_token": TOKEN, "base_url": BASE_URL, "max_retries": 0}
client = Cloudflare(**OPTIONS)
messages_api = client.queues.messages
numbers = itertools.count(1)


def equal(got, expected, what=""):
    if got != expected:
        raise AssertionError(f"{what or 'value'}: got {got!r}, expected {expected!r}")


def raises(error, call, what=""):
    """The error of the given class that `call` must raise."""
    try:
        answer = call()
    except error as raised:
        return raised
    raise AssertionError(f"{what or 'call'}: got {answer!r}, expected {error.__name__}")


def new_queue(consumer=True):
    queue = client.queues.create(account_id=ACCOUNT, queue_name=f"python-{next(numbers)}")
    if consumer:
        client.queues.consumers.create(queue.queue_id, account_id=ACCOUNT, type="http_pull")
    return queue.queue_id


def bulk_push(queue, texts):
    messages = [{"body": text, "content_type": "text"} for text in texts]
    messages_api.bulk_push(queue, account_id=ACCOUNT, messages=messages)


def pull(queue, **options):
    return messages_api.pull(queue, account_id=ACCOUNT, **options)


def settle(queue, acks=(), retries=()):
    """(ack_count, retry_count, the lease ids warned of)"""
    result = messages_api.ack(queue, account_id=ACCOUNT, acks=list(acks), retries=list(retries))
    return result.ack_count, result.retry_count, sorted(result.warnings)


def lease(message, **more):
    return {"lease_id": message.lease_id, **more}


def pull_one(queue, within_s=5, **options):
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        messages = pull(queue, batch_size=1, **options).messages
        if messages:
            return messages[0]
        time.sleep(0.02)
    raise AssertionError(f"no message within {within_s} s")


def is_drained(queue):
    answer = pull(queue)
    equal((answer.messages, answer.message_backlog_count), ([], 0), "messages and backlog at the end")


def queues_and_their_consumer_are_made_listed_read_and_deleted():
    queue = client.queues.create(account_id=ACCOUNT, queue_name="python-life")
    equal(bool(re.fullmatch("[0-9a-f]{32}", queue.queue_id)), True, f"the form of {queue.queue_id}")
    equal(queue.queue_name, "python-life")
    consumer = client.queues.consumers.create(
        queue.queue_id,
        account_id=ACCOUNT,
        type="http_pull",
        settings={"batch_size": 50, "max_retries": 3, "visibility_timeout_ms": 6_000},
    )
    equal(consumer.type, "http_pull")
    equal(consumer.settings.batch_size, 50)
    equal(consumer.settings.visibility_timeout_ms, 6_000)

    listed = [(q.queue_id, q.consumers_total_count) for q in client.queues.list(account_id=ACCOUNT) if q.queue_name == "python-life"]
    equal(listed, [(queue.queue_id, 1)], "the queue in the list")
    read = client.queues.get(queue.queue_id, account_id=ACCOUNT)
    equal([c.consumer_id for c in read.consumers], [consumer.consumer_id], "the consumer shown with the queue")
    consumers = client.queues.consumers.list(queue.queue_id, account_id=ACCOUNT)
    equal([c.consumer_id for c in consumers], [consumer.consumer_id], "the list of consumers")

    deleted = client.queues.consumers.delete(consumer.consumer_id, account_id=ACCOUNT, queue_id=queue.queue_id)
    equal(deleted.success, True)
    equal(list(client.queues.consumers.list(queue.queue_id, account_id=ACCOUNT)), [])
    equal(client.queues.delete(queue.queue_id, account_id=ACCOUNT).success, True)
    raises(cloudflare.NotFoundError, lambda: client.queues.get(queue.queue_id, account_id=ACCOUNT))


def text_is_plain_and_json_is_base64_and_the_default():
    queue = new_queue()
    from_ms = time.time() * 1000
    messages_api.push(queue, account_id=ACCOUNT, body="grüße 🚀", content_type="text")
    messages_api.push(queue, account_id=ACCOUNT, body={"greeting": "hello"}, content_type="json")
    messages_api.push(queue, account_id=ACCOUNT, body={"n": [1, 2.5, None]})
    messages_api.bulk_push(
        queue,
        account_id=ACCOUNT,
        messages=[{"body": "bulk", "content_type": "text"}, {"body": ["bulk"], "content_type": "json"}],
    )
    answer = pull(queue)
    equal(answer.message_backlog_count, 5)
    equal([m.attempts for m in answer.messages], [1] * 5, "attempts")
    equal([m.metadata["CF-Content-Type"] for m in answer.messages], ["text", "json", "json", "text", "json"])
    text, hello, numbers_, bulk_text, bulk_json = (m.body for m in answer.messages)
    equal((text, bulk_text), ("grüße 🚀", "bulk"))
    decoded = [json.loads(base64.b64decode(body, validate=True)) for body in (hello, numbers_, bulk_json)]
    equal(decoded, [{"greeting": "hello"}, {"n": [1, 2.5, None]}, ["bulk"]])
    for message in answer.messages:
        # A time is cut to the millisecond.
        equal(from_ms - 1 <= message.timestamp_ms <= time.time() * 1000, True, f"the time {message.timestamp_ms}")
    equal(settle(queue, acks=map(lease, answer.messages)), (5, 0, []))
    is_drained(queue)


def batch_size_is_5_unless_it_is_said_and_at_most_100():
    queue = new_queue()
    sent = [str(n) for n in range(100)]
    bulk_push(queue, sent)
    first = [m.body for m in pull(queue).messages]
    # The SDK's type for it is a float, and Python writes 100.0.
    rest = [m.body for m in pull(queue, batch_size=100.0).messages]
    equal((len(first), len(rest)), (5, 95))
    equal(first + rest, sent, "the order of the messages")
    raises(cloudflare.BadRequestError, lambda: pull(queue, batch_size=101))


def some_are_acknowledged_some_retried_some_left():
    queue = new_queue()
    bulk_push(queue, ["acked", "retried", "retried later", "left", "acked too"])
    leased_s = time.time()
    held = {m.body: m for m in pull(queue, batch_size=10, visibility_timeout_ms=1_000).messages}
    retried_s = time.time()
    acks = [lease(held["acked"]), lease(held["acked too"])]
    retries = [lease(held["retried"]), lease(held["retried later"], delay_seconds=2)]
    equal(settle(queue, acks, retries), (2, 2, []))

    arrivals = []
    for _ in range(3):
        arrivals.append((pull_one(queue, visibility_timeout_ms=60_000), time.time()))
    seen = [(message.body, message.attempts) for message, _ in arrivals]
    equal(seen, [("retried", 2), ("left", 2), ("retried later", 2)], "what comes back, and its attempts")
    # The server's clock counts whole milliseconds.
    equal(arrivals[1][1] - leased_s >= 0.999, True, "the lease held for its visibility timeout")
    equal(arrivals[2][1] - retried_s >= 1.999, True, "the retry waited for its delay")

    equal(settle(queue, [lease(held["left"])]), (1, 0, []), "a late acknowledgement is accepted")
    current = [lease(message) for message, _ in arrivals]
    equal(settle(queue, current), (3, 0, []), "and so is that of the consumer that has the message now")
    is_drained(queue)


def a_late_retry_is_warned_of_and_takes_nothing_from_the_consumer_that_has_the_message():
    queue = new_queue()
    bulk_push(queue, ["m"])
    late = pull(queue, visibility_timeout_ms=100).messages[0]
    time.sleep(0.15)
    now = pull(queue).messages[0]
    equal(now.attempts, 2)
    equal(settle(queue, retries=[lease(late)]), (0, 0, [late.lease_id]))
    equal(pull(queue).messages, [], "what a third consumer gets")
    equal(settle(queue, acks=[lease(now)]), (1, 0, []))


def a_lease_id_nobody_was_given_is_warned_of():
    queue = new_queue()
    answer = settle(queue, [{"lease_id": "lease_id1"}], [{"lease_id": "lease_id4"}])
    equal(answer, (0, 0, ["lease_id1", "lease_id4"]))


def several_consumers_at_once_each_get_a_batch_of_their_own():
    queue = new_queue()
    sent = [str(n) for n in range(100)]
    bulk_push(queue, sent)

    async def pull_all():
        async with AsyncCloudflare(**OPTIONS) as consumer:
            pulls = (consumer.queues.messages.pull(queue, account_id=ACCOUNT, batch_size=10) for _ in range(10))
            return await asyncio.gather(*pulls)

    batches = asyncio.run(pull_all())
    equal([len(batch.messages) for batch in batches], [10] * 10)
    equal(sorted(m.body for batch in batches for m in batch.messages), sorted(sent))


def what_is_refused_becomes_the_sdks_error():
    queue = new_queue(consumer=False)
    wrong = Cloudflare(**{**OPTIONS, "api_token": "wrong"})
    for statuses, call in [
        ([405], lambda: pull(queue)),
        ([404], lambda: pull(UNKNOWN_ID)),
        ([413], lambda: messages_api.push(queue, account_id=ACCOUNT, body="x" * 128_001, content_type="text")),
        ([400], lambda: bulk_push(queue, ["x"] * 101)),
        ([400], lambda: client.queues.create(account_id=ACCOUNT, queue_name="not a name")),
        ([401, 403], lambda: wrong.queues.get(queue, account_id=ACCOUNT)),
    ]:
        error = raises(cloudflare.APIStatusError, call, f"a call refused with {statuses}")
        equal(error.status_code in statuses, True, f"{error.status_code}, expected one of {statuses}")
        equal(len(error.errors) > 0 and error.errors[0].code >= 1000, True, f"the error of {error.body}")


def a_repeat_that_cant_help_is_not_made():
    sent = []
    repeating = Cloudflare(**{**OPTIONS, "max_retries": 2})
    repeating._client.event_hooks["request"].append(sent.append)
    queue = new_queue()
    name = client.queues.get(queue, account_id=ACCOUNT).queue_name
    raises(cloudflare.ConflictError, lambda: repeating.queues.create(account_id=ACCOUNT, queue_name=name))
    second = lambda: repeating.queues.consumers.create(queue, account_id=ACCOUNT, type="http_pull")
    raises(cloudflare.ConflictError, second)
    equal(len(sent), 2, "requests for two conflicts")


CHECKS = [
    queues_and_their_consumer_are_made_listed_read_and_deleted,
    text_is_plain_and_json_is_base64_and_the_default,
    batch_size_is_5_unless_it_is_said_and_at_most_100,
    some_are_acknowledged_some_retried_some_left,
    a_late_retry_is_warned_of_and_takes_nothing_from_the_consumer_that_has_the_message,
    a_lease_id_nobody_was_given_is_warned_of,
    several_consumers_at_once_each_get_a_batch_of_their_own,
    what_is_refused_becomes_the_sdks_error,
    a_repeat_that_cant_help_is_not_made,
]


def main():
    failed = False
    for check in CHECKS:
        failure = None
        try:
            check()
        except Exception:
            failure = traceback.format_exc()
            failed = True
        print(json.dumps({"name": check.__name__.replace("_", " "), "failure": failure}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
