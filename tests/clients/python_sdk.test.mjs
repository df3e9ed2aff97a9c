// The official Python SDK against a running pullq.
import { join } from "node:path";
import { test } from "node:test";
import { ACCOUNT } from "../support/api.mjs";
import { DEV_TOKEN, startPullq } from "../support/pullq.mjs";
import { runPythonChecks } from "../support/python.mjs";

test("the official Python SDK", async (t) => {
  const pullq = await startPullq();
  try {
    await runPythonChecks(t, {
      program: join(import.meta.dirname, "python_sdk.py"),
      args: [`${pullq.url}/client/v4`, DEV_TOKEN, ACCOUNT],
      requirements: join(import.meta.dirname, "requirements.txt"),
      module: "cloudflare",
      version: [3, 9],
    });
  } finally {
    await pullq.stop();
  }
});
