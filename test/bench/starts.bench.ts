import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { conversationPage } from '../../src/gateway/presenters/conversation.ts';
import { Installation, saying } from '../support/installation.ts';
import { percentile, report } from './figure.ts';

/** The built program with the reference agent, as `make run` starts it. */
const sequential = 20;
const atOnce = 20;
const idleMs = 20_000;
const clockTicksPerSecond = 100;

const up = await Installation.start();

/** Milliseconds from the request to READY, polled as a client would, but without long pauses. */
async function startMs(): Promise<number> {
  const began = performance.now();
  const { id } = await up.start('```sh\necho hello\n```');
  const task = await up.over(id, 60_000);
  if (task.status !== 'READY') throw new Error(task.error ?? 'no READY');
  return performance.now() - began;
}

async function firstElementMs(): Promise<number> {
  const began = performance.now();
  const response = await fetch(`${up.url}/api/v1/app-conversations/stream-start`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${up.key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(saying('Hello.')),
  });
  const reader = response.body?.getReader();
  await reader?.read();
  const took = performance.now() - began;
  while ((await reader?.read())?.done === false);
  return took;
}

const residentMiB = (): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${up.pid}/status`, 'utf8'))?.[1]) / 1024;

function processorSeconds(): number {
  const fields = readFileSync(`/proc/${up.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / clockTicksPerSecond;
}

try {
  const oneByOne: number[] = [];
  for (let count = 0; count < sequential; count++) oneByOne.push(await startMs());
  report({
    what: 'POST to READY, p50 of 20 one after the other',
    value: percentile(oneByOne, 0.5),
    unit: 'ms',
    target: { atMost: 2000 },
  });
  report({ what: 'POST to READY, slowest of those', value: Math.max(...oneByOne), unit: 'ms' });
  const began = performance.now();
  await Promise.all(Array.from({ length: atOnce }, startMs));
  report({
    what: '20 starts at once, all READY',
    value: performance.now() - began,
    unit: 'ms',
    target: { atMost: 25_000 },
  });
  const firsts: number[] = [];
  for (let count = 0; count < 5; count++) firsts.push(await firstElementMs());
  report({
    what: 'stream-start, first element, slowest of 5',
    value: Math.max(...firsts),
    unit: 'ms',
    target: { atMost: 100 },
  });

  const idleShare = async () => {
    const before = processorSeconds();
    await delay(idleMs);
    return ((processorSeconds() - before) * 100_000) / idleMs;
  };
  await delay(5000);
  report({ what: 'processor with 45 idle agents', value: await idleShare(), unit: '% of one' });
  const { body } = await up.call('GET', '/api/v1/app-conversations/search');
  for (const { id } of conversationPage.parse(body).items)
    await up.call('DELETE', `/api/v1/app-conversations/${id}`);
  await delay(5000);
  report({
    what: 'processor with nothing running',
    value: await idleShare(),
    unit: '% of one',
    target: { atMost: 2 },
  });
  report({
    what: 'memory of the process then',
    value: residentMiB(),
    unit: 'MiB',
    target: { atMost: 250 },
  });
} finally {
  await up.stop();
}
