import { eventually } from '../support/eventually.ts';
import { aConversation, aQuota, aSandbox, everyKind, idOf } from '../support/page-records.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

const { service, window } = await openPages(91);

beforeEach(async () => {
  service.snapshots = [{ ...everyKind(), quota: aQuota(), last: true }];
  service.calls.length = 0;
  service.answers.clear();
  await open('/');
});
afterEach(() => {
  expect([...window.outside]).toEqual([]);
});

async function open(path: string): Promise<void> {
  await window.page.mouse.move(0, 0);
  await window.page.goto(`${service.url}${path}`);
  await window.page.locator('.row').first().waitFor();
}
const row = (title: string) => {
  const link = window.page.getByRole('link', { name: title });
  return window.page.getByRole('listitem').filter({ has: link });
};
const bar = () => window.page.getByRole('region', { name: 'Selected conversations' });
const check = (title: string) => row(title).getByRole('checkbox');
const paths = () => service.calls.map(({ method, path }) => `${method} ${path}`);
const pausing = (number: number) => `POST /api/v1/sandboxes/sbx-${number}/pause`;
const names = (count: number) =>
  Array.from({ length: count }, (_, index) => aConversation(index + 1));
const conversations = async (count: number): Promise<void> => {
  service.snapshots = [
    {
      conversations: names(count),
      sandboxes: names(count).map((_, index) => aSandbox(index + 1)),
      start_tasks: [],
      quota: aQuota(),
      last: true,
    },
  ];
  await open('/');
};
const pictures = async (name: string): Promise<void> => {
  const { page } = window;
  for (const [colorScheme, width] of [
    ['light', 1280],
    ['dark', 360],
  ] as const) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 800 });
    await window.picture(`${name} ${colorScheme} ${width}`);
    expect(await violationsIn(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1280, height: 800 });
};

describe('a selection', () => {
  it('is made by keys alone, and offers each action with the number that it fits', async () => {
    const { page } = window;
    await page.keyboard.press('j');
    await page.keyboard.press('x');
    for (let times = 0; times < 4; times++) await page.keyboard.press('Shift+J');
    await bar().getByText('5 selected').waitFor();
    expect(await bar().getByRole('button').allTextContents()).toEqual([
      'Select all 10 shown',
      'Select none',
      'Pause 4 of 5p',
      'Retry 1 of 5t',
      'Delete 5d',
    ]);
    await pictures('a selection');
    await page.keyboard.press('x');
    await bar().getByText('4 selected').waitFor();
    await page.keyboard.press('a');
    await bar().getByText('10 selected').waitFor();
    await page.keyboard.press('Escape');
    await bar().waitFor({ state: 'detached' });
  });

  it('is made by a checkbox that shows under the pointer, and then in every row', async () => {
    const { page } = window;
    const shown = (title: string) =>
      page.evaluate<boolean>(
        `document.querySelector('[aria-label^="Select ${title}"]').checkVisibility({ opacityProperty: true })`,
      );
    expect(await shown('Write docs')).toBe(false);
    await row('Write docs').hover();
    expect(await shown('Write docs')).toBe(true);
    await check('Write docs').check();
    await bar().getByText('1 selected').waitFor();
    await page.mouse.move(0, 0);
    expect(await shown('Compare two parsers')).toBe(true);
    // A link covers the row: the checkbox opens nothing.
    expect(new URL(page.url()).pathname).toBe('/');
    await page.keyboard.press('j');
    await page.locator('.row-title:focus').waitFor();
  });

  it('has a place for a thumb at 360 pixels', async () => {
    const { page } = window;
    await page.setViewportSize({ width: 360, height: 800 });
    const box = await row('Fix the login').locator('.row-check').boundingBox();
    expect(box?.width).toBeGreaterThanOrEqual(40);
    expect(box?.height).toBeGreaterThanOrEqual(40);
    await row('Fix the login').locator('.row-check').click();
    await bar().getByText('1 selected').waitFor();
    for (const button of await bar().getByRole('button').all())
      expect((await button.boundingBox())?.height).toBeGreaterThanOrEqual(40);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('says how much of it the filter hides', async () => {
    const { page } = window;
    await check('Write docs').check();
    await check('Fix the login').check();
    await page.getByLabel('Search conversations').fill('login');
    await bar().getByText('2 selected, 1 not shown by the filter').waitFor();
    await row('Fix the login').waitFor();
    await bar().getByRole('button', { name: 'Delete 2' }).click();
    await bar().getByText('; 1 not shown by the filter)?').waitFor();
    await bar().getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Select none' }).click();
  });
});

describe('an action on many', () => {
  it('asks once with numbers and groups, begins at Cancel, and does nothing on Escape', async () => {
    const { page } = window;
    await page.keyboard.press('a');
    await bar().getByText('10 selected').waitFor();
    await page.keyboard.press('d');
    await bar()
      .getByText(
        'Delete 10 conversations (2 Needs you, 2 Working, 1 Waiting for room, 2 Paused, 1 Finished, 2 Failed and gone)? Their files and histories are deleted too.',
      )
      .waitFor();
    await bar().locator('button:focus', { hasText: 'Cancel' }).waitFor();
    await pictures('a question for many');
    await page.keyboard.press('Escape');
    await bar().getByText('10 selected').waitFor();
    expect(service.calls).toEqual([]);
  });

  it('reaches what was selected and nothing else, four at a time', async () => {
    const { page } = window;
    await conversations(12);
    const answers = Array.from({ length: 10 }, (_, index) => {
      const { promise, resolve } = Promise.withResolvers<{ status: number; json: unknown }>();
      service.answers.set(pausing(index + 1), promise);
      return () => resolve({ status: 200, json: { success: true } });
    });
    await page.keyboard.press('j');
    await page.keyboard.press('x');
    for (let times = 0; times < 9; times++) await page.keyboard.press('Shift+J');
    await bar().getByText('10 selected').waitFor();
    await page.keyboard.press('p');
    await bar().getByText('Pause 10 conversations (10 Working)?').waitFor();
    service.emit('conversation', aConversation(0, { title: 'A new one' }));
    await row('A new one').waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await bar().getByText('Pausing: 0 of 10').waitFor();
    await eventually('four requests', () => paths().length === 4);
    expect(paths()).toEqual([1, 2, 3, 4].map(pausing));
    answers[0]?.();
    await bar().getByText('Pausing: 1 of 10').waitFor();
    for (const answer of answers) answer();
    await bar().waitFor({ state: 'detached' });
    expect(paths().toSorted()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(pausing).toSorted());
    await page.getByText('10 paused.').waitFor({ state: 'attached' });
  });

  it('keeps those selected that failed, with the reason in their rows', async () => {
    const { page } = window;
    await conversations(3);
    service.answers.set(`DELETE /api/v1/app-conversations/${idOf(2)}`, {
      status: 409,
      json: { detail: 'Another writer was faster.' },
    });
    await page.keyboard.press('a');
    await bar().getByRole('button', { name: 'Delete 3' }).click();
    await bar().getByRole('button', { name: 'Delete 3' }).click();
    await row('Conversation 2').getByText('Another writer was faster.').waitFor();
    await bar().getByText('1 selected').waitFor();
    expect(await check('Conversation 2').isChecked()).toBe(true);
    await page
      .getByRole('status')
      .filter({ hasText: '2 deleted. 1 failed: each says why.' })
      .waitFor({ state: 'attached' });
    await pictures('a failure among many');
    expect(window.faults()).toEqual([expect.stringMatching(/^DELETE 409 /)]);
  });

  it('leaves as it is what has changed after the question', async () => {
    const { page } = window;
    await conversations(3);
    await page.keyboard.press('a');
    await page.keyboard.press('d');
    await bar().getByText('Delete 3 conversations (3 Working)?').waitFor();
    service.emit(
      'conversation',
      aConversation(1, { execution_status: 'waiting_for_confirmation' }),
    );
    await row('Conversation 1').getByText('Asks', { exact: true }).waitFor();
    await bar().getByRole('button', { name: 'Delete 3' }).click();
    await page
      .getByRole('status')
      .filter({
        hasText: '2 deleted. 1 conversation changed after the question, and was left as it is.',
      })
      .waitFor({ state: 'attached' });
    expect(paths()).toEqual([2, 3].map((n) => `DELETE /api/v1/app-conversations/${idOf(n)}`));
  });

  it('names the others that share a sandbox', async () => {
    service.snapshots = [
      {
        conversations: [aConversation(1), aConversation(2, { sandbox_id: 'sbx-1' })],
        sandboxes: [aSandbox(1)],
        start_tasks: [],
        quota: aQuota(),
        last: true,
      },
    ];
    await open('/');
    await check('Conversation 1').check();
    await window.page.keyboard.press('p');
    await bar().getByText('1 conversation in the same sandboxes is paused too.').waitFor();
  });

  it('starts failed starts again with their whole request', async () => {
    const { page } = window;
    const task = everyKind().start_tasks.find(({ status }) => status === 'ERROR');
    const request = { ...task?.request, title: 'Port', tools: ['bash'] };
    service.answers.set('GET /api/v1/app-conversations/start-tasks', {
      status: 200,
      json: [{ ...task, request }],
    });
    await check('Port the exporter').check();
    await page.keyboard.press('t');
    await bar()
      .getByText('Start 1 conversation again (1 Needs you)? A new conversation gets the same')
      .waitFor();
    await bar().getByRole('button', { name: 'Retry 1' }).click();
    await bar().waitFor({ state: 'detached' });
    const { conversation_id: _id, ...expected } = request;
    expect(service.calls).toEqual([
      {
        method: 'POST',
        path: '/api/v1/app-conversations',
        body: expected,
        key: expect.stringMatching(/^[0-9a-f]{32}$/) as string,
      },
    ]);
  });
});

describe('a filter', () => {
  it('is in the address, and is taken from there', async () => {
    const { page } = window;
    await page.getByLabel('Search conversations').fill('fix login');
    await page.getByLabel('Filter by group').selectOption('working');
    await page.waitForURL(`${service.url}/?q=fix+login&group=working`);
    await page.reload();
    await row('Fix the login').waitFor();
    expect(await page.locator('.row').count()).toBe(1);
    expect(await page.getByLabel('Filter by group').inputValue()).toBe('working');
    await page.getByLabel('Filter by group').selectOption('');
    await page.getByLabel('Search conversations').fill('');
    await page.waitForURL(`${service.url}/`);
  });

  it('is saved under a name, chosen by one click and removed by one', async () => {
    const { page } = window;
    const name = '<b>Parsers</b>';
    await page.getByLabel('Search conversations').fill('parser');
    await page.getByRole('button', { name: 'Save filter' }).click();
    await page.getByLabel('Name of the filter').fill(name);
    await page.keyboard.press('Enter');
    await page.getByLabel('Search conversations').fill('');
    await page.waitForURL(`${service.url}/`);
    await page.reload();
    await page.getByRole('button', { name, exact: true }).click();
    await row('Compare two parsers').waitFor();
    expect(await page.locator('.row').count()).toBe(2);
    await pictures('a saved filter');
    await page.getByRole('button', { name: `Remove the saved filter ${name}` }).click();
    expect(await page.getByRole('button', { name, exact: true }).count()).toBe(0);
  });

  it('of another owner is not shown', async () => {
    const { page } = window;
    await page.evaluate(
      `localStorage.setItem('filters of bob', '[{"name":"Bobs","text":"?q=x"}]');
       localStorage.setItem('filters of alice', '[{"name":"Mine","text":"?q=docs"},{"name":7},null]')`,
    );
    await page.reload();
    await page.getByRole('button', { name: 'Mine', exact: true }).waitFor();
    expect(await page.getByRole('button', { name: 'Bobs' }).count()).toBe(0);
    await page.evaluate('localStorage.clear()');
  });
});

it('saves messages, and takes one without losing what a person has written', async () => {
  const { page } = window;
  const form = page.getByRole('form', { name: 'New conversation' });
  await form.getByLabel('Message', { exact: true }).fill('Update every dependency.');
  await form.getByRole('button', { name: 'Save message' }).click();
  await form.getByLabel('Name of the message').fill('Update');
  await form.getByRole('button', { name: 'Save', exact: true }).click();
  await form.getByLabel('Message', { exact: true }).fill('x'.repeat(9000));
  await form.getByRole('button', { name: 'Save message' }).click();
  await form.getByLabel('Name of the message').fill('Long');
  await page.keyboard.press('Enter');
  await form.getByText('At most 8 KiB can be saved; these are 9 KiB.').waitFor();
  expect(service.calls).toEqual([]);
  await form.getByLabel('Message', { exact: true }).fill('Begin with zod.');
  await form.getByRole('button', { name: 'Update', exact: true }).click();
  expect(await form.getByLabel('Message', { exact: true }).inputValue()).toBe(
    'Begin with zod.\n\nUpdate every dependency.',
  );
  await form.getByLabel('Message', { exact: true }).fill('');
  await form.getByRole('button', { name: 'Update', exact: true }).click();
  expect(await form.getByLabel('Message', { exact: true }).inputValue()).toBe(
    'Update every dependency.',
  );
  await pictures('saved messages');
  await form.getByRole('button', { name: 'Remove the saved message Update' }).click();
});

it('shows sandboxes without a conversation, and pauses and deletes them', async () => {
  const { page } = window;
  const { sandboxes, ...others } = everyKind();
  service.snapshots = [
    {
      ...others,
      sandboxes: [...sandboxes, aSandbox(77), aSandbox(78, { status: 'PAUSED' })],
      quota: aQuota(),
      last: true,
    },
  ];
  await open('/');
  const group = page.getByRole('region', { name: 'Sandboxes without a conversation' });
  await page.getByRole('link', { name: '2 sandboxes without a conversation' }).click();
  await pictures('bare sandboxes');
  await group.getByRole('button', { name: 'Pause sandbox sbx-77' }).click();
  await group.getByRole('button', { name: 'Pause', exact: true }).click();
  await group.getByText('Pausing…').waitFor();
  service.emit('sandbox', aSandbox(77, { status: 'PAUSED' }));
  await group.getByRole('button', { name: 'Resume sandbox sbx-77' }).waitFor();
  await group.getByRole('button', { name: 'Delete sandbox sbx-78' }).click();
  await group.getByRole('button', { name: 'Delete', exact: true }).click();
  await group.getByText('Deleting…').waitFor();
  service.emit('removed', { kind: 'sandbox', id: 'sbx-78' });
  await group.getByText('sbx-78').waitFor({ state: 'detached' });
  expect(paths()).toEqual([pausing(77), 'DELETE /api/v1/sandboxes/sbx-78']);
  // The sandbox of a deleted conversation is deleted with it, and is not shown until then.
  service.emit('removed', { kind: 'conversation', id: idOf(2) });
  await row('Fix the login').waitFor({ state: 'detached' });
  expect(await group.getByRole('listitem').count()).toBe(1);
});

it('states quota and place in a row that waits, and Stopped after a stop', async () => {
  await row('Upgrade the dependencies')
    .getByText('1st of 1. Waiting for room: at most 4')
    .waitFor();
  const [own] = aQuota().quotas;
  service.emit('quota', {
    ...aQuota({ active: 4, waiting: 4, queue: ['sbx-5', 'sbx-4'] }),
    quotas: [{ ...own, active: 4 }],
  });
  await row('Upgrade the dependencies')
    .getByText('2nd of 4, quota default. Next place when one of your 4 running ones ends')
    .waitFor();
  service.emit('conversation', aConversation(2, { title: 'Fix it', execution_status: 'paused' }));
  const stopped = window.page.getByRole('region', { name: 'Finished' }).getByRole('listitem');
  await stopped.getByText('Stopped', { exact: true }).waitFor();
  await stopped.getByRole('button', { name: 'Pause: Fix it' }).waitFor();
  await pictures('a place in the queue');
});
