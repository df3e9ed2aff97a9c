// Sends what a well-behaved client wouldn't: through Node's HTTP client, which takes odd paths and
// headers, or as bytes on a socket, which takes everything.
import { Agent, request } from "node:http";
import { connect } from "node:net";

/** How long an answer may take before it counts as a hang. */
const HANGS_AFTER_MS = 20_000;

/** A client of `url` that keeps `connections` open; `send` gives back {status, type, text, took_ms}. */
export class Sender {
  constructor(url, connections) {
    const { hostname, port } = new URL(url);
    Object.assign(this, { hostname, port, agent: new Agent({ keepAlive: true, maxSockets: connections }) });
  }

  send({ method, path, headers, body }) {
    const started_ms = performance.now();
    return new Promise((resolve, reject) => {
      const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
      const { hostname, port, agent } = this;
      const sent = request({ hostname, port, agent, method, path, headers: { ...headers, ...length } }, (response) => {
        const chunks = [];
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () =>
          resolve({
            status: response.statusCode,
            type: response.headers["content-type"] ?? "",
            text: Buffer.concat(chunks).toString(),
            took_ms: performance.now() - started_ms,
          }),
        );
      });
      sent.setTimeout(HANGS_AFTER_MS, () => sent.destroy(new Error(`no answer within ${HANGS_AFTER_MS} ms`)));
      sent.on("error", reject);
      sent.end(body);
    });
  }

  /** Writes bytes to a socket and ends it; gives back all that came until the other side ended too. */
  raw(bytes) {
    const started_ms = performance.now();
    return new Promise((resolve, reject) => {
      const chunks = [];
      const socket = connect(Number(this.port), this.hostname);
      socket.setTimeout(HANGS_AFTER_MS, () => socket.destroy(new Error(`the connection is open after ${HANGS_AFTER_MS} ms`)));
      socket.on("data", (chunk) => chunks.push(chunk));
      // A server may well cut off whom it doesn't understand.
      socket.on("error", (error) => (["ECONNRESET", "EPIPE"].includes(error.code) ? undefined : reject(error)));
      socket.on("close", () => resolve({ text: Buffer.concat(chunks).toString("latin1"), took_ms: performance.now() - started_ms }));
      socket.end(bytes);
    });
  }

  close() {
    this.agent.destroy();
  }
}
