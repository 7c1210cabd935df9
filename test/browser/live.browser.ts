import type { CDPSession } from 'playwright-core';
import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { violationsIn } from './support/accessibility.ts';
import { Window } from './support/browser.ts';
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
    await output().getByText('line 00005000').waitFor();
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
