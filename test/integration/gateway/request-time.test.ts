import { once } from 'node:events';
import { connect } from 'node:net';
import { eventually } from '../../support/eventually.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const start = '/api/v1/app-conversations';
const limitMs = 60_000;
const body = JSON.stringify({ initial_message: null });

describe('the time for a whole request', () => {
  const clock = new VirtualClock();
  let gateway: TestGateway;
  let idleTimers = 0;
  beforeAll(async () => {
    gateway = await TestGateway.start({ clock });
    idleTimers = clock.timers;
  });
  afterAll(async () => {
    let hasStopped = false;
    const stopped = gateway.stop().then(() => (hasStopped = true));
    await eventually('the gateway has stopped', async () => {
      await clock.advance(1000);
      return hasStopped;
    });
    await stopped;
  });

  /** Sends the head of a start and a part of its body; resolves once the server has it. */
  async function begin(headers: string, some: string) {
    const socket = connect(gateway.port, '127.0.0.1');
    socket.on('error', () => undefined);
    let answer = '';
    socket.on('data', (chunk: Buffer) => (answer += chunk.toString()));
    const closed = once(socket, 'close');
    socket.write(
      `POST ${start} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${gateway.alice}\r\nContent-Type: application/json\r\n${headers}\r\n\r\n${some}`,
    );
    await eventually('the request is there', () => clock.timers > idleTimers);
    return { socket, closed, answer: () => answer };
  }

  it.each([
    ['its body never ends', `Content-Length: ${body.length}`, body.slice(1)],
    ['none of its body comes', `Content-Length: ${body.length}`, ''],
    ['its last chunk never comes', 'Transfer-Encoding: chunked', '1\r\n{\r\n'],
  ])('is over when %s', async (_case, headers, some) => {
    const { closed, answer } = await begin(headers, some);
    await clock.advance(limitMs - 1);
    expect(answer()).toBe('');
    await clock.advance(1);
    await closed;
    expect(answer()).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
    expect(answer()).toMatch(/\r\nConnection: close\r\n/i);
    expect(clock.timers).toBe(idleTimers);
  });

  it('is nothing to one that came in time', async () => {
    const { socket, closed, answer } = await begin(
      `Content-Length: ${body.length}`,
      body.slice(0, 5),
    );
    await clock.advance(limitMs - 1);
    socket.write(body.slice(5));
    await eventually('the answer', () => answer().includes('"status":"WORKING"'));
    expect(answer()).toMatch(/^HTTP\/1\.1 200 /);
    await clock.advance(limitMs);
    expect(clock.timers).toBe(idleTimers);
    expect(socket.closed).toBe(false);
    socket.destroy();
    await closed;
  });

  it('ends with a client that goes away', async () => {
    const { socket, closed } = await begin(`Content-Length: ${body.length}`, '');
    socket.destroy();
    await closed;
    await eventually('its timer is gone', () => clock.timers === idleTimers);
  });
});
