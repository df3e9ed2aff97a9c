// How every screen looks: no serious finding of axe-core in the light and in the dark, and no screen wider
// than a phone. With PULLQ_SCREENSHOTS=1 it also takes the README's pictures.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { DESKTOP, PHONE, consoleTests, findings, killMessages, openQueue, overflow_px, until } from "../support/browser.mjs";

const person = consoleTests();
const PICTURES = resolve(fileURLToPath(import.meta.url), "../../../console/screenshots");
const takesPictures = process.env.PULLQ_SCREENSHOTS === "1";

/** The narrowest phone that counts. */
const NARROW = { width: 360, height: 740 };

/** What the README's pictures show: queues that have been at work for a while, with rates in messages a second. */
const AT_WORK = {
  orders: { oldest_s: 47, sent: 12.4, acknowledged: 11.8 },
  thumbnails: { oldest_s: 190, sent: 86, acknowledged: 84 },
  emails: { oldest_s: 0, sent: 3.2, acknowledged: 3.1 },
  newsletter: { oldest_s: 5 * 3_600 },
  "emails-dead": { oldest_s: 2 * 3_600 },
};

let shown;

/** A shop's queues: some busy, one with dead letters, one paused, one without a consumer. Made once. */
function demo(api) {
  shown ??= makeDemo(api);
  return shown;
}

async function makeDemo(api) {
  const emailsDead = await api.queue({ name: "emails-dead" });
  const emails = await api.queue({ name: "emails", consumer: { dead_letter_queue: "emails-dead", settings: { max_retries: 0 } } });
  const orders = await api.queue({ name: "orders", consumer: { settings: { visibility_timeout_ms: 3_600_000 } } });
  const thumbnails = await api.queue({ name: "thumbnails" });
  const paused = await api.queue({ name: "newsletter" });
  const invoices = await api.queue({ name: "invoices.eu-west", consumer: null });
  await api.queue({ name: "webhooks-of-partners-whose-names-are-as-long-as-names-can-get" });
  await api.ok("PATCH", paused.path, { settings: { delivery_paused: true } });
  await paused.texts(Array.from({ length: 40 }, (_, index) => `reader ${index}`));
  await thumbnails.batch(Array.from({ length: 100 }, (_, index) => ({ content_type: "json", body: { image: `photos/2026/${1_000 + index}.jpg`, width: 320, height: 240 } })));
  await thumbnails.pull({ batch_size: 12, visibility_timeout_ms: 3_600_000 });
  const order = (index) => ({
    content_type: "json",
    body: { order: 48_210 + index, customer: `C-${1_700 + (index * 37) % 300}`, total: 19.9 + index, items: [{ sku: `SKU-${100 + index}`, count: 1 + (index % 3) }] },
  });
  await orders.batch(Array.from({ length: 64 }, (_, index) => order(index)));
  const taken = await orders.take();
  await orders.settle({ acks: taken.slice(0, 30) });
  await orders.batch(Array.from({ length: 6 }, (_, index) => ({ ...order(index), delay_seconds: 3_600 })));
  await orders.batch(Array.from({ length: 20 }, (_, index) => order(100 + index)));
  await killMessages(emails, Array.from({ length: 4 }, (_, index) => ({
    content_type: "json",
    body: { to: `customer${index}@example.com`, template: index % 4 ? "order-shipped" : "reset-password", locale: index % 2 ? "en" : "de" },
  })));
  await until("all are dead", async () => (await api.ok("GET", `${emailsDead.path}/metrics`)).backlog_count === 4);
  return { orders, invoices, emailsDead };
}

/** Every screen and dialog: how one gets there from the list of queues. */
const screens = [
  ["the list of queues", async ({ page }) => page.getByRole("link", { name: "orders", exact: true }).waitFor()],
  ["the search without a result", async ({ page }) => {
    await page.getByLabel("Search queues by name").fill("zzz");
    await page.getByText("No queue's name has").waitFor();
  }],
  ["creating a queue", async ({ page }) => {
    await page.getByRole("button", { name: "Create queue" }).click();
    await page.getByRole("dialog").waitFor();
  }],
  ["a queue's activity", async ({ page, orders }) => {
    await openQueue(page, orders);
    await page.getByRole("img", { name: /^Messages a minute/ }).waitFor();
    await page.getByText("As a table").first().click();
  }],
  ["a queue's messages", async ({ page, orders }) => {
    await openQueue(page, orders, "messages");
    await page.locator(".message-open").first().click();
    await page.getByRole("region", { name: "Body as json" }).waitFor();
  }],
  ["a body as hex", async ({ page, orders }) => {
    await openQueue(page, orders, "messages");
    await page.locator(".message-open").first().click();
    await page.getByRole("radio", { name: "Hex" }).check();
    await page.getByRole("region", { name: "Body as hex" }).waitFor();
  }],
  ["a queue's settings", async ({ page, orders }) => openQueue(page, orders, "settings")],
  ["the settings of a queue without a consumer", async ({ page, invoices }) => openQueue(page, invoices, "settings")],
  ["a queue's code", async ({ page, orders }) => openQueue(page, orders, "code")],
  ["sending a message", async ({ page, orders }) => {
    await openQueue(page, orders);
    await page.getByRole("button", { name: "Send message" }).click();
    await page.getByLabel("With a delay of its own").check();
  }],
  ["a purge", async ({ page, orders }) => {
    await openQueue(page, orders);
    await page.getByRole("button", { name: "Purge…" }).click();
    await page.getByRole("dialog").waitFor();
  }],
  ["dead letters, some selected", async ({ page, emailsDead }) => {
    await openQueue(page, emailsDead, "messages");
    await page.locator(".message-list input").first().check();
  }],
  ["a redrive", async ({ page, emailsDead }) => {
    await openQueue(page, emailsDead);
    await page.getByRole("button", { name: "Redrive…" }).click();
    await page.getByLabel("To another queue").check();
    await page.getByLabel("At a chosen rate").check();
  }],
  ["a lost connection", async ({ page, context }) => {
    await context.setOffline(true);
    await page.getByText(/^No connection since/).waitFor();
  }],
  ["an account without queues", async ({ page }) => {
    const result = { version: 1, as_of_ms: Date.now(), queue_count: 0, queues: [] };
    await page.route("**/overview*", (route) => route.fulfill({ json: { success: true, errors: [], messages: [], result } }));
    await page.getByRole("heading", { name: "No queues yet" }).waitFor();
  }],
  ["a redrive that runs", async ({ page, emailsDead }) => {
    const result = {
      state: "running", destination_queue_name: "emails", messages_per_second: 50, messages_to_move: 1_000, moved: 420, skipped: 3,
      started_on: new Date().toISOString(), ended_on: null,
    };
    await page.route("**/redrive", (route) => route.fulfill({ json: { success: true, errors: [], messages: [], result } }));
    await openQueue(page, emailsDead);
    await page.getByRole("progressbar").waitFor();
  }],
  ["a queue that isn't there", async ({ page }) => {
    await page.goto(`${page.url().split("#")[0]}#/queues/${"f".repeat(32)}`);
    await page.getByRole("alert").waitFor();
  }],
];

for (const [name, goThere] of screens) {
  person(`${name}: axe-core finds nothing serious in the light and in the dark, and nothing lies beside a narrow phone's screen`, async ({ page, context, api }) => {
    await goThere({ page, context, ...(await demo(api)) });
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await settled(page);
      assert.deepEqual(await findings(page), [], colorScheme);
    }
    await besideNothing(page);
  });
}

person("the sign-in page: axe-core finds nothing serious in the light and in the dark, and nothing lies beside a narrow phone's screen", { signedIn: false }, async ({ page }) => {
  await page.getByLabel("API token").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await findings(page), [], colorScheme);
  }
  await besideNothing(page);
});

person("axe-core does find what is wrong", async ({ page }) => {
  await page.evaluate(() => {
    const faint = Object.assign(document.createElement("p"), { textContent: "faint" });
    faint.style.color = "#e8e8e8";
    document.querySelector("main").append(faint, document.createElement("input"));
  });
  assert.deepEqual((await findings(page)).map((text) => text.split(":")[0]).sort(), ["color-contrast", "label"]);
});

/** Asserts that on a narrow phone the page isn't wider than the screen, and nothing lies beside it. */
async function besideNothing(page) {
  await page.setViewportSize(NARROW);
  await settled(page);
  await until("the layout", async () => (await overflow_px(page)) === 0, 2_000);
  const beside = await page.evaluate(() => {
    const within = (element) => element.closest(".scroll, .body-text, .code, .tabs, .table-head, dialog:not([open])");
    return [...document.querySelectorAll("main button, main input, main select, main h1, main h2, main p, main dd, dialog[open] button, dialog[open] input")]
      .filter((element) => !within(element) && element.getBoundingClientRect().right > innerWidth + 1 && element.getBoundingClientRect().width > 1)
      .map((element) => element.outerHTML.slice(0, 120));
  });
  assert.deepEqual(beside, []);
}

person("on a phone the queues are cards with their figures named", { viewport: PHONE }, async ({ page, api }) => {
  await demo(api);
  const card = page.getByRole("row").filter({ has: page.getByRole("link", { name: "orders", exact: true }) });
  await until("the figures", async () => /waiting.*out.*delayed.*oldest/s.test(await card.innerText()));
  await page.getByLabel("Sort by").selectOption("Waiting, most first");
  await until("the fullest first", async () => (await page.locator('[data-index="0"]').innerText()).includes("thumbnails"));
});

person("the dark is dark", { colorScheme: "dark" }, async ({ page }) => {
  const [red, green, blue] = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g).map(Number));
  assert.ok(red + green + blue < 150, `${red} ${green} ${blue}`);
});

/** Dialogs fade in and a notice fades out: colours are looked at when that is over. */
async function settled(page) {
  await page.evaluate(() => Promise.all(document.getAnimations().map((animation) => animation.finished.catch(() => {}))));
}

/** Lets queues that were made a moment ago look as if they had been at work: ages, rates, and the last hour. */
async function atWork(page) {
  const began_ms = Date.now();
  const change = (pattern, edit) => page.route(pattern, async (route) => {
    const response = await route.fetch({ url: route.request().url().replace(/\?since=.*/, "") });
    const json = await response.json();
    edit(json.result);
    await route.fulfill({ response, json });
  });
  const older = (name, state) => {
    if (state.oldest_message_timestamp_ms > 0) state.oldest_message_timestamp_ms = began_ms - (AT_WORK[name]?.oldest_s ?? 0) * 1_000;
  };
  await change("**/overview*", ({ queues }) => queues.forEach((queue) => {
    const { sent = 0, acknowledged = 0 } = AT_WORK[queue.queue_name] ?? {};
    const seconds = (Date.now() - began_ms) / 1_000;
    queue.counters.sent += Math.round(seconds * sent);
    queue.counters.acknowledged += Math.round(seconds * acknowledged);
    older(queue.queue_name, queue);
  }));
  await change("**/metrics", (metrics) => {
    older("orders", metrics);
    Object.assign(metrics.counters, { sent: 48_230, delivered: 48_391, acknowledged: 48_170, retried: 187, dead_lettered: 12, expired: 3, empty_pulls: 902 });
  });
  await change("**/messages/peek", ({ messages }) => messages.forEach((message, index) => (message.timestamp_ms -= 7_200_000 - 411_000 * index)));
  await change("**/history", (result) => {
    const counters = { sent: 0, delivered: 0, acknowledged: 0 };
    const sent = (minute) => Math.round(720 + 170 * Math.sin(minute / 9) + 60 * Math.sin(minute * 2.3) + (minute > 18 && minute < 26 ? 420 : 0));
    const backlog = (minute) => Math.round(60 + 25 * Math.sin(minute / 3) + 1_500 * Math.exp(-(((minute - 27) / 6) ** 2)));
    const this_minute_ms = began_ms - (began_ms % 60_000);
    result.minutes = Array.from({ length: 62 }, (_, minute) => {
      const done = sent(minute) - (backlog(minute) - backlog(minute - 1));
      counters.sent += sent(minute);
      counters.acknowledged += done;
      counters.delivered += Math.round(done * (minute > 20 && minute < 34 ? 1.12 : 1.02));
      return { minute_ms: this_minute_ms - (61 - minute) * 60_000, backlog_count: backlog(minute), backlog_bytes: 0, counters: { ...counters } };
    });
    result.minutes.at(-1).backlog_count = 60;
  });
  await page.reload();
  await page.getByRole("link", { name: "orders", exact: true }).waitFor();
  // Rates are a mean over ten seconds.
  await page.waitForTimeout(12_000);
}

if (takesPictures) {
  mkdirSync(PICTURES, { recursive: true });
  for (const colorScheme of ["light", "dark"]) {
    const take = async (page, name) => {
      await settled(page);
      await page.screenshot({ path: join(PICTURES, `${name}-${colorScheme}.png`) });
    };
    person(`pictures for the README, ${colorScheme}`, { colorScheme, viewport: DESKTOP }, async ({ page, api }) => {
      const { orders, emailsDead } = await demo(api);
      await atWork(page);
      await take(page, "queues");
      await openQueue(page, orders);
      await page.getByRole("img", { name: /^Messages a minute/ }).waitFor();
      await take(page, "queue");
      await openQueue(page, emailsDead, "messages");
      await page.locator(".message-list input").nth(1).check();
      await page.getByRole("button", { name: "Redrive…" }).click();
      await page.getByRole("dialog").waitFor();
      await take(page, "redrive");
    });
    person(`a picture of a phone for the README, ${colorScheme}`, { colorScheme, viewport: PHONE }, async ({ page, api }) => {
      await demo(api);
      await atWork(page);
      await take(page, "phone");
    });
  }
}
