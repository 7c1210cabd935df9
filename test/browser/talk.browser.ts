import { aConversation, aQuota, everyKind, idOf } from '../support/page-records.ts';
import type { ConversationRecord } from '../../src/web/wire.ts';
import { violationsIn } from './support/accessibility.ts';
import { type Answer } from './support/fake-service.ts';
import { openPages } from './support/pages.ts';

const id = idOf(2);
const title = 'Fix the <img src=x onerror=alert(1)> login';
const base = `GET /api/v1/conversation/${id}/events`;

const { service, window } = await openPages(161);
const have = (fields: Partial<ConversationRecord> = {}) => {
  const { conversations, ...others } = everyKind();
  const own = aConversation(2, { title, ...fields });
  service.snapshots = [
    {
      ...others,
      conversations: [own, ...conversations.filter((one) => one.id !== id)],
      quota: aQuota(),
      last: true,
    },
  ];
};
beforeEach(async () => {
  have();
  service.calls.length = 0;
  service.answers.clear();
  window.faults();
  await window.page.setViewportSize({ width: 1280, height: 800 });
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});

interface StoredEvent {
  readonly id: string;
  readonly timestamp: string;
}
const ok = (json: unknown): Answer => ({ status: 200, json });
const timeOf = (number: number) =>
  new Date(Date.UTC(2026, 0, 1) + number * 1_000).toISOString().replace('Z', '000');
const message = (number: number, text = `Line ${number}.`) => ({
  kind: 'MessageEvent',
  id: `e${number}`,
  source: 'agent',
  timestamp: timeOf(number),
  llm_message: { role: 'agent', content: [{ type: 'text', text }] },
});
const numbered = (count: number) => Array.from({ length: count }, (_, number) => message(number));

/** Answers as the service does for a conversation with these events, oldest first. */
function store(events: readonly StoredEvent[]): void {
  service.answers.set(`${base}/search`, (query) => {
    const ordered = query.get('sort_order') === 'TIMESTAMP' ? events : events.toReversed();
    const from = query.get('page_id');
    const start = from === null ? 0 : ordered.findIndex((event) => event.id === from);
    const end = start + Number(query.get('limit'));
    return ok({ items: ordered.slice(start, end), next_page_id: ordered[end]?.id ?? null });
  });
  service.answers.set(`${base}/count`, (query) => {
    const from = query.get('timestamp__gte') ?? '';
    const before = query.get('timestamp__lt') ?? '9';
    return ok(events.filter(({ timestamp }) => timestamp >= from && timestamp < before).length);
  });
  service.answers.set(base, (query) =>
    ok(query.getAll('id').map((wanted) => events.find((event) => event.id === wanted) ?? null)),
  );
}
const open = async (path = `/c/${id}`) => {
  await window.page.goto(service.url + path);
};
/** The numbers of the lines in the list, with 'gap' where events are not shown. */
const shown = async (): Promise<readonly (number | 'gap')[]> => {
  const texts = await window.page.locator('.history > :is(article, .gap)').allTextContents();
  return texts.map((text) =>
    text.startsWith('…') ? 'gap' : Number(/Line (\d+)/.exec(text)?.[1] ?? Number.NaN),
  );
};
const range = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, index) => from + index);
const isInView = async (text: string): Promise<boolean> => {
  const box = await window.page.getByText(text, { exact: true }).boundingBox();
  return box !== null && box.y > 80 && box.y + box.height < 800;
};
const focused = () => window.page.locator(':focus');
/** Expects that axe finds nothing in the page, and that it fits a phone. */
async function expectReadable(name: string): Promise<void> {
  const { page } = window;
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await violationsIn(page)).toEqual([]);
    await window.picture(`${name} ${colorScheme}`);
  }
  await page.setViewportSize({ width: 360, height: 740 });
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360);
  expect(await violationsIn(page)).toEqual([]);
  await window.picture(`${name} 360`);
  await page.setViewportSize({ width: 1280, height: 800 });
}

describe('the beginning of a long history', () => {
  it('is one step away, and what is between is marked and shown on demand', async () => {
    const { page } = window;
    store(numbered(230));
    await open();
    await page.getByText('Line 229.').waitFor();
    const jump = page.getByRole('button', { name: 'Jump to first' });
    await jump.focus();
    await page.keyboard.press('Enter');
    await page.getByText('… 130 events not shown').waitFor({ state: 'attached' });
    expect(await shown()).toEqual([...range(0, 50), 'gap', ...range(180, 230)]);
    expect(await isInView('Line 0.')).toBe(true);
    expect(await focused().innerText()).toContain('Line 0.');
    expect(await page.getByRole('button', { name: 'Older events' }).count()).toBe(0);
    await expectReadable('the beginning of a history');
    const show = page.getByRole('button', { name: 'Show', exact: true });
    await show.focus();
    await page.keyboard.press('Enter');
    await page.getByText('… 80 events not shown').waitFor({ state: 'attached' });
    expect(await shown()).toEqual([...range(0, 100), 'gap', ...range(180, 230)]);
    expect(await focused().innerText()).toContain('Line 50.');
    await page.getByText('… 80 events not shown').scrollIntoViewIfNeeded();
    await window.picture('events that are not shown');
    await show.click();
    await page.getByText('… 30 events not shown').waitFor({ state: 'attached' });
    await show.click();
    await page.locator('.gap').waitFor({ state: 'detached' });
    expect(await shown()).toEqual(range(0, 230));
    expect(await focused().innerText()).toContain('Line 150.');
    await page.getByRole('button', { name: 'Jump to latest' }).click();
    await page.getByRole('button', { name: 'Jump to latest' }).waitFor({ state: 'detached' });
    expect(await isInView('Line 229.')).toBe(true);
  });

  it('keeps its place while the agent says more at the end', async () => {
    const { page } = window;
    store(numbered(230));
    await open();
    await page.getByRole('button', { name: 'Jump to first' }).click();
    await page.getByText('… 130 events not shown').waitFor({ state: 'attached' });
    store(numbered(232));
    service.emit('conversation', aConversation(2, { title, execution_status: 'finished' }));
    await page.getByText('Line 231.').waitFor({ state: 'attached' });
    expect(await shown()).toEqual([...range(0, 50), 'gap', ...range(180, 232)]);
    expect(await page.getByText('… 130 events not shown').count()).toBe(1);
    expect(await isInView('Line 0.')).toBe(true);
  });

  it('needs no gap where it reaches the latest events, and says of no call that it runs still', async () => {
    const { page } = window;
    store(numbered(70));
    await open();
    await page.getByRole('button', { name: 'Jump to first' }).click();
    await page.getByText('Line 0.').waitFor();
    expect(await shown()).toEqual(range(0, 70));
    const call = {
      kind: 'ActionEvent',
      id: 'call',
      source: 'agent',
      tool_name: 'terminal',
      tool_call_id: '1',
      timestamp: timeOf(49),
      action: { kind: 'TerminalAction', command: 'make' },
    };
    const result = {
      kind: 'ObservationEvent',
      id: 'result',
      tool_call_id: '1',
      timestamp: timeOf(50),
      observation: { content: [{ type: 'text', text: 'built' }] },
    };
    store([...numbered(49), call, result, ...numbered(230).slice(51)]);
    await open();
    await page.getByRole('button', { name: 'Jump to first' }).click();
    await page.getByText('Result not shown').waitFor({ state: 'attached' });
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await page.locator('.tool-state', { hasText: 'Done' }).waitFor({ state: 'attached' });
    expect(await page.getByText('Result not shown').count()).toBe(0);
  });

  it('says why it can not be read', async () => {
    const { page } = window;
    store(numbered(230));
    await open();
    await page.getByText('Line 229.').waitFor();
    service.answers.set(`${base}/search`, {
      status: 502,
      json: { code: 'agent-error', detail: 'The agent has answered HTML.' },
    });
    await page.getByRole('button', { name: 'Jump to first' }).click();
    await page.getByText('The agent has answered HTML.').waitFor();
    expect(await shown()).toEqual(range(180, 230));
    window.faults();
  });
});

describe('an address with an event', () => {
  it('opens the history there, with its surroundings', async () => {
    const { page } = window;
    store(numbered(400));
    await open(`/c/${id}?event=e120`);
    await page.locator('[data-marked]', { hasText: 'Line 120.' }).waitFor();
    await page.getByText('… 180 events not shown').waitFor({ state: 'attached' });
    expect(await shown()).toEqual([...range(71, 170), 'gap', ...range(350, 400)]);
    expect(await isInView('Line 120.')).toBe(true);
    expect(await focused().innerText()).toContain('Line 120.');
    await expectReadable('the event of an address');
    await page.getByRole('button', { name: 'Older events' }).click();
    await page.getByText('Line 21.').waitFor({ state: 'attached' });
    expect(await shown()).toEqual([...range(21, 170), 'gap', ...range(350, 400)]);
    await page.getByRole('button', { name: 'Jump to first' }).click();
    await page.locator('[data-marked]', { hasText: 'Line 0.' }).waitFor();
    expect(await shown()).toEqual([...range(0, 50), 'gap', ...range(350, 400)]);
  });

  it('scrolls to the place that a search has found in a long output', async () => {
    const { page } = window;
    const lines = Array.from({ length: 400 }, (_, index) => `line ${index} of all`);
    lines[301] = 'line 301: we will retry the upload';
    const command = { kind: 'TerminalAction', command: 'grep retry log' };
    store(
      [
        ...numbered(3),
        { kind: 'ActionEvent', id: 'call', timestamp: timeOf(3), action: command },
        {
          kind: 'ObservationEvent',
          id: 'result',
          timestamp: timeOf(4),
          tool_call_id: '1',
          observation: { content: [{ type: 'text', text: lines.join('\n') }] },
        },
      ].map((event) => ({ tool_name: 'terminal', tool_call_id: '1', source: 'agent', ...event })),
    );
    const near = 'line 301: we will retry the upload line 302';
    await open(
      `/c/${id}?${new URLSearchParams({ event: 'result', find: 'retry', near }).toString()}`,
    );
    const scrolled = () =>
      page.evaluate<number>(
        "document.querySelector('[data-marked] pre[aria-label^=Output]')?.scrollTop ?? 0",
      );
    for (let tries = 0; tries < 100 && (await scrolled()) === 0; tries++)
      await page.waitForTimeout(50);
    expect(await scrolled()).toBeGreaterThan(1_000);
    // In the name of the call, its input and its output.
    expect(await page.evaluate<number>("CSS.highlights.get('found').size")).toBe(3);
    await expectReadable('a place in a long output');
  });

  it('opens the entry that has the event, also a folded one', async () => {
    const { page } = window;
    const result = {
      kind: 'ObservationEvent',
      id: 'result',
      tool_call_id: '1',
      timestamp: timeOf(3),
      observation: { content: [{ type: 'text', text: 'built' }] },
    };
    const call = {
      kind: 'ActionEvent',
      id: 'call',
      source: 'agent',
      tool_name: 'terminal',
      tool_call_id: '1',
      timestamp: timeOf(2),
      action: { kind: 'TerminalAction', command: 'make' },
    };
    store([message(0), message(1), call, result, message(4)]);
    await open(`/c/${id}?event=result`);
    await page.getByText('built').waitFor();
    expect(await page.locator('[data-marked] summary').innerText()).toContain('make');
    expect(await page.locator('[data-marked] > summary:focus').count()).toBe(1);
  });

  it.each([['gone'], ['"><img src=x onerror=alert(1)>']])(
    'says that %s does not exist any more',
    async (event) => {
      const { page } = window;
      store(numbered(60));
      await open(`/c/${id}?event=${encodeURIComponent(event)}`);
      await page.getByText('This event does not exist any more.').waitFor();
      expect(await shown()).toEqual(range(10, 60));
      expect(await page.locator('main img').count()).toBe(0);
      await expectReadable('an event that is gone');
    },
  );

  it('says that it can not be read, and tries again', async () => {
    const { page } = window;
    store(numbered(200));
    service.answers.set(base, { status: 502, json: { detail: 'The agent has answered HTML.' } });
    await open(`/c/${id}?event=e9`);
    await page.getByText('The agent has answered HTML.').waitFor();
    window.faults();
    store(numbered(200));
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.locator('[data-marked]', { hasText: 'Line 9.' }).waitFor();
    expect(await page.getByRole('alert').count()).toBe(0);
  });
});

it('is not copied where the browser does not permit that, which the page says', async () => {
  const { page } = window;
  store(numbered(2));
  await open();
  // As in a page without TLS.
  await page.evaluate(`Object.defineProperty(navigator, 'clipboard', { value: undefined })`);
  await page.getByRole('button', { name: 'Copy as Markdown' }).click();
  await page.getByText('The browser does not permit copying.').waitFor();
  expect(await page.getByRole('button', { name: 'Copied' }).count()).toBe(0);
  await expectReadable('a history that is not copied');
});

describe('the search in a history', () => {
  const field = () => window.page.getByLabel('Text to find in all events');
  const state = (text: string) => window.page.locator('.find-state', { hasText: text });

  it('finds a text in what is not loaded and in what is folded, with the keyboard alone', async () => {
    const { page } = window;
    const events = numbered(420);
    const hostile = 'the Retry (v2) <img src=x onerror=alert(1)>';
    const thought = {
      kind: 'ConversationStateUpdateEvent',
      id: 't',
      timestamp: timeOf(200),
      key: 'thought',
      value: 'maybe a retry (v2)?',
    };
    store([
      ...events.slice(0, 20),
      message(20, hostile),
      ...events.slice(21, 200),
      thought,
      ...events.slice(201, 410),
      message(410, 'RETRY (V2) it is'),
      ...events.slice(411),
    ]);
    await open();
    await page.getByText('Line 419.').waitFor();
    await page.keyboard.press('f');
    await field().waitFor();
    await page.keyboard.type('retry (v2)');
    await page.keyboard.press('Enter');
    await state('Hit 1 of 3 in 420 events').waitFor();
    await page.locator('[data-marked]', { hasText: hostile }).waitFor();
    expect(await state(hostile).count()).toBe(1);
    expect(await page.locator('.find-state mark').innerText()).toBe('Retry (v2)');
    expect(await page.locator('main img').count()).toBe(0);
    // The policy of the page has no eval, by which Playwright would wait for an expression.
    const marks = () => page.evaluate<number>("CSS.highlights.get('found')?.size ?? 0");
    for (let tries = 0; tries < 100 && (await marks()) === 0; tries++)
      await page.waitForTimeout(50);
    expect(await marks()).toBe(1);
    await expectReadable('a hit in a history');
    // The field keeps the focus, so that Enter continues.
    await page.keyboard.press('Enter');
    await page.locator('details[data-marked][open]', { hasText: 'maybe a retry' }).waitFor();
    await page.keyboard.press('Enter');
    await page.locator('[data-marked]', { hasText: 'RETRY (V2) it is' }).waitFor();
    await state('Hit 3 of 3').waitFor();
    await page.keyboard.press('Shift+Enter');
    await state('Hit 2 of 3').waitFor();
    await page.keyboard.press('Escape');
    await field().waitFor({ state: 'detached' });
    await page.locator('summary:focus', { hasText: 'Thought' }).waitFor();
  });

  it('shows how far it is, stops and continues', async () => {
    const { page } = window;
    store(numbered(5_000));
    const search = service.answers.get(`${base}/search`);
    const held = Promise.withResolvers<undefined>();
    service.answers.set(`${base}/search`, async (query) => {
      if (query.get('page_id') === 'e1200') await held.promise;
      if (typeof search !== 'function') throw new Error('There are no events.');
      return search(query);
    });
    await open();
    await page.getByRole('button', { name: 'Find', exact: true }).click();
    await field().fill('line 4999.');
    await page.keyboard.press('Enter');
    await state('Searched 1,200 of 5,000 events').waitFor();
    await window.picture('a search under way');
    await page.getByRole('button', { name: 'Stop', exact: true }).last().click();
    await page.getByRole('button', { name: 'Continue' }).waitFor();
    held.resolve(undefined);
    window.faults();
    await page.getByRole('button', { name: 'Continue' }).click();
    await state('Hit 1 of 1 in 5,000 events').waitFor();
    // The search has read every event, and the list has kept none but those around the hit.
    expect((await shown()).length).toBeLessThan(150);
    await field().fill('nowhere');
    await page.keyboard.press('Enter');
    await state('Not found in 5,000 events').waitFor();
    expect(await violationsIn(page)).toEqual([]);
  });

  it('says that a page could not be read, and continues there', async () => {
    const { page } = window;
    store(numbered(250));
    await open();
    await page.getByRole('button', { name: 'Find', exact: true }).click();
    const list = service.answers.get(`${base}/search`);
    // Reads of the list itself succeed.
    service.answers.set(`${base}/search`, (query) =>
      query.get('sort_order') === 'TIMESTAMP' || typeof list !== 'function'
        ? { status: 503, json: { detail: 'Try again later.' } }
        : list(query),
    );
    await field().fill('line 7.');
    await page.keyboard.press('Enter');
    await page.getByText('Try again later.').waitFor();
    expect(await violationsIn(page)).toEqual([]);
    window.faults();
    store(numbered(250));
    await page.getByRole('button', { name: 'Try again' }).click();
    await state('Hit 1 of 1 in 250 events').waitFor();
  });

  it('says that a place is in a part of an event that the page does not show', async () => {
    const { page } = window;
    store([message(0, `${'x'.repeat(30_000)} needle`), ...numbered(3).slice(1)]);
    await open();
    await page.getByRole('button', { name: 'Find', exact: true }).click();
    await field().fill('needle');
    await page.keyboard.press('Enter');
    await page.getByText('This part of the event is not shown on the page.').waitFor();
  });

  it('leaves the keys to a field and to the browser', async () => {
    const { page } = window;
    store(numbered(3));
    await open();
    await page.getByLabel('Message', { exact: true }).click();
    await page.keyboard.type('f');
    expect(await page.getByLabel('Message', { exact: true }).inputValue()).toBe('f');
    expect(await field().count()).toBe(0);
    await page.keyboard.press('Escape');
    await page.keyboard.press('Control+f');
    expect(await field().count()).toBe(0);
  });
});

describe('an answer to a question', () => {
  const asking = (fields: Partial<ConversationRecord['pending_approval']> = {}) =>
    aConversation(2, {
      title,
      execution_status: 'waiting_for_confirmation',
      pending_approval: {
        id: 'a1',
        conversation_id: id,
        title: 'ls',
        kind: 'execute',
        tool: 'terminal',
        summary: 'ls',
        complete: true,
        sandbox_status: 'RUNNING',
        notice: null,
        decided_by: 'Owner',
        requested_at: new Date().toISOString(),
        options: [
          { id: 'approve', name: 'Approve', kind: 'allow_once' },
          { id: 'reject', name: 'Reject', kind: 'reject_once' },
        ],
        ...fields,
      },
    });

  it.each<[string, string, object, string]>([
    ['RUNNING', 'recorded', {}, 'Stored. The agent gets it in a moment.'],
    ['PAUSED', 'recorded', {}, 'Stored. The sandbox resumes and the agent gets it.'],
    ['PAUSED', 'recorded', { notice: 'The agent asks again.' }, 'Stored. The agent asks again.'],
    ['RUNNING', 'delivered', {}, 'The agent has your answer.'],
  ])('of a %s sandbox that is %s has words until the next event', async (...row) => {
    const [status, stored, fields, words] = row;
    const { page } = window;
    store(numbered(3));
    have(asking({ sandbox_status: status as 'RUNNING' }));
    service.answers.set(
      `POST /api/v1/app-conversations/${id}/approvals/a1`,
      ok({ success: true, state: stored, notice: null, ...fields }),
    );
    await open();
    await page.locator('button[aria-disabled=false]', { hasText: 'Approve' }).click();
    const line = page.getByText(words, { exact: true });
    await line.waitFor();
    expect(await focused().innerText()).toBe(words);
    expect(window.announced).toContain(words);
    if (stored === 'recorded') await expectReadable('a stored answer');
    store(numbered(4));
    service.emit('conversation', aConversation(2, { title, execution_status: 'running' }));
    await page.getByText('Line 3.').waitFor();
    await line.waitFor({ state: 'detached' });
  });
});

describe('a deleted conversation', () => {
  const gone = () => window.page.getByRole('heading', { name: `“${title}” was deleted.` });

  it('says so where it was deleted', async () => {
    const { page } = window;
    store(numbered(3));
    await open();
    await page.getByRole('button', { name: /^More for/ }).click();
    await page.getByRole('button', { name: 'Delete…' }).click();
    const answered = page.waitForResponse((response) => response.request().method() === 'DELETE');
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await answered;
    service.emit('removed', { kind: 'conversation', id });
    await gone().waitFor();
    expect(await focused().innerText()).toBe(`“${title}” was deleted.`);
    expect(await page.locator('main img').count()).toBe(0);
    expect(await page.getByText('There is nothing at this address.').count()).toBe(0);
    await expectReadable('a conversation that was deleted');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.waitForURL(`${service.url}/`);
  });

  it('says so where it was open', async () => {
    const { page } = window;
    store(numbered(3));
    await open();
    await page.getByText('Line 2.').waitFor();
    service.emit('removed', { kind: 'conversation', id });
    await gone().waitFor();
  });
});

it('shows the life of a conversation in a view of its own, and asks for it there alone', async () => {
  const { page } = window;
  store(numbered(3));
  const asked: string[] = [];
  page.on('request', (request) => {
    if (/\/(timeline|resources)$/.test(request.url())) asked.push(request.url());
  });
  await open();
  await page.getByText('Line 2.').waitFor();
  expect(asked).toEqual([]);
  await page.getByRole('tab', { name: 'Events' }).focus();
  await page.keyboard.press('End');
  await page.getByRole('heading', { name: 'Life of the conversation' }).waitFor();
  expect(new URL(page.url()).search).toBe('?view=life');
  expect(await page.getByRole('tabpanel').count()).toBe(1);
  await page.getByText('In the cluster').click();
  await page.getByText(`kubectl -n default describe conversation ${id}`).waitFor();
  await expectReadable('the view of a life');
});
