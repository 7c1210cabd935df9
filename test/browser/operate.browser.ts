import { anAccount, aQuota } from '../support/page-records.ts';
import { aBusyOverview, aKey, anOverview, hostileText } from '../support/page-overview.ts';
import type { ApiKeyRecord, OverviewRecord } from '../../src/web/wire.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

const { service, window } = await openPages(81);

const ok = (json: unknown) => ({ status: 200, json });
const answerOverview = (overview: OverviewRecord) =>
  service.answers.set('GET /api/v1/admin/overview', ok(overview));
const answerKeys = (...keys: readonly ApiKeyRecord[]) =>
  service.answers.set('GET /api/keys', ok(keys));
const answerRole = (role: 'user' | 'admin') =>
  service.answers.set('GET /api/v1/users/me', ok(anAccount({ id: 'root', role })));

const threeKeys = () => [
  aKey('key-own', { name: 'Laptop', user_id: 'root', role: 'admin' }),
  aKey('key-ci', { name: hostileText, last_used_at: null }),
  aKey('key-old', {
    name: 'Old script',
    expires_at: new Date(Date.now() + 86_400_000 * 3).toISOString(),
  }),
];

beforeEach(() => {
  service.snapshots = [
    { conversations: [], start_tasks: [], sandboxes: [], quota: aQuota(), last: true },
  ];
  service.calls.length = 0;
  service.answers.clear();
  answerRole('admin');
  answerOverview(aBusyOverview());
  answerKeys(...threeKeys());
  service.answers.set('GET /api/keys/current', ok({ id: 'key-own' }));
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});

const open = async () => {
  await window.page.goto(`${service.url}/operate`);
  await window.page.getByRole('heading', { name: 'Operate' }).waitFor();
  await section('API keys').getByText('Laptop').waitFor();
};
const section = (name: string) => window.page.getByRole('region', { name });
const row = (table: string, name: string) =>
  section(table)
    .getByRole('row')
    .filter({ has: window.page.getByRole('rowheader', { name, exact: false }) });

describe('the state of the service', () => {
  it('shows in light and dark what is wrong, who uses what, and who waits', async () => {
    const { page } = window;
    await open();
    await page.getByText('The service needs you').waitFor();
    expect(await page.locator('.verdict li').allTextContents()).toEqual([
      'The watch of Sandbox objects is interrupted: figures may be old.',
      '1 template is invalid.',
      '1 pool can not make warm sandboxes.',
      '1 quota has a conflict.',
    ]);
    expect(await section('Spent this month').getByRole('rowheader').allTextContents()).toEqual([
      'alice',
      'bob',
    ]);
    await row('Spent this month', 'alice').getByText('$1,234.50').waitFor();
    await row('Spent this month', 'bob').getByText('<$0.01').waitFor();
    await row('Budgets used up', 'all').getByText('$2,001.50 of $2,000.00').waitFor();
    await row('Budgets used up', 'of-bob').getByText('12,800 of 12,800 tokens').waitFor();
    const failed = row('Errors of model providers', 'api.anthropic.com');
    await failed.getByText('The provider answers with status 529.').waitFor();
    await failed.getByText('1,204').waitFor();
    expect(
      await section('Errors of model providers').getByRole('rowheader').allTextContents(),
    ).toEqual(['api.anthropic.com', hostileText]);
    expect(await section('Waiting for room').getByRole('rowheader').allTextContents()).toEqual([
      '1',
      '2',
      '3',
    ]);
    await row('Owners', 'alice').getByText('10 of 10').waitFor();
    await row('Quotas', 'default').getByText('16 in all, 10 for each').waitFor();
    await row('Quotas', 'of-bob').getByText('3 of 3', { exact: true }).waitFor();
    await row('Templates', 'gpu').getByText('Required value').waitFor();
    expect(await page.getByRole('link', { name: 'Metrics' }).getAttribute('href')).toBe(
      'https://grafana.example/d/agents',
    );
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await window.picture(`operate ${colorScheme}`, { fullPage: true });
      expect(await violationsIn(page)).toEqual([]);
    }
    await page.emulateMedia({ colorScheme: 'light' });
  });

  it.each([
    ['light', 360],
    ['dark', 360],
    ['light', 820],
    ['light', 3840],
  ] as const)('has no horizontal bar in %s at %i pixels', async (colorScheme, width) => {
    const { page } = window;
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 800 });
    await open();
    await window.picture(`operate ${width} ${colorScheme}`);
    await section('Owners').scrollIntoViewIfNeeded();
    await window.picture(`operate ${width} ${colorScheme} tables`);
    expect(await violationsIn(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('says of an empty service that it is well, and what the next step is', async () => {
    const { page } = window;
    answerOverview(anOverview());
    await open();
    await page.getByText('The service is well').waitFor();
    for (const text of ['Nothing waits.', 'keys create --owner NAME', 'No quota', 'No pool'])
      await page.getByText(text).first().waitFor();
    await window.picture('operate empty', { fullPage: true });
    expect(await violationsIn(page)).toEqual([]);
  });

  it.each([1280, 1045, 910, 360])(
    'breaks no word of the name of an owner at %i pixels',
    async (width) => {
      const { page } = window;
      const overview = aBusyOverview();
      const named = <T extends { readonly owner: string | null }>({
        items,
      }: {
        items: readonly T[];
      }) => ({
        total: items.length,
        items: items.map((item) => ({ ...item, owner: 'company:alice' })),
      });
      answerOverview({
        ...overview,
        owners: {
          total: 1,
          items: overview.owners.items
            .slice(0, 1)
            .map((one) => ({ ...one, owner: 'company:alice' })),
        },
        queue: named(overview.queue),
      });
      answerKeys(aKey('key-own', { name: 'Laptop', user_id: 'company:alice' }));
      await page.setViewportSize({ width, height: 800 });
      await open();
      const lines = await page.evaluate<readonly number[]>(
        `Array.from(document.querySelectorAll('main .unbroken'))
          .filter((word) => word.textContent === 'alice')
          .map((word) => word.getClientRects().length)`,
      );
      expect(lines.length).toBeGreaterThan(2);
      expect(new Set(lines)).toEqual(new Set([1]));
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
      await window.picture(`operate ${width} owners of a company`);
      await page.setViewportSize({ width: 1280, height: 800 });
    },
  );

  it('counts no leader where none is elected, and what is above a limit', async () => {
    const { page } = window;
    const overview = aBusyOverview();
    const items = overview.owners.items.map((use) =>
      use.owner === 'bob' ? { ...use, active: 4, limit: 2 } : use,
    );
    answerOverview({ ...overview, leaders: null, owners: { total: items.length, items } });
    await open();
    await section('Leader').getByText('none is elected').waitFor();
    await row('Owners', 'bob').getByText('4 of 2, 2 above it').waitFor();
    expect(await page.getByText(/^The first 0/).count()).toBe(0);
    await page.emulateMedia({ colorScheme: 'dark' });
    await window.picture('operate without leader', { fullPage: true });
    await page.emulateMedia({ colorScheme: 'light' });
  });

  it('reads the state again, at once after the page was hidden', async () => {
    const { page } = window;
    await open();
    answerOverview(anOverview());
    await page.getByText('The service is well').waitFor();
    const show = (state: 'hidden' | 'visible') =>
      page.evaluate(
        `Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));`,
      );
    await show('hidden');
    answerOverview(aBusyOverview());
    await page.waitForTimeout(6_000);
    expect(await page.getByText('The service is well').count()).toBe(1);
    await show('visible');
    await page.getByText('The service needs you').waitFor({ timeout: 2_000 });
  });

  it('shows texts of others as texts', async () => {
    await open();
    await row('Waiting for room', '2').getByText(hostileText).waitFor();
    await row('API keys', hostileText).waitFor();
    expect(await window.page.locator('main img').count()).toBe(0);
  });

  it('keeps its figures while the service fails, says of when they are, and tries again', async () => {
    const { page } = window;
    await open();
    service.answers.set('GET /api/v1/admin/overview', {
      status: 503,
      json: { detail: 'The service has too much to do.' },
    });
    await page.getByText(/too much to do\. These figures are of .+\. Next attempt in/).waitFor();
    await window.picture('operate without answer');
    expect(await violationsIn(page)).toEqual([]);
    await row('Owners', 'alice').waitFor();
    answerOverview(anOverview());
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('The service is well').waitFor();
    expect(await page.getByText('too much to do').count()).toBe(0);
    expect(window.faults().every((fault) => fault.startsWith('GET 503'))).toBe(true);
  });
});

describe('the keys', () => {
  it('are revoked after one question, and shown until the service has done it', async () => {
    const { page } = window;
    await open();
    const old = row('API keys', 'Old script');
    await old.getByRole('button', { name: 'Revoke' }).click();
    await old.getByRole('button', { name: 'Keep' }).and(page.locator(':focus')).waitFor();
    await window.picture('operate question');
    await old.getByRole('button', { name: 'Keep' }).click();
    expect(service.calls).toEqual([]);
    const { promise, resolve } = Promise.withResolvers<ReturnType<typeof ok>>();
    service.answers.set('DELETE /api/keys/key-old', promise);
    await old.getByRole('button', { name: 'Revoke' }).click();
    await old.getByRole('button', { name: 'Revoke', exact: true }).click();
    await old.getByText('Revoking…').waitFor();
    expect(service.calls).toEqual([
      { method: 'DELETE', path: '/api/keys/key-old', body: undefined },
    ]);
    answerKeys(...threeKeys().slice(0, 2));
    resolve(ok({ success: true }));
    await old.waitFor({ state: 'detached' });
    await row('API keys', 'Laptop').getByText('(this session)').waitFor();
  });

  it('say why a revocation has failed, and try again', async () => {
    await open();
    const old = row('API keys', 'Old script');
    service.answers.set('DELETE /api/keys/key-old', {
      status: 409,
      json: { detail: 'Changed by someone else at the same time.' },
    });
    await old.getByRole('button', { name: 'Revoke' }).click();
    await old.getByRole('button', { name: 'Revoke', exact: true }).click();
    await old.getByText('Changed by someone else').waitFor();
    await window.picture('operate refused revocation');
    expect(await violationsIn(window.page)).toEqual([]);
    expect(window.faults()).toEqual([expect.stringMatching(/^DELETE 409 /)]);
    service.answers.delete('DELETE /api/keys/key-old');
    answerKeys(...threeKeys().slice(0, 2));
    await old.getByRole('button', { name: 'Try again' }).click();
    await old.waitFor({ state: 'detached' });
  });

  it('come page by page', async () => {
    const { page } = window;
    service.answers.set('GET /api/keys', {
      ...ok(threeKeys().slice(0, 2)),
      headers: { link: `<${service.url}/api/keys?owner=*&page_id=next>; rel="next"` },
    });
    await page.goto(`${service.url}/operate`);
    await row('API keys', 'Laptop').waitFor();
    answerKeys(aKey('key-9', { name: 'The last one' }));
    await page.getByRole('button', { name: 'More keys' }).click();
    await row('API keys', 'The last one').waitFor();
    await row('API keys', 'Laptop').waitFor();
    expect(await page.getByRole('button', { name: 'More keys' }).count()).toBe(0);
  });
});

describe('who sees it', () => {
  it('is an admin, whom the header leads there', async () => {
    const { page } = window;
    await page.goto(service.url);
    await page.getByRole('link', { name: 'Operate' }).click();
    await page.getByRole('heading', { name: 'Operate' }).waitFor();
    await page.locator('a[aria-current=page]', { hasText: 'Operate' }).waitFor();
    await page.setViewportSize({ width: 360, height: 800 });
    await page.goto(service.url);
    await page.getByRole('link', { name: 'Operate' }).waitFor();
    await window.picture('home of an admin 360');
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('is no other user: one sentence leads home', async () => {
    const { page } = window;
    answerRole('user');
    service.answers.set('GET /api/v1/admin/overview', {
      status: 403,
      json: { detail: 'Only a key with the role admin can read the state of the service.' },
    });
    await page.goto(`${service.url}/operate`);
    await page.getByRole('heading', { name: 'This page is for admins of the service.' }).waitFor();
    await window.picture('operate for others');
    expect(await violationsIn(page)).toEqual([]);
    expect(await page.getByRole('link', { name: 'Operate' }).count()).toBe(0);
    expect(window.faults()).toEqual([expect.stringMatching(/^GET 403 /)]);
    await page.getByRole('link', { name: 'All conversations' }).click();
    await page.waitForURL(`${service.url}/`);
  });
});
