import { ServerResponse, IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { silentLogger } from '@conversation-operator/base/logger';
import {
  GitRelay,
  maxTransferMs,
  type RelayedRequest,
} from '../../../../src/gateway/git/git-relay.ts';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import { aSandbox } from '../../../support/builders.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const limits = { idleMs: 60_000, totalMs: 3_600_000, maxBodyBytes: 1_000 };

/** A clone whose answer is the body of a host. */
function aClone() {
  const clock = new VirtualClock();
  const body = new PassThrough();
  const answer = {
    kind: 'stream' as const,
    stream: {
      status: 200,
      contentType: '',
      headers: {},
      body,
      repository: new URL('https://git.example/a/b'),
    },
  };
  const host = {
    advertisement: () => Promise.resolve(answer),
    pack: () => Promise.resolve(answer),
  };
  const request = new IncomingMessage(new Socket());
  const response = new ServerResponse(request);
  const { signal } = new AbortController();
  const relay = new GitRelay({
    host,
    limits,
    clock,
    logger: silentLogger,
    metrics: createMetrics(),
  });
  const relayed = relay.relay({
    call: { request, response, signal } as unknown as RelayedRequest['call'],
    sandbox: aSandbox(),
    address: { provider: 'github', repository: 'a/b' },
    asked: { service: 'git-upload-pack', part: 'references' },
    relaysOpen: false,
  });
  /** Sends one byte after each interval. */
  const trickle = async (bytes: number, intervalMs: number): Promise<void> => {
    for (let sent = 0; sent < bytes && !body.destroyed; sent++) {
      await clock.advance(intervalMs);
      body.write('.');
      await clock.settle();
    }
  };
  return { clock, body, response, relayed, trickle };
}

it('never interrupts a clone that is slow and steady before its maximum duration', async () => {
  const { clock, body, relayed, trickle } = aClone();
  await trickle(71, 50_000);
  expect(body.destroyed).toBe(false);
  await clock.advance(50_000);
  expect(body.destroyed).toBe(true);
  await relayed;
  expect(clock.timers).toBe(0);
});

it.each([
  [1, 3_600],
  [600, 3_600],
  [3_541, 3_601],
  [86_400, 86_460],
])('gives a clone of %i s at most, as the operator does, %i s', (timeoutSeconds, seconds) => {
  expect(maxTransferMs(timeoutSeconds)).toBe(seconds * 1000);
});

it('interrupts a clone that stalls, and not before the maximum pause', async () => {
  const { clock, body, relayed, trickle } = aClone();
  await trickle(2, 30_000);
  await clock.advance(59_999);
  expect(body.destroyed).toBe(false);
  await clock.advance(1);
  expect(body.destroyed).toBe(true);
  await relayed;
});

it.each([
  ['16 KiB', true, 16 * 1024],
  ['2 MiB', false, 2 * 1024 * 1024],
])('a clone that takes %s in 50 s is interrupted: %s', async (_what, ends, bytes) => {
  const { clock, body, response, relayed } = aClone();
  response.write = () => false;
  for (let pauses = 0; pauses < 10 && !body.destroyed; pauses++) {
    body.write(Buffer.alloc(bytes));
    await clock.advance(50_000);
    response.emit('drain');
  }
  expect(body.destroyed).toBe(ends);
  body.destroy();
  await relayed.catch(() => undefined);
  expect(clock.timers).toBe(0);
});
