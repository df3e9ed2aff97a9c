// One queue's page: charts, sending, pausing, purging, settings and consumer, two tabs, code to copy.
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { ACCOUNT, DEV_TOKEN, clipboard, consoleTests, openQueue, signIn, until } from "../support/browser.mjs";

const person = consoleTests();

/** The figure of that name above the tabs. */
const figure = (page, label) => page.locator(".figures > div").filter({ has: page.getByText(label, { exact: true }) }).locator("dd").innerText();

person("the figures and the charts of the last hour show what happened", async ({ page, api }) => {
  const queue = await api.queue({ name: "drawn" });
  await queue.texts(["1", "2", "3", "4"]);
  const taken = (await queue.pull({ batch_size: 3 })).messages;
  await queue.settle({ acks: taken.slice(0, 2) });
  await openQueue(page, queue);
  await until("the figures", async () => (await figure(page, "Waiting")) === "1" && (await figure(page, "Out")) === "1");

  const backlog = page.getByRole("img", { name: /^Backlog, last hour\. Now 2 messages/ });
  await backlog.waitFor();
  await page.getByRole("img", { name: /4 sent, 3 delivered, 2 acknowledged/ }).waitFor();
  // Something is drawn: not all of the canvas has one colour.
  assert.ok(await backlog.locator("canvas").evaluate((canvas) => new Set(new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size > 3));
  await page.getByText("As a table").first().click();
  const table = page.getByRole("region", { name: "Backlog, last hour, as a table" });
  assert.equal(await table.getByRole("row").count(), 61);
  assert.match(await table.getByRole("row").nth(1).innerText(), /^\d\d:\d\d\s+2$/);
  assert.match(await page.locator(".counters > div").filter({ hasText: "Acknowledged" }).innerText(), /^Acknowledged\s+2$/);
});

person("the charts go on while one looks", async ({ page, api }) => {
  const queue = await api.queue({ name: "goes-on" });
  await openQueue(page, queue);
  await page.getByRole("img", { name: /Now 0 messages/ }).waitFor();
  await queue.texts(["1", "2"]);
  await until("the figure", async () => (await figure(page, "Waiting")) === "2");
  await page.getByRole("img", { name: /Now 2 messages/ }).waitFor();
});

for (const [kind, typed, expected] of [
  ["Text", "plain <b>text</b>", "plain <b>text</b>"],
  ["JSON", '{"total": 12.50, "big": 12345678901234567890}', '{"total": 12.50, "big": 12345678901234567890}'],
  ["Bytes", "AP8=\n", "\u0000\u00ff"],
]) {
  person(`a test message is sent as ${kind.toLowerCase()}, and its consumer gets just that`, async ({ page, api }) => {
    const queue = await api.queue({ name: `send-${kind}` });
    await openQueue(page, queue);
    await page.getByRole("button", { name: "Send message" }).click();
    const dialog = page.getByRole("dialog", { name: `Send a message to send-${kind}` });
    await dialog.getByRole("radio", { name: kind }).check();
    await dialog.getByLabel("Body").fill(typed);
    await dialog.getByRole("button", { name: "Send", exact: true }).click();
    await page.getByText("The message is sent.").waitFor();
    const [message] = await queue.take();
    const body = message.metadata["CF-Content-Type"] === "text" ? message.body : Buffer.from(message.body, "base64").toString("latin1");
    assert.equal(body, expected);
    assert.equal(message.metadata["CF-Content-Type"], kind.toLowerCase());
  });
}

person("a test message is sent with a delay; what can't be sent is told in the dialog", async ({ page, api }) => {
  const queue = await api.queue({ name: "send-later" });
  await openQueue(page, queue);
  await page.getByRole("button", { name: "Send message" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("radio", { name: "JSON" }).check();
  await dialog.getByLabel("Body").fill("{not json");
  await dialog.getByRole("button", { name: "Send", exact: true }).click();
  assert.match(await dialog.getByRole("alert").innerText(), /The body is not JSON: .* Correct it, or send it as text\./);
  await dialog.getByRole("radio", { name: "Bytes" }).check();
  await dialog.getByLabel("Body").fill("not base64!");
  await dialog.getByRole("button", { name: "Send", exact: true }).click();
  await until("the API's sentence", async () => /base64/.test(await dialog.getByRole("alert").innerText().catch(() => "")));
  await dialog.getByRole("radio", { name: "Text" }).check();
  await dialog.getByLabel("Body").fill("x".repeat(128_001));
  await dialog.getByRole("button", { name: "Send", exact: true }).click();
  await until("the API's sentence", async () => /at most 128000 bytes can be sent/.test(await dialog.getByRole("alert").innerText().catch(() => "")));

  await dialog.getByLabel("Body").fill("later");
  await dialog.getByLabel("With a delay of its own").check();
  await dialog.getByLabel("Unit of delay").selectOption("minute");
  await dialog.getByLabel("Delay", { exact: true }).fill("5");
  await dialog.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText("The message is sent.").waitFor();
  await until("the figure", async () => (await figure(page, "Delayed")) === "1");
});

person("delivery is paused and resumed", async ({ page, api }) => {
  const queue = await api.queue({ name: "paused" });
  await queue.text("1");
  await openQueue(page, queue);
  await page.getByRole("button", { name: "Pause delivery" }).click();
  await page.getByText("Delivery is paused: sends are taken, and consumers get nothing until it is resumed.").waitFor();
  assert.equal((await api.call("POST", `${queue.path}/messages/pull`, {})).status, 409);
  await page.getByRole("button", { name: "Resume delivery" }).click();
  await page.getByRole("button", { name: "Pause delivery" }).waitFor();
  assert.equal((await queue.take()).length, 1);
});

person("a purge needs the queue's exact name", async ({ page, api }) => {
  const queue = await api.queue({ name: "purged" });
  await queue.texts(["1", "2"]);
  await openQueue(page, queue);
  await page.getByRole("button", { name: "Purge…" }).click();
  const dialog = page.getByRole("dialog", { name: "Purge purged" });
  const button = dialog.getByRole("button", { name: "Delete every message" });
  for (const typed of ["", "purge", "Purged", "purged "]) {
    await dialog.getByLabel("Type purged to confirm").fill(typed);
    assert.ok(await button.isDisabled(), JSON.stringify(typed));
    await page.keyboard.press("Enter");
  }
  assert.equal((await api.ok("GET", `${queue.path}/metrics`)).backlog_count, 2);
  await dialog.getByLabel("Type purged to confirm").fill("purged");
  await button.click();
  await dialog.waitFor({ state: "detached" });
  assert.equal((await api.ok("GET", `${queue.path}/metrics`)).backlog_count, 0);
  await until("the figure", async () => (await figure(page, "Waiting")) === "0");
});

person("settings and consumer are changed, and only what was changed is sent", async ({ page, api }) => {
  const queue = await api.queue({ name: "settled" });
  await openQueue(page, queue, "settings");
  const sent = [];
  page.on("request", (request) => {
    if (request.method() === "PATCH") sent.push(request.postDataJSON());
  });
  await page.getByLabel("Unit of retention").selectOption("hour");
  await page.getByLabel("Retention", { exact: true }).fill("36");
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByText("The settings are saved.").waitFor();
  assert.deepEqual(sent, [{ settings: { message_retention_period: 129_600 } }]);
  await until("nothing to save", () => page.getByRole("button", { name: "Save settings" }).isDisabled());

  await page.getByLabel("Visibility timeout", { exact: true }).fill("90");
  await page.getByLabel("Retries", { exact: true }).fill("7");
  await page.getByLabel("Dead-letter queue").fill("settled-dead");
  await page.getByRole("button", { name: "Save consumer" }).click();
  await page.getByText("The consumer is saved.").waitFor();
  const [consumer] = (await api.ok("GET", queue.path)).consumers;
  assert.deepEqual(consumer.settings, { batch_size: 5, max_retries: 7, retry_delay: 0, visibility_timeout_ms: 90_000 });
  assert.equal(consumer.dead_letter_queue, "settled-dead");

  await page.getByLabel("Name", { exact: true }).fill("settled-anew");
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByRole("heading", { name: "settled-anew", level: 1 }).waitFor();
});

person("what the API refuses in the settings is told beside them", async ({ page, api }) => {
  await api.queue({ name: "occupied" });
  const queue = await api.queue({ name: "renamed" });
  await openQueue(page, queue, "settings");
  await page.getByLabel("Name", { exact: true }).fill("occupied");
  await page.getByRole("button", { name: "Save settings" }).click();
  assert.match(await page.getByRole("alert").innerText(), /A queue of this name already exists/);
});

person("a consumer is added where there is none, and removed again", async ({ page, api }) => {
  const queue = await api.queue({ name: "no-consumer", consumer: null });
  await openQueue(page, queue);
  await page.getByRole("link", { name: "Add one in the settings." }).click();
  await page.getByRole("button", { name: "Add a pull consumer" }).click();
  await page.getByRole("button", { name: "Add consumer" }).click();
  await page.getByText("The consumer is saved.").waitFor();
  assert.equal((await api.ok("GET", queue.path)).consumers[0].settings.batch_size, 5);
  await page.getByRole("button", { name: "Remove…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await page.getByRole("button", { name: "Add a pull consumer" }).waitFor();
  assert.deepEqual((await api.ok("GET", queue.path)).consumers, []);
});

person("a queue is deleted by its name, and its page in another tab says that it is gone", async ({ page, context, api }) => {
  const queue = await api.queue({ name: "deleted" });
  const other = await context.newPage();
  await other.goto(page.url());
  await signIn(other);
  await openQueue(other, queue);

  await openQueue(page, queue, "settings");
  await page.getByRole("button", { name: "Delete queue…" }).click();
  await page.getByLabel("Type deleted to confirm").fill("deleted");
  await page.getByRole("button", { name: "Delete the queue" }).click();
  await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
  assert.deepEqual(await api.ok("GET", "/queues?name=deleted"), []);

  await other.bringToFront();
  await until("the sentence", async () => /There is no queue with this id/.test(await other.getByRole("alert").innerText().catch(() => "")));
});

person("two tabs that edit different settings don't undo each other's, and the same one is asked about", async ({ page, context, api }) => {
  const queue = await api.queue({ name: "shared" });
  const other = await context.newPage();
  await other.goto(page.url());
  await signIn(other);
  await openQueue(page, queue, "settings");
  await openQueue(other, queue, "settings");

  // Both begin to edit, each from the same settings.
  await page.getByLabel("Delay", { exact: true }).fill("7");
  await other.getByLabel("Unit of retention").selectOption("day");
  await other.getByLabel("Retention", { exact: true }).fill("2");
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByText("The settings are saved.").waitFor();
  await other.getByRole("button", { name: "Save settings" }).click();
  await other.getByText("The settings are saved.").waitFor();
  const { settings } = await api.ok("GET", queue.path);
  assert.deepEqual([settings.delivery_delay, settings.message_retention_period], [7, 172_800]);

  await until("the other tab has the delay", async () => (await other.getByLabel("Delay", { exact: true }).inputValue()) === "7");
  await other.getByLabel("Delay", { exact: true }).fill("20");
  await api.ok("PATCH", queue.path, { settings: { delivery_delay: 30 } });
  await other.getByRole("button", { name: "Save settings" }).click();
  assert.match(await other.getByRole("alert").innerText(), /somebody else set the delay to 30 seconds\. Save again to put yours in its place\./);
  assert.equal((await api.ok("GET", queue.path)).settings.delivery_delay, 30);
  await other.getByRole("button", { name: "Save settings" }).click();
  await until("it is saved", async () => (await api.ok("GET", queue.path)).settings.delivery_delay === 20);
});

person("a pause in one tab shows in the other", async ({ page, context, api }) => {
  const queue = await api.queue({ name: "seen-twice" });
  const other = await context.newPage();
  await other.goto(page.url());
  await signIn(other);
  await openQueue(other, queue);
  await openQueue(page, queue);
  await page.getByRole("button", { name: "Pause delivery" }).click();
  await other.getByRole("button", { name: "Resume delivery" }).waitFor();
});

person("the code for curl, as it is copied, sends and pulls in this queue", async ({ page, api }) => {
  const queue = await api.queue({ name: "copied" });
  await openQueue(page, queue, "code");
  await page.getByRole("button", { name: "Copy the code" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  const code = await clipboard(page);
  assert.ok(!code.includes(DEV_TOKEN), "the token isn't in it");
  // Not spawnSync: Miniflare answers from this process.
  const env = { ...process.env, PULLQ_TOKEN: DEV_TOKEN, no_proxy: "*" };
  const { error, stdout } = await new Promise((done) => execFile("sh", ["-e", "-c", code], { env }, (error, stdout) => done({ error, stdout })));
  assert.equal(error, null);
  const answers = stdout.trim().split(/(?<=\})(?=\{"success")|\n/).map((text) => JSON.parse(text));
  assert.deepEqual(answers.map(({ success }) => success), [true, true, true]);
  assert.equal(answers[1].result.messages[0].body, "hello");
});

person("the code for TypeScript, as it is copied, sends and pulls in this queue", async ({ page, api }) => {
  const queue = await api.queue({ name: "copied-ts" });
  await openQueue(page, queue, "code");
  await page.getByRole("radio", { name: "TypeScript" }).check();
  await page.getByRole("button", { name: "Copy the code" }).click();
  await until("it is copied", async () => (await clipboard(page)).startsWith("import Cloudflare from"));
  const env = { ...process.env, PULLQ_TOKEN: DEV_TOKEN, no_proxy: "*" };
  const args = ["--input-type=module", "--eval", await clipboard(page)];
  const { error, stdout } = await new Promise((done) => execFile(process.execPath, args, { env }, (error, stdout) => done({ error, stdout })));
  assert.equal(error, null);
  assert.equal(stdout.trim(), "hello 1");
  const { counters, backlog_count } = await api.ok("GET", `${queue.path}/metrics`);
  assert.deepEqual([counters.sent, counters.acknowledged, backlog_count], [1, 1, 0]);
});

person("the code for TypeScript and Python names this queue, its account and its address", async ({ page, api, pullq }) => {
  const queue = await api.queue({ name: "copied-too" });
  await openQueue(page, queue, "code");
  for (const [language, start] of [["TypeScript", "import Cloudflare from 'cloudflare';"], ["Python", "import os"]]) {
    await page.getByRole("radio", { name: language }).check();
    await page.getByRole("button", { name: "Copy the code" }).click();
    await until(`${language} is copied`, async () => (await clipboard(page)).startsWith(start));
    const code = await clipboard(page);
    for (const part of [queue.id, ACCOUNT, `${pullq.url}/client/v4`, "PULLQ_TOKEN"]) assert.ok(code.includes(part), `${language}: ${part}`);
    if (language === "Python") {
      const python = spawnSync("python3", ["-c", "import ast, sys; ast.parse(sys.stdin.read())"], { input: code, encoding: "utf8" });
      if (!python.error) assert.equal(python.status, 0, python.stderr);
    }
  }
});
