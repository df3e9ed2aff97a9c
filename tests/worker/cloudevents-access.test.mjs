// Who may use the CloudEvents face: nobody until it is set up, then everybody or whoever bears a
// token that keeps to the settings.
import assert from "node:assert/strict";
import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import { test } from "node:test";
import { ACCOUNT } from "../support/api.mjs";
import { Events, event, newChannel } from "../support/events.mjs";
import { startPullq } from "../support/pullq.mjs";

const SECRET = "a secret of thirty-two bytes or so";
const NOW_S = Math.floor(Date.now() / 1_000);
const CURVES = { 256: "P-256", 384: "P-384", 512: "P-521" };

const rsa = pem(generateKeyPairSync("rsa", { modulusLength: 2_048 }));
const otherRsa = pem(generateKeyPairSync("rsa", { modulusLength: 2_048 }));
const ec = Object.fromEntries(
  Object.entries(CURVES).map(([bits, namedCurve]) => [bits, pem(generateKeyPairSync("ec", { namedCurve }))]),
);

function pem({ privateKey, publicKey }) {
  return { privateKey, publicKey: publicKey.export({ type: "spki", format: "pem" }) };
}

const base64url = (data) => Buffer.from(data).toString("base64url");

/** A token as an issuer makes it. */
function token(alg, key, claims = {}, header = {}) {
  const signed = [{ alg, typ: "JWT", ...header }, { exp: NOW_S + 600, ...claims }].map((part) => base64url(JSON.stringify(part))).join(".");
  const hash = `sha${alg.slice(2)}`;
  const signature = alg.startsWith("HS")
    ? createHmac(hash, key).update(signed).digest()
    : sign(hash, Buffer.from(signed), { key, dsaEncoding: "ieee-p1363" });
  return `${signed}.${base64url(signature)}`;
}

const hs = (claims, header) => token("HS256", SECRET, claims, header);

/** Starts pullq with these settings, and gives `use` a client that bears a given token. */
async function withSettings(settings, use) {
  const pullq = await startPullq({ bindings: { CLOUDEVENTS_ACCOUNT: ACCOUNT, ...settings } });
  try {
    await use((token) => new Events(pullq, { token }), pullq);
  } finally {
    await pullq.stop();
  }
}

const JWT = { CLOUDEVENTS_AUTH: "jwt", CLOUDEVENTS_JWT_ALGORITHM: "HS256", CLOUDEVENTS_JWT_KEY: SECRET };

/** The status and sentence of a receive. */
async function tried(events, channel = newChannel()) {
  const { status, json } = await events.call("/queue/receive", { query: { channel, client_id: "c", wait_timeout: 0 } });
  return [status, json.message];
}

test("until the settings say who may, nobody gets in, and the answer says what to set", async () => {
  const cases = [
    [{}, /CLOUDEVENTS_AUTH/],
    [{ CLOUDEVENTS_AUTH: "on" }, /CLOUDEVENTS_AUTH is neither/],
    [{ CLOUDEVENTS_AUTH: "off", CLOUDEVENTS_ACCOUNT: "" }, /CLOUDEVENTS_ACCOUNT/],
    [{ CLOUDEVENTS_AUTH: "off", CLOUDEVENTS_RULES: "[]" }, /CLOUDEVENTS_RULES needs/],
    [{ ...JWT, CLOUDEVENTS_JWT_KEY: "" }, /CLOUDEVENTS_JWT_KEY is not set/],
    [{ ...JWT, CLOUDEVENTS_JWT_ALGORITHM: "none" }, /CLOUDEVENTS_JWT_ALGORITHM/],
    [{ ...JWT, CLOUDEVENTS_JWT_ALGORITHM: "RS256" }, /public key in PEM/],
  ];
  for (const [settings, sentence] of cases) {
    await withSettings(settings, async (bearing) => {
      const [status, message] = await tried(bearing(hs()));
      assert.equal(status, 401, message);
      assert.match(message, sentence);
    });
  }
  // A key that is one, and for another algorithm: found out when the platform is to use it.
  await withSettings({ ...JWT, CLOUDEVENTS_JWT_ALGORITHM: "RS256", CLOUDEVENTS_JWT_KEY: ec[256].publicKey }, async (bearing) => {
    assert.deepEqual(await tried(bearing(token("RS256", rsa.privateKey))), [401, "Nobody gets in: CLOUDEVENTS_JWT_KEY is no key for CLOUDEVENTS_JWT_ALGORITHM."]);
  });
});

for (const [family, bits] of ["HS", "RS", "ES"].flatMap((family) => [256, 384, 512].map((bits) => [family, bits]))) {
  const alg = `${family}${bits}`;
  test(`${alg}: a good signature gets in, another key's or another algorithm's doesn't`, async () => {
    const good = { HS: SECRET, RS: rsa.privateKey, ES: ec[bits].privateKey }[family];
    const bad = { HS: "another secret", RS: otherRsa.privateKey, ES: pem(generateKeyPairSync("ec", { namedCurve: CURVES[bits] })).privateKey }[family];
    const key = { HS: SECRET, RS: rsa.publicKey, ES: ec[bits].publicKey }[family];
    await withSettings({ CLOUDEVENTS_AUTH: "jwt", CLOUDEVENTS_JWT_ALGORITHM: alg, CLOUDEVENTS_JWT_KEY: key }, async (bearing) => {
      const presented = token(alg, good);
      assert.deepEqual(await tried(bearing(presented)), [200, "OK"]);
      assert.deepEqual(await tried(bearing(token(alg, bad))), [401, "The token is refused: its signature is wrong."]);
      const [header, payload, signature] = presented.split(".");
      const forged = base64url(JSON.stringify({ exp: NOW_S + 600, sub: "somebody else" }));
      assert.equal((await tried(bearing(`${header}.${forged}.${signature}`)))[0], 401, "other claims");
      assert.equal((await tried(bearing(`${header}.${payload}.`)))[0], 401, "no signature");
      const otherAlgorithm = [401, "The token is refused: it is signed with another algorithm."];
      const none = base64url(JSON.stringify({ alg: "none" }));
      assert.deepEqual(await tried(bearing(`${none}.${payload}.`)), otherAlgorithm);
      // What a verifier that trusts the token's own header falls for: the public key as a secret.
      assert.deepEqual(await tried(bearing(token(alg === "HS384" ? "HS256" : "HS384", key))), otherAlgorithm);
    });
  });
}

test("claims: exp must be there and ahead, nbf behind, aud and iss as set", async () => {
  await withSettings({ ...JWT, CLOUDEVENTS_JWT_AUDIENCE: "queues", CLOUDEVENTS_JWT_ISSUER: "me" }, async (bearing) => {
    const good = { aud: "queues", iss: "me" };
    const cases = [
      [good, 200],
      [{ ...good, aud: ["other", "queues"], nbf: NOW_S - 10, iat: NOW_S }, 200],
      [{ ...good, exp: NOW_S - 1 }, 401, /expired/],
      [{ ...good, exp: undefined }, 401, /no claim exp/],
      [{ ...good, exp: "tomorrow" }, 401, /exp is not a number/],
      [{ ...good, nbf: NOW_S + 300 }, 401, /not valid yet/],
      [{ ...good, aud: "other" }, 401, /audience/],
      [{ iss: "me" }, 401, /audience/],
      [{ ...good, iss: "you" }, 401, /issuer/],
      [{ aud: "queues" }, 401, /issuer/],
    ];
    for (const [claims, expected, sentence = /^OK$/] of cases) {
      const [status, message] = await tried(bearing(hs(claims)));
      assert.equal(status, expected, `${JSON.stringify(claims)}: ${message}`);
      assert.match(message, sentence);
    }
    assert.match((await tried(bearing(hs(good, { crit: ["b64"], b64: false }))))[1], /extension/);
    for (const [presented, sentence] of [[undefined, /Send a token/], ["a.b", /not a JSON Web Token/], ["a.b.c.d", /not a JSON Web Token/]]) {
      const [status, message] = await tried(bearing(presented));
      assert.equal(status, 401);
      assert.match(message, sentence);
    }
    const { headers } = await bearing(undefined).call("/queue/send");
    assert.equal(headers.get("www-authenticate"), "Bearer", "and the body isn't looked at");
  });
});

test("rules grant channels to the client that the token names, whatever the request says", async () => {
  const rules = [
    { clients: ["worker-*"], channels: ["orders.*"], permissions: ["read"] },
    { clients: ["shop"], channels: ["orders.*", "mail"], permissions: ["write"] },
  ];
  const settings = { ...JWT, CLOUDEVENTS_JWT_CLIENT_ID_CLAIM: "ClientID", CLOUDEVENTS_RULES: JSON.stringify(rules) };
  await withSettings(settings, async (bearing) => {
    const [worker, shop, stranger] = ["worker-1", "shop", "stranger"].map((ClientID) => bearing(hs({ ClientID })));
    const send = async (events, channel) =>
      (await events.call("/queue/send", {
        headers: { "content-type": "application/cloudevents+json" },
        // The source is no proof of who sends it.
        body: JSON.stringify(event(1, { subject: channel, source: "shop" })),
      })).status;
    const receive = async (events, channel, path = "/queue/receive") =>
      (await events.call(path, { query: { channel, client_id: "worker-1", wait_timeout: 0 } })).status;

    assert.deepEqual(await Promise.all([shop, worker, stranger].map((events) => send(events, "orders.eu"))), [202, 403, 403]);
    assert.deepEqual(await Promise.all([send(shop, "mail"), send(shop, "other")]), [202, 403]);
    assert.deepEqual(await Promise.all([worker, shop, stranger].map((events) => receive(events, "orders.eu"))), [200, 403, 403]);
    assert.equal(await receive(worker, "mail"), 403);
    assert.deepEqual(await Promise.all([shop, worker].map((events) => receive(events, "orders.eu", "/queue/ack_all"))), [200, 403], "ack_all is a write");
    const unnamed = await shop.call("/queue/ack_all", { query: { channel: "mail" } });
    assert.equal(unnamed.status, 200, "a client whose token says who it is need not say it again");
    assert.match((await tried(bearing(hs())))[1], /no claim ClientID/);
    const { json } = await worker.call("/queue/receive", { query: { channel: "mail", wait_timeout: 0 } });
    assert.equal(json.message, "No rule lets this client read the channel.");
  });
});
