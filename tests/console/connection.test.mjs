// What a deployment sends with the console, and a server that goes away and comes back.
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { gzipSync } from "node:zlib";
import { consoleTests, openQueue, until } from "../support/browser.mjs";

/** A server that comes back has to be where it was. */
const freePort = () => new Promise((done) => {
  const probe = createServer().listen(0, "127.0.0.1", () => {
    const { port } = probe.address();
    probe.close(() => done(port));
  });
});

const person = consoleTests({ port: await freePort() });

const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

person("the console's files come with a strict policy, and /console leads to them", async ({ pullq }) => {
  const moved = await fetch(`${pullq.url}/console`, { redirect: "manual" });
  assert.ok([301, 302, 307, 308].includes(moved.status), `${moved.status}`);
  assert.equal(new URL(moved.headers.get("location"), pullq.url).pathname, "/console/");
  for (const [file, type] of [["", /text\/html/], ["index.html", /text\/html/], ["app.js", /javascript/], ["app.css", /text\/css/], ["icon.svg", /image\/svg/]]) {
    const response = await fetch(`${pullq.url}/console/${file}`);
    await response.arrayBuffer();
    assert.equal(response.status, 200, file);
    assert.match(response.headers.get("content-type"), type, file);
    assert.equal(response.headers.get("content-security-policy"), POLICY, file);
    assert.equal(response.headers.get("x-content-type-options"), "nosniff", file);
  }
  for (const file of ["nothing.js", "../index_bg.wasm", "%2e%2e/index.js", "..%2findex.js"]) {
    const response = await fetch(`${pullq.url}/console/${file}`);
    await response.arrayBuffer();
    assert.equal(response.status, 404, file);
  }
});

person("the console's script stays small and makes no code out of text", async ({ pullq }) => {
  const script = await (await fetch(`${pullq.url}/console/app.js`)).text();
  assert.ok(gzipSync(script).length < 65_000, `${gzipSync(script).length} bytes when compressed`);
  assert.doesNotMatch(script, /\beval\(|new Function\(/);
});

person("a script that somebody puts into the page doesn't run", { allowed: /policy|Content Security Policy|TrustedHTML|TrustedScript/ }, async ({ page }) => {
  const refused = await page.evaluate(() => {
    const element = document.createElement("div");
    document.body.append(element);
    try {
      element.innerHTML = "<img src=x onerror='document.title=1'>";
      return "taken";
    } catch (error) {
      return error.name;
    }
  });
  assert.equal(refused, "TypeError");
});

person("a server that goes away is told, nothing is lost on the screen, and all goes on when it is back", async ({ page, api, context }) => {
  const queue = await api.queue({ name: "comes-back" });
  await queue.text("1");
  await openQueue(page, queue);
  await page.getByText("Oldest").waitFor();
  const banner = page.getByText(/^No connection since \d\d:\d\d:\d\d; trying again\.$/);

  await context.setOffline(true);
  await banner.waitFor();
  assert.ok(await page.getByRole("heading", { name: "comes-back", level: 1 }).isVisible());
  await page.getByRole("button", { name: "Pause delivery" }).click();
  await page.getByText("Whether this was carried out is not known: look before you repeat it.").waitFor();
  await context.setOffline(false);
  await banner.waitFor({ state: "detached" });

  await queue.text("2");
  await until("the live figures", async () => /Waiting\s*2/.test(await page.locator(".figures").innerText()));
});

person("a server that is stopped and started again is told, and all goes on", async ({ page, pullq, api }) => {
  const queue = await api.queue({ name: "restarted" });
  await openQueue(page, queue);
  const banner = page.getByText(/^No connection since/);
  await pullq.restart(async () => {
    await banner.waitFor();
  });
  await banner.waitFor({ state: "detached" });
  await queue.text("1");
  await until("the live figures", async () => /Waiting\s*1/.test(await page.locator(".figures").innerText()));
});

for (const [what, answer, sentence] of [
  ["a queue that isn't there", null, /There is no queue with this id in this account\..* It may have been deleted meanwhile\./],
  ["an API that can't reach a queue", { status: 503, code: 19006, message: "The queue can't be reached at the moment. Whether this request was carried out is not known." }, /The queue can't be reached at the moment/],
  ["an older server", { status: 404, code: 7003, message: "No route for that URI." }, /No route for that URI\. This server is older than the console: update it\./],
  ["a right that is missing", { status: 403, code: 10106, message: "Unauthorized: this API token does not allow this." }, /does not allow this\. Sign in with a token that allows it/],
  ["too many requests", { status: 429, code: 10250, message: "More messages are out than a queue can keep track of.", retryAfter: "5" }, /keep track of\. Try again in 5 seconds\./],
  ["a bug of the server", { status: 500, code: 15000, message: "Something went wrong inside." }, /Something went wrong inside\. Try again; if it stays, read the log\./],
]) {
  person(`${what} is told in a sentence with what to do`, async ({ page }) => {
    if (answer) {
      const { status, code, message, retryAfter } = answer;
      await page.route("**/queues/*", (route) => route.fulfill({
        status, headers: retryAfter ? { "retry-after": retryAfter } : {}, json: { success: false, errors: [{ code, message }], messages: [], result: null },
      }));
    }
    await page.goto(`${page.url().split("#")[0]}#/queues/${"f".repeat(32)}`);
    const alert = page.getByRole("alert");
    await alert.waitFor();
    assert.match((await alert.innerText()).replace(/\s+/g, " "), sentence);
    await page.getByRole("link", { name: "Back to all queues" }).click();
    await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
  });
}

person("an answer that isn't the API's counts as no connection when the way to the server is broken", async ({ page }) => {
  await page.route("**/overview*", (route) => route.fulfill({ status: 502, contentType: "text/html", body: "<h1>Bad gateway</h1>" }));
  await page.getByText(/^No connection since/).waitFor();
  await page.unroute("**/overview*");
  await page.getByText(/^No connection since/).waitFor({ state: "detached" });
});
