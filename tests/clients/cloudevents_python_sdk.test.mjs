// The CloudEvents SDK for Python, its older and its newer module, against a running pullq.
import { join } from "node:path";
import { test } from "node:test";
import { OPEN } from "../support/events.mjs";
import { startPullq } from "../support/pullq.mjs";
import { runPythonChecks } from "../support/python.mjs";

test("the CloudEvents SDK for Python", async (t) => {
  const pullq = await startPullq({ bindings: OPEN });
  try {
    await runPythonChecks(t, {
      program: join(import.meta.dirname, "cloudevents_python_sdk.py"),
      args: [pullq.url],
      requirements: join(import.meta.dirname, "cloudevents_python_requirements.txt"),
      module: "cloudevents.core",
      version: [3, 10],
    });
  } finally {
    await pullq.stop();
  }
});
