import { Agent, request } from 'node:http';
import type { Access } from '../support/models/agent-call.ts';

export interface TimedCall {
  readonly firstByteMs: number;
  readonly wholeMs: number;
  readonly status: number;
  readonly bytes: number;
}

export const keptAlive = (): Agent => new Agent({ keepAlive: true, maxSockets: Infinity });

/** Makes one chat completion, reads it to its end, and says how long that took. */
export function call(
  { baseUrl, token }: Access,
  fields: object,
  { agent, onData }: { readonly agent: Agent; readonly onData?: (bytes: Buffer) => void },
): Promise<TimedCall> {
  const body = JSON.stringify({
    model: 'm',
    max_tokens: 100,
    messages: [{ role: 'user', content: 'hi' }],
    ...fields,
  });
  return new Promise((resolve, reject) => {
    const beganMs = performance.now();
    const outgoing = request(`${baseUrl}/chat/completions`, {
      method: 'POST',
      agent,
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
      },
    });
    outgoing.on('error', reject).once('response', (incoming) => {
      let firstByteMs: number | undefined;
      let bytes = 0;
      incoming.on('error', reject);
      incoming.on('data', (chunk: Buffer) => {
        firstByteMs ??= performance.now() - beganMs;
        bytes += chunk.length;
        onData?.(chunk);
      });
      incoming.once('end', () => {
        const wholeMs = performance.now() - beganMs;
        const status = incoming.statusCode ?? 0;
        resolve({ firstByteMs: firstByteMs ?? wholeMs, wholeMs, status, bytes });
      });
    });
    outgoing.end(body);
  });
}
