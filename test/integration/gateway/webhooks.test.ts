import { connect } from 'node:net';
import { once } from 'node:events';
import type { AgentNotification } from '../../../src/agent/notifications.ts';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import {
  createCallbackServer,
  type CallbackServer,
} from '../../../src/gateway/callback-server/callback-server.ts';
import { webhooks } from '../../../src/gateway/callback-server/webhooks.ts';
import { gatewayIndexers } from '../../../src/gateway/lookup/cache.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { IndexedStore } from '@conversation-operator/kube/store';
import { silentLogger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../../src/observability/metrics.ts';
import type { Sandbox } from '../../../src/resources/sandbox.ts';
import { quietCache } from '../../support/gateway/quiet-cache.ts';
import { aSandbox } from '../../support/builders.ts';

const namespace = 'agents';
const keys = new SandboxKeys([Buffer.alloc(32, 1), Buffer.alloc(32, 2)]);
const oldKeys = new SandboxKeys([Buffer.alloc(32, 2)]);
const id = '0123456789abcdef0123456789abcdef';
const statusEvent = [
  { kind: 'ConversationStateUpdateEvent', key: 'execution_status', value: 'finished' },
];
const toolEvent = [
  {
    kind: 'ObservationEvent',
    observation: { content: [{ type: 'text', text: 'x'.repeat(200_000) }] },
  },
];

describe("the agents' webhooks", () => {
  let notifications: AgentNotification[] = [];
  let side: CallbackServer;
  let port: number;
  beforeEach(async () => {
    notifications = [];
    const store = new IndexedStore<Sandbox>(gatewayIndexers.sandboxes);
    for (const name of ['one', 'two', 'old']) {
      const known = aSandbox({ name });
      const status =
        name === 'old' ? { ...known.status, masterKeyId: oldKeys.currentKeyId } : known.status;
      store.set({
        ...known,
        metadata: { ...known.metadata, namespace, uid: `uid-${name}` },
        ...(status === undefined ? {} : { status }),
      });
    }
    const metrics = createMetrics();
    side = createCallbackServer({
      handlers: [
        webhooks({
          keys,
          notify: (notification) => void notifications.push(notification),
          clock: systemClock,
          metrics,
        }),
      ],
      sandboxes: quietCache(store),
      namespace,
      host: '127.0.0.1',
      port: 0,
      clock: systemClock,
      logger: silentLogger,
      metrics,
    });
    ({ port } = await side.listen());
  });
  afterEach(() => side.close());

  const post = async (
    path: string,
    body: unknown,
    key = keys.sessionKey('uid-one'),
    method = 'POST',
  ) => {
    const init = method === 'POST' ? { body: JSON.stringify(body) } : {};
    const answer = await fetch(`http://127.0.0.1:${port}/webhooks/${path}`, {
      method,
      headers: { 'X-Session-API-Key': key },
      ...init,
    });
    return { status: answer.status, text: await answer.text() };
  };

  const cases: [string, string, unknown, readonly Partial<AgentNotification>[]][] = [
    [
      'a change of what it does',
      `one/events/${id}`,
      statusEvent,
      [{ sandbox: 'one', conversationId: id }],
    ],
    [
      'the whole state',
      `one/events/${id}`,
      [{ key: 'full_state', value: { execution_status: 'idle' } }],
      [{ conversationId: id }],
    ],
    ['output of a tool', `one/events/${id}`, toolEvent, []],
    ['a token count', `one/events/${id}`, [{ key: 'stats', value: {} }], []],
    [
      'a change after much output',
      `one/events/${id}`,
      [...toolEvent, ...statusEvent],
      [{ conversationId: id }],
    ],
    [
      'more than the gateway reads',
      `one/events/${id}`,
      Array(6).fill(toolEvent),
      [{ conversationId: id }],
    ],
    ['no JSON at all', `one/events/${id}`, 'execution_status {{{', [{ conversationId: id }]],
    ['nothing', `one/events/${id}`, [], []],
    ['a conversation as such, of the sandbox', 'one/conversations', { id }, [{ sandbox: 'one' }]],
    [
      'an id with dashes',
      'one/events/01234567-89ab-cdef-0123-456789abcdef',
      statusEvent,
      [{ conversationId: id }],
    ],
  ];
  it.each(cases)('%s is answered 204', async (_, path, body, expected) => {
    expect(await post(path, body)).toEqual({ status: 204, text: '' });
    expect(notifications).toMatchObject(
      expected.map((notification) => ({ namespace, ...notification })),
    );
    expect(notifications).toHaveLength(expected.length);
  });

  it('a sandbox that was made under the master key before shows the key of that', async () => {
    expect((await post('old/conversations', {}, oldKeys.sessionKey('uid-old'))).status).toBe(204);
    expect((await post('old/conversations', {}, keys.sessionKey('uid-old'))).status).toBe(401);
  });

  const refused: [string, string, string][] = [
    ['without a key', 'one/conversations', ''],
    ["with another sandbox's key", 'one/conversations', keys.sessionKey('uid-two')],
    ['of a sandbox that does not exist', 'none/conversations', keys.sessionKey('uid-one')],
    [
      'of one that does not exist, with the key that is compared then',
      'none/conversations',
      keys.sessionKey('none'),
    ],
    ['of a webhook that does not exist, without a key', 'one/other', ''],
  ];
  it('all that are not authenticated get the same answer, and reach no operator', async () => {
    const answers = await Promise.all(refused.map(([, path, key]) => post(path, statusEvent, key)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]));
    const withoutIds = answers.map(({ text }) => ({
      ...(JSON.parse(text) as object),
      request_id: undefined,
      instance: undefined,
    }));
    for (const answer of withoutIds) expect(answer).toEqual(withoutIds[0]);
    expect(notifications).toEqual([]);
  });

  it.each([
    'one/other',
    'one/conversations/more',
    'one/events',
    'one/events/not-an-id',
    `one/events/${id}/more`,
  ])('there is nothing at %s', async (path) => {
    expect((await post(path, statusEvent)).status).toBe(404);
    expect(notifications).toEqual([]);
  });

  it('only posts count', async () => {
    expect((await post('one/conversations', undefined, undefined, 'GET')).status).toBe(405);
  });

  it('an agent that sends all the time gets its answers, and is notified of at a limited rate; the others are not held up', async () => {
    const began = performance.now();
    for (let round = 0; round < 20; round++)
      await Promise.all(Array.from({ length: 20 }, () => post('one/conversations', {})));
    const seconds = (performance.now() - began) / 1000;
    // A hundred at once, and twenty a second.
    expect(notifications.length).toBeGreaterThanOrEqual(100);
    expect(notifications.length).toBeLessThanOrEqual(100 + 20 * (seconds + 1));
    notifications = [];
    expect((await post('two/conversations', {}, keys.sessionKey('uid-two'))).status).toBe(204);
    expect(notifications).toMatchObject([{ sandbox: 'two' }]);
  });

  it('one that stops in the middle of its body holds nothing up, and says nothing', async () => {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    socket.write(
      `POST /webhooks/one/events/${id} HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: ${keys.sessionKey('uid-one')}\r\nContent-Length: 100000\r\n\r\n[`,
    );
    socket.destroy();
    await once(socket, 'close');
    expect((await post(`one/events/${id}`, statusEvent)).status).toBe(204);
    expect(notifications).toHaveLength(1);
  });
});
