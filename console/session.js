// Who is signed in, in this tab and nowhere else: the token lies in sessionStorage, which other tabs can't
// read and which ends with this one.
import { signal } from '@preact/signals';

const key = 'pullq-session';

/** `{token, account, canWrite}`, or null when nobody is signed in. */
export const session = signal(stored());

/** Why the last session ended, for the sign-in page; "" when its user ended it. */
export const endReason = signal('');

export const canWrite = () => session.value?.canWrite === true;

export function beginSession(value) {
  sessionStorage.setItem(key, JSON.stringify(value));
  endReason.value = '';
  session.value = value;
}

export function endSession(reason = '') {
  sessionStorage.removeItem(key);
  endReason.value = reason;
  session.value = null;
}

function stored() {
  try {
    const value = JSON.parse(sessionStorage.getItem(key));
    return typeof value?.token === 'string' && typeof value.account === 'string' ? value : null;
  } catch {
    return null;
  }
}
