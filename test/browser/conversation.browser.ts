import { readFileSync } from 'node:fs';
import {
  aConversation,
  aQuota,
  aSandbox,
  aTask,
  anAccount,
  everyKind,
  idOf,
} from '../support/page-records.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

const id = idOf(2);
const events = `GET /api/v1/conversation/${id}/events/search`;
const title = 'Fix the <img src=x onerror=alert(1)> login';

const { service, window } = await openPages(71);
beforeEach(() => {
  const { conversations, ...others } = everyKind();
  const own = aConversation(2, { title });
  service.snapshots = [
    {
      ...others,
      conversations: [own, ...conversations.filter((one) => one.id !== id)],
      quota: aQuota(),
      last: true,
    },
  ];
  service.calls.length = 0;
  service.answers.clear();
  window.faults();
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});

const message = (number: number, text: string, source = 'agent') => ({
  kind: 'MessageEvent',
  id: `event-${number}`,
  source,
  timestamp: `2026-01-01T10:00:${String(number % 60).padStart(2, '0')}.000000`,
  llm_message: { role: source, content: [{ type: 'text', text }] },
});
/** A page of the service, with the newest event first. */
const pageOf = (items: readonly object[], next: string | null = null) => ({
  status: 200,
  json: { items: [...items].reverse(), next_page_id: next },
});
const open = async (path = `/c/${id}`) => {
  await window.page.goto(service.url + path);
};
const numbered = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, index) => message(from + index, `Line ${from + index}.`));

it('shows texts of agents, repositories and people as texts', async () => {
  const { page } = window;
  const hostile = '<script>document.title = "owned"</script><img src=x onerror=alert(2)>';
  service.answers.set(
    events,
    pageOf([
      message(1, hostile, 'user'),
      {
        kind: 'ActionEvent',
        id: 'a',
        source: 'agent',
        tool_name: hostile,
        tool_call_id: '1',
        thought: [{ text: hostile }],
        action: { kind: 'FileAction', path: hostile },
      },
      { kind: 'ObservationEvent', id: 'o', tool_call_id: '1', observation: { content: hostile } },
      { kind: 'ConversationErrorEvent', id: 'e', detail: hostile },
    ]),
  );
  await open();
  await page.getByRole('heading', { name: title }).waitFor();
  await page.locator('.notice', { hasText: '<script>' }).waitFor();
  await page.locator('details.tool').locator('summary').click();
  await page.locator('details.tool pre').first().waitFor();
  expect(await page.locator('main img, main script').count()).toBe(0);
  expect(await page.title()).toBe(`(2) ${title}`);
  expect(await violationsIn(page)).toEqual([]);
  await window.picture('hostile texts');
});

it('shows Markdown by elements, and opens no link but those of the web', async () => {
  const { page } = window;
  const text = [
    '## Result',
    'All **four** tests pass, see [the run](https://ci.example/1) and [this](javascript:alert(1)).',
    '![a picture](https://evil.example/pixel.png) <img src="https://evil.example/x.png">',
    '',
    '- [x] read `src/login.ts`\n- [ ] push\n\n1. one\n2. two',
    '',
    '| file | lines |\n|---|---|\n| a.ts | 3 |',
    '',
    '> quoted\n\n---\n\n```ts\nconst a = "<b>";\n```',
  ].join('\n');
  service.answers.set(events, pageOf([message(1, text)]));
  await open();
  await page.getByRole('link', { name: 'the run' }).waitFor();
  const links = await page.evaluate(
    "[...document.querySelectorAll('.message-text a')].map((a) => a.getAttribute('href') + ' ' + a.rel)",
  );
  expect(links).toEqual([
    'https://ci.example/1 noopener noreferrer',
    'https://evil.example/pixel.png noopener noreferrer',
  ]);
  expect(await page.locator('.message-text img').count()).toBe(0);
  expect(await page.locator('.message-text pre').innerText()).toBe('const a = "<b>";');
  expect(await page.locator('.message-text td').allInnerTexts()).toEqual(['a.ts', '3']);
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await violationsIn(page)).toEqual([]);
  }
  await window.picture('Markdown');
});

it('links to the pull requests, and shows their states and how these change', async () => {
  const { page } = window;
  const pull = (number: number, changes: object = {}) => ({
    number,
    url: `https://git.example.com/acme/app/pulls/${number}`,
    provider: 'forgejo',
    title: 'Fix the login',
    head: `agent/${number}`,
    base: 'main',
    draft: false,
    state: 'open' as const,
    ...changes,
  });
  service.answers.set(events, pageOf([]));
  await open();
  // A change before the stream of the page is open would be lost.
  await page.getByRole('heading', { name: title }).waitFor();
  service.emit(
    'conversation',
    aConversation(2, {
      title,
      pull_requests: [
        pull(12, { draft: true }),
        pull(13, { url: 'javascript:alert(1)', state: 'merged' }),
      ],
    }),
  );
  const link = page.getByRole('link', { name: 'Pull request #12' });
  await link.waitFor();
  expect(await link.getAttribute('href')).toBe('https://git.example.com/acme/app/pulls/12');
  expect(await page.locator('.pull-request').allTextContents()).toEqual([
    'Pull request #12 draft',
    'Pull request #13 merged',
  ]);
  expect(await page.locator('.pull-request a').count()).toBe(1);
  await window.picture('pull requests');
  expect(await violationsIn(page)).toEqual([]);
  service.emit('conversation', aConversation(2, { title, pull_requests: [pull(12)] }));
  await page.getByText('Pull request #12 open').waitFor();
});

it('shows the newest events first, and older ones on demand, without a move', async () => {
  const { page } = window;
  service.answers.set(events, pageOf(numbered(50, 100), 'older'));
  await open();
  await page.getByText('Line 99.').waitFor();
  const button = page.getByRole('button', { name: 'Older events' });
  await button.scrollIntoViewIfNeeded();
  const top = async () => (await page.getByText('Line 50.').boundingBox())?.y ?? 0;
  const before = await top();
  service.answers.set(events, pageOf(numbered(0, 50)));
  await button.click();
  await page.getByText('Line 0.').waitFor({ state: 'attached' });
  await page.waitForTimeout(200);
  expect(Math.abs((await top()) - before)).toBeLessThan(60);
  expect(await page.getByText(/^Line \d+\.$/).allTextContents()).toEqual(
    numbered(0, 100).map((_, number) => `Line ${number}.`),
  );
  await page.getByRole('button', { name: 'Jump to latest' }).click();
  await page.getByText('Line 99.').waitFor();
  await page.getByRole('button', { name: 'Jump to latest' }).waitFor({ state: 'detached' });
});

it('shows the tool calls of an agent, and folds what few people read', async () => {
  const { page } = window;
  const file = new URL('../fixtures/histories/kimi.json', import.meta.url);
  const [approved = [], rejected = []] = JSON.parse(readFileSync(file, 'utf8')) as object[][];
  const unknown = { kind: 'NewEvent', id: 'new', text: '<img src=x onerror=alert(1)>' };
  service.answers.set(events, pageOf([...approved, ...rejected, unknown]));
  await open();
  const calls = page.locator('.tool');
  await calls.nth(2).waitFor();
  expect(await page.locator('.tool-state').allTextContents()).toEqual(['Done', 'Rejected']);
  // Words from right to left are not reordered among others, as in the question below.
  expect(await page.locator('.tool-summary > .in-order').allTextContents()).toEqual([
    'Running: echo once >> approved.txt',
    'Running: echo once >> rejected.txt',
  ]);
  await calls.nth(0).click();
  await page.getByText('Command executed successfully.').waitFor();
  await page.getByText('NewEvent').click();
  await page.getByText('"text": "<img src=x onerror=alert(1)>"').waitFor();
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await violationsIn(page)).toEqual([]);
  }
  await window.picture('the tool calls of an agent');
});

it('adds what is new when the service has news', async () => {
  const { page } = window;
  service.answers.set(events, pageOf(numbered(0, 3)));
  await open();
  await page.getByText('Line 2.').waitFor();
  service.answers.set(events, pageOf(numbered(0, 5)));
  service.emit('conversation', aConversation(2, { title, execution_status: 'finished' }));
  await page.getByText('Line 4.').waitFor();
  expect(await page.getByText(/^Line/).count()).toBe(5);
});

it('bounds an event of a million characters', async () => {
  const { page } = window;
  service.answers.set(events, pageOf([message(1, 'x'.repeat(1_000_000))]));
  await open();
  await page.getByText('980000 characters more').waitFor();
  expect((await page.locator('.message-text').innerText()).length).toBe(20_025);
});

it('says why a paused conversation has no events', async () => {
  const { page } = window;
  service.snapshots = service.snapshots.map((snapshot) => ({
    ...snapshot,
    conversations: [aConversation(2, { title, sandbox_status: 'PAUSED' })],
    sandboxes: [aSandbox(2, { status: 'PAUSED', status_detail: 'Paused by its owner.' })],
    start_tasks: [],
  }));
  service.answers.set(events, {
    status: 409,
    json: { code: 'archive-disabled', detail: 'It is paused.' },
  });
  await open();
  await page.getByText('The events are with the agent').waitFor();
  await page.getByText('Paused by its owner.').waitFor();
  await window.picture('a paused conversation');
  expect(await violationsIn(page)).toEqual([]);
  const answered = page.waitForResponse('**/resume');
  await page.getByRole('button', { name: /^Resume/ }).click();
  await answered;
  expect(service.calls.map(({ path }) => path)).toEqual(['/api/v1/sandboxes/sbx-2/resume']);
});

it('says what has failed where the events can not be read, and tries again', async () => {
  const { page } = window;
  service.answers.set(events, {
    status: 502,
    json: { code: 'agent-error', detail: 'The agent has answered HTML.' },
  });
  await open();
  await page.getByText('The agent has answered HTML.').waitFor();
  window.faults();
  service.answers.set(events, pageOf(numbered(0, 2)));
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('Line 1.').waitFor();
  window.faults();
});

it('sends one message, also when its answer is lost', async () => {
  const { page } = window;
  const send = `POST /api/v1/app-conversations/${id}/send-message`;
  service.answers.set(send, { status: 503, json: { detail: 'Try again later.' } });
  await open();
  await page.getByLabel('Message').fill('Continue');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('Try again later.').waitFor();
  expect(await page.getByLabel('Message').inputValue()).toBe('Continue');
  window.faults();
  service.answers.delete(send);
  await page.getByRole('button', { name: 'Send' }).click();
  const field = page.getByLabel('Message');
  for (let tries = 0; tries < 100 && (await field.inputValue()) !== ''; tries++)
    await page.waitForTimeout(50);
  expect(await field.inputValue()).toBe('');
  expect(await page.getByText('Try again later.').count()).toBe(0);
  const keys = service.calls.map(({ key }) => key);
  expect(keys).toHaveLength(2);
  expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
  expect(new Set(keys).size).toBe(1);
});

it('shows the steps of a start with what they print', async () => {
  const { page } = window;
  const steps = [
    {
      name: 'clone' as const,
      state: 'running' as const,
      exit_code: null,
      ended_at: null,
      started_at: new Date().toISOString(),
      output: 'Receiving objects: 42 %',
    },
  ];
  service.snapshots = service.snapshots.map((snapshot) => ({
    ...snapshot,
    conversations: [],
    start_tasks: [aTask(2, { status: 'PREPARING_REPOSITORY', steps })],
  }));
  await open();
  await page.getByText('Receiving objects: 42 %').waitFor();
  await page.getByText(/^Cloning acme\/app/).waitFor();
  await window.picture('a start');
  expect(await violationsIn(page)).toEqual([]);
});

it('starts a failed start again, with all that it was given', async () => {
  const { page } = window;
  const image = 'data:image/png;base64,iVBORw0KGgo=';
  const task = aTask(2, {
    status: 'ERROR',
    error: 'The clone failed.',
    sandbox_id: 'sbx-2',
    failed_status: 'PREPARING_REPOSITORY',
    request: {
      ...aTask(2).request,
      initial_message: {
        role: 'user',
        run: true,
        content: [
          { type: 'text', text: 'Write a test\nfor the parser' },
          { type: 'image', image_urls: [image] },
        ],
      },
      selected_branch: 'dev',
      llm_model: 'mock',
    },
  });
  service.snapshots = service.snapshots.map((snapshot) => ({
    ...snapshot,
    conversations: [],
    sandboxes: [],
    start_tasks: [task],
  }));
  service.answers.set('GET /api/v1/app-conversations/start-tasks', { status: 200, json: [task] });
  await open();
  await page.getByText('Failed: Repository').waitFor();
  await page.getByRole('button', { name: /^Start again/ }).click();
  await page.waitForURL(`${service.url}/`);
  const message = page.getByRole('textbox', { name: 'Message' });
  await page.locator('#message:focus').waitFor();
  expect(await message.inputValue()).toBe('Write a test\nfor the parser');
  await page.getByRole('img', { name: 'Image 1' }).waitFor();
  const posted = page.waitForResponse((response) => response.request().method() === 'POST');
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await posted;
  expect(service.calls.map(({ path, body }) => [path, body])).toEqual([
    [
      '/api/v1/app-conversations',
      {
        initial_message: {
          content: [
            { type: 'text', text: 'Write a test\nfor the parser' },
            { type: 'image', image_urls: [image] },
          ],
        },
        selected_repository: 'acme/app',
        selected_branch: 'dev',
        llm_model: 'mock',
      },
    ],
  ]);
});

describe('a question of the agent', () => {
  const answerOf = (approval: string) =>
    `POST /api/v1/app-conversations/${id}/approvals/${approval}`;
  const answered = () =>
    window.page.waitForResponse((response) => response.request().method() === 'POST');
  const asking = (approval: string, command: string, fields: object = {}) =>
    aConversation(2, {
      title,
      execution_status: 'waiting_for_confirmation',
      pending_approval: {
        id: approval,
        conversation_id: id,
        title: command,
        kind: 'execute',
        tool: 'terminal',
        summary: command,
        complete: true,
        sandbox_status: 'RUNNING',
        decided_by: 'Owner',
        requested_at: new Date().toISOString(),
        notice: null,
        options: [
          { id: 'approve', name: 'Approve', kind: 'allow_once' },
          { id: 'reject', name: 'Reject', kind: 'reject_once' },
        ],
        ...fields,
      },
    });
  beforeEach(() => {
    service.snapshots = service.snapshots.map((snapshot) => ({
      ...snapshot,
      conversations: [asking('a1', 'rm -rf build')],
    }));
    service.answers.set(
      events,
      pageOf([
        message(1, 'I remove the old build first.'),
        {
          kind: 'ActionEvent',
          id: 'a1',
          source: 'agent',
          tool_name: 'terminal',
          tool_call_id: '1',
          action: { kind: 'TerminalAction', command: 'rm -rf build' },
        },
      ]),
    );
  });

  it('is not answered by a click that was too early, and by one afterwards', async () => {
    const { page } = window;
    const approve = page.getByRole('button', { name: 'Approve' });
    // On a busy machine the time for an early click can be over before this process can click.
    const clickEarly = `(() => {
      const early = [...document.querySelectorAll('.agent-question button[aria-disabled=true]')];
      const button = early.find(({ textContent }) => textContent === 'Approve');
      button?.click();
      return button !== undefined;
    })()`;
    let isEarly = false;
    for (let attempt = 0; attempt < 10 && !isEarly; attempt++) {
      await open();
      await approve.waitFor();
      isEarly = (await page.evaluate(clickEarly)) === true;
    }
    expect(isEarly).toBe(true);
    expect(service.calls).toEqual([]);
    expect(await page.locator('.agent-question button').allTextContents()).toEqual([
      'Reject',
      'Approve',
    ]);
    await page.getByText('Waits for your answer').waitFor();
    await page.locator('button[aria-disabled=false]', { hasText: 'Approve' }).waitFor();
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await violationsIn(page)).toEqual([]);
    }
    await window.picture('a question');
    await Promise.all([answered(), approve.click()]);
    await approve.waitFor({ state: 'detached' });
    expect(service.calls.map(({ path, body }) => [path, body])).toEqual([
      [`/api/v1/app-conversations/${id}/approvals/a1`, { option_id: 'approve' }],
    ]);
  });

  it.each([
    ['user', ['Stop here']],
    ['admin', ['Stop here', 'Continue with $1 more']],
  ] as const)(
    'offers a raise of an administrator to a person with the role %s',
    async (role, names) => {
      const { page } = window;
      service.answers.set('GET /api/v1/users/me', { status: 200, json: anAccount({ role }) });
      const fields = {
        kind: 'budget',
        decided_by: 'Admin',
        sandbox_status: 'PAUSED',
        summary: 'Continue with $1 more? An administrator has to allow this.',
        options: [
          { id: 'continue', name: 'Continue with $1 more', kind: 'allow_once' },
          { id: 'stop', name: 'Stop here', kind: 'reject_once' },
        ],
      };
      service.snapshots = service.snapshots.map((snapshot) => ({
        ...snapshot,
        conversations: [asking('b1', 'The budget is used up.', fields)],
      }));
      await open();
      await page.locator('.agent-question', { hasText: 'An administrator has to' }).waitFor();
      await page.locator('.agent-question button[aria-disabled=false]').first().waitFor();
      expect(await page.locator('.agent-question button').allTextContents()).toEqual(names);
    },
  );

  it.each([
    [null, /^The sandbox is paused\. Your answer resumes it\.$/],
    ['The agent has to ask again.', /^The agent has to ask again\.$/],
  ])('says what an answer does while the sandbox is paused (%s)', async (notice, words) => {
    const { page } = window;
    const fields = { sandbox_status: 'PAUSED', notice };
    service.snapshots = service.snapshots.map((snapshot) => ({
      ...snapshot,
      conversations: [asking('a1', 'ls', fields)],
    }));
    await open();
    await page.getByText(words).waitFor();
    expect(await page.getByText('Your answer resumes it.').count()).toBe(notice === null ? 1 : 0);
    await window.picture(
      `a question of a paused sandbox ${notice === null ? '' : 'that forgets it'}`,
    );
  });

  it('is approved only after all of it was read, and rejected before', async () => {
    const { page } = window;
    const conversation = asking('a1', 'head … tail', { complete: false });
    service.snapshots = service.snapshots.map((snapshot) => ({
      ...snapshot,
      conversations: [conversation],
    }));
    const whole = `GET /api/v1/app-conversations/${id}/approvals/a1`;
    service.answers.set(whole, {
      status: 200,
      json: {
        ...conversation.pending_approval,
        text: 'head, body and tail',
        call_hash: 'f'.repeat(64),
      },
    });
    await open();
    await page.locator('button[aria-disabled=false]', { hasText: 'Reject' }).waitFor();
    const approve = page.locator('button', { hasText: 'Approve' });
    expect(await approve.getAttribute('aria-disabled')).toBe('true');
    await approve.dispatchEvent('click');
    expect(service.calls).toEqual([]);
    expect(await violationsIn(page)).toEqual([]);
    await page.getByRole('button', { name: 'Read all' }).click();
    await page.getByText('head, body and tail').waitFor();
    // The keyboard can scroll the text at once.
    expect(await page.locator(':focus').getAttribute('aria-label')).toBe(
      'What the agent wants to do',
    );
    await page.getByRole('heading', { name: 'The agent asks about all of this:' }).waitFor();
    await page.locator('button[aria-disabled=false]', { hasText: 'Approve' }).waitFor();
    await Promise.all([answered(), approve.click()]);
    expect(service.calls.map(({ body }) => body)).toEqual([
      { option_id: 'approve', call_hash: 'f'.repeat(64) },
    ]);
  });

  it('can be rejected where it can not be shown, and offers no option', async () => {
    const { page } = window;
    const summary = "… they can not be shown: The agent's answer has more than 256 levels. …";
    const fields = { summary, complete: false, options: [] };
    service.snapshots = service.snapshots.map((snapshot) => ({
      ...snapshot,
      conversations: [asking('a1', 'Tool calls that can not be shown', fields)],
    }));
    await open();
    await page.getByText(summary).waitFor();
    const reject = page.locator('button[aria-disabled=false]', { hasText: 'Reject' });
    await reject.waitFor();
    await window.picture('a question that can not be shown');
    await Promise.all([answered(), reject.click()]);
    expect(service.calls.map(({ body }) => body)).toEqual([{ decision: 'reject' }]);
  });

  it('is approved only after its end was in view, and shown from left to right', async () => {
    const { page } = window;
    const lines = Array.from({ length: 90 }, (_, index) => `echo ${index}⏎`).join('\n  ');
    const summary = `Call 1 of 1: terminal\nall = ["אבג","1",1,"דהו شكرا"]\ncommand: ${lines}`;
    service.snapshots = service.snapshots.map((snapshot) => ({
      ...snapshot,
      conversations: [asking('a1', 'rm אבג 1 דהו', { summary })],
    }));
    await open();
    const text = page.getByRole('group', { name: 'What the agent wants to do' });
    await page.locator('button[aria-disabled=false]', { hasText: 'Reject' }).waitFor();
    expect(await text.textContent()).toBe(summary);
    const approve = page.locator('button', { hasText: 'Approve' });
    expect(await approve.getAttribute('aria-disabled')).toBe('true');
    await approve.dispatchEvent('click');
    expect(service.calls).toEqual([]);
    for (const part of ['h2', 'pre']) {
      const words = await page.locator(`.agent-question ${part} bdi`).all();
      const boxes = await Promise.all(words.map((word) => word.boundingBox()));
      const places = boxes.map((box) => box?.x ?? 0);
      expect(places).toHaveLength(part === 'h2' ? 2 : 3);
      expect(places).toEqual([...places].sort((one, other) => one - other));
    }
    await window.picture('a question with words from right to left');
    expect(await violationsIn(page)).toEqual([]);
    await text.press('End');
    await page.locator('button[aria-disabled=false]', { hasText: 'Approve' }).waitFor();
    await Promise.all([answered(), approve.click()]);
    expect(service.calls.map(({ body }) => body)).toEqual([{ option_id: 'approve' }]);
  });

  it('shows no wrapped part of a line where an argument or another call would begin', async () => {
    const { page } = window;
    const command = ['echo hello', 'timeout = 600', 'Call 2 of 2: think'].join(' '.repeat(90));
    const summary = `Call 1 of 1: terminal\ncommand: ${command} ${'x'.repeat(500)}⏎\n  ${command}`;
    service.snapshots = service.snapshots.map((snapshot) => ({
      ...snapshot,
      conversations: [asking('a1', 'echo hello', { summary })],
    }));
    await open();
    const text = page.getByRole('group', { name: 'What the agent wants to do' });
    await text.waitFor();
    expect(await text.textContent()).toBe(summary);
    // The left edge of each row of each line of the text.
    const places = await page.evaluate<readonly (readonly number[])[]>(`
      [...document.querySelectorAll('.agent-question .line')].map((line) => {
        const range = document.createRange();
        range.selectNodeContents(line);
        const rows = new Map();
        for (const { left, top, width } of range.getClientRects())
          if (width > 0) rows.set(Math.round(top), Math.min(rows.get(Math.round(top)) ?? left, left));
        return [...rows].sort(([one], [other]) => one - other).map(([, left]) => Math.round(left));
      })`);
    expect(places).toHaveLength(3);
    const [begin = 0] = places[0] ?? [];
    for (const [first = 0, ...wrapped] of places) {
      expect(first).toBe(begin);
      expect(wrapped.every((left) => left > begin + 20)).toBe(true);
    }
    expect(places.slice(1).every((rows) => rows.length > 2)).toBe(true);
    await window.picture('a question with a line that is wrapped');
  });

  it('is inert again where another one takes its place', async () => {
    const { page } = window;
    await open();
    await page.locator('button[aria-disabled=false]', { hasText: 'Reject' }).waitFor();
    service.emit('conversation', asking('a2', 'git push --force'));
    await page.getByRole('heading', { name: 'git push --force' }).waitFor();
    await page.getByRole('button', { name: 'Reject' }).dispatchEvent('click');
    expect(service.calls).toEqual([]);
  });

  it('is rejected with a reason, and says why an answer was not taken', async () => {
    const { page } = window;
    service.answers.set(answerOf('a1'), {
      status: 409,
      json: { code: 'approval-answered', detail: 'The answer was already: approve.' },
    });
    await open();
    await page.getByLabel(/^Why not/).fill('Not on a Friday.');
    const reject = page.locator('button[aria-disabled=false]', { hasText: 'Reject' });
    await reject.click();
    await page.getByText('The answer was already: approve.').waitFor();
    window.faults();
    service.answers.delete(answerOf('a1'));
    await Promise.all([answered(), reject.click()]);
    await page.getByRole('heading', { name: 'The agent asks' }).waitFor({ state: 'detached' });
    expect(service.calls.map(({ body }) => body)).toEqual([
      { option_id: 'reject', reason: 'Not on a Friday.' },
      { option_id: 'reject', reason: 'Not on a Friday.' },
    ]);
  });
});

it('shows the life of a conversation, and the lines of kubectl', async () => {
  const { page } = window;
  const entry = (second: number, fields: object) => ({
    time: `2026-01-01T10:00:0${second}.000000Z`,
    until: null,
    kind: 'event',
    count: 1,
    reason: 'PausedByQuota',
    message: '',
    is_warning: false,
    ...fields,
  });
  service.answers.set(`GET /api/v1/app-conversations/${id}/timeline`, {
    status: 200,
    json: [
      entry(0, {
        kind: 'stage',
        reason: 'WORKING',
        until: '2026-01-01T10:00:00.250000Z',
        message: 'The service has accepted the start.',
      }),
      entry(2, { message: `Paused to make room for conversation ${id}.` }),
      entry(3, { reason: 'PodLost', message: '<img src=x onerror=alert(1)>', is_warning: true }),
    ],
  });
  service.answers.set(`GET /api/v1/app-conversations/${id}/resources`, {
    status: 200,
    json: { namespace: 'agents', yaml: 'kind: Conversation\n' },
  });
  await open();
  await page.getByRole('tab', { name: 'Life' }).click();
  await page.getByRole('heading', { name: 'Life of the conversation' }).waitFor();
  expect(new URL(page.url()).search).toBe('?view=life');
  await page.getByText(`Paused to make room for “${title}”.`).waitFor();
  await page.locator('.life .warning', { hasText: '<img src=x onerror=alert(1)>' }).waitFor();
  await page.getByText('(250 ms)').waitFor();
  await page.getByText('In the cluster').click();
  await page.getByText(`kubectl -n agents describe conversation ${id}`).waitFor();
  await page.getByText('kind: Conversation').waitFor();
  await window.picture('the life of a conversation');
  expect(await violationsIn(page)).toEqual([]);
});

it('stops a run and keeps its sandbox', async () => {
  const { page } = window;
  service.snapshots = service.snapshots.map((snapshot) => ({
    ...snapshot,
    conversations: [aConversation(2, { title, execution_status: 'running' })],
  }));
  await open();
  await Promise.all([
    page.waitForResponse((response) => response.request().method() === 'POST'),
    page.getByRole('button', { name: /^Stop/ }).click(),
  ]);
  await page.getByText('Stopping…').first().waitFor();
  expect(service.calls.map(({ path }) => path)).toEqual([
    `/api/v1/app-conversations/${id}/interrupt`,
  ]);
});

it.each([[`/c/${'f'.repeat(32)}`], ['/c/x']])(
  'says the same of %s as of a conversation of another owner',
  async (path) => {
    const { page } = window;
    await open(path);
    await page.getByRole('heading', { name: 'There is nothing at this address.' }).waitFor();
    expect(await violationsIn(page)).toEqual([]);
  },
);
