// The consumer's tests, against a real queue: `npm test` starts pullq, and stops it at the end.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { workOff } from './consumer.ts';
import { startPullq } from './pullq.ts';

let pullq: Awaited<ReturnType<typeof startPullq>>;
before(async () => {
  pullq = await startPullq();
});
after(() => pullq?.stop());

const resize = (image: string, width: number) => `${image} at ${width}`;

test('orders are resized in the order in which they came, and acknowledged', async () => {
  const queue = await pullq.queue('resizes');
  await pullq.send(queue, { image: 'cat.png', width: 100 });
  await pullq.send(queue, { image: 'dog.png', width: 50 });
  assert.deepEqual(await workOff(queue, resize), { results: ['cat.png at 100', 'dog.png at 50'], failed: 0 });
  assert.equal(await pullq.backlog(queue), 0);
});

test('an order that fails comes again after a second', async () => {
  const queue = await pullq.queue('resizes-that-fail');
  await pullq.send(queue, { image: 'cat.png', width: 100 });
  const broken = () => {
    throw new Error('out of memory');
  };
  assert.deepEqual(await workOff(queue, broken), { results: [], failed: 1 });
  assert.deepEqual(await workOff(queue, resize), { results: [], failed: 0 }, 'not at once');
  await sleep(1_100);
  assert.deepEqual(await workOff(queue, resize), { results: ['cat.png at 100'], failed: 0 });
});

test('an empty queue is no error', async () => {
  const queue = await pullq.queue('nothing-to-do');
  assert.deepEqual(await workOff(queue, resize), { results: [], failed: 0 });
});
