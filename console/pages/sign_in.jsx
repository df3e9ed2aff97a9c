// Signing in with an API token, which stays in this tab.
import { useEffect, useState } from 'preact/hooks';
import { api } from '../api.js';
import { ErrorNote, Note, announce, useAction } from '../parts/action.jsx';
import { Field, Form, TextField } from '../parts/fields.jsx';
import { beginSession, endReason } from '../session.js';
import { useTitle } from './title.js';

/** What a token may do. A server that doesn't say so leaves it to its refusals. */
export const rightsOf = ({ permissions }) => ({ canWrite: permissions === undefined || permissions.includes('queues:write') });

export function SignInPage() {
  const [token, setToken] = useState('');
  const [account, setAccount] = useState('');
  /** The accounts to choose from once the token was taken; none is an account id to be typed. */
  const [accounts, setAccounts] = useState(null);
  const [error, busy, run, setError] = useAction();
  const heading = useTitle('Sign in');
  // What was announced to whoever was signed in is not for the next one.
  useEffect(() => announce(''), []);

  async function signIn() {
    const rights = rightsOf(await api.verify(token));
    const shown = (await api.accounts(token)).map(({ id }) => id);
    const chosen = account || (shown.length === 1 ? shown[0] : '');
    if (!chosen) {
      setAccounts(shown);
      return;
    }
    beginSession({ token, account: chosen.toLowerCase(), ...rights });
  }

  return (
    <Form
      class="card sign-in"
      onSubmit={() => {
        endReason.value = '';
        run(signIn);
      }}
    >
      <h1 ref={heading} tabindex="-1">Sign in</h1>
      <p class="muted">With an API token of this pullq. It is kept for this tab only and forgotten when you close it.</p>
      {endReason.value && <Note kind="bad"><p role="alert"><strong>Signed out. {endReason}</strong> Sign in with a token that is valid.</p></Note>}
      <Field label="API token">
        {(tie) => (
          <input
            {...tie} type="password" required autocomplete="off" spellcheck={false} autofocus value={token}
            onInput={(event) => {
              setToken(event.currentTarget.value.trim());
              setAccounts(null);
              setError(null);
            }}
          />
        )}
      </Field>
      {accounts?.length === 0 && (
        <TextField
          label="Account id" hint="This token is good for every account, so say which: 32 hexadecimal digits." required
          pattern="[0-9a-fA-F]{32}" title="32 hexadecimal digits" value={account} onValue={setAccount} autofocus
        />
      )}
      {accounts?.length > 1 && (
        <Field label="Account">
          {(tie) => (
            <select {...tie} required value={account} onChange={(event) => setAccount(event.currentTarget.value)}>
              <option value="">Choose one</option>
              {accounts.map((id) => <option key={id}>{id}</option>)}
            </select>
          )}
        </Field>
      )}
      <ErrorNote error={error} />
      <button type="submit" class="main" disabled={busy}>{busy ? 'Signing in…' : 'Sign in'}</button>
    </Form>
  );
}
