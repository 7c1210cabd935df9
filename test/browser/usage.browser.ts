import { readFileSync } from 'node:fs';
import type { UsageItem, UsageReport } from '../../src/web/wire.ts';
import { anOverview, hostileText } from '../support/page-overview.ts';
import {
  aConversation,
  anAccount,
  aQuota,
  aSandbox,
  aTask,
  everyKind,
  idOf,
} from '../support/page-records.ts';
import { aBudget, aConversationUsage, anItem, aUsageReport } from '../support/page-usage.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

const { service, window } = await openPages(251);

const ok = (json: unknown) => ({ status: 200, json });
const dayMs = 86_400_000;
/** The day in UTC that is this number of days ago. */
const ago = (days: number): string =>
  new Date(Date.now() - days * dayMs).toISOString().slice(0, 10);
const inDays = (days: number): string =>
  new Date(Date.now() + days * dayMs).toISOString().replace('Z', '000Z');
const spent = (key: string, cost: number, calls = 10): UsageItem =>
  anItem(key, {
    cost,
    calls,
    input_tokens: calls * 3_000,
    cached_input_tokens: calls * 2_000,
    output_tokens: calls * 200,
  });

/** The last 30 days, in which weekends are quiet. */
const days = Array.from({ length: 30 }, (_, index) =>
  spent(ago(29 - index), (index % 7) * 0.4, 12),
);
const items: Readonly<Record<string, readonly UsageItem[]>> = {
  model: [
    spent('openai/gpt-5-mini', 0.004, 2),
    spent('anthropic/claude-sonnet-4-5', 31.2, 240),
    anItem('local/qwen3', { calls: 20, input_tokens: 1_200_000, output_tokens: 40_000 }),
    spent('other', 1.3, 9),
  ],
  template: [spent('default', 30, 250), spent(hostileText, 2.5, 20)],
  conversation: [
    spent(idOf(1), 3, 20),
    spent(idOf(2), 28, 200),
    spent('9f'.repeat(16), 1, 9),
    spent('other', 0.5, 40),
  ],
};

/** Answers like the service: the days that a request asks for, and the groups of one month. */
const answerUsage = (budget: UsageReport['budget']) =>
  service.answers.set('GET /api/v1/usage', (query) => {
    asked.push(query.toString());
    const [group, from, to] = ['group_by', 'from', 'to'].map((name) => query.get(name) ?? '');
    const shown =
      group === 'day'
        ? days.filter(({ key }) => key >= (from ?? '') && key <= (to ?? ''))
        : (items[group ?? ''] ?? []);
    return { ...ok(aUsageReport(shown, budget)), csv: `key,cost\n${group},1\n` };
  });
const asked: string[] = [];
const monthly = (used: number) => aBudget({ spent: used, resets_at: inDays(9) });

beforeEach(() => {
  const kinds = everyKind();
  service.snapshots = [{ ...kinds, quota: aQuota(), last: true }];
  service.calls.length = 0;
  service.answers.clear();
  asked.length = 0;
  answerUsage(aBudget({ spent: 34, reserved: 0.5, resets_at: inDays(9) }));
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});

const section = (name: string) => window.page.getByRole('region', { name });
const open = async (query = '?span=30-days') => {
  await window.page.goto(`${service.url}/usage${query}`);
  await section('By model').waitFor();
};
const isWithinWindow = () =>
  window.page.evaluate('document.documentElement.scrollWidth <= innerWidth');
const names = (table: string) => section(table).getByRole('rowheader').allTextContents();

describe('the page of usage', () => {
  it('shows in light and dark what was spent each day, on which models, and by whom', async () => {
    const { page } = window;
    await open();
    await page
      .getByRole('link', { name: 'Write a test' })
      .or(section('By model'))
      .first()
      .waitFor();
    expect(await names('By model')).toEqual([
      'anthropic/claude-sonnet-4-5',
      'Other models',
      'openai/gpt-5-mini',
      'local/qwen3',
    ]);
    expect(await names('By template')).toEqual(['default', hostileText]);
    await section('By conversation')
      .getByRole('link', { name: 'Fix the login of single sign-on users' })
      .waitFor();
    expect(await names('By conversation')).toEqual([
      'Fix the login of single sign-on users',
      'Clean the build folder before a release',
      '9f'.repeat(16),
      'Older conversations',
    ]);
    await section('By model').getByText('<$0.01').waitFor();
    await section('Budget').getByText('$34.00 of $50.00').waitFor();
    await section('Budget')
      .getByText(/^At this pace /)
      .waitFor();
    await section('Budget').getByText('$0.50 more is reserved').waitFor();
    await page.getByRole('img', { name: /^Cost of each day from / }).waitFor();
    await page.getByText('The days as a table').click();
    expect(await section('By day').getByRole('row').count()).toBe(31);
    await page.getByText('The days as a table').click();
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await window.picture(`usage ${colorScheme}`, { fullPage: true });
      expect(await violationsIn(page)).toEqual([]);
    }
    await page.emulateMedia({ colorScheme: 'light' });
  });

  it.each([3840, 1280, 760, 360])('has no horizontal bar at %i pixels', async (width) => {
    const { page } = window;
    await page.setViewportSize({ width, height: 900 });
    await open(`?from=${ago(60)}&to=${ago(0)}`);
    expect(await isWithinWindow()).toBe(true);
    await window.picture(`usage ${width}`, { fullPage: true });
    await page.getByText('The days as a table').click();
    expect(await isWithinWindow()).toBe(true);
    expect(await violationsIn(page)).toEqual([]);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('shows tokens where no call has a price', async () => {
    answerUsage(null);
    const { page } = window;
    service.answers.set('GET /api/v1/usage', (query) =>
      ok(
        aUsageReport(
          [
            anItem(query.get('group_by') === 'day' ? ago(0) : 'local', {
              calls: 3,
              input_tokens: 1500,
            }),
          ],
          null,
        ),
      ),
    );
    await open();
    await page.getByRole('img', { name: /^Tokens of each day from / }).waitFor();
    await section('Budget').getByText('No budget limits this owner.').waitFor();
    expect(await page.getByText('$').count()).toBe(0);
    await window.picture('usage without prices', { fullPage: true });
  });

  it('reads the days that are chosen by the keyboard, and keeps them in its address', async () => {
    const { page } = window;
    await open('');
    const choice = page.getByLabel('Days (UTC)');
    expect(await choice.inputValue()).toBe('month');
    asked.length = 0;
    await choice.focus();
    await page.keyboard.press('ArrowDown');
    await page.waitForURL('**/usage?span=last-month');
    await page.getByText('No model was called').or(section('By model')).first().waitFor();
    await choice.selectOption('Other days…');
    const [from, to] = [
      page.getByLabel('From', { exact: true }),
      page.getByLabel('To', { exact: true }),
    ];
    await from.fill(ago(3));
    await to.fill(ago(5));
    await page.getByRole('alert').getByText('The first day is after the last one.').waitFor();
    await window.picture('usage of no days');
    expect(await violationsIn(page)).toEqual([]);
    await to.fill(ago(1));
    await page.waitForURL(`**/usage?from=${ago(3)}&to=${ago(1)}`);
    await section('By model').waitFor();
    expect(
      asked.filter((query) => query === `group_by=model&from=${ago(3)}&to=${ago(1)}`),
    ).toHaveLength(1);
    expect(await page.locator('.chart-bar').count()).toBe(3);
    await page.reload();
    await section('By model').waitFor();
    expect(await from.inputValue()).toBe(ago(3));
  });

  it('shows the month of its address, and other months by links and by the browser', async () => {
    const { page } = window;
    const nothing = page.getByText('No model was called in these days');
    await page.goto(`${service.url}/usage?month=2025-02&owner=bob`);
    await nothing.waitFor();
    expect(await page.getByLabel('Days (UTC)').locator('option:checked').textContent()).toBe(
      'February 2025',
    );
    const ofMonth = (from: string, to: string) =>
      asked.filter((query) => query === `group_by=model&from=${from}&to=${to}&owner=bob`);
    expect(ofMonth('2025-02-01', '2025-02-28')).toHaveLength(1);
    await window.picture('usage of a month', { fullPage: true });
    expect(await violationsIn(page)).toEqual([]);
    await page.getByRole('link', { name: 'March 2025' }).click();
    await page.waitForURL('**/usage?month=2025-03&owner=bob');
    await nothing.waitFor();
    expect(ofMonth('2025-03-01', '2025-03-31')).toHaveLength(1);
    await page.goBack();
    await page.waitForURL('**/usage?month=2025-02&owner=bob');
    await page.getByRole('link', { name: 'January 2025' }).waitFor();
    await page.goForward();
    await page.getByRole('link', { name: 'April 2025' }).waitFor();
    expect(new URL(page.url()).search).toBe('?month=2025-03&owner=bob');
  });

  it.each(['2025-13', '3000-01', 'last', ''])(
    'shows this month, with a word about it, at the address of the month %j',
    async (month) => {
      const { page } = window;
      await open(`?month=${month}`);
      await page.getByRole('alert').getByText('names no month').waitFor();
      expect(await page.getByLabel('Days (UTC)').inputValue()).toBe('month');
      expect(asked).toContain(`group_by=model&from=${ago(0).slice(0, 7)}-01&to=${ago(0)}`);
      if (month === '') await window.picture('usage of an unknown month');
      expect(await page.getByRole('navigation', { name: 'Months' }).getByRole('link').count()).toBe(
        1,
      );
      await page.getByLabel('Days (UTC)').selectOption('Last 7 days');
      await page.getByRole('alert').waitFor({ state: 'detached' });
    },
  );

  it('saves the figures of a table as CSV, and says why it can not', async () => {
    const { page } = window;
    await open();
    const saved = page.waitForEvent('download');
    const button = section('By model').getByRole('button', { name: 'Download by model as CSV' });
    await button.click();
    const download = await saved;
    expect(download.suggestedFilename()).toBe(`usage-by-model-${ago(29)}-${ago(0)}.csv`);
    expect(readFileSync(await download.path(), 'utf8')).toBe('key,cost\nmodel,1\n');
    service.answers.set('GET /api/v1/usage', {
      status: 503,
      json: { detail: 'The service has too much to do.' },
    });
    await button.click();
    await section('By model').getByRole('alert').getByText('too much to do').waitFor();
    expect(window.faults()).toEqual([expect.stringMatching(/^GET 503 /)]);
  });

  it('names the next step where nothing was spent', async () => {
    const { page } = window;
    service.answers.set('GET /api/v1/usage', ok(aUsageReport()));
    await page.goto(`${service.url}/usage`);
    await page.getByRole('heading', { name: 'No model was called in these days' }).waitFor();
    await window.picture('usage empty');
    expect(await violationsIn(page)).toEqual([]);
    await page.getByRole('link', { name: 'Start a conversation' }).click();
    await page.waitForURL(`${service.url}/`);
  });

  it('says what has failed, keeps its figures, and tries again', async () => {
    const { page } = window;
    service.answers.set('GET /api/v1/usage', { status: 503, json: { detail: 'Too much to do.' } });
    await page.goto(`${service.url}/usage`);
    const alert = page.getByRole('alert');
    await alert.getByText('Too much to do.').waitFor();
    await window.picture('usage failed');
    expect(await violationsIn(page)).toEqual([]);
    answerUsage(monthly(10));
    await alert.getByRole('button', { name: 'Try again' }).click();
    await section('By model').waitFor();
    expect(await alert.count()).toBe(0);
    // Figures of other days are not shown as those of the chosen ones.
    service.answers.set('GET /api/v1/usage', { status: 503, json: { detail: 'Too much to do.' } });
    await page.getByLabel('Days (UTC)').selectOption('Last 7 days');
    await alert.getByText('Too much to do.').waitFor();
    expect(await section('By model').count()).toBe(0);
    await page.getByLabel('Days (UTC)').selectOption('This month');
    await alert.getByText('The figures below are older.').waitFor();
    await section('By model').waitFor();
    expect(window.faults().every((fault) => fault.startsWith('GET 503'))).toBe(true);
  });

  it('lets an admin, and nobody else, choose the owner', async () => {
    const { page } = window;
    await open();
    expect(await page.getByLabel('Owner').count()).toBe(0);
    service.answers.set('GET /api/v1/users/me', ok(anAccount({ id: 'root', role: 'admin' })));
    service.answers.set(
      'GET /api/v1/admin/overview',
      ok(anOverview({ owners: { total: 0, items: [] } })),
    );
    await page.reload();
    const owner = page.getByLabel('Owner');
    await owner.fill(' bob ');
    asked.length = 0;
    await owner.press('Enter');
    await page.waitForURL('**/usage?span=30-days&owner=bob');
    await section('By model').waitFor();
    expect(new Set(asked.map((query) => new URLSearchParams(query).get('owner')))).toEqual(
      new Set(['bob']),
    );
    expect(asked).toHaveLength(5);
    await window.picture('usage of an owner');
  });

  it('is open to those who may only read', async () => {
    service.answers.set('GET /api/v1/users/me', ok(anAccount({ scopes: ['read'] })));
    const { page } = window;
    await page.goto(service.url);
    await page.getByRole('link', { name: 'Usage', exact: true }).click();
    await page.getByRole('heading', { name: 'Usage' }).waitFor();
    await page.locator('a[aria-current=page]', { hasText: 'Usage' }).waitFor();
    await section('By model').or(page.getByText('No model was called')).first().waitFor();
  });
});

const home = async () => {
  await window.page.goto(service.url);
  await window.page.getByRole('heading', { name: 'Needs you' }).waitFor();
};
const banner = () => window.page.locator('.budget-banner');

describe('the warning about the budget', () => {
  it.each([
    ['80 %', 41, '82 % of your budget is used: $41.00 of $50.00 this month.'],
    ['90 %', 46, '92 % of your budget is used: $46.00 of $50.00 this month.'],
    ['all', 50, 'Your budget is used up: $50.00 of $50.00 this month.'],
  ])('is on the list and on the page of a conversation at %s', async (name, used, text) => {
    const { page } = window;
    answerUsage(monthly(used));
    await home();
    await banner().getByText(text).waitFor();
    await window.picture(`budget warning ${name}`);
    expect(await violationsIn(page)).toEqual([]);
    await page.goto(`${service.url}/c/${idOf(2)}`);
    await banner().getByText(text).waitFor();
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.setViewportSize({ width: 360, height: 800 });
    await window.picture(`budget warning ${name} 360`);
    expect(await violationsIn(page)).toEqual([]);
    expect(await isWithinWindow()).toBe(true);
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width: 1280, height: 800 });
    await banner().getByRole('link', { name: 'Usage' }).click();
    await page.waitForURL('**/usage');
    await section('By model').waitFor();
  });

  it('comes soon after conversations have spent more, and rarely otherwise', async () => {
    const { page } = window;
    await page.clock.install();
    answerUsage(monthly(10));
    await home();
    await page.clock.runFor(50_000);
    expect(asked).toHaveLength(1);
    answerUsage(monthly(45));
    service.emit('conversation', { ...aConversation(2), usage: aConversationUsage({ cost: 35 }) });
    await page.getByText('$35.00').waitFor();
    await page.clock.runFor(12_000);
    await banner().getByText('90 % of your budget').waitFor();
    expect(asked).toHaveLength(2);
  });

  it('is absent below, without a budget, and while the usage can not be read', async () => {
    const { page } = window;
    answerUsage(monthly(39));
    await home();
    expect(await banner().count()).toBe(0);
    service.answers.set('GET /api/v1/usage', { status: 503, json: {} });
    await page.reload();
    await page.getByRole('heading', { name: 'Needs you' }).waitFor();
    expect(await banner().count()).toBe(0);
    expect(window.faults()).toEqual([expect.stringMatching(/^GET 503 /)]);
  });
});

describe('the usage of a conversation', () => {
  const withUsage = (usage: unknown) => {
    const record = { ...aConversation(2, { title: 'Fix the login' }), usage };
    service.snapshots = [
      {
        conversations: [record],
        sandboxes: [aSandbox(2)],
        start_tasks: [],
        quota: aQuota(),
        last: true,
      },
    ] as typeof service.snapshots;
  };

  it('is on its row, and grows', async () => {
    const { page } = window;
    withUsage(aConversationUsage());
    await page.goto(service.url);
    const row = page.getByRole('listitem').filter({ hasText: 'Fix the login' });
    await row.getByText('$0.42').waitFor();
    await row.getByText('94K tokens').waitFor();
    await window.picture('usage of rows');
    service.emit('conversation', {
      ...aConversation(2, { title: 'Fix the login' }),
      usage: aConversationUsage({ cost: 1234.5 }),
    });
    await row.getByText('$1,234.50').waitFor();
    service.emit('conversation', {
      ...aConversation(2, { title: 'Fix the login' }),
      usage: aConversationUsage({ cost: 0 }),
    });
    await row.getByText('$').waitFor({ state: 'detached' });
    await row.getByText('94K tokens').waitFor();
  });

  it('is on its page with the part of the cache, and by model', async () => {
    const { page } = window;
    withUsage(aConversationUsage());
    await page.goto(`${service.url}/c/${idOf(2)}`);
    await page
      .getByText('$0.42 · 31 calls · 90,000 tokens in (62 % from the cache), 4,000 out')
      .waitFor();
    await page.getByText('By model').click();
    await page
      .getByText('$0.42 · 30 calls · 80,000 tokens in (70 % from the cache), 3,900 out')
      .waitFor();
    await page.getByText('<$0.01 · 1 call · 10,000 tokens in, 100 out').waitFor();
    expect(await page.locator('.by-model dt').allTextContents()).toEqual([
      'anthropic/claude-sonnet-4-5',
      'openai/gpt-5-mini',
    ]);
    await window.picture('usage of a conversation');
    expect(await violationsIn(page)).toEqual([]);
  });

  it('that has used up its budget says what to do', async () => {
    const { page } = window;
    service.snapshots = [
      {
        conversations: [
          aConversation(2, {
            title: 'Fix the login',
            sandbox_status: 'PAUSED',
            sandbox_status_reason: 'budget-exhausted',
            execution_status: 'paused',
          }),
        ],
        sandboxes: [aSandbox(2, { status: 'PAUSED' })],
        start_tasks: [],
        quota: aQuota(),
        last: true,
      },
    ];
    await page.goto(`${service.url}/c/${idOf(2)}`);
    await page
      .getByText(
        'Paused: its budget is used up. An admin can raise the budget; one of a day, week or month also starts again by itself.',
      )
      .waitFor();
    await window.picture('paused without a budget');
  });
});

it('a start that waits for a budget says until when, and is among those that wait', async () => {
  const { page } = window;
  const detail =
    'Waiting for the budget, which starts again at 2026-12-01 00:00 UTC: the $50 a month of the quota default are used up. An administrator can raise it.';
  service.snapshots = [
    {
      conversations: [
        aConversation(2, {
          title: 'Fix the login',
          sandbox_id: null,
          sandbox_status: 'STARTING',
          sandbox_status_reason: 'waiting-for-budget',
          execution_status: null,
        }),
      ],
      sandboxes: [],
      start_tasks: [aTask(2, { status: 'WORKING', detail, app_conversation_id: null })],
      quota: aQuota(),
      last: true,
    },
  ];
  await page.goto(`${service.url}/`);
  const waiting = page.getByRole('region', { name: 'Waiting' });
  await waiting.getByText(detail).waitFor();
  await waiting.getByText('Waiting', { exact: true }).waitFor();
  await window.picture('start that waits for a budget');
  expect(await violationsIn(page)).toEqual([]);
  await page.goto(`${service.url}/c/${idOf(2)}`);
  await page.getByText(detail).first().waitFor();
  await window.picture('page of a start that waits for a budget');
});

describe('the maximum cost of a start', () => {
  const field = () => window.page.getByLabel('Spend at most $');

  it('is sent as a number, and stays in the form', async () => {
    await home();
    await window.page.getByLabel('Message').fill('Hello');
    await field().fill('$2.50');
    const { page } = window;
    service.answers.set('POST /api/v1/app-conversations', {
      status: 422,
      json: {
        detail: 'Refused.',
        errors: [{ path: 'body.max_cost', message: 'is above your budget' }],
      },
    });
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await page.getByText('is above your budget').waitFor();
    expect(service.calls.at(-1)?.body).toMatchObject({ max_cost: 2.5 });
    expect(await field().inputValue()).toBe('$2.50');
    expect(window.faults()).toEqual([expect.stringMatching(/^POST 422 /)]);
  });

  it('is refused at its field where it is no amount above 0', async () => {
    const { page } = window;
    await home();
    await page.getByLabel('Message').fill('Hello');
    await field().fill('0');
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await page.getByText('Enter an amount in dollars above 0').waitFor();
    expect(await field().getAttribute('aria-invalid')).toBe('true');
    await window.picture('maximum cost refused');
    expect(await violationsIn(page)).toEqual([]);
    expect(service.calls).toEqual([]);
    await field().fill('');
    service.answers.set('POST /api/v1/app-conversations', ok(aTask(70)));
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await page.getByLabel('Message').and(page.locator(':placeholder-shown')).waitFor();
    expect(service.calls.map(({ body }) => Object.keys(body as object))).toEqual([
      ['initial_message'],
    ]);
  });
});
