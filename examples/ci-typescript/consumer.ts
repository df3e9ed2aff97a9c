// A pull consumer as somebody might have one: takes orders for resized images from a queue, and says what
// came of them. It knows Cloudflare Queues' REST API and nothing of pullq.

export interface Queue {
  /** Up to and with the queue's id: …/client/v4/accounts/{account}/queues/{queue} */
  url: string;
  token: string;
}

interface Message {
  body: string;
  lease_id: string;
}

/**
 * Works off one batch: what was resized is acknowledged, what failed is tried again later. Gives back the
 * results, and how many failed.
 */
export async function workOff(queue: Queue, resize: (image: string, width: number) => string): Promise<{ results: string[]; failed: number }> {
  const { messages } = await post<{ messages: Message[] }>(queue, 'messages/pull', { batch_size: 10, visibility_timeout_ms: 30_000 });
  const results: string[] = [];
  const acks: { lease_id: string }[] = [];
  const retries: { lease_id: string; delay_seconds: number }[] = [];
  for (const { body, lease_id } of messages) {
    try {
      // A body of content type json comes in base64.
      const { image, width } = JSON.parse(Buffer.from(body, 'base64').toString());
      results.push(resize(image, width));
      acks.push({ lease_id });
    } catch {
      retries.push({ lease_id, delay_seconds: 1 });
    }
  }
  if (messages.length > 0) await post(queue, 'messages/ack', { acks, retries });
  return { results, failed: retries.length };
}

async function post<Result>({ url, token }: Queue, path: string, body: unknown): Promise<Result> {
  const response = await fetch(`${url}/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = (await response.json()) as { success: boolean; errors: { message: string }[]; result: Result };
  if (!answer.success) throw new Error(answer.errors[0]?.message);
  return answer.result;
}
