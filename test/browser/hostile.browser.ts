import { aQuota, aTask, everyKind, idOf } from '../support/page-records.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

/** A text that runs, loads or leads elsewhere wherever a page takes it for more than text. */
const hostile = [
  `"'><script>globalThis.owned = 1</script>`,
  `<img src="http://evil.example/x.png" onerror="globalThis.owned = 2">`,
  `<svg onload="globalThis.owned = 3"></svg><iframe srcdoc="<script>parent.owned = 4</script>">`,
  `</title></textarea></style><base href="http://evil.example/">`,
  `[link](javascript:globalThis.owned=5) ![picture](http://evil.example/y.png)`,
  `<a href="javascript:globalThis.owned=6">link</a> {{globalThis.owned=7}} \u202e\u0000`,
].join(' ');

/** Fields whose texts come from agents, repositories and people, or have these in them. */
const texts: ReadonlySet<string> = new Set([
  ...['title', 'selected_repository', 'selected_branch', 'llm_model', 'sandbox_status_reason'],
  ...['execution_status_detail', 'status_detail', 'sandbox_spec_id', 'detail', 'error', 'output'],
  ...['text', 'reason', 'quota', 'name', 'display_name', 'description', 'full_name', 'message'],
  ...['command', 'path', 'content', 'tool_name', 'summary', 'rejection_reason', 'code'],
]);

const made = <T>(value: T): T =>
  JSON.parse(
    JSON.stringify(value, (key, inner: unknown) =>
      texts.has(key) && (typeof inner === 'string' || inner === null) ? hostile : inner,
    ),
  ) as T;

const event = (id: string, fields: object) => made({ id, source: 'agent', ...fields });
const events = [
  event('1', { kind: 'MessageEvent', llm_message: { content: [{ text: '' }] } }),
  event('2', {
    kind: 'ActionEvent',
    tool_call_id: 'a',
    tool_name: '',
    thought: [{ text: '' }],
    action: { kind: hostile, path: '', command: '' },
  }),
  event('3', { kind: 'ObservationEvent', tool_call_id: 'a', observation: { content: '' } }),
  event('4', { kind: 'AgentErrorEvent', tool_call_id: 'b', error: '' }),
  event('5', { kind: 'UserRejectObservation', tool_call_id: 'c', rejection_reason: '' }),
  event('6', { kind: 'ConversationErrorEvent', detail: '', code: '' }),
  event('7', {
    kind: 'MessageEvent',
    timestamp: hostile,
    llm_message: { content: [{ text: '', image_urls: [`data:image/svg+xml,${hostile}`] }] },
  }),
];

const { service, window } = await openPages(97);
beforeEach(() => {
  const records = everyKind();
  const step = { name: 'setup', state: 'running', exit_code: 1, output: '' } as const;
  const times = { started_at: new Date().toISOString(), ended_at: null };
  const starting = aTask(3, { status: 'SETTING_UP_SKILLS', steps: [{ ...step, ...times }] });
  const tasks = records.start_tasks.map((task) => (task.id === starting.id ? starting : task));
  service.snapshots = [
    { ...made({ ...records, start_tasks: tasks, quota: aQuota() }), last: true },
  ];
  service.answers.clear();
  const page = { next_page_id: null };
  for (const [path, item] of [
    [
      'sandbox-specs/search',
      {
        id: hostile,
        display_name: '',
        description: '',
        invalid_reason: hostile,
        allowed_models: [hostile],
      },
    ],
    ['git/repositories/search', { full_name: '' }],
    ['git/branches/search', { name: '' }],
  ] as const)
    service.answers.set(`GET /api/v1/${path}`, {
      status: 200,
      json: { ...page, items: [made(item)] },
    });
  service.answers.set(`GET /api/v1/conversation/${idOf(1)}/events/search`, {
    status: 200,
    json: { ...page, items: events.toReversed() },
  });
});

/** Expects that the page shows hostile texts, and that these are texts. */
async function expectTexts(): Promise<void> {
  const { page } = window;
  expect(await page.getByText('globalThis.owned = 2').count()).toBeGreaterThan(3);
  expect(await page.evaluate('globalThis.owned')).toBeUndefined();
  const foreign =
    'img, iframe, object, embed, base, meta[http-equiv], body script, [srcdoc], [style*="url"]';
  expect(await page.locator(foreign).count()).toBe(0);
  const handlers = `[...document.querySelectorAll('*')].flatMap((element) =>
    element.getAttributeNames().filter((name) => name.startsWith('on')))`;
  expect(await page.evaluate(handlers)).toEqual([]);
  const links = await page.evaluate<readonly string[]>(
    "[...document.querySelectorAll('[href], [src], [action]')].map((element) => element.getAttribute('href') ?? element.getAttribute('src') ?? element.getAttribute('action'))",
  );
  for (const link of links)
    expect(link).toMatch(
      /^(\/|#|data:image\/svg\+xml,%3Csvg%20xmlns|http:\/\/evil\.example\/y\.png$)/,
    );
  expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
  expect(await violationsIn(page)).toEqual([]);
  expect([...window.outside]).toEqual([]);
}

it('shows hostile texts of all records as texts in the list, its forms and its menus', async () => {
  const { page } = window;
  await page.goto(service.url);
  await page.getByRole('heading', { name: 'Needs you' }).waitFor();
  await page.getByLabel('Filter by repository').focus();
  await page.getByLabel('Repository', { exact: true }).focus();
  await page.locator('#repository-values option').first().waitFor({ state: 'attached' });
  service.answers.set('POST /api/v1/app-conversations', {
    status: 422,
    json: { detail: hostile, errors: [{ path: 'body.selected_repository', message: hostile }] },
  });
  await page.getByLabel('Message').fill(hostile);
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await page.locator('#repository-problem').waitFor();
  await expectTexts();
  await page.getByRole('button', { name: /^More/ }).first().click();
  await page.getByRole('button', { name: 'Rename' }).click();
  await expectTexts();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: /^More/ }).nth(1).click();
  await page.getByRole('button', { name: 'Delete…' }).click();
  await expectTexts();
  await window.picture('hostile list');
});

it.each([
  ['an agent that works', 1],
  ['a start', 3],
  ['a failed start', 8],
])('shows hostile texts of %s as texts on its page', async (_what, number) => {
  const { page } = window;
  await page.goto(`${service.url}/c/${idOf(number)}`);
  await page.getByRole('heading', { level: 1 }).waitFor();
  if (number === 1) await page.locator('.notice').first().waitFor();
  await page.evaluate(
    "for (const element of document.querySelectorAll('details')) element.open = true",
  );
  await expectTexts();
  await window.picture(`hostile page ${number}`);
});

const noList = 'The answer of the agent is no list of events.';
const good = { id: '1', kind: 'PauseEvent' };
it.each<[string, unknown, string]>([
  ['nothing', null, noList],
  ['a text', 'x', noList],
  ['no items', {}, noList],
  ['items that are no list', { items: { length: 1 }, next_page_id: null }, noList],
  ['items that are no events', { items: [null, 7, 'x', [], good] }, 'The run was interrupted.'],
  [
    'ids of any type',
    { items: [{ ...good, id: {} }], next_page_id: { toString: 1 } },
    'The run was interrupted.',
  ],
  [
    'fields of any type',
    { items: [{ kind: 'MessageEvent', llm_message: [], timestamp: 1, id: 7 }, good] },
    'The run was interrupted.',
  ],
  [
    'a page that leads to itself',
    { items: [good], next_page_id: 'again' },
    'The run was interrupted.',
  ],
])('survives an agent that answers with %s for its events', async (_what, json, text) => {
  const { page } = window;
  service.answers.set(`GET /api/v1/conversation/${idOf(1)}/events/search`, { status: 200, json });
  window.faults();
  await page.goto(`${service.url}/c/${idOf(1)}`);
  await page.getByText(text).first().waitFor();
  const older = page.getByRole('button', { name: 'Older events' });
  if ((await older.count()) > 0) await older.click();
  expect(await page.getByText('The run was interrupted.').count()).toBe(text === noList ? 0 : 1);
  expect(window.faults()).toEqual([]);
  expect(await violationsIn(page)).toEqual([]);
});
