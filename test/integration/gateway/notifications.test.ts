import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { notificationsPath, type AgentNotification } from '../../../src/agent/notifications.ts';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import {
  startNotificationListener,
  type NotificationListener,
} from '../../../src/controllers/conversation/polling/agent-notifications.ts';
import { NotificationSender } from '../../../src/gateway/callback-server/notification-sender.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';
import { eventually } from '../../support/eventually.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const keys = new SandboxKeys([Buffer.alloc(32, 1)]);
const notificationOf = (sandbox: string): AgentNotification => ({ namespace: 'agents', sandbox });

describe('notifications between gateways and operators', () => {
  const toEnd: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const end of toEnd.splice(0).reverse()) await end();
  });

  async function anOperator(host = '127.0.0.1', port = 0, accepts: SandboxKeys = keys) {
    const seen: AgentNotification[] = [];
    const listener: NotificationListener = await startNotificationListener({
      host,
      port,
      keys: accepts,
      logger: silentLogger,
      onNotification: (notification) => void seen.push(notification),
    });
    toEnd.push(() => listener.close());
    return { seen, port: listener.port, url: `http://${host}:${listener.port}` };
  }

  async function aGateway(
    url: string,
    options: Partial<ConstructorParameters<typeof NotificationSender>[0]> = {},
  ) {
    const sender = new NotificationSender({
      urls: [url],
      key: () => keys.notificationKey(),
      clock: systemClock,
      logger: silentLogger,
      ...options,
    });
    toEnd.push(() => sender.close());
    await sender.open();
    return sender;
  }

  it('two gateways notify both operators', async () => {
    const one = await anOperator('127.0.0.1');
    const other = await anOperator('127.0.0.2', one.port);
    const resolve = () => Promise.resolve(['127.0.0.1', '127.0.0.2']);
    const gateways = [
      await aGateway(`http://operators:${one.port}`, { resolve }),
      await aGateway(`http://operators:${one.port}`, { resolve }),
    ];
    gateways[0]?.notify(notificationOf('a'), 'alice');
    gateways[1]?.notify({ ...notificationOf('b'), conversationId: '0'.repeat(32) }, 'alice');
    for (const { seen } of [one, other]) {
      await eventually('both notifications', () => seen.length === 2);
      expect(seen.map(({ sandbox }) => sandbox).sort()).toEqual(['a', 'b']);
    }
  });

  it('what comes while one is under way goes with the next one, each only once', async () => {
    const bodies: AgentNotification[][] = [];
    const answers: (() => void)[] = [];
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        bodies.push(
          (JSON.parse(Buffer.concat(chunks).toString()) as { notifications: AgentNotification[] })
            .notifications,
        );
        answers.push(() => response.writeHead(204).end());
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    toEnd.push(() => new Promise((resolve) => void server.close(() => resolve())));
    const sender = await aGateway(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    sender.notify(notificationOf('first'), 'alice');
    await eventually('the first', () => answers.length === 1);
    for (let count = 0; count < 1000; count++)
      sender.notify(notificationOf(`later-${count % 3}`), 'alice');
    answers[0]?.();
    await eventually('the second', () => answers.length === 2);
    expect(bodies[1]?.map(({ sandbox }) => sandbox)).toEqual(['later-0', 'later-1', 'later-2']);
    answers[1]?.();
  });

  it('an operator that is not there, hangs or refuses delays no notification to the others, and is notified again later', async () => {
    const clock = new VirtualClock();
    const hanging = createServer(() => undefined).listen(0, '127.0.0.3');
    await once(hanging, 'listening');
    const { port } = hanging.address() as AddressInfo;
    toEnd.push(async () => {
      const closed = once(hanging, 'close');
      hanging.close();
      hanging.closeAllConnections();
      await closed;
    });
    const good = await anOperator('127.0.0.4', port);
    await anOperator('127.0.0.5', port, new SandboxKeys([Buffer.alloc(32, 9)]));
    const resolve = () => Promise.resolve(['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5']);
    const sender = await aGateway(`http://operators:${port}`, { clock, resolve });
    sender.notify(notificationOf('a'), 'alice');
    await eventually('the good one has it', () => good.seen.length === 1);
    const late = await anOperator('127.0.0.2', port);
    await clock.advance(1_500);
    await eventually('the late one has it', () => {
      sender.notify(notificationOf('b'), 'alice');
      return late.seen.length > 0;
    });
  });

  it('operators that come and go are found by their name', async () => {
    const clock = new VirtualClock();
    const one = await anOperator('127.0.0.1');
    let addresses: readonly string[] | undefined;
    const resolve = () =>
      addresses === undefined
        ? Promise.reject(new Error('no such name'))
        : Promise.resolve(addresses);
    const sender = await aGateway(`http://operators:${one.port}`, { clock, resolve });
    sender.notify(notificationOf('unresolved'), 'alice');
    addresses = ['127.0.0.1'];
    await clock.advance(10_000);
    sender.notify(notificationOf('a'), 'alice');
    await eventually('it is found', () => one.seen.length === 1);
    expect(one.seen).toEqual([notificationOf('a')]);
    addresses = [];
    await clock.advance(10_000);
    sender.notify(notificationOf('gone'), 'alice');
    await clock.settle();
    expect(one.seen).toHaveLength(1);
  });

  it('a gateway that has another master key in front is understood by each operator that has both', async () => {
    const rotated = new SandboxKeys([Buffer.alloc(32, 7), Buffer.alloc(32, 1)]);
    const one = await anOperator('127.0.0.1', 0, rotated);
    const sender = await aGateway(one.url);
    sender.notify(notificationOf('a'), 'alice');
    await eventually('it is notified', () => one.seen.length === 1);
  });

  const bad: [string, RequestInit & { path?: string }, number][] = [
    ['no key', { headers: {} }, 401],
    ['a wrong key', { headers: { authorization: 'Bearer wrong' } }, 401],
    [
      "a sandbox's key",
      { headers: { authorization: `Bearer ${keys.sessionKey('notifications')}` } },
      401,
    ],
    ['another scheme', { headers: { authorization: `Basic ${keys.notificationKey()}` } }, 401],
    ['another path', { path: '/metrics' }, 404],
    ['another method', { method: 'GET' }, 405],
    ['no JSON', { body: '{' }, 422],
    ['something else', { body: '{"notifications":[{"sandbox":1}]}' }, 422],
    [
      'too many',
      { body: JSON.stringify({ notifications: Array(201).fill(notificationOf('a')) }) },
      422,
    ],
    ['too much', { body: 'x'.repeat(200_000) }, 413],
    ['none', { body: '{"notifications":[]}' }, 204],
  ];
  it.each(bad)(
    '%s is answered with %o',
    async (_, { path = notificationsPath, ...init }, status) => {
      const one = await anOperator();
      const answer = await fetch(`${one.url}${path}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${keys.notificationKey()}`,
          'content-type': 'application/json',
        },
        ...((init.method ?? 'POST') === 'POST'
          ? { body: JSON.stringify({ notifications: [notificationOf('a')] }) }
          : {}),
        ...init,
      });
      expect(answer.status).toBe(status);
      expect(await answer.text()).toBe('');
      expect(one.seen).toEqual([]);
    },
  );
});
