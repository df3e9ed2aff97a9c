// A message's body as bytes, and the three ways to look at it. Nothing here builds more text than was asked
// for: a body may be a megabyte.

/** Bodies of these content types always come as base64. */
const inBase64 = new Set(['bytes', 'v8']);

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder('utf-8', { ignoreBOM: true });
const encoder = new TextEncoder();

export const contentType = ({ metadata }) => metadata['CF-Content-Type'] ?? 'text';

/** The body as the producer meant it. */
export function bodyBytes(message) {
  return isBase64(message) ? fromBase64(message.body) : encoder.encode(message.body);
}

/** The body's size; base64 isn't decoded for it. */
export function bodySize(message) {
  const { body } = message;
  if (!isBase64(message)) return encoder.encode(body).length;
  return (body.length / 4) * 3 - (body.endsWith('==') ? 2 : body.endsWith('=') ? 1 : 0);
}

/** One line for a list. */
export function preview(message, chars = 160) {
  if (!isBase64(message)) return oneLine(message.body.slice(0, chars));
  // A whole number of base64's groups of four.
  const bytes = fromBase64(message.body.slice(0, Math.ceil(chars / 3) * 4));
  const text = lenient.decode(bytes);
  if (contentType(message) === 'json' || isReadable(text)) return oneLine(text.slice(0, chars));
  return [...bytes.subarray(0, 24)].map(hexByte).join(' ');
}

/** The view that suits a body: json bodies as JSON, what isn't text as hex. */
export function naturalView(message, bytes) {
  if (contentType(message) === 'json') return 'json';
  return contentType(message) === 'text' || isReadable(lenient.decode(bytes.subarray(0, 1_024))) ? 'text' : 'hex';
}

/** The whole body as text; bytes that are no UTF-8 are shown as U+FFFD. */
export const asText = (bytes) => lenient.decode(bytes);

/** The body as indented JSON, its numbers spelt as they were sent, or `{error}`. */
export function asJson(bytes) {
  let text;
  try {
    text = strict.decode(bytes);
  } catch {
    return { error: 'This body is not JSON: it is not UTF-8.' };
  }
  try {
    JSON.parse(text);
  } catch (error) {
    return { error: `This body is not JSON: ${error.message}.` };
  }
  return { text: indented(text) };
}

/** Lines of 16 bytes from `start` on: offset, hex, and what is printable. */
export function asHex(bytes, start, end) {
  const lines = [];
  for (let at = start; at < Math.min(end, bytes.length); at += 16) {
    const row = [...bytes.subarray(at, Math.min(at + 16, bytes.length))];
    const hex = row.map(hexByte).join(' ').padEnd(47);
    const text = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '·')).join('');
    lines.push(`${at.toString(16).padStart(6, '0')}  ${hex}  ${text}`);
  }
  return lines.join('\n');
}

/** JSON text (valid) with a line for each value; works on the text, so every literal stays as it is. */
export function indented(text) {
  const out = [];
  let depth = 0, at = 0;
  const line = () => out.push('\n', '  '.repeat(Math.min(depth, 32)));
  const space = /\s/;
  while (at < text.length) {
    const char = text[at];
    if (char === '"') {
      const from = at++;
      while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
      out.push(text.slice(from, ++at));
    } else if (char === '{' || char === '[') {
      let next = at + 1;
      while (space.test(text[next])) next++;
      if (text[next] === '}' || text[next] === ']') {
        out.push(char, text[next]);
        at = next + 1;
      } else {
        out.push(char);
        depth++;
        line();
        at++;
      }
    } else if (char === '}' || char === ']') {
      depth--;
      line();
      out.push(char);
      at++;
    } else if (char === ',') {
      out.push(char);
      line();
      at++;
    } else if (char === ':') {
      out.push(': ');
      at++;
    } else if (space.test(char)) {
      at++;
    } else {
      const from = at;
      while (at < text.length && !/[\s,\]}]/.test(text[at])) at++;
      out.push(text.slice(from, at));
    }
  }
  return out.join('');
}

/** With the server's setting JSON_BODIES=text, json bodies come as JSON text. */
function isBase64(message) {
  const type = contentType(message);
  if (type !== 'json') return inBase64.has(type);
  // JSON text that could be base64 as well is a number, true or null, and base64 of JSON is none of them.
  const { body } = message;
  return body.length % 4 === 0 && !/^(\d|true$|null$)/.test(body) && /^[A-Za-z0-9+/]+={0,2}$/.test(body);
}

function fromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

export function toBase64(bytes) {
  let binary = '';
  for (let at = 0; at < bytes.length; at += 8_192) binary += String.fromCharCode(...bytes.subarray(at, at + 8_192));
  return btoa(binary);
}

function isReadable(text) {
  return !/[\u0000-\u0008\u000e-\u001f\ufffd]/.test(text.slice(0, -1));
}

const oneLine = (text) => text.replace(/\s+/g, ' ');
const hexByte = (byte) => byte.toString(16).padStart(2, '0');
