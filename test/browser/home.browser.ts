import {
  aConversation,
  aQuota,
  aSandbox,
  aTask,
  everyKind,
  idOf,
} from '../support/page-records.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

const { service, window } = await openPages(41);
const snapshot = () => [{ ...everyKind(), quota: aQuota(), last: true }];
const aSnapshot = (conversation: number) => ({
  conversations: [aConversation(conversation)],
  sandboxes: [],
  start_tasks: [],
  quota: aQuota(),
  last: true,
});

beforeEach(async () => {
  service.snapshots = snapshot();
  service.calls.length = 0;
  service.answers.clear();
  await window.page.mouse.move(0, 0);
  await window.page.goto(service.url);
  await window.page.getByRole('heading', { name: 'Needs you' }).waitFor();
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});

const row = (title: string) => {
  const link = window.page.getByRole('link', { name: title });
  return window.page.getByRole('listitem').filter({ has: link });
};
const group = (name: string) => window.page.getByRole('region', { name });

describe('the list', () => {
  it('shows every conversation in its group, with its state as a sentence', async () => {
    const { page } = window;
    const headings = page.locator('.list h2');
    expect(await headings.allTextContents()).toEqual([
      'Needs you 2',
      'Working 2',
      'Waiting for room 1',
      'Paused 2',
      'Finished 1',
      'Failed and gone 2',
    ]);
    await row('Port the exporter').getByText('Choose another branch.').waitFor();
    await row('Write docs').getByText('Resume now would pause “Fix the login').waitFor();
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await window.picture(`home ${colorScheme}`, { fullPage: true });
      expect(await violationsIn(page)).toEqual([]);
    }
    await page.emulateMedia({ colorScheme: 'light' });
  });

  it.each([
    ['light', 360, 800],
    ['dark', 360, 800],
    ['light', 3840, 2160],
  ] as const)('has no horizontal bar in %s at %i pixels', async (colorScheme, width, height) => {
    const { page } = window;
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height });
    await window.picture(`home ${width} ${colorScheme}`);
    expect(await violationsIn(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('moves a row under the pointer only once the pointer has left', async () => {
    const { page } = window;
    await row('Fix the login').hover();
    service.emit(
      'conversation',
      aConversation(2, { title: 'Fix the login', execution_status: 'finished' }),
    );
    await row('Fix the login').getByText('→ Finished').waitFor();
    await window.picture('a row that waits');
    expect(await group('Working').getByText('Fix the login').count()).toBe(1);
    await page.mouse.move(0, 0);
    await group('Finished').getByText('Fix the login').waitFor();
    expect(await group('Working').getByText('Fix the login').count()).toBe(0);
  });

  it('shows an action as pending until the service has news', async () => {
    await row('Fix the login')
      .getByRole('button', { name: /^Pause/ })
      .click();
    await row('Fix the login')
      .getByRole('button', { name: /^Pausing…/ })
      .waitFor();
    expect(service.calls).toEqual([
      { method: 'POST', path: '/api/v1/sandboxes/sbx-2/pause', body: {} },
    ]);
    service.emit(
      'conversation',
      aConversation(2, { title: 'Fix the login', sandbox_status: 'PAUSED' }),
    );
    await row('Fix the login')
      .getByRole('button', { name: /^Resume/ })
      .waitFor();
  });

  it('says why an action has failed, and tries again', async () => {
    service.answers.set('POST /api/v1/sandboxes/sbx-6/resume', {
      status: 409,
      json: { detail: 'The sandbox has been deleted.', code: 'wrong-state' },
    });
    await row('Compare two parsers')
      .getByRole('button', { name: /^Resume/ })
      .click();
    await row('Compare two parsers').getByText('The sandbox has been deleted.').waitFor();
    await window.picture('a refused action');
    expect(window.faults()).toEqual([expect.stringMatching(/^POST 409 /)]);
    service.answers.clear();
    await row('Compare two parsers').getByRole('button', { name: 'Try again' }).click();
    await row('Compare two parsers')
      .getByRole('button', { name: /^Resuming…/ })
      .waitFor();
  });

  it('deletes after one question, and renames in place', async () => {
    const { page } = window;
    await row('Write docs').getByRole('button', { name: /^More/ }).click();
    await page.getByRole('button', { name: 'Delete…' }).click();
    await window.picture('a question before a deletion');
    expect(service.calls).toEqual([]);
    await row('Write docs').getByRole('button', { name: 'Delete', exact: true }).click();
    await row('Write docs')
      .getByRole('button', { name: /^Deleting…/ })
      .waitFor();
    service.emit('removed', { kind: 'conversation', id: idOf(5) });
    await row('Write docs').getByText('Deleted').waitFor();
    await row('Compare two').getByRole('button', { name: /^More/ }).click();
    await page.getByRole('button', { name: 'Rename' }).click();
    await page.getByLabel('Title').fill('Compare parsers');
    await page.keyboard.press('Enter');
    await row('Compare two')
      .getByRole('button', { name: /^Renaming…/ })
      .waitFor();
    expect(service.calls).toEqual([
      { method: 'DELETE', path: `/api/v1/app-conversations/${idOf(5)}`, body: undefined },
      {
        method: 'PATCH',
        path: `/api/v1/app-conversations/${idOf(6)}`,
        body: { title: 'Compare parsers' },
      },
    ]);
  });

  it('shows texts of others as texts', async () => {
    const title = '<img src=x onerror=alert(1)><b>bold</b>';
    service.emit('conversation', aConversation(2, { title }));
    await window.page.getByText(title).waitFor();
    expect(await window.page.locator('.list img').count()).toBe(0);
  });
});

describe('keys', () => {
  it('search, move, open and explain', async () => {
    const { page } = window;
    await page.keyboard.press('/');
    await page.keyboard.type('login acme');
    await group('Working').getByText('Fix the login').waitFor();
    expect(await page.locator('.row').count()).toBe(1);
    await page.keyboard.press('Escape');
    await page.keyboard.press('j');
    await page.locator(`#row-${idOf(2)}:focus`).waitFor();
    await page.getByLabel('Search conversations').fill('');
    await page.keyboard.press('Escape');
    await page.keyboard.press('k');
    await page.keyboard.press('k');
    await page.locator(`#row-${idOf(1)}:focus`).waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    await page.locator(`#row-${idOf(8)}:focus`).waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    await window.picture('keys');
    expect(await violationsIn(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await page.keyboard.press('n');
    await page.locator('#message:focus').waitFor();
    await page.keyboard.press('Escape');
    await page.locator(`#row-${idOf(8)}`).focus();
    await page.keyboard.press('Enter');
    await page.waitForURL(`${service.url}/c/${idOf(8)}`);
    // The page of a conversation has its own keys: those of the list do nothing there.
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.keyboard.press('n');
    await page.keyboard.press('a');
    await page.keyboard.press('?');
    const help = page.getByRole('dialog');
    await help.getByText('Find in the events of the conversation').waitFor();
    expect(await help.locator('dd').allTextContents()).toEqual([
      'Find in the events of the conversation',
      'This help',
    ]);
    expect(await page.getByText(/^\d+ selected$/).count()).toBe(0);
  });
});

describe('the start form', () => {
  it('offers valid templates alone, and the models that the chosen one names', async () => {
    const { page } = window;
    const form = page.getByRole('form', { name: 'New conversation' });
    const template = form.getByLabel('Template');
    await template.locator('option', { hasText: 'small' }).waitFor({ state: 'attached' });
    expect(await template.locator('option:disabled').allInnerTexts()).toEqual(['broken (invalid)']);
    await template.selectOption('small');
    await form.getByLabel('Model').focus();
    await page.locator('#model-values option').first().waitFor({ state: 'attached' });
    const models = await page.evaluate(
      "[...document.querySelectorAll('#model-values option')].map(({ value }) => value)",
    );
    expect(models).toEqual(['small-1', 'big-1']);
  });

  it('says what a start would do, and shows the new row with its stages', async () => {
    const { page } = window;
    const form = page.getByRole('form', { name: 'New conversation' });
    await form.getByText('Pauses “Fix the login of single sign-on users”.').waitFor();
    await form.getByLabel('Message').fill('Make the tests faster');
    await form.getByLabel('Repository').fill('acme/docs');
    await page
      .locator('#repository-values option[value="acme/docs"]')
      .waitFor({ state: 'attached' });
    const task = aTask(0, { updated_at: new Date().toISOString() });
    service.answers.set('POST /api/v1/app-conversations', {
      status: 200,
      json: { ...task, request: { ...task.request, title: 'Make the tests faster' } },
    });
    await form.getByRole('button', { name: 'Start' }).click();
    await group('Working').getByText('Make the tests faster').waitFor();
    expect(service.calls).toMatchObject([
      {
        method: 'POST',
        path: '/api/v1/app-conversations',
        body: {
          initial_message: { content: [{ type: 'text', text: 'Make the tests faster' }] },
          selected_repository: 'acme/docs',
        },
      },
    ]);
    expect(service.calls[0]?.key).toMatch(/^[0-9a-f]{32}$/);
    await row('Make the tests faster').getByLabel('Stage 1 of 5: Accepted').waitFor();
    service.emit('start_task', { ...task, status: 'SETTING_UP_SKILLS' });
    await row('Write a test for the parser').getByLabel('Stage 4 of 5: Set-up').waitFor();
    await window.picture('a start');
  });

  it('shows at its field what the service refuses', async () => {
    const { page } = window;
    const form = page.getByRole('form', { name: 'New conversation' });
    service.answers.set('POST /api/v1/app-conversations', {
      status: 422,
      json: {
        detail: 'The sandbox spec default does not allow the model x.',
        errors: [
          { path: 'body.llm_model', message: 'must be a model that the sandbox spec allows' },
        ],
      },
    });
    await form.getByLabel('Message').fill('Hello');
    await form.getByLabel('Model').fill('x');
    await form.getByRole('button', { name: 'Start' }).click();
    await form.getByText('does not allow the model x').waitFor();
    await window.picture('a refused start');
    expect(await violationsIn(page)).toEqual([]);
    expect(window.faults()).toEqual([expect.stringMatching(/^POST 422 /)]);
    expect(await form.getByLabel('Model').getAttribute('aria-invalid')).toBe('true');
    expect(await form.getByLabel('Message').inputValue()).toBe('Hello');
  });
});

describe('the connection', () => {
  it('shows one line while the stream is down, and reads everything anew', async () => {
    const { page } = window;
    service.streamStatus = 503;
    service.breakStreams();
    await page.getByText(/^No connection\. Last news .*Attempt \d+…$/).waitFor();
    await window.picture('no connection');
    service.snapshots = [aSnapshot(2)];
    service.streamStatus = undefined;
    await page.getByText('No connection').waitFor({ state: 'detached' });
    await row('Conversation 2').waitFor();
    expect(await page.locator('.row').count()).toBe(1);
    // Chromium reports a stream that has ended, and each one that was refused.
    expect(window.faults().every((fault) => fault.endsWith('/api/v1/stream'))).toBe(true);
  });

  it('stays, with a new stream, where the session is confirmed again', async () => {
    const { page } = window;
    const message = page.getByRole('form', { name: 'New conversation' }).getByLabel('Message');
    await message.fill('Half a sentence');
    service.snapshots = [aSnapshot(3)];
    service.emit('closed', { code: 'key-invalid' });
    await row('Conversation 3').waitFor();
    expect(await message.inputValue()).toBe('Half a sentence');
  });

  it('leaves for the sign-in when the session has ended', async () => {
    service.status = 401;
    service.emit('closed', { code: 'key-invalid' });
    await window.page.waitForURL(`${service.url}/login?return_to=%2F`);
    service.status = undefined;
    // The console shows the refused request.
    window.faults();
  });
});

describe('ten thousand conversations', () => {
  const count = 10_000;
  const part = 500;

  it('arrive, scroll and change with few rows in the document', async () => {
    const { page } = window;
    const numbers = Array.from({ length: count }, (_, index) => index + 1);
    const statuses = ['running', 'finished', 'idle', 'error'] as const;
    service.snapshots = Array.from({ length: count / part }, (_, index) => ({
      conversations: numbers
        .slice(index * part, (index + 1) * part)
        .map((number) => aConversation(number, { execution_status: statuses[number % 4] ?? null })),
      sandboxes: numbers.slice(index * part, (index + 1) * part).map((number) => aSandbox(number)),
      start_tasks: [],
      quota: aQuota(),
      last: (index + 1) * part === count,
    }));
    await page.goto(service.url);
    await page.getByRole('heading', { name: 'Finished 5000' }).waitFor();
    expect(await page.locator('.row').count()).toBeLessThan(60);
    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight * 0.75)');
    await group('Finished').getByRole('listitem').first().waitFor();
    for (let number = 1; number <= 40; number++)
      service.emit('conversation', aConversation(number * 4, { execution_status: 'finished' }));
    await page.getByRole('heading', { name: 'Finished 5040' }).waitFor();
    await window.picture('ten thousand');
    expect(await page.locator('.row').count()).toBeLessThan(60);
  });
});
