import { z } from 'zod';
import { newUuid } from '@conversation-operator/base/uuid';
import { saying } from './installation.ts';

/**
 * A client in a process of its own: posts its starts all at once, each under an id of its own until
 * it is accepted, and reports the conversation's id to its parent. The parent sends the URL of the
 * service, again whenever that has changed.
 */
const [key = '', name = '', count = '0'] = process.argv.slice(2);
const order = z.object({ url: z.string() });
const retryMs = 100;
let url = '';

/** The response; undefined where the service does not answer, or can't for the moment. */
async function post(body: string): Promise<Response | undefined> {
  try {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const response = await fetch(`${url}/api/v1/app-conversations`, {
      method: 'POST',
      headers,
      body,
      signal: AbortSignal.timeout(10_000),
    });
    return response.status >= 500 ? undefined : response;
  } catch {
    return undefined;
  }
}

async function start(index: number): Promise<void> {
  const text = `Start ${name}-${index}:\n\`\`\`sh\nsleep 0.2; echo ${name}-${index} >> once.txt\n\`\`\``;
  const id = newUuid(Date.now());
  const body = JSON.stringify({ ...saying(text), conversation_id: id });
  for (;;) {
    const response = await post(body);
    if (response?.ok === true) {
      process.send?.({ id });
      return;
    }
    if (response !== undefined) throw new Error(`${response.status}: ${await response.text()}`);
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}

process.on('message', (message) => {
  const first = url === '';
  ({ url } = order.parse(message));
  if (first)
    void Promise.all(Array.from({ length: Number(count) }, (_, index) => start(index))).then(() =>
      process.disconnect(),
    );
});
