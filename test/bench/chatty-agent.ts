import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * An agent of the Agent Client Protocol that writes as many pieces of a message as its prompt says
 * (`500 20`: 500 pieces, 20 ms apart), and does nothing else.
 */
interface Request {
  readonly id?: number;
  readonly method?: string;
  readonly params?: {
    readonly sessionId?: string;
    readonly prompt?: readonly { readonly text?: string }[];
  };
}

const send = (message: object) =>
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

const results: Readonly<Record<string, object>> = {
  initialize: { protocolVersion: 1, agentCapabilities: {} },
  'session/new': { sessionId: 's' },
};

async function prompt({ params = {} }: Request): Promise<object> {
  const text = params.prompt?.map((part) => part.text ?? '').join('') ?? '';
  const [count = 0, pauseMs = 0] = text.split(' ').map(Number);
  const piece = { type: 'text', text: 'Some words of the agent. ' };
  for (let index = 0; index < count; index++) {
    send({
      method: 'session/update',
      params: {
        sessionId: params.sessionId,
        update: { sessionUpdate: 'agent_message_chunk', content: piece },
      },
    });
    if (pauseMs > 0) await sleep(pauseMs);
  }
  return { stopReason: 'end_turn' };
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line) as Request;
  const { id, method = '' } = request;
  if (id === undefined) continue;
  if (method === 'session/prompt') void prompt(request).then((result) => send({ id, result }));
  else send({ id, result: results[method] ?? {} });
}
