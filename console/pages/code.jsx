// Code for this queue, to be copied.
import { useState } from 'preact/hooks';
import { Note } from '../parts/action.jsx';
import { Choice, CopyButton } from '../parts/fields.jsx';
import { queueHref } from '../route.js';
import { session } from '../session.js';
import { languages, snippet } from '../snippets.js';

export function CodeTab({ id, consumer }) {
  const [language, setLanguage] = useState(languages[0].id);
  const { account } = session.value;
  const code = snippet(language, account, id);
  return (
    <section class="card" aria-labelledby="code">
      <div class="card-head">
        <div>
          <h2 id="code">Send, pull and acknowledge</h2>
          <p class="muted fine">{languages.find((one) => one.id === language).needs} The token is read from the environment variable PULLQ_TOKEN.</p>
        </div>
      </div>
      {!consumer && <Note><p>Pulling needs a pull consumer. <a href={queueHref(id, 'settings')}>Add one in the settings.</a></p></Note>}
      <div class="body-tools">
        <Choice label="Language" value={language} onValue={setLanguage} options={languages.map(({ id, name }) => ({ value: id, label: name }))} />
        <CopyButton text={code} label="Copy the code" />
      </div>
      <pre class="code" tabindex="0" role="region" aria-label="Code"><code>{code}</code></pre>
      <dl class="facts">
        <dt>Queue id</dt><dd class="mono">{id}</dd>
        <dt>Account id</dt><dd class="mono">{account}</dd>
      </dl>
    </section>
  );
}
