// A person at the console: Chromium, driven by playwright-core, on a pullq of its own. Whatever a test does,
// the page must break no rule of its Content-Security-Policy, throw nothing, and ask no other host.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { ACCOUNT, Api } from "./api.mjs";
import { OPEN } from "./events.mjs";
import { DEV, DEV_TOKEN, startPullq } from "./pullq.mjs";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];

/** The lists of packages may be missing or old. */
const INSTALL = `
install() { apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends chromium; }
command -v chromium || install || { apt-get update && install; }`;

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** How long a person would wait for something to appear; a busy machine is slow. */
const PATIENCE_MS = 15_000;

export const DESKTOP = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 844 };

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** `{path}` of a Chromium, installed if that is possible, or `{reason}` why there is none. */
function findChromium() {
  if (process.env.CHROMIUM) return { path: process.env.CHROMIUM };
  const found = () => NAMES.map((name) => spawnSync("which", [name], { encoding: "utf8" }).stdout?.trim()).find(Boolean);
  let path = found();
  if (!path && process.getuid?.() === 0 && spawnSync("apt-get", ["--version"]).status === 0) {
    // Several files of tests find it missing at once: each but the first waits, and finds it there.
    spawnSync("flock", [join(tmpdir(), "pullq-chromium.lock"), "sh", "-c", INSTALL], { env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } });
    path = found();
  }
  return path ? { path } : { reason: "there is no Chromium here: install chromium, or name one in CHROMIUM" };
}

const { path: executablePath, reason } = findChromium();

/** On CI a missing browser is a failure: tests that never run must not look like tests that pass. */
const skip = executablePath === undefined && !process.env.CI ? reason : false;

/**
 * A pullq (its options are those of `startPullq`) and a browser for the tests of one file. Gives back `person(name, [options], body)`, a test: `body`
 * gets `{page, api, pullq, context, browser}`, with somebody signed in unless `signedIn` is false.
 *
 * Options of a person: `token`, `viewport`, `colorScheme`, `signedIn`, and `allowed`, a pattern of messages
 * on the browser's console that this test brings about on purpose.
 */
export function consoleTests({ tokens = [DEV], bindings = {}, port } = {}) {
  const shared = {};
  before(async () => {
    if (skip) return;
    if (reason) throw new Error(reason);
    shared.pullq = await startPullq({ tokens, port, bindings: { ...OPEN, ...bindings } });
    shared.browser = await chromium.launch({ executablePath, args: FLAGS });
    shared.api = new Api(shared.pullq);
  });
  after(async () => {
    await shared.browser?.close();
    await shared.pullq?.stop();
  });
  return function person(name, ...rest) {
    const body = rest.pop();
    const [options = {}] = rest;
    test(name, { skip }, () => watched(shared, options, body));
  };
}

async function watched(shared, { token = DEV_TOKEN, viewport = DESKTOP, colorScheme = "light", signedIn = true, allowed }, body) {
  const context = await shared.browser.newContext({ viewport, colorScheme, permissions: ["clipboard-read", "clipboard-write"] });
  context.setDefaultTimeout(PATIENCE_MS);
  const wrong = [];
  const watch = (page) => {
    page.on("pageerror", (error) => wrong.push(`thrown: ${error.message}`));
    page.on("console", (message) => {
      // The browser notes every refusal of the API as well; what the console makes of it is what is tested.
      if (["error", "warning"].includes(message.type()) && !/^Failed to load resource/.test(message.text())) wrong.push(`${message.type()}: ${message.text()}`);
    });
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (!["data:", "blob:"].includes(url.protocol) && url.hostname !== "127.0.0.1") wrong.push(`asked ${url}`);
    });
  };
  context.on("page", watch);
  await context.addInitScript(() => document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`)));
  try {
    const page = await context.newPage();
    await page.goto(`${shared.pullq.url}/console/`);
    if (signedIn) await signIn(page, token);
    await body({ ...shared, context, page });
  } finally {
    await context.close();
  }
  assert.deepEqual(wrong.filter((text) => !allowed?.test(text)), [], "what the browser complained of");
}

/** Types the token and waits for the list of queues. */
export async function signIn(page, token = DEV_TOKEN) {
  await page.getByLabel("API token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
}

/** Goes to a queue's page as the address bar would. */
export async function openQueue(page, queue, tab = "") {
  await page.goto(`${page.url().split("#")[0]}#/queues/${queue.id}${tab && `/${tab}`}`);
  await page.getByRole("heading", { name: queue.name, level: 1 }).waitFor();
  await page.getByRole("navigation", { name: `Pages of ${queue.name}` }).waitFor();
}

/** Waits until `look` is true; says what was waited for when it never is. */
export async function until(what, look, within_ms = PATIENCE_MS) {
  const end_ms = Date.now() + within_ms;
  for (;;) {
    if (await look()) return;
    assert.ok(Date.now() < end_ms, `not within ${within_ms} ms: ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** The serious and critical findings of axe-core on the page as it is. */
export async function findings(page) {
  // By the debugger's hand, which the page's policy doesn't bind.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ target, failureSummary }) => `${target.join(" ")} (${failureSummary})`).join("; ")}`);
}

/** How far the page is wider than the screen, in px. */
export const overflow_px = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/** What a person last copied. */
export const clipboard = (page) => page.evaluate(() => navigator.clipboard.readText());

/** Makes messages die: sends them, pulls them and gives them back, until the dead-letter queue has them. */
export async function killMessages(queue, messages) {
  await queue.batch(messages);
  for (let left = messages.length; left > 0; ) {
    const taken = await queue.take();
    await queue.settle({ retries: taken });
    left -= taken.length;
  }
}

export { ACCOUNT, DEV_TOKEN };
