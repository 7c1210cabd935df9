import type { Request } from 'playwright-core';
import { z } from 'zod';
import { AcpAgents } from '../acp/support/acp-agents.ts';
import { storyTask } from '../acp/support/mock-models.ts';
import { violationsIn } from '../browser/support/accessibility.ts';
import { Window } from '../browser/support/browser.ts';
import { signInByLink } from '../browser/support/sign-in.ts';
import { steps } from '../browser/support/steps.ts';
import { hookMs, startMs } from '../support/agent-service.ts';
import { eventually } from '../support/eventually.ts';

/** Each answer has 10 tokens of input, which are free, and 5 of output. */
const dollarsPerToken = 0.1;
const dollarsPerCall = 0.5;
/** A call needs 16 tokens of output, so three calls fit, and six more after a raise. */
const maxCost = 3;
const spentBefore = 1.5;
const lines = 5;

const usageSchema = z.object({ total: z.object({ calls: z.number() }) });

/** The conversations, each with its template and with a word for what it counts. */
const runs = [
  { template: 'openhands', fruit: 'apples' },
  { template: 'codex', fruit: 'pears' },
] as const;
type Run = (typeof runs)[number];

let agents: AcpAgents;
let window: Window;
const ids = new Map<Run, string>();
/** How many requests of its script the model had when the question came. */
const askedBefore = new Map<Run, number>();
const idOf = (run: Run): string => ids.get(run) ?? '';

beforeAll(async () => {
  agents = await AcpAgents.start({
    AGENTS: runs.map(({ template }) => template).join(),
    MODELS_PRICES: JSON.stringify([
      { model: 'm', inputPerMillion: 0, outputPerMillion: dollarsPerToken * 1_000_000 },
    ]),
  });
  window = await Window.open({ firstPicture: 271 });
  window.page.setDefaultTimeout(startMs);
}, hookMs);
afterAll(async () => {
  await window.close();
  await agents.stop();
}, hookMs);

const step = steps(() => window);
const money = (amount: number): string => `$${amount.toFixed(2)}`;
/** The output of a command, which is no part of the command. */
const outputOf = (fruit: string, line: number): string => `${fruit}-${40 + line}`;
const commandOf = (fruit: string, line: number): string =>
  `echo ${fruit}-$((40 + ${line})) | tee -a ${fruit}.txt`;
const row = ({ fruit }: Run) =>
  window.page.getByRole('listitem').filter({ has: window.page.getByRole('link', { name: fruit }) });
const question = () => window.page.locator('#question');
const proceed = () => question().getByRole('button', { name: /^Continue with/ });
/** The line below the state of a conversation, which has its cost. */
const lastRun = (cost: number) => new RegExp(`^Last run: .* · \\${money(cost)} · `);
const spentOf = async (run: Run): Promise<number> =>
  (await agents.up.conversation(idOf(run))).usage?.cost ?? 0;
const budgetOf = async (run: Run): Promise<string> =>
  agents.k('get', 'conversation', idOf(run), '-o', 'jsonpath={.spec.budget.amount}');

/** Pictures of the page in light and dark, and as narrow as a telephone, without a fault of axe. */
async function pictures(name: string): Promise<void> {
  const { page } = window;
  for (const [colorScheme, width] of [
    ['dark', 1280],
    ['light', 390],
    ['light', 1280],
  ] as const) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 800 });
    await page.evaluate('scrollTo(0, 0)');
    await window.picture(`${name} ${colorScheme} ${width}`, { fullPage: true });
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    expect(await violationsIn(page)).toEqual([]);
  }
}

describe('a person with the real OpenHands agent and the real codex', () => {
  step('starts a conversation with each, and says what it may cost', async () => {
    const { page } = window;
    await signInByLink(window, agents.up.output);
    const form = page.getByRole('form', { name: 'New conversation' });
    for (const run of runs) {
      const { template, fruit } = run;
      agents.models.script(
        fruit,
        ...Array.from({ length: lines }, (_, line) => ({ command: commandOf(fruit, line) })),
        { text: `All ${fruit} are counted.` },
      );
      await form.getByLabel('Message').fill(`Count the ${fruit}. ${storyTask(fruit)}`);
      await form.getByLabel('Template').selectOption(template);
      await form.getByLabel('Spend at most $').fill(String(maxCost));
      const [started] = await Promise.all([
        page.waitForRequest((request) => request.method() === 'POST'),
        form.getByRole('button', { name: 'Start', exact: true }).click(),
      ]);
      expect(started.postDataJSON()).toMatchObject({ max_cost: maxCost });
      const href = await row(run).getByRole('link').first().getAttribute('href');
      ids.set(run, href?.split('/').at(-1) ?? '');
    }
  });

  step('sees in the list that both ask, and what each has cost', async () => {
    for (const run of runs) {
      await row(run).getByText(`Continue with $${maxCost} more?`).waitFor();
      await row(run).getByText(money(spentBefore), { exact: true }).waitFor();
    }
  });

  for (const run of runs) {
    const { template, fruit } = run;
    step(`reads the question of ${template}`, async () => {
      const { page } = window;
      await row(run).getByRole('link').first().click();
      await question().waitFor();
      askedBefore.set(run, agents.models.requestsOf(fruit).length);
      expect((await question().locator('p').allInnerTexts()).join()).toBe(
        `Continue with $${maxCost} more? This conversation has spent ${money(spentBefore)} of its budget of $${maxCost}, and the rest is too little for the next call. With the raise, the budget is $${2 * maxCost}, and the run continues where it was.`,
      );
      expect(await question().getByRole('button').allInnerTexts()).toEqual([
        'Stop here',
        `Continue with $${maxCost} more`,
      ]);
      await page.getByText(lastRun(spentBefore)).waitFor();
      // A new question ignores clicks for a moment.
      await proceed().and(page.locator('[aria-disabled=false]')).waitFor();
      await pictures(`question of ${template}`);
    });

    step(`raises the budget of ${template} by two clicks, of which one counts`, async () => {
      const { page } = window;
      const answers: Request[] = [];
      const note = (request: Request): void => {
        if (request.method() === 'POST') answers.push(request);
      };
      page.on('request', note);
      await proceed().dblclick();
      await question().waitFor({ state: 'detached' });
      await eventually('the raise', async () => (await budgetOf(run)) === String(2 * maxCost));
      page.off('request', note);
      expect(answers.map((request) => request.postDataJSON() as unknown)).toEqual([
        { option_id: 'continue' },
      ]);
      const { pathname } = new URL(answers[0]?.url() ?? '');
      await agents.up.call('POST', pathname, { option_id: 'continue' });
      await window.picture(`after the raise of ${template}`);
      await page.getByRole('link', { name: 'Conversations' }).click();
    });
  }

  for (const run of runs) {
    const { template, fruit } = run;
    step(`sees ${template} continue with its context, and finish`, async () => {
      const { page } = window;
      await row(run).getByRole('link').first().click();
      await page.getByText(`All ${fruit} are counted.`).first().waitFor();
      await page
        .locator('.state')
        .getByText(/^Done /)
        .waitFor();
      const requests = agents.models.requestsOf(fruit);
      expect(requests[askedBefore.get(run) ?? NaN]).toContain(outputOf(fruit, 0));
      const { sandbox_id: sandbox } = await agents.up.conversation(idOf(run));
      expect(await agents.file(sandbox ?? '', `${fruit}.txt`)).toBe(
        Array.from({ length: lines }, (_, line) => `${outputOf(fruit, line)}\n`).join(''),
      );
      expect(await budgetOf(run)).toBe(String(2 * maxCost));
      // The relay writes usage at most once in five seconds.
      const least = requests.length * dollarsPerCall;
      expect(least).toBeGreaterThan(spentBefore);
      const spent = await eventually('the cost', async () => {
        const cost = await spentOf(run);
        return cost >= least && cost;
      });
      await page.getByText(lastRun(spent)).waitFor();
      await window.picture(`end of ${template}`, { fullPage: true });
      await page.getByRole('link', { name: 'Conversations' }).click();
      await row(run).getByText(money(spent), { exact: true }).waitFor();
    });
  }

  step('sees the sums of what the model has served', async () => {
    const { page } = window;
    const { served } = agents.models;
    const calls = [...served.values()].reduce((sum, count) => sum + count, 0);
    await eventually('the record of all calls', async () => {
      const { body } = await agents.up.call('GET', '/api/v1/usage?group_by=model');
      return usageSchema.parse(body).total.calls === calls;
    });
    await page.getByRole('link', { name: 'Usage' }).click();
    // The model that codex takes for a title has a real price, which is nothing beside the others.
    const cost = money((served.get('m') ?? 0) * dollarsPerCall);
    const figures = [
      ['Cost', cost],
      ['Calls', String(calls)],
      ['Tokens in', String(calls * 10)],
      ['Tokens out', String(calls * 5)],
    ] as const;
    for (const [name, value] of figures)
      await page
        .locator('.figures div')
        .filter({ has: page.getByText(name, { exact: true }) })
        .getByText(value, { exact: true })
        .waitFor();
    await page.getByRole('region', { name: 'By template' }).waitFor();
    const cells = async (table: string) =>
      (await page.getByRole('region', { name: table }).locator('tbody tr').allInnerTexts()).map(
        (text) => text.split(/\s+/),
      );
    expect(
      new Map((await cells('By model')).map(([name, , count]) => [name, Number(count)])),
    ).toEqual(served);
    const sums = new Map((await cells('By template')).map(([name, sum]) => [name, sum]));
    for (const run of runs) expect(sums.get(run.template)).toBe(money(await spentOf(run)));
    await pictures('usage');
  });
});
