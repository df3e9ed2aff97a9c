"""Checks of a running pullq with Cloudflare's official Python SDK: what its users do,
and what Cloudflare's page on pull consumers promises them.

    python python_sdk.py BASE_URL TOKEN ACCOUNT_ID

Prints a JSON object a line, {"name", "failure"}, for each check; ends with 1 if any failed.
"""

import asyncio
import base64
import inspect
import itertools
import json
import re
import sys
import time

import cloudflare
from cloudflare import AsyncCloudflare, Cloudflare

from checks import run

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


async def done(call):
    """What a call of either client gives back."""
    return await call if inspect.isawaitable(call) else call


async def collected(pages):
    """Every item of a list of either client, from as many pages as it asks for."""
    return [item async for item in pages] if hasattr(pages, "__aiter__") else list(pages)


async def refused(status, code, call, what):
    try:
        answer = await done(call())
    except cloudflare.APIStatusError as error:
        equal((error.status_code, error.errors[0].code), (status, code), what)
    else:
        raise AssertionError(f"{what}: got {answer!r}, expected a refusal")


def recorded(queues):
    """The methods there are below `queues`, "messages.push" and so on, and the set of those called from now on."""
    methods, called = set(), set()
    resources = {"queues": queues}
    for name in ("messages", "purge", "consumers", "subscriptions"):
        resources[name] = getattr(queues, name)
    for name, resource in resources.items():
        for method, function in vars(type(resource)).items():
            if method.startswith("_") or not inspect.isfunction(function):
                continue
            methods.add(f"{name}.{method}")

            def record(*args, full=f"{name}.{method}", call=getattr(resource, method), **options):
                called.add(full)
                return call(*args, **options)

            setattr(resource, method, record)
    return methods, called


async def every_method(client, name):
    """Calls every method that a client, sync or async, has under `queues`."""
    queues = client.queues
    methods, called = recorded(queues)
    account = {"account_id": ACCOUNT}
    pull_consumer = {**account, "type": "http_pull"}

    made = await done(queues.create(queue_name=name, **account))
    queue = made.queue_id
    equal((made.queue_name, made.settings.delivery_paused), (name, False))
    edited = await done(queues.edit(queue, settings={"delivery_delay": 7}, **account))
    equal((edited.settings.delivery_delay, edited.settings.message_retention_period), (7, 345_600), "edited")
    updated = await done(queues.update(queue, queue_name=f"{name}-2", settings={"message_retention_period": 600}, **account))
    equal((updated.settings.delivery_delay, updated.settings.message_retention_period), (0, 600), "updated")
    read = await done(queues.get(queue, **account))
    equal((read.queue_name, read.settings), (f"{name}-2", updated.settings), "read")
    names = [each.queue_name for each in await collected(queues.list(extra_query={"name": f"{name}-2"}, **account))]
    equal(names, [f"{name}-2"], "listed")
    await refused(404, 11000, lambda: queues.get(UNKNOWN_ID, **account), "an unknown queue")

    consumers = queues.consumers
    consumer = await done(consumers.create(queue, settings={"batch_size": 50}, **pull_consumer))
    of_it = {"queue_id": queue, **account}
    replaced = await done(
        consumers.update(
            consumer.consumer_id,
            queue_id=queue,
            dead_letter_queue=f"{name}-dead",
            settings={"max_retries": 9, "retry_delay": 5, "visibility_timeout_ms": 60_000},
            **pull_consumer,
        )
    )
    settings = replaced.settings
    equal(
        (replaced.dead_letter_queue, settings.batch_size, settings.max_retries, settings.retry_delay, settings.visibility_timeout_ms),
        (f"{name}-dead", 5, 9, 5, 60_000),
        "replaced",
    )
    equal((await done(consumers.get(consumer.consumer_id, **of_it))).settings, settings, "the consumer read")
    equal([each.consumer_id for each in await collected(consumers.list(queue, **account))], [consumer.consumer_id])
    await refused(409, 11004, lambda: consumers.create(queue, **pull_consumer), "a second consumer")
    worker = {"type": "worker", "script_name": "my-worker", **account}
    await refused(400, 10026, lambda: consumers.create(queue, **worker), "a Worker as consumer")

    messages = queues.messages
    pushed = await done(messages.push(queue, body="first", content_type="text", **account))
    equal(pushed.metadata.metrics.backlog_count, 1)
    bulk = [{"body": text, "content_type": "text"} for text in ("second", "third", "late")]
    bulk[2]["delay_seconds"] = 60
    pushed = await done(messages.bulk_push(queue, messages=bulk, **account))
    equal(pushed.metadata.metrics.backlog_count, 4)
    peeked = (await done(messages.peek(queue, batch_size=2, **account))).messages
    equal([(message.body, message.attempts) for message in peeked], [("first", 0), ("second", 0)], "peeked")
    deleted = await done(messages.purge(queue, refs=[{"ref": peeked[1].ref}, {"ref": "unknown"}], **account))
    equal((deleted.errors, list(deleted.warnings)), ([], ["unknown"]), "deleted by ref")
    pulled = await done(messages.pull(queue, batch_size=10, **account))
    equal([(message.body, message.attempts) for message in pulled.messages], [("first", 1), ("third", 1)], "pulled")
    acks = [{"lease_id": pulled.messages[0].lease_id}]
    retries = [{"lease_id": pulled.messages[1].lease_id, "delay_seconds": 60}]
    settled = await done(messages.ack(queue, acks=acks, retries=retries, **account))
    equal((settled.ack_count, settled.retry_count, settled.warnings), (1, 1, {}), "settled")

    metrics = await done(queues.get_metrics(queue, **account))
    equal((metrics.backlog_count, metrics.backlog_bytes), (2, len("third" + "late")), "metrics")
    await refused(400, 10026, lambda: queues.purge.start(queue, delete_messages_permanently=False, **account), "no purge")
    equal((await done(queues.purge.start(queue, delete_messages_permanently=True, **account))).queue_id, queue)
    equal((await done(queues.purge.status(queue, **account))).completed, "true")
    equal((await done(queues.get_metrics(queue, **account))).backlog_count, 0, "after the purge")

    subscriptions = queues.subscriptions
    equal(await collected(subscriptions.list(per_page=10, order="name", direction="desc", **account)), [])
    subscription = {
        "name": "uploads",
        "enabled": True,
        "events": ["bucket.created"],
        "source": {"type": "r2"},
        "destination": {"type": "queues.queue", "queue_id": queue},
    }
    await refused(403, 19004, lambda: subscriptions.create(**subscription, **account), "subscriptions.create")
    await refused(404, 19005, lambda: subscriptions.get(UNKNOWN_ID, **account), "subscriptions.get")
    await refused(404, 19005, lambda: subscriptions.update(UNKNOWN_ID, enabled=False, **account), "subscriptions.update")
    await refused(404, 19005, lambda: subscriptions.delete(UNKNOWN_ID, **account), "subscriptions.delete")

    equal((await done(consumers.delete(consumer.consumer_id, **of_it))).success, True)
    await refused(405, 19001, lambda: messages.pull(queue, **account), "a pull without a pull consumer")
    equal((await done(queues.delete(queue, **account))).success, True)
    await refused(404, 11000, lambda: queues.get(queue, **account), "a deleted queue")

    equal(len(methods), 25, "methods under queues")
    equal(methods - called, set(), "methods that were not called")


def every_method_under_queues_works():
    asyncio.run(every_method(Cloudflare(**OPTIONS), "python-every"))


def every_method_under_queues_works_with_the_async_client():
    async def check():
        async with AsyncCloudflare(**OPTIONS) as client:
            await every_method(client, "python-every-async")

    asyncio.run(check())


def an_api_key_with_an_email_is_as_good_as_a_token():
    queue = new_queue()
    keyed = Cloudflare(api_key=TOKEN, api_email="me@example.com", base_url=BASE_URL, max_retries=0)
    equal(keyed.queues.get(queue, account_id=ACCOUNT).queue_id, queue)


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
    every_method_under_queues_works,
    every_method_under_queues_works_with_the_async_client,
    an_api_key_with_an_email_is_as_good_as_a_token,
]


if __name__ == "__main__":
    sys.exit(run(CHECKS))
