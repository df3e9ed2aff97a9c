// Bytes that are no request of HTTP, or hardly one: what comes of them is the server's own affair as
// long as it neither hangs nor falls.
import { ACCOUNT } from "../support/api.mjs";
import { DEV_TOKEN } from "../support/pullq.mjs";
import { bytes, size, spoiled } from "./values.mjs";

/** None of these stores a message where it isn't whole. */
export function malformed(rng, { id }) {
  const path = `/client/v4/accounts/${ACCOUNT}/queues/${id}/messages/peek`;
  const headers = `Host: pullq\r\nAuthorization: Bearer ${DEV_TOKEN}\r\n`;
  const post = (more, body = "{}") => `POST ${path} HTTP/1.1\r\n${headers}${more}\r\n${body}`;
  const whole = post("Content-Length: 2\r\n");
  const text = rng.pick([
    () => bytes(rng, size(rng, 5_000)).toString("latin1"),
    () => "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    () => spoiled(rng, whole).toString("latin1"),
    () => whole.slice(0, rng.between(0, whole.length - 1)),
    () => whole + bytes(rng, size(rng, 500)).toString("latin1"),
    () => whole.repeat(rng.between(2, 20)),
    () => `${rng.pick(["get", "FOO", "G\0T", "", " ", "CONNECT", "x".repeat(5_000)])} ${path} HTTP/1.1\r\n${headers}\r\n`,
    () => `GET ${rng.pick(["*", "", "x", "http://", "http://a/b", "//", `${path}/\0`, `${path} x`, `/${"a".repeat(100_000)}`, "/\x80\xff", "?", "#"])} HTTP/1.1\r\n${headers}\r\n`,
    () => `POST ${path} ${rng.pick(["", "HTTP", "HTTP/0.9", "HTTP/1.0", "HTTP/9.9", "HTTP/1.1x"])}\r\n${headers}\r\n`,
    () => post(rng.pick(["x\r\n", ": x\r\n", "x: \0\r\n", "x : y\r\n", " x: y\r\n", "x: y\r\n folded\r\n", `x: ${"y".repeat(200_000)}\r\n`, "x: y\r\n".repeat(3_000), "\n"])),
    () => post(`Content-Length: ${rng.pick(["-1", "1x", "", "1e9", "9007199254740993", "99999999999999999999999", "2\r\nContent-Length: 3", "1, 1", "500"])}\r\n`),
    () => post(`Transfer-Encoding: ${rng.pick(["gzip", "chunked, chunked", "x", "", "identity"])}\r\n`),
    () => post("Transfer-Encoding: chunked\r\n", rng.pick(["zz\r\n{}\r\n0\r\n\r\n", "-1\r\n", "ffffffffffffffffff\r\n{}\r\n", "2\r\n{}", "2\r\n{}0\r\n\r\n", "2;x=y\r\n{}\r\n0\r\nx: y\r\n\r\n", "5\r\n{}\r\n0\r\n\r\n"])),
    () => post(rng.pick(["Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "Expect: 100-continue\r\nContent-Length: 2\r\n", "Expect: x\r\n", "Upgrade: websocket\r\nConnection: Upgrade\r\n", "Connection: x\r\nContent-Length: 2\r\n"])),
  ])();
  return Buffer.from(text, "latin1");
}
