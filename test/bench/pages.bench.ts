import { setTimeout as delay } from 'node:timers/promises';
import type { BrowserContext, CDPSession, Page } from 'playwright-core';
import { conversations } from '../../src/resources/conversation.ts';
import { launchBrowser } from '../browser/support/browser.ts';
import { eventually } from '../support/eventually.ts';
import { namespace, startApiServer } from './api-server.ts';
import { report } from './figure.ts';
import { startGateway } from './gateway-process.ts';
import { addConversations, addTemplate, newKey } from './population.ts';

/**
 * The page `/` in Chromium, served by the built gateway: how soon it shows a list, how long it does
 * not answer a person who scrolls, and what one change costs it. Browser, gateway and API server
 * share the cores.
 */
const few = 1_000;
const many = Number(process.env['OBJECTS'] ?? 10_000);
const loads = 5;
const wheelPx = 800;
const frameMs = 16;
const settleMs = 500;
const changes = 40;
/** More than the time in which the gateway gathers changes, and that of the page for one. */
const changeMs = 700;

/** Notes when the first row was in a frame, and the duration of each task of more than 50 ms. */
const watch = `
globalThis.longTasks = [];
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) longTasks.push(duration);
}).observe({ type: 'longtask', buffered: true });
const see = () => {
  if (document.querySelector('.row') === null) requestAnimationFrame(see);
  else requestAnimationFrame(() => setTimeout(() => { globalThis.firstListMs = performance.now(); }));
};
requestAnimationFrame(see);`;

await using stack = new AsyncDisposableStack();
const server = await startApiServer('memory');
stack.defer(() => server.close());
const { client } = server;
await addTemplate(client);
const key = await newKey(client);
const ids = [...(await addConversations(client, few))];
const gateway = await startGateway(server);
stack.defer(() => gateway.close());
const url = `http://127.0.0.1:${gateway.port}`;
const browser = await launchBrowser();
stack.defer(() => browser.close());

/** A browser without a cache, signed in. */
async function signedIn(): Promise<BrowserContext> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.goto(`${url}/login?return_to=/docs`);
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(`${url}/docs`);
  await page.close();
  await context.addInitScript(watch);
  return context;
}

/** Opens the page until every conversation is there. Returns it with the time of the first list. */
async function open(context: BrowserContext, count: number): Promise<[Page, number]> {
  const page = await context.newPage();
  await page.goto(url);
  await page.getByRole('heading', { name: `Working ${count}` }).waitFor();
  return [page, await page.evaluate<number>('firstListMs')];
}

async function firstList(count: number): Promise<number> {
  const times: number[] = [];
  for (let load = 0; load < loads; load++) {
    const context = await signedIn();
    times.push((await open(context, count))[1]);
    await context.close();
  }
  return Math.max(...times);
}

const longestTask = (page: Page): Promise<number> =>
  page.evaluate<number>('Math.max(0, ...longTasks.splice(0))');

interface Trace {
  readonly traceEvents: readonly {
    readonly name: string;
    readonly pid: number;
    readonly tid: number;
    /** Processor time in microseconds. */
    readonly tdur?: number;
    readonly args: { readonly name?: string };
  }[];
}

/** The most processor time of a task of the page while `work` runs, whatever others take. */
async function longestProcessorMs(page: Page, work: () => Promise<unknown>): Promise<number> {
  await browser.startTracing(page, { categories: ['toplevel'] });
  await work();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as Trace;
  const threads = new Set(
    traceEvents
      .filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain')
      .map(({ pid, tid }) => `${pid}/${tid}`),
  );
  const times = traceEvents
    .filter(({ name, pid, tid }) => name.endsWith('RunTask') && threads.has(`${pid}/${tid}`))
    .map(({ tdur = 0 }) => tdur / 1000);
  return times.reduce((most, time) => Math.max(most, time), 0);
}

/** Turns the wheel over the list until its end. Returns the number of turns. */
async function scrollThrough(page: Page): Promise<number> {
  await page.mouse.move(800, 400);
  const isAtEnd = () =>
    page.evaluate<boolean>('scrollY + innerHeight >= document.documentElement.scrollHeight - 1');
  let turns = 0;
  for (; turns % 50 !== 0 || turns === 0 || !(await isAtEnd()); turns++) {
    await page.mouse.wheel(0, wheelPx);
    await delay(frameMs);
  }
  await delay(settleMs);
  return turns;
}

const scriptMs = async (session: CDPSession): Promise<number> => {
  const { metrics } = await session.send('Performance.getMetrics');
  return (metrics.find(({ name }) => name === 'ScriptDuration')?.value ?? NaN) * 1000;
};

/**
 * Script of the page in the time in which it shows a change, for each change. The work of every
 * second is in it.
 */
async function scriptOfChanges(
  page: Page,
  change: (index: number) => Promise<unknown>,
  isShown: (index: number) => string,
): Promise<readonly number[]> {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const times: number[] = [];
  for (let index = 0; index < changes; index++) {
    const before = await scriptMs(session);
    await change(index);
    await delay(changeMs);
    times.push((await scriptMs(session)) - before);
    if (!(await page.evaluate<boolean>(isShown(index))))
      throw new Error(`the page does not show change ${index}`);
  }
  await session.detach();
  return times;
}

const patch = (id: string, status: object) =>
  client.mergePatch(conversations, namespace, id, { status }, { subresource: 'status' });

report({
  what: `first list of ${few} conversations after the navigation, slowest of ${loads}`,
  value: await firstList(few),
  unit: 'ms',
  target: { atMost: 1_000 },
});
ids.push(...(await addConversations(client, many - few)));
await eventually('the gateway has all', async () => {
  const answer = await fetch(`${url}/api/v1/app-conversations/count`, {
    headers: { authorization: `Bearer ${key}` },
  });
  return (await answer.json()) === many;
});
report({
  what: `first list of ${many}, slowest of ${loads}`,
  value: await firstList(many),
  unit: 'ms',
});
const [page] = await open(await signedIn(), many);
report({
  what: `longest task while ${many} arrive (0: none of more than 50 ms)`,
  value: await longestTask(page),
  unit: 'ms',
});
let turns = 0;
const processorMs = await longestProcessorMs(page, async () => {
  turns = await scrollThrough(page);
});
report({
  what: `longest task in ${turns} turns of the wheel through ${many} (0: the same)`,
  value: await longestTask(page),
  unit: 'ms',
  target: { atMost: 100 },
});
report({ what: 'most processor time of a task meanwhile', value: processorMs, unit: 'ms' });
await page.mouse.move(0, 0);
await page.evaluate('scrollTo(0, 0)');
await delay(settleMs);
const newest = ids.toReversed();
const idle = await scriptOfChanges(
  page,
  () => Promise.resolve(),
  () => 'true',
);
report({ what: `script in ${changeMs} ms without a change`, value: Math.max(...idle), unit: 'ms' });
const titled = await scriptOfChanges(
  page,
  (index) => patch(newest[0] ?? '', { title: `Change ${index}` }),
  (index) => `document.querySelector('.row-title').textContent === 'Change ${index}'`,
);
report({
  what: `script for a new title in view, most of ${changes}`,
  value: Math.max(...titled),
  unit: 'ms',
  target: { atMost: frameMs },
});
const moved = await scriptOfChanges(
  page,
  (index) => patch(newest[index] ?? '', { executionStatus: 'finished' }),
  (index) =>
    `document.querySelector('#group-working .count').textContent === '${many - index - 1}'`,
);
report({
  what: `script for a row that moves to another group, most of ${changes}`,
  value: Math.max(...moved),
  unit: 'ms',
  target: { atMost: frameMs },
});
