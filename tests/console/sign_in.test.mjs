// Signing in and out, what is kept of the token and where, and what a token that can't write is shown.
import assert from "node:assert/strict";
import { ACCOUNT, DEV_TOKEN, consoleTests, openQueue, signIn } from "../support/browser.mjs";
import { DEV } from "../support/pullq.mjs";

const READER = { ...DEV, name: "reader", token: "a-token-that-reads", permissions: ["queues:read"] };

const person = consoleTests({ tokens: [DEV, READER], bindings: { CLOUDEVENTS_ACCOUNT: ACCOUNT } });

person("a wrong token is refused with the API's sentence, and a right one gets in", { signedIn: false }, async ({ page }) => {
  await page.getByLabel("API token").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  const alert = page.getByRole("alert");
  await alert.waitFor();
  assert.match(await alert.innerText(), /this API token is not known here/);
  await page.getByLabel("API token").fill("wr\u00f6ng\u2026");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("it has characters that no token has").waitFor();

  await signIn(page);
});

person("the token is kept for the tab alone: a reload stays signed in, another tab and a sign-out don't", async ({ page, context }) => {
  await page.reload();
  await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
  const kept = await page.evaluate(() => ({ session: JSON.stringify({ ...sessionStorage }), local: { ...localStorage }, cookies: document.cookie }));
  assert.ok(kept.session.includes(DEV_TOKEN));
  assert.deepEqual([kept.local, kept.cookies], [{}, ""]);
  assert.ok(!page.url().includes(DEV_TOKEN));

  const other = await context.newPage();
  await other.goto(page.url());
  await other.getByRole("heading", { name: "Sign in" }).waitFor();

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await page.reload();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

person("a token that is refused later leads to the sign-in page, which says why", async ({ page }) => {
  const refusal = { success: false, errors: [{ code: 10000, message: "Authentication error: this API token is not known here." }], messages: [], result: null };
  await page.route("**/overview*", (route) => route.fulfill({ status: 401, json: refusal }));
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.match(await page.getByRole("alert").innerText(), /Signed out\. .*not known here/);
});

person("a token for every account asks for an account id when none is known", { signedIn: false }, async ({ page, api }) => {
  await api.queue({ name: "mine" });
  await page.route("**/client/v4/accounts", (route) => route.fulfill({ json: { success: true, errors: [], messages: [], result: [] } }));
  await page.getByLabel("API token").fill(DEV_TOKEN);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByLabel("Account id").fill(ACCOUNT);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("link", { name: "mine" }).waitFor();
});

person("a token that can't write sees everything and is offered nothing that writes", { token: READER.token }, async ({ page, api }) => {
  const queue = await api.queue({ name: "looked-at" });
  await queue.text("a body to look at");
  await page.getByText("Read only", { exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Create queue" }).count(), 0);

  await openQueue(page, queue, "messages");
  await page.getByText("a body to look at").waitFor();
  for (const name of [/Send/, /Pause/, /Purge/, /Delete/, /Redrive/]) assert.equal(await page.getByRole("button", { name }).count(), 0, String(name));
  assert.equal(await page.getByRole("checkbox").count(), 0);

  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByText("This token may look at the settings and not change them.").waitFor();
  assert.ok(await page.getByLabel("Retention", { exact: true }).isDisabled());
  assert.equal(await page.getByRole("button", { name: /Save|Delete|Remove/ }).count(), 0);
});
