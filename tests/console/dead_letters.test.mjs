// Dead letters: seen where they died, and redriven: all or some, back or elsewhere, at a rate, stopped, once.
import assert from "node:assert/strict";
import { consoleTests, killMessages, openQueue, until } from "../support/browser.mjs";
import { bodies } from "../support/api.mjs";

const person = consoleTests();

/** A queue with dead letters, and its dead-letter queue. */
async function deadLetters(api, name, texts) {
  const dead = await api.queue({ name: `${name}-dead` });
  const queue = await api.queue({ name, consumer: { dead_letter_queue: `${name}-dead`, settings: { max_retries: 0 } } });
  await killMessages(queue, texts.map((body) => ({ body, content_type: "text" })));
  await until("all are dead", async () => (await backlog(dead)) === texts.length);
  return { queue, dead };
}

const backlog = async (queue) => (await queue.api.ok("GET", `${queue.path}/metrics`)).backlog_count;
const numbered = (count) => Array.from({ length: count }, (_, index) => `letter ${index}`);
const done = (page) => page.getByRole("heading", { name: "Redrive completed" }).waitFor();

async function redrive(page, fill = async () => {}) {
  await page.getByRole("button", { name: "Redrive…" }).click();
  const dialog = page.getByRole("dialog", { name: /^Redrive from / });
  await fill(dialog);
  await dialog.getByRole("button", { name: "Start redrive" }).click();
  await dialog.waitFor({ state: "detached" });
}

person("dead letters are told by their queue and say where they died", async ({ page, api }) => {
  const { queue, dead } = await deadLetters(api, "mortal", ["a letter"]);
  await page.getByRole("row").filter({ hasText: "mortal-dead" }).getByText("Dead letters").waitFor();
  await openQueue(page, queue);
  await page.getByText("1 waiting in its dead-letter queue").waitFor();
  await openQueue(page, dead, "messages");
  await page.getByText("Messages come here when their deliveries in mortal are used up.").waitFor();
  await page.getByText("died in mortal after 1 delivery").first().waitFor();
});

person("all dead letters go back to where they died, each once", async ({ page, api }) => {
  const { queue, dead } = await deadLetters(api, "back", numbered(60));
  await openQueue(page, dead, "messages");
  await redrive(page);
  await done(page);
  await page.getByText(/60 of 60 messages moved back to where they died\./).waitFor();
  assert.equal(await backlog(dead), 0);
  assert.deepEqual(bodies(await queue.take()).sort(), numbered(60).sort());
  await page.getByText("No message is waiting.").waitFor();
});

person("selected dead letters go to another queue, and the others stay", async ({ page, api }) => {
  const { queue, dead } = await deadLetters(api, "some", ["stays", "goes 1", "goes 2"]);
  const other = await api.queue({ name: "elsewhere" });
  await openQueue(page, dead, "messages");
  for (const text of ["goes 1", "goes 2"]) await page.locator(".message-list > li").filter({ hasText: text }).getByRole("checkbox").check();
  await page.getByRole("button", { name: "Redrive selected…" }).click();
  const dialog = page.getByRole("dialog", { name: "Redrive from some-dead" });
  assert.ok(await dialog.getByLabel("The 2 selected").isChecked());
  await dialog.getByLabel("To another queue").check();
  await dialog.getByLabel("Name of that queue").fill("not-there-at-all");
  await dialog.getByRole("button", { name: "Start redrive" }).click();
  await dialog.getByRole("alert").waitFor();
  await dialog.getByLabel("Name of that queue").fill("elsewhere");
  await dialog.getByRole("button", { name: "Start redrive" }).click();
  await done(page);
  await page.getByText(/2 of 2 messages moved to elsewhere\./).waitFor();
  assert.deepEqual(bodies(await other.take()).sort(), ["goes 1", "goes 2"]);
  assert.deepEqual(bodies(await dead.take()), ["stays"]);
  assert.equal(await backlog(queue), 0);
});

person("a redrive keeps to its rate, shows how far it is, and is stopped", async ({ page, api }) => {
  const { queue, dead } = await deadLetters(api, "slow", numbered(60));
  await openQueue(page, dead);
  await redrive(page, async (dialog) => {
    await dialog.getByLabel("At a chosen rate").check();
    await dialog.getByLabel("Messages a second, at most").fill("5");
  });
  await page.getByRole("heading", { name: "Redriving" }).waitFor();
  await page.getByText(/at most 5 a second/).waitFor();
  assert.ok(await page.getByRole("button", { name: "Redrive…" }).isDisabled(), "one at a time");
  await until("some moved", async () => Number(await page.getByRole("progressbar").getAttribute("value")) > 0);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("heading", { name: "Redrive stopped" }).waitFor();
  await until("what moved and what stayed are all there is", async () => (await backlog(queue)) + (await backlog(dead)) === 60);
  const moved = await backlog(queue);
  assert.ok(moved > 0 && moved < 60, `${moved} moved`);
  assert.deepEqual([...bodies(await queue.take()), ...bodies(await dead.take())].sort(), numbered(60).sort());
});

person("a message that died nowhere stays and is counted", async ({ page, api }) => {
  const { queue, dead } = await deadLetters(api, "mixed", ["died"]);
  await dead.text("never died");
  await openQueue(page, dead);
  await redrive(page);
  await done(page);
  await page.getByText(/1 message stayed, because it did not die in a queue/).waitFor();
  assert.deepEqual([bodies(await queue.take()), bodies(await dead.take())], [["died"], ["never died"]]);
});

person("a redrive that another tab has begun shows here as well, and goes on when this one is closed", async ({ page, context, api }) => {
  const { dead } = await deadLetters(api, "elsewhere-begun", numbered(20));
  await openQueue(page, dead);
  await api.ok("POST", `${dead.path}/redrive`, { messages_per_second: 4 });
  await page.getByRole("heading", { name: "Redriving" }).waitFor();
  await page.close();
  await until("all moved", async () => (await backlog(dead)) === 0, 20_000);
  assert.equal(context.pages().length, 0);
});

person("selected dead letters are deleted", async ({ page, api }) => {
  const { dead } = await deadLetters(api, "trash", ["away", "stays"]);
  await openQueue(page, dead, "messages");
  await page.locator(".message-list > li").filter({ hasText: "away" }).getByRole("checkbox").check();
  await page.getByRole("button", { name: "Delete selected…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("1 message deleted.").waitFor();
  assert.deepEqual(bodies(await dead.take()), ["stays"]);
});
