import type { IncomingMessage } from 'node:http';
import { fileURLToPath } from 'node:url';
import { newUuid } from '@conversation-operator/base/uuid';
import { eventually } from '../support/eventually.ts';
import { StubAgent } from '../support/gateway/stub-agent.ts';
import { TestGateway } from '../support/gateway/test-gateway.ts';
import { ready } from '../support/gateway/two-owners.ts';
import { Window } from './support/browser.ts';
import { complaints } from './support/exceptions.ts';
import { steps } from './support/steps.ts';

const id = newUuid(Date.now());
const uiDirectory = fileURLToPath(new URL('../../dist/ui', import.meta.url));
const event = (name: string, kind: string, more: object) => ({
  id: name,
  timestamp: `2026-01-01T00:00:0${name.length}.000000`,
  source: 'agent',
  kind,
  ...more,
});
const asking = event('a', 'ActionEvent', {
  tool_name: 'terminal',
  tool_call_id: 'call-1',
  thought: [],
  action: { kind: 'TerminalAction', command: 'rm apples' },
});
const waiting = event('aa', 'ConversationStateUpdateEvent', {
  source: 'environment',
  key: 'execution_status',
  value: 'waiting_for_confirmation',
});

const conversation = {
  id,
  title: 'Say hello.',
  execution_status: 'waiting_for_confirmation',
  created_at: '2026-01-01T00:00:00Z',
  updated_at: '2026-01-01T00:00:00Z',
  agent: { kind: 'Agent', llm: { model: 'none' } },
  stats: { usage_to_metrics: {} },
};

let agent: StubAgent;
let gateway: TestGateway;
let window: Window;
/** Bodies of the answers of the person, as the agent has got them. */
const answers: unknown[] = [];

async function answer(request: IncomingMessage): Promise<unknown> {
  const { method, url = '' } = request;
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  if (url.includes('/events/search')) return { items: [], next_page_id: null };
  if (method === 'POST' && url === `/api/conversations/${id}/events/respond_to_confirmation`) {
    answers.push(JSON.parse(Buffer.concat(chunks).toString()));
    return { success: true };
  }
  return conversation;
}

beforeAll(async () => {
  agent = await StubAgent.start();
  agent.answer = (request, response) => {
    void answer(request).then((json) => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(json));
    });
  };
  agent.onSocket = (socket) => {
    socket.once('message', () => {
      for (const one of [asking, waiting]) socket.send(JSON.stringify(one));
    });
  };
  gateway = await TestGateway.start({ uiDirectory });
  const { metadata } = await gateway.addSandbox('sbx-1', { status: agent.status });
  await gateway.addConversation(id, {
    status: { ...ready, sandboxName: 'sbx-1', sandboxUID: metadata.uid },
  });
  window = await Window.open({ firstPicture: 91 });
});
afterAll(async () => {
  await window.close();
  await gateway.stop();
  await agent.stop();
});

const step = steps(() => window);

/** The sandbox has a path of the same origin here, and no address of its own. */
describe('an agent that waits for a confirmation, in the web UI', () => {
  step('asks the person who has signed in', async () => {
    const { page } = window;
    await page.goto(`${gateway.url}/conversations/${id}`);
    await page.waitForURL(/\/login\?return_to=/);
    await page.getByLabel('API key').fill(gateway.alice);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL(`${gateway.url}/conversations/${id}`);
    await page.getByTestId('action-confirm-button').waitFor();
    const socket = window.sockets.findLast(({ open }) => open);
    expect(socket?.url).toMatch(
      `${gateway.url.replace('http', 'ws')}/sandboxes/sbx-1/AGENT_SERVER/`,
    );
  });

  step('gets the approval', async () => {
    await window.page.getByTestId('action-confirm-button').click();
    await eventually('the answer', () => answers.length === 1);
    expect(answers).toEqual([expect.objectContaining({ accept: true })]);
  });

  step('gets the rejection', async () => {
    await window.page.reload();
    await window.page.getByTestId('action-reject-button').click();
    await eventually('the answer', () => answers.length === 2);
    expect(answers[1]).toMatchObject({ accept: false });
  });

  it('has asked for nothing from elsewhere, and has shown no message that something is wrong', () => {
    expect([...window.outside]).toEqual([]);
    expect(complaints(window.announced)).toEqual([]);
  });
});
