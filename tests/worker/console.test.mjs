// The console's files as the Worker serves them; what is in them, tests/console tries in a browser.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startPullq } from "../support/pullq.mjs";

let pullq;
before(async () => (pullq = await startPullq()));
after(() => pullq?.stop());

const get = (path, options = {}) => fetch(`${pullq.url}${path}`, { redirect: "manual", ...options });

test("whoever comes without a path, or without the slash, is led to the console", async () => {
  for (const path of ["/", "/console"]) {
    const { status, headers } = await get(path);
    assert.deepEqual([status, headers.get("location")], [302, "/console/"], path);
  }
});

test("the console needs no token, and its pages may do nothing but ask their own origin", async () => {
  for (const [file, type] of [["", "text/html; charset=utf-8"], ["app.js", "text/javascript; charset=utf-8"], ["app.css", "text/css; charset=utf-8"], ["icon.svg", "image/svg+xml"]]) {
    const answer = await get(`/console/${file}`);
    assert.equal(answer.status, 200, file);
    assert.equal(answer.headers.get("content-type"), type);
    assert.ok((await answer.text()).length > 100, file);
    const policy = answer.headers.get("content-security-policy");
    for (const rule of ["default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]) {
      assert.ok(policy.includes(rule), `${file}: ${rule}`);
    }
    assert.ok(!policy.includes("unsafe"));
    assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
    assert.equal(answer.headers.get("cache-control"), "no-cache");
  }
  assert.equal((await get("/console/", { method: "HEAD" })).status, 200);
});

test("the console has no other files and takes nothing", async () => {
  for (const path of ["/console/none.js", "/console/x/app.js", "/console/%2e%2e%2findex.js", "/console/stamp.json"]) {
    const answer = await get(path);
    assert.equal(answer.status, 404, path);
    assert.equal((await answer.json()).errors[0].code, 7003);
  }
  const answer = await get("/console/", { method: "POST", body: "x" });
  assert.deepEqual([answer.status, answer.headers.get("allow")], [405, "GET, HEAD"]);
});
