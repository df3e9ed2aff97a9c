// The list of queues: live figures, search, order, making one, ten thousand of them, and all of it by keyboard.
import assert from "node:assert/strict";
import { consoleTests, until } from "../support/browser.mjs";

const person = consoleTests();

const row = (page, name) => page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });
const names = (page) => page.getByRole("table", { name: "Queues" }).getByRole("link").allInnerTexts();

person("without a queue the page says so and offers to make one, which has a consumer then", async ({ page, api }) => {
  await page.getByRole("heading", { name: "No queues yet" }).waitFor();
  await page.getByRole("button", { name: "Create the first one" }).click();
  const dialog = page.getByRole("dialog", { name: "Create a queue" });
  await dialog.getByLabel("Name").fill("orders");
  await dialog.getByLabel("Dead-letter queue (optional)").fill("orders-dead");
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name: "orders", level: 1 }).waitFor();

  const [made] = await api.ok("GET", "/queues?name=orders");
  assert.equal(made.consumers[0].type, "http_pull");
  assert.equal(made.consumers[0].dead_letter_queue, "orders-dead");
});

person("a name that is taken is refused with the API's sentence, in the dialog", async ({ page, api }) => {
  await api.queue({ name: "taken" });
  await page.getByRole("button", { name: "Create queue" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("taken");
  await dialog.getByRole("button", { name: "Create" }).click();
  assert.match(await dialog.getByRole("alert").innerText(), /A queue of this name already exists in this account\. Use it, or choose another name\./);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
});

person("what is sent, pulled and acknowledged elsewhere appears without a reload", async ({ page, api }) => {
  const queue = await api.queue({ name: "live" });
  await row(page, "live").waitFor();
  const cells = async () => (await row(page, "live").getByRole("cell").allInnerTexts()).map((text) => text.replace(/\s+/g, " ").trim());
  await page.evaluate(() => (globalThis.sameDocument = true));

  await queue.texts(["1", "2", "3"]);
  await until("three waiting", async () => (await cells())[1] === "3 waiting");
  const [message] = (await queue.pull({ batch_size: 1 })).messages;
  await until("one out", async () => (await cells()).slice(1, 3).join() === "2 waiting,1 out");
  await queue.settle({ acks: [message] });
  await until("none out", async () => (await cells()).slice(1, 3).join() === "2 waiting,0 out");
  await queue.text("later", { delay_seconds: 600 });
  await until("one delayed", async () => (await cells())[3] === "1 delayed");
  assert.match((await cells())[4], /^\d+ s oldest$/);
  await until("a rate of sends", async () => /^(< )?0\.\d sent\/s$/.test((await cells())[5]));
  assert.equal(await page.evaluate(() => globalThis.sameDocument), true);
});

person("a queue that is made or deleted elsewhere comes and goes", async ({ page, api }) => {
  const queue = await api.queue({ name: "passing" });
  await row(page, "passing").waitFor();
  await api.ok("DELETE", queue.path);
  await row(page, "passing").waitFor({ state: "detached" });
});

person("the list is searched by name and ordered by any column", async ({ page, api }) => {
  const few = await api.queue({ name: "find-b-2" });
  const many = await api.queue({ name: "find-b-10" });
  await api.queue({ name: "find-a" });
  await few.texts(["1"]);
  await many.texts(["1", "2", "3"]);

  await page.getByLabel("Search queues by name").fill("FIND-");
  await until("the three found", async () => (await names(page)).length === 3);
  assert.deepEqual(await names(page), ["find-a", "find-b-2", "find-b-10"], "by name, numbers by their value");
  await until("the figures", async () => (await row(page, "find-b-10").innerText()).includes("3"));

  const header = (name) => page.getByRole("columnheader", { name });
  await header("Waiting").getByRole("button").click();
  assert.equal(await header("Waiting").getAttribute("aria-sort"), "descending");
  assert.deepEqual(await names(page), ["find-b-10", "find-b-2", "find-a"]);
  await header("Waiting").getByRole("button").click();
  assert.deepEqual(await names(page), ["find-a", "find-b-2", "find-b-10"]);
  await header("Name").getByRole("button").click();
  await header("Name").getByRole("button").click();
  assert.deepEqual(await names(page), ["find-b-10", "find-b-2", "find-a"]);

  await page.getByLabel("Search queues by name").fill("nothing like it");
  await page.getByText("No queue's name has “nothing like it” in it.").waitFor();
});

person("everything from sign-in to a sent message goes by keyboard", { signedIn: false }, async ({ page, api }) => {
  const queue = await api.queue({ name: "key-board" });
  await api.queue({ name: "key-board-2" });
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  // The field has the focus already.
  await page.keyboard.type("a-token-for-tests-only");
  await press("Enter");
  await page.getByRole("link", { name: "key-board", exact: true }).waitFor();

  await press("/");
  await page.keyboard.type("key-board");
  await until("two rows", async () => (await names(page)).length === 2);
  const focused = () => page.evaluate(() => document.activeElement.textContent.trim());
  for (let tabs = 0; tabs < 12 && (await focused()) !== "key-board"; tabs++) await press("Tab");
  await press("ArrowDown");
  await until("the next row", async () => (await focused()) === "key-board-2");
  await press("ArrowUp");
  await until("the row before", async () => (await focused()) === "key-board");
  await press("Enter");
  await page.getByRole("button", { name: "Send message" }).waitFor();
  assert.equal(await focused(), "key-board", "the new page's heading has the focus");

  for (let tabs = 0; tabs < 8 && (await focused()) !== "Send message"; tabs++) await press("Tab");
  await press("Enter");
  await page.getByRole("dialog").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "TEXTAREA");
  await page.keyboard.type("typed by hand");
  for (let tabs = 0; tabs < 5 && (await focused()) !== "Send"; tabs++) await press("Tab");
  await press("Enter");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal(await focused(), "Send message", "the focus is back where it was");
  assert.deepEqual((await queue.take()).map(({ body }) => body), ["typed by hand"]);
});

/** An overview of ten thousand queues, as the server would show it. */
function manyQueues(count = 10_000) {
  const counters = { sent: 0, delivered: 0, acknowledged: 0, retried: 0, dead_lettered: 0, dropped: 0, expired: 0, purged: 0, redriven: 0, empty_pulls: 0 };
  const queues = Array.from({ length: count }, (_, index) => ({
    queue_id: index.toString(16).padStart(32, "0"),
    queue_name: `queue-${String(index).padStart(5, "0")}`,
    created_on: "2026-11-01T00:00:00Z",
    delivery_paused: index % 50 === 0,
    has_consumer: index % 9 !== 0,
    dead_letter_queue: null,
    waiting_count: (index * 7_919) % 10_007,
    out_count: index % 13,
    delayed_count: 0,
    backlog_bytes: index,
    oldest_message_timestamp_ms: 1_790_000_000_000 + index,
    counters: { ...counters, sent: index },
    state_as_of_ms: 1_796_000_000_000,
  }));
  return { version: 1, as_of_ms: 1_796_000_000_000, queue_count: count, queues };
}

person("ten thousand queues are searched, ordered and scrolled without stalling, a screenful of rows at a time", async ({ page }) => {
  const all = manyQueues();
  let asked = 0;
  await page.route("**/overview*", (route) => {
    const since = new URL(route.request().url()).searchParams.has("since");
    asked += 1;
    const changed = all.queues[4_321];
    const result = since ? { ...all, version: asked, queues: [{ ...changed, waiting_count: asked }] } : all;
    return route.fulfill({ json: { success: true, errors: [], messages: [], result } });
  });
  await page.reload();
  await page.getByText("10,000 queues").waitFor();
  const rendered = () => page.locator(".rows .row").count();
  const took = async (what, act) => {
    const began_ms = performance.now();
    await act();
    const ms = performance.now() - began_ms;
    assert.ok(ms < 2_000, `${what} took ${Math.round(ms)} ms`);
  };
  assert.ok((await rendered()) < 60, `${await rendered()} rows`);

  for (const part of [0.25, 0.5, 1]) {
    await took(`scrolling to ${part}`, async () => {
      await page.evaluate((part) => window.scrollTo(0, document.documentElement.scrollHeight * part), part);
      const index = Math.min(9_999, 10_000 * part + 5);
      await page.locator(`[data-index="${index}"]`).waitFor();
    });
    assert.ok((await rendered()) < 60, `${await rendered()} rows`);
  }
  await took("searching", async () => {
    await page.getByLabel("Search queues by name").fill("04321");
    await page.getByText("1 of 10,000 queues").waitFor();
  });
  await until("the live change", async () => asked > 1 && (await page.locator(".rows .row").innerText()).includes(`${asked}`));
  await page.getByLabel("Search queues by name").fill("");
  await took("ordering", async () => {
    await page.getByRole("columnheader", { name: "Waiting" }).getByRole("button").click();
    await until("the largest first", async () => (await page.locator('[data-index="0"]').innerText()).includes("10,006"), 2_000);
  });
  const { longest_ms } = await page.evaluate(async () => {
    let longest_ms = 0;
    const watch = new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => (longest_ms = Math.max(longest_ms, duration))));
    watch.observe({ type: "longtask" });
    for (let step = 0; step < 60; step++) {
      window.scrollBy(0, 900);
      await new Promise(requestAnimationFrame);
    }
    return { longest_ms };
  });
  assert.ok(longest_ms < 1_000, `one step of scrolling blocked the page for ${longest_ms} ms`);
});
