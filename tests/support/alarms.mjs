// The alarms the runtime has on record for the queues, read from its storage
// folder: tests see that an alarm has fired, or take one away, without a hook
// in the product.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/** When the queues' alarms are due, in ms since 1970, earliest first. */
export function alarmTimesMs(server) {
  return onRecord(server, [], (alarms) =>
    // The record is in nanoseconds, more than a JavaScript number holds.
    alarms.prepare("SELECT scheduled_time / 1000000 AS at_ms FROM _cf_ALARM ORDER BY 1").all().map((row) => row.at_ms),
  );
}

/** Takes every queue's alarm away and says how many there were; the server must be down. */
export function forgetAlarms(server) {
  return onRecord(server, 0, (alarms) => alarms.prepare("DELETE FROM _cf_ALARM").run().changes);
}

function onRecord(server, none, read) {
  const path = join(server.storage, "pullq-QueueObject", "metadata.sqlite");
  if (!existsSync(path)) return none;
  const alarms = new DatabaseSync(path, { timeout: 1000 });
  try {
    return read(alarms);
  } finally {
    alarms.close();
  }
}
