import { aConversation, aQuota, everyKind, idOf } from '../support/page-records.ts';
import type { Found, TextSearchPage } from '../../src/web/wire.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

const request = 'GET /api/v1/search';
const { service, window } = await openPages(181);
beforeEach(async () => {
  service.answers.clear();
  service.snapshots = [
    {
      ...everyKind(),
      conversations: [aConversation(2, { title: 'Write docs' })],
      sandboxes: [],
      start_tasks: [],
      quota: aQuota(),
      last: true,
    },
  ];
  window.faults();
  await window.page.setViewportSize({ width: 1280, height: 800 });
  await window.page.emulateMedia({ colorScheme: 'light' });
  await window.page.goto(service.url);
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});

const found = (fields: Partial<Found> = {}): Found => ({
  conversation_id: idOf(2),
  title: 'Write docs',
  where: 'event',
  event_id: 'e 1',
  kind: 'MessageEvent',
  timestamp: '2026-01-02T03:04:05.678',
  snippet: '… I will Retry the upload <img src=x onerror=alert(1)> …',
  ...fields,
});
const pages: readonly TextSearchPage[] = [
  {
    items: [found(), found({ event_id: 'e2', snippet: 'retry' })],
    next_page_id: 'next',
    searched: { conversations: 300, of: 1_000, incomplete: 1 },
  },
  {
    items: [
      found({
        conversation_id: idOf(3),
        title: 'Retry uploads \u202eevil',
        where: 'title',
        event_id: null,
        kind: null,
        timestamp: null,
        snippet: 'Retry uploads',
      }),
    ],
    next_page_id: null,
    searched: { conversations: 1_000, of: 1_000, incomplete: 0 },
  },
];
const answerPages = () =>
  service.answers.set(request, (query: URLSearchParams) => ({
    status: 200,
    json: query.get('page_id') === null ? pages[0] : pages[1],
  }));

it('finds what was said and done, and leads to it, with the keyboard alone', async () => {
  const { page } = window;
  answerPages();
  const asked = page.waitForRequest('**/api/v1/search?*');
  await page.keyboard.press('/');
  await page.keyboard.type('retry');
  await page.keyboard.press('Enter');
  expect(new URL((await asked).url()).searchParams.get('q')).toBe('retry');
  await page.getByText('3 places. Searched 1,000 of 1,000 conversations.').waitFor();
  const results = page.locator('.search-results');
  expect(await results.locator('h3').allInnerTexts()).toEqual([
    'Write docs',
    'Retry uploads \u202eevil',
  ]);
  expect(await results.locator('mark').allInnerTexts()).toEqual(['Retry', 'retry', 'Retry']);
  expect(await results.locator('img').count()).toBe(0);
  const links = results.getByRole('link');
  const addresses = await Promise.all((await links.all()).map((link) => link.getAttribute('href')));
  expect(addresses).toEqual([
    `/c/${idOf(2)}?event=e+1&find=retry&near=${new URLSearchParams({ near: found().snippet }).toString().slice(5)}`,
    `/c/${idOf(2)}?event=e2&find=retry&near=retry`,
    `/c/${idOf(3)}`,
  ]);
  await page.getByText('Of 1 of them, some events may be missing').waitFor();
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await violationsIn(page)).toEqual([]);
    await window.picture(`a search in ${colorScheme}`);
  }
  await page.setViewportSize({ width: 360, height: 740 });
  expect(
    await page.evaluate<number>(
      'document.documentElement.scrollWidth - document.documentElement.clientWidth',
    ),
  ).toBe(0);
  await window.picture('a search on a phone');
  await results.getByRole('button', { name: 'Close' }).click();
  expect(await results.count()).toBe(0);
});

it('says what has failed, and continues', async () => {
  const { page } = window;
  service.answers.set(request, {
    status: 429,
    json: { code: 'share-exceeded', detail: 'You have another search under way.' },
  });
  await page.getByLabel('Search conversations').fill('retry');
  await page.getByRole('button', { name: 'Search for “retry”' }).click();
  await page.getByText('You have another search under way.').waitFor();
  expect(await violationsIn(page)).toEqual([]);
  answerPages();
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('3 places. Searched 1,000 of 1,000 conversations.').waitFor();
  window.faults();
});

it('reads 50 places at a time, and continues', async () => {
  const { page } = window;
  let read = 0;
  service.answers.set(request, () => ({
    status: 200,
    json: {
      items: Array.from({ length: 30 }, (_, index) => found({ event_id: `${read}-${index}` })),
      next_page_id: `page-${++read}`,
      searched: { conversations: read, of: 1_000, incomplete: 0 },
    } satisfies TextSearchPage,
  }));
  await page.getByLabel('Search conversations').fill('retry');
  await page.keyboard.press('Enter');
  await page.getByText('60 places. Searched 2 of 1,000 conversations.').waitFor();
  expect(read).toBe(2);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('120 places. Searched 4 of 1,000 conversations.').waitFor();
});
