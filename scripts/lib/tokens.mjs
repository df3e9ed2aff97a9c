// API tokens: made of random bytes, and as the secret API_TOKENS has them, by their hash alone.
import { createHash, randomBytes } from 'node:crypto';

export function newToken() {
  return `pullq_${randomBytes(32).toString('base64url')}`;
}

/** An item of API_TOKENS; without `queues` or `permissions` the token is good for all. */
export function tokenEntry(token, { name, account, queues = ['*'], permissions = ['queues:read', 'queues:write'] }) {
  return { name, sha256: hashOf(token), account, queues, permissions };
}

export function hashOf(token) {
  return createHash('sha256').update(token).digest('hex');
}
