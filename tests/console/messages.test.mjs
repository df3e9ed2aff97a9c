// The list of messages: no lease is taken, bodies are shown as text, JSON or hex and never as markup.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { clipboard, consoleTests, openQueue, until } from "../support/browser.mjs";
import { Events } from "../support/events.mjs";

const person = consoleTests();

const opened = (page) => page.locator(".message-list > li.open");
const show = async (page, view) => {
  await opened(page).getByRole("radio", { name: view }).check();
  return page.getByRole("region", { name: `Body as ${view.toLowerCase()}` });
};

person("messages are shown with age and attempts, and looking at them takes none", async ({ page, api }) => {
  const queue = await api.queue({ name: "looked-at" });
  await queue.texts(["first", "second"]);
  const [first] = (await queue.pull({ batch_size: 1 })).messages;
  await queue.settle({ retries: [first] });
  await openQueue(page, queue, "messages");

  const items = page.locator(".message-list > li");
  await items.nth(1).waitFor();
  const texts = await items.allInnerTexts();
  assert.match(texts[0], /first\s+text\s+5 B\s+delivered 1 time\s+\d+ s old/);
  assert.match(texts[1], /second\s+text\s+6 B\s+not delivered yet\s+\d+ s old/);
  await items.first().getByRole("button").click();
  await page.getByRole("region", { name: "Body as text" }).waitFor();
  await page.getByRole("button", { name: "Refresh" }).click();
  assert.match(await opened(page).innerText(), new RegExp(first.id));

  const { counters } = await api.ok("GET", `${queue.path}/metrics`);
  assert.equal(counters.delivered, 1);
  assert.deepEqual((await queue.take()).map(({ body, attempts }) => [body, attempts]), [["first", 2], ["second", 1]]);
});

person("a body is shown as text, as JSON with its numbers as they were sent, and as hex", async ({ page, api }) => {
  const queue = await api.queue({ name: "three-views" });
  await api.call("POST", `${queue.path}/messages`, '{"content_type":"json","body":{"price": 12.50, "n": 12345678901234567890, "list":[1,{"a":"x, y: {z}"}], "none": []}}');
  await openQueue(page, queue, "messages");
  await page.locator(".message-open").click();

  const json = page.getByRole("region", { name: "Body as json" });
  assert.equal(await json.innerText(), `{
  "price": 12.50,
  "n": 12345678901234567890,
  "list": [
    1,
    {
      "a": "x, y: {z}"
    }
  ],
  "none": []
}`);
  assert.equal(await (await show(page, "Text")).innerText(), '{"price": 12.50, "n": 12345678901234567890, "list":[1,{"a":"x, y: {z}"}], "none": []}');
  assert.equal((await (await show(page, "Hex")).innerText()).split("\n")[0], '000000  7b 22 70 72 69 63 65 22 3a 20 31 32 2e 35 30 2c  {"price": 12.50,');
});

person("bytes are shown as hex at first, and copied as base64", async ({ page, api }) => {
  const queue = await api.queue({ name: "bytes" });
  await queue.send({ body: "AAH+/w==", content_type: "bytes" });
  await openQueue(page, queue, "messages");
  await page.locator(".message-open").click();
  assert.equal(await page.getByRole("region", { name: "Body as hex" }).innerText(), `000000  00 01 fe ff${" ".repeat(36)}  ····`);
  await page.getByRole("button", { name: "Copy as base64" }).click();
  await until("it is copied", async () => (await clipboard(page)) === "AAH+/w==");
  await opened(page).getByRole("radio", { name: "JSON" }).check();
  await page.getByText("This body is not JSON: it is not UTF-8.").waitFor();
});

person("a body full of HTML and script is shown as text and does nothing", async ({ page, api }) => {
  const body = `<script>document.title='owned'</script><img src="x" onerror="document.title='owned'"><iframe srcdoc="<script>parent.document.title='owned'</script>"></iframe><a href="javascript:document.title='owned'">x</a><style>body{display:none}</style>"'><svg/onload=document.title='owned'>`;
  const queue = await api.queue({ name: "hostile" });
  await queue.text(body);
  await queue.send({ body: { [body]: body }, content_type: "json" });
  await openQueue(page, queue, "messages");
  for (const index of [0, 1]) {
    await page.locator(".message-open").nth(index).click();
    for (const view of ["Text", "JSON", "Hex"]) await opened(page).getByRole("radio", { name: view }).check();
    const text = await (await show(page, "Text")).innerText();
    assert.equal(index === 0 ? text : JSON.parse(text)[body], body);
  }
  const made = await page.evaluate(() => document.querySelectorAll("main script, main img, main iframe, main style, main svg[onload], [onerror]").length);
  assert.equal(made, 0);
  assert.equal(await page.title(), "hostile · pullq");
});

person("an event's attributes are shown as metadata", async ({ page, api, pullq }) => {
  const { channel } = await new Events(pullq).send({ specversion: "1.0", type: "com.example.order", source: "/shop", subject: "events", data: { total: 1 } });
  const [{ queue_id }] = await api.ok("GET", `/queues?name=${channel}`);
  await openQueue(page, { id: queue_id, name: channel }, "messages");
  await page.locator(".message-open").click();
  assert.match(await opened(page).innerText(), /ce-type\s+com\.example\.order/);
});

person("selected messages are deleted, and the others stay", async ({ page, api }) => {
  const queue = await api.queue({ name: "deleted-from" });
  await queue.texts(["keep", "away 1", "away 2"]);
  await openQueue(page, queue, "messages");
  const item = (text) => page.locator(".message-list > li").filter({ hasText: text });
  await item("away 1").getByRole("checkbox").check();
  await item("away 2").getByRole("checkbox").check();
  await page.getByText("2 selected").waitFor();
  await page.getByRole("button", { name: "Delete selected…" }).click();
  await page.getByRole("dialog", { name: "Delete 2 messages" }).getByRole("button", { name: "Delete" }).click();
  await page.getByText("2 messages deleted.").waitFor();
  await until("one is left", async () => (await page.locator(".message-list > li").count()) === 1);
  assert.deepEqual((await queue.take()).map(({ body }) => body), ["keep"]);
});

person("a message that a consumer took meanwhile is told to be gone", async ({ page, api }) => {
  const queue = await api.queue({ name: "gone-meanwhile" });
  await queue.texts(["1", "2"]);
  await openQueue(page, queue, "messages");
  await page.getByLabel("Select all shown").check();
  await queue.settle({ acks: (await queue.pull({ batch_size: 1 })).messages });
  await page.getByRole("button", { name: "Delete selected…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("1 message deleted; 1 was no longer there.").waitFor();
});

person("of many messages the first are shown, and more when asked", async ({ page, api }) => {
  const queue = await api.queue({ name: "many" });
  await queue.texts(Array.from({ length: 100 }, (_, index) => `message ${index}`));
  await queue.texts(["one more"]);
  await openQueue(page, queue, "messages");
  await page.getByText("The first 25 of 101").waitFor();
  await page.getByRole("button", { name: "Show up to 100" }).click();
  await page.getByText("The first 100 of 101").waitFor();
  assert.equal(await page.locator(".message-list > li").count(), 100);
});

person("an empty list says where the messages are instead", async ({ page, api }) => {
  const queue = await api.queue({ name: "elsewhere" });
  await queue.text("1");
  await queue.text("2", { delay_seconds: 600 });
  await queue.take();
  await openQueue(page, queue, "messages");
  await page.getByText("No message is waiting; 1 message under a lease and 1 delayed can't be looked at.").waitFor();
});

person("a message of a megabyte is shown in portions, and downloaded whole", async ({ page, api, pullq }) => {
  const data = Array.from({ length: 13_500 }, (_, index) => ({ index, name: `item number ${index}`, price: "12.50", note: "ä<b>" }));
  const text = JSON.stringify(data);
  assert.ok(text.length > 900_000 && text.length < 1_000_000, `${text.length}`);
  await new Events(pullq).send(`{"specversion":"1.0","type":"t","source":"/s","subject":"large","data":${text}}`);
  const [{ queue_id }] = await api.ok("GET", "/queues?name=large");
  await openQueue(page, { id: queue_id, name: "large" }, "messages");

  const began_ms = performance.now();
  await page.locator(".message-open").click();
  const json = page.getByRole("region", { name: "Body as json" });
  await json.waitFor();
  assert.equal((await json.evaluate((element) => element.textContent.length)), 65_536);
  await page.getByRole("button", { name: "Show more" }).click();
  await until("a second portion", async () => (await json.evaluate((element) => element.textContent.length)) === 131_072);
  await show(page, "Hex");
  await show(page, "Text");
  const took_ms = performance.now() - began_ms;
  assert.ok(took_ms < 5_000, `${Math.round(took_ms)} ms`);

  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  assert.match(download.suggestedFilename(), /^[0-9a-f]{32}\.json$/);
  assert.equal(await readFile(await download.path(), "utf8"), text);
});
