// The REST API as the console uses it. Every call gives back the answer's `result` or throws an ApiError,
// which says what went wrong and what to do in sentences for a person.
import { signal } from '@preact/signals';
import { endSession, session } from './session.js';

const base = new URL('../client/v4', location.href.split('#')[0]).pathname;
const answerWithin_ms = 30_000;

/** When the connection to the server was lost (ms since 1970), or null while there is one. */
export const lostSince_ms = signal(null);

export class ApiError extends Error {
  /** `kind`: "lost" for no connection, else "refused". `status` is 0 without an answer. */
  constructor(sentence, { advice = '', kind = 'refused', status = 0, code = 0 } = {}) {
    super(sentence);
    Object.assign(this, { advice, kind, status, code });
  }
}

export const api = {
  verify: (token) => request('GET', '/user/tokens/verify', { token }),
  accounts: (token) => request('GET', '/accounts', { token }),
  overview: (since) => request('GET', `${account()}/overview${since === undefined ? '' : `?since=${encodeURIComponent(since)}`}`),

  queue: (id) => request('GET', queue(id)),
  createQueue: (body) => request('POST', `${account()}/queues`, { body }),
  changeQueue: (id, body) => request('PATCH', queue(id), { body }),
  deleteQueue: (id) => request('DELETE', queue(id)),
  metrics: (id) => request('GET', `${queue(id)}/metrics`),
  history: (id) => request('GET', `${queue(id)}/history`),
  purge: (id) => request('POST', `${queue(id)}/purge`, { body: { delete_messages_permanently: true } }),

  addConsumer: (id, body) => request('POST', `${queue(id)}/consumers`, { body }),
  replaceConsumer: (id, consumer, body) => request('PUT', `${queue(id)}/consumers/${consumer}`, { body }),
  removeConsumer: (id, consumer) => request('DELETE', `${queue(id)}/consumers/${consumer}`),

  /** `text` is the request as JSON text, so that a json body goes out as it was typed. */
  send: (id, text) => request('POST', `${queue(id)}/messages`, { text }),
  peek: (id, batch_size) => request('POST', `${queue(id)}/messages/peek`, { body: { batch_size } }),
  deleteMessages: (id, refs) => request('POST', `${queue(id)}/messages/purge`, { body: { refs: refs.map((ref) => ({ ref })) } }),

  redrive: (id, body) => request('POST', `${queue(id)}/redrive`, { body }),
  redriveStatus: (id) => request('GET', `${queue(id)}/redrive`),
  stopRedrive: (id) => request('DELETE', `${queue(id)}/redrive`),
};

/** Where this account's API is, as a client outside needs it. */
export function apiUrl() {
  return location.origin + base;
}

const account = () => `/accounts/${session.value.account}`;
const queue = (id) => `${account()}/queues/${id}`;

async function request(method, path, { body, text, token } = {}) {
  const asked = session.value;
  const bearer = token ?? asked?.token;
  // Such a token would never leave the browser, which sends no header with it.
  if (!/^[\x21-\x7e]+$/.test(bearer)) throw new ApiError('This is not an API token: it has characters that no token has.', { advice: 'Copy it again.' });
  let response, answer;
  try {
    response = await fetch(base + path, {
      method,
      body: text ?? (body && JSON.stringify(body)),
      headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
      cache: 'no-store',
      credentials: 'omit',
      signal: AbortSignal.timeout(answerWithin_ms),
    });
    answer = await response.text();
  } catch (error) {
    throw lost(method, error.name === 'TimeoutError' ? 'The server did not answer within 30 seconds.' : 'There is no connection to the server.');
  }
  const json = parsed(answer);
  if (json?.success !== true && json?.errors === undefined) {
    // Not pullq's own answer: what stands before a server says so when it can't reach it.
    if (response.status >= 500) throw lost(method, `The server can't be reached (status ${response.status}).`);
    throw new ApiError(`The server's answer is not one of pullq's API (status ${response.status}).`, { status: response.status, advice: 'Open the console at the address of a pullq.' });
  }
  lostSince_ms.value = null;
  if (json.success === true) return json.result;
  throw refusal(response, json.errors[0], asked, token);
}

function lost(method, sentence) {
  lostSince_ms.value ??= Date.now();
  const advice = method === 'GET' ? 'It is tried again by itself.' : 'Whether this was carried out is not known: look before you repeat it.';
  return new ApiError(sentence, { kind: 'lost', advice });
}

function refusal(response, { code, message }, asked, token) {
  const { status } = response;
  const error = new ApiError(message, { status, code, advice: advice(status, code, response.headers.get('retry-after')) });
  // The token was replaced or withdrawn; one that is only being tried has no session to end.
  if (status === 401 && token === undefined && session.value === asked) endSession(message);
  return error;
}

/** What to do, where the API's own sentence doesn't say. */
function advice(status, code, retryAfter) {
  if (status === 404 && code === 7003) return 'This server is older than the console: update it.';
  if (status === 404) return 'It may have been deleted meanwhile.';
  if (status === 403 && code === 10106) return 'Sign in with a token that allows it, or ask whoever made this one.';
  if (status === 409 && code === 19002) return 'Resume the delivery first.';
  if (retryAfter) return `Try again in ${retryAfter} ${retryAfter === '1' ? 'second' : 'seconds'}.`;
  if (status === 503 || status === 504) return 'Look whether it was, then try again.';
  if (status >= 500) return 'Try again; if it stays, read the log.';
  return '';
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
