import type { CDPSession } from 'playwright-core';
import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { aConversation, aQuota, aSandbox, everyKind, idOf } from '../support/page-records.ts';
import { Installation } from '../support/installation.ts';
import { violationsIn } from './support/accessibility.ts';
import { Window } from './support/browser.ts';
import { FakeService } from './support/fake-service.ts';
import { signInByLink } from './support/sign-in.ts';
import { steps } from './support/steps.ts';

let up: Installation;
let window: Window;
beforeAll(async () => {
  up = await Installation.start();
  window = await Window.open({ firstPicture: 181 });
  await signInByLink(window, up.output);
  await window.page.waitForURL(`${up.url}/`);
});
afterAll(async () => {
  await window.close();
  await up.stop();
});

const step = steps(() => window);
const block = (code: string) => `Run:\n\`\`\`sh\n${code}\n\`\`\``;
const secret = 'correct-horse-battery-staple';

/** Starts a conversation that runs a script, and opens its page. Returns its id. */
async function opened(code: string): Promise<string> {
  const task = await up.start(block(code), { secrets: { WORD: secret } });
  const id = z.string().parse((await up.over(task.id)).app_conversation_id);
  await window.page.goto(`${up.url}/c/${id}`);
  return id;
}
const output = () => window.page.locator('.tool-running pre[aria-label="Output of terminal"]');
const interrupt = (id: string) => up.call('POST', `/api/v1/app-conversations/${id}/interrupt`);
const frame = `document.querySelector('.tool-running pre[aria-label^=Output]')`;
const scrollTop = () => window.page.evaluate<number>(`${frame}.scrollTop`);
const follow = () => window.page.getByRole('button', { name: 'Follow', exact: true });

const metricsSchema = z.object({
  metrics: z.array(z.object({ name: z.string(), value: z.number() })),
});
async function metricsOf(session: CDPSession) {
  const { metrics } = metricsSchema.parse(await session.send('Performance.getMetrics'));
  const value = (wanted: string) => metrics.find(({ name }) => name === wanted)?.value ?? NaN;
  return { taskSeconds: value('TaskDuration'), at: value('Timestamp') };
}
async function heapBytes(session: CDPSession): Promise<number> {
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = z
    .object({ usedSize: z.number() })
    .parse(await session.send('Runtime.getHeapUsage'));
  return usedSize;
}

describe('a command that runs', () => {
  let id: string;

  step('shows its output before its end, without colours and secrets', async () => {
    id = await opened(
      String.raw`for i in 1 2 3; do printf "\033[31mapple $i\033[0m <b>$WORD</b>\n"; sleep 0.4; done
printf '%s' "$WORD" | head -c 11; sleep 2; printf '%s\n' "$WORD" | tail -c +12
i=0; while [ $i -lt 350 ]; do i=$((i+1)); echo "pear $i"; sleep 0.05; done; echo last plum`,
    );
    await output().getByText('apple 3 <b><secret-hidden></b>').waitFor();
    await output().getByText('pear 20\n').waitFor();
    const text = await output().innerText();
    expect(text).toContain('<secret-hidden>\npear 1\n');
    expect(text).not.toMatch(/correct|staple|\[31m/);
    expect(await window.page.locator('.tool-running .tool-state').innerText()).toMatch(
      /^Running · \d+ s$/,
    );
    expect(window.announced.filter((said) => said.includes('pear'))).toEqual([]);
  });

  step('is followed at its end, until a person reads above it', async () => {
    const before = await scrollTop();
    await eventually('the frame to follow', async () => (await scrollTop()) > before);
    await window.page.evaluate(`${frame}.scrollTop = 40`);
    await follow().waitFor();
    const frozen = await output().innerText();
    // Two more reads arrive.
    for (let reads = 0; reads < 2; reads++) await window.page.waitForResponse('**/live?**');
    expect(await output().innerText()).toBe(frozen);
    expect(await scrollTop()).toBe(40);
    for (const colorScheme of ['dark', 'light'] as const) {
      await window.page.emulateMedia({ colorScheme });
      expect(await violationsIn(window.page)).toEqual([]);
      await window.picture(`live output ${colorScheme}`);
    }
    await window.page.setViewportSize({ width: 360, height: 740 });
    expect(await window.page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(
      true,
    );
    await window.picture('live output 360');
    await window.page.setViewportSize({ width: 1280, height: 800 });
    await follow().click();
    await follow().waitFor({ state: 'detached' });
    expect(await output().innerText()).not.toBe(frozen);
  });

  step('is the same in a second window, and after it was loaded again', async () => {
    const other = await window.page.context().newPage();
    await other.goto(`${up.url}/c/${id}`);
    await other.locator('.tool-running pre', { hasText: 'pear 1\n' }).waitFor();
    await window.page.reload();
    await output().getByText('pear 1\n').waitFor();
    await other.close();
  });

  step('shows its result in place of it, and stays open', async () => {
    await window.page
      .locator('.tool-done[open] pre[aria-label^=Output]', { hasText: 'last plum' })
      .waitFor();
    expect(await window.page.locator('.tool-done pre').last().innerText()).not.toContain('[31m');
  });
});

describe('a command that writes 1,000 lines a second', () => {
  step('costs the page at most a fifth of a core, and bounded memory', async () => {
    const id = await opened(
      'i=0; while :; do seq -f "line %08.0f of an output that has no end" $i $((i+99)); i=$((i+100)); sleep 0.09; done',
    );
    await output().getByText('characters not shown').waitFor();
    const session = await window.page.context().newCDPSession(window.page);
    await session.send('Performance.enable');
    const heapBefore = await heapBytes(session);
    const before = await metricsOf(session);
    // The page reads once a second.
    for (let reads = 0; reads < 15; reads++) await window.page.waitForResponse('**/live?**');
    const after = await metricsOf(session);
    const heapAfter = await heapBytes(session);
    const share = (after.taskSeconds - before.taskSeconds) / (after.at - before.at);
    const shown = (await output().innerText()).length;
    console.info(
      `live output: ${(share * 100).toFixed(1)} % of a core, heap ${heapBefore} to ${heapAfter} bytes, ${shown} characters`,
    );
    expect(share).toBeLessThan(0.2);
    expect(heapAfter - heapBefore).toBeLessThan(2_000_000);
    expect(shown).toBeLessThan(21_000);
    expect(await output().innerText()).toMatch(/^… [\d,]+ characters not shown …\n/);
    await interrupt(id);
    await window.page.locator('.tool-failed').waitFor();
  });

  step('costs nothing while the page is hidden', async () => {
    const id = await opened('i=0; while :; do i=$((i+1)); echo "fig $i"; sleep 0.05; done');
    await output().getByText('fig 1\n').waitFor();
    const reads: string[] = [];
    await window.page.evaluate(
      `Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true })`,
    );
    await window.page.waitForTimeout(1_000);
    window.page.on('request', (request) => reads.push(request.url()));
    await window.page.waitForTimeout(2_500);
    expect(reads.filter((url) => /\/(live|events)/.test(url))).toEqual([]);
    await interrupt(id);
  });
});

describe('an agent that works', () => {
  const id = idOf(2);
  const live = `GET /api/v1/app-conversations/${id}/live`;
  const events = `GET /api/v1/conversation/${id}/events/search`;
  const ok = (json: unknown) => ({ status: 200, json });
  const text = (kind: string, id: string, words: string) => ({
    id,
    kind,
    tool_call_id: null,
    elapsed_ms: 1_000,
    from: 0,
    end: words.length,
    text: words,
  });
  const plan = {
    kind: 'ConversationStateUpdateEvent',
    id: 'p',
    key: 'plan',
    value: [
      { content: 'Read the code', status: 'completed', priority: 'high' },
      { content: 'Write <img src=x onerror=alert(1)>', status: 'in_progress', priority: 'high' },
      { content: 'Test', status: 'pending', priority: 'low' },
    ],
  };
  const message = {
    kind: 'MessageEvent',
    id: 'm',
    source: 'agent',
    timestamp: '2026-01-01T10:00:00.000001',
    llm_message: { role: 'assistant', content: [{ type: 'text', text: 'It is the parser.' }] },
  };
  let service: FakeService;
  beforeAll(async () => {
    service = await FakeService.start();
    const metrics = {
      accumulated_cost: 0.123,
      accumulated_token_usage: { prompt_tokens: 12_345, completion_tokens: 678 },
    };
    service.snapshots = [
      {
        ...everyKind(),
        conversations: [aConversation(2, { execution_status: 'running', metrics })],
        sandboxes: [aSandbox(2, { status: 'RUNNING' })],
        start_tasks: [],
        quota: aQuota(),
        last: true,
      },
    ];
  });
  afterAll(() => service.stop());

  step('shows its words while it writes them, its plan and what it uses', async () => {
    const { page } = window;
    service.answers.set(events, ok({ items: [plan], next_page_id: null }));
    const items = [text('message', 'a', 'It is <b>the</b> pars')];
    const answer = { items, cursor: 'a:20', last_event_id: 'p', run_ms: 65_000 };
    service.answers.set(live, ok(answer));
    await page.goto(`${service.url}/c/${id}`);
    await page.getByText('is writing…').waitFor();
    await page.getByText('It is <b>the</b> pars').waitFor();
    await page.getByText('1 of 3 done').waitFor();
    await page.locator('.plan li', { hasText: 'Write <img src=x onerror=alert(1)>' }).waitFor();
    await page.getByText('Running for 1 min · $0.12 · 12,345 tokens in, 678 out').waitFor();
    expect(await page.locator('main img').count()).toBe(0);
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await violationsIn(page)).toEqual([]);
      await window.picture(`words and plan ${colorScheme}`);
    }
    await page.setViewportSize({ width: 360, height: 740 });
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await window.picture('words and plan 360');
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  step('has each message once, when the event of its words is there', async () => {
    const { page } = window;
    service.answers.set(events, ok({ items: [message, plan], next_page_id: null }));
    const items = [text('thought', 'b', 'Which parser?')];
    service.answers.set(live, ok({ items, cursor: 'b:13', last_event_id: 'm', run_ms: 66_000 }));
    await page.getByText('It is the parser.').waitFor();
    await page.getByText('Which parser?').waitFor();
    expect(await page.getByText('is writing…').count()).toBe(0);
  });

  step('is not asked again for what it does not report', async () => {
    const { page } = window;
    const nothing = { items: [], cursor: null, last_event_id: null, run_ms: null };
    service.answers.set(live, ok(nothing));
    await page.getByText('Which parser?').waitFor({ state: 'detached' });
    const reads: string[] = [];
    page.on('request', (request) => reads.push(request.url()));
    await page.waitForResponse('**/events/search?**');
    await page.waitForResponse('**/events/search?**');
    expect(reads.filter((url) => url.includes('/live'))).toEqual([]);
  });
});
