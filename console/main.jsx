// The console's frame: who is signed in decides between the sign-in page and the rest.
import './styles/base.css';
import './styles/parts.css';
import './styles/pages.css';
import 'uplot/dist/uPlot.min.css';
import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import { api, lostSince_ms } from './api.js';
import { clockSeconds } from './format.js';
import { QueuePage } from './pages/queue.jsx';
import { QueuesPage } from './pages/queues.jsx';
import { SignInPage, rightsOf } from './pages/sign_in.jsx';
import { Announcer } from './parts/action.jsx';
import { queuesHref, route } from './route.js';
import { beginSession, endSession, session } from './session.js';

function App() {
  return (
    <>
      <a class="skip" href="#main" onClick={toMain}>Skip to the content</a>
      <Header />
      <ConnectionBanner />
      <main id="main" tabindex="-1">{session.value === null ? <SignInPage /> : <Page />}</main>
      <Announcer />
    </>
  );
}

/** The address behind "#" is the console's own, so the link can't jump by itself. */
function toMain(event) {
  event.preventDefault();
  document.getElementById('main').focus();
}

function Header() {
  const { account, canWrite } = session.value ?? {};
  return (
    <header class="top">
      <a class="brand" href={queuesHref}><img src="icon.svg" alt="" width="26" height="26" />pullq</a>
      {account && (
        <>
          <span class="account" title={`Account ${account}`}>account <code>{account.slice(0, 6)}…{account.slice(-4)}</code></span>
          {!canWrite && <span class="badge" title="This token may look at queues and change nothing.">Read only</span>}
          <button type="button" class="quiet" onClick={() => endSession()}>Sign out</button>
        </>
      )}
    </header>
  );
}

function ConnectionBanner() {
  const since_ms = lostSince_ms.value;
  return (
    <div role="status" aria-live="polite">
      {since_ms !== null && (
        <p class="banner">
          <strong>No connection since {clockSeconds(since_ms)}; trying again.</strong>
          <span aria-hidden="true"> What is shown is from before.</span>
        </p>
      )}
    </div>
  );
}

function Page() {
  const { page, id, tab } = route.value;
  useEffect(refreshRights, []);
  return page === 'queue' ? <QueuePage key={id} id={id} tab={tab} /> : <QueuesPage />;
}

/** A tab that was reloaded has what its token could do then: it is asked anew. */
async function refreshRights() {
  const before = session.value;
  try {
    const rights = rightsOf(await api.verify());
    if (session.value === before && rights.canWrite !== before.canWrite) beginSession({ ...before, ...rights });
  } catch {
    // A refused token has ended the session; without a connection what was known stays.
  }
}

render(<App />, document.getElementById('app'));
