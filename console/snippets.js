// Code that sends to and pulls from one queue, ready to be pasted. The token is read from the environment,
// so that none ends up in a shell's history or a repository.
import { apiUrl } from './api.js';

export const languages = [
  { id: 'curl', name: 'curl', needs: 'Any shell with curl.', write: curl },
  { id: 'typescript', name: 'TypeScript', needs: 'npm install cloudflare', write: typescript },
  { id: 'python', name: 'Python', needs: 'pip install cloudflare', write: python },
];

/** The code in one language for the queue `id` of `account`. */
export function snippet(language, account, id) {
  return languages.find((one) => one.id === language).write(apiUrl(), account, id);
}

function curl(url, account, id) {
  return `# First: export PULLQ_TOKEN=<your API token>
API=${url}/accounts/${account}/queues/${id}
AUTH="Authorization: Bearer $PULLQ_TOKEN"

# Send a message
curl -s "$API/messages" -H "$AUTH" -d '{"body": "hello", "content_type": "text"}'

# Pull up to 10 messages, each under a lease
curl -s "$API/messages/pull" -H "$AUTH" -d '{"batch_size": 10}'

# Done with one: put the lease_id of the answer here
curl -s "$API/messages/ack" -H "$AUTH" -d '{"acks": [{"lease_id": "…"}]}'
`;
}

function typescript(url, account, id) {
  return `import Cloudflare from 'cloudflare';

const client = new Cloudflare({
  apiToken: process.env.PULLQ_TOKEN,
  baseURL: '${url}',
});
const account_id = '${account}';
const queue_id = '${id}';

// Send a message
await client.queues.messages.push(queue_id, { account_id, body: 'hello', content_type: 'text' });

// Pull up to 10 messages, each under a lease
const pulled = await client.queues.messages.pull(queue_id, { account_id, batch_size: 10 });
for (const message of pulled.messages ?? []) console.log(message.body, message.attempts);

// Done with them
await client.queues.messages.ack(queue_id, {
  account_id,
  acks: pulled.messages?.map(({ lease_id }) => ({ lease_id })),
});
`;
}

function python(url, account, id) {
  return `import os

from cloudflare import Cloudflare

client = Cloudflare(
    api_token=os.environ["PULLQ_TOKEN"],
    base_url="${url}",
)
account_id = "${account}"
queue_id = "${id}"

# Send a message
client.queues.messages.push(queue_id, account_id=account_id, body="hello", content_type="text")

# Pull up to 10 messages, each under a lease
pulled = client.queues.messages.pull(queue_id, account_id=account_id, batch_size=10)
for message in pulled.messages:
    print(message.body, message.attempts)

# Done with them
client.queues.messages.ack(
    queue_id, account_id=account_id, acks=[{"lease_id": m.lease_id} for m in pulled.messages]
)
`;
}
