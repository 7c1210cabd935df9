import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { aConversation, aQuota, aSandbox, everyKind, idOf } from '../support/page-records.ts';
import type { ConversationRecord } from '../../src/web/wire.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

const id = idOf(2);
const changes = `GET /api/v1/app-conversations/${id}/git/changes`;
const diff = `GET /api/v1/app-conversations/${id}/git/diff`;
const hostileName = 'src/<img src=x onerror=alert(1)>.ts';
const reversedName = 'evil\u202egpj.exe';

const { service, window } = await openPages(141);
const have = (fields: Partial<ConversationRecord> = {}) => {
  const status = fields.sandbox_status === 'PAUSED' ? 'PAUSED' : 'RUNNING';
  service.snapshots = [
    {
      ...everyKind(),
      conversations: [aConversation(2, fields)],
      sandboxes: [aSandbox(2, { status })],
      start_tasks: [],
      quota: aQuota(),
      last: true,
    },
  ];
};
beforeEach(async () => {
  have();
  service.answers.clear();
  window.faults();
  await window.page.setViewportSize({ width: 1280, height: 800 });
  await window.page.emulateMedia({ colorScheme: 'light' });
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});

const ok = (json: unknown) => ({ status: 200, json });
const someChanges = [
  { status: 'DELETED', path: 'docs/old.md' },
  { status: 'UPDATED', path: 'src/login.ts' },
  { status: 'ADDED', path: hostileName },
  { status: 'MOVED', path: reversedName },
];
const source = (word: string) =>
  [
    'export function login(user: string): Session {',
    `\tconst name = '${word}';`,
    ...Array.from({ length: 9 }, (_, index) => `\tstep(${index});`),
    '\treturn open(name, { retries: 3, timeoutMs: 10_000, onFailure: (error) => report(error, user) });',
    '}',
  ].join('\n');
const open = async (path = `/c/${id}?view=changes`) => {
  await window.page.goto(service.url + path);
};
const file = (name: string) => window.page.locator('.changed-file', { hasText: name });
const expectText = async (read: () => Promise<string>, text: string) => {
  for (let tries = 0; tries < 40 && (await read()) !== text; tries++)
    await window.page.waitForTimeout(50);
  expect(await read()).toBe(text);
};
const barWidth = () =>
  window.page.evaluate<number>(
    'document.documentElement.scrollWidth - document.documentElement.clientWidth',
  );

it('shows the files that have changed, and the lines of one, as texts', async () => {
  const { page } = window;
  service.answers.set(changes, ok(someChanges));
  const modified = `${source('admin')}\n<script>document.title = "owned"</script>\nif (a) { /*\u202e } \u2066*/ שלום }`;
  service.answers.set(diff, ok({ original: source('root'), modified }));
  await open();
  await file('src/login.ts').waitFor();
  expect(await page.locator('.file-status').allTextContents()).toEqual([
    'Deleted',
    'Modified',
    'Added',
    'Renamed',
  ]);
  await page.getByText('evilU+202Egpj.exe').waitFor();
  const asked = page.waitForRequest('**/git/diff?*');
  await file('src/login.ts').locator('summary').click();
  const { searchParams } = new URL((await asked).url());
  expect(searchParams.get('path')).toBe('/workspace/project/src/login.ts');
  await page.getByText('<script>document.title = "owned"</script>').waitFor();
  expect(await page.locator('.diff-removed').allInnerTexts()).toEqual([
    "2\t\t−\t\tconst name = 'root';",
  ]);
  expect(await page.locator('.file-lines').innerText()).toBe('+3 −1');
  expect(await page.locator('.diff-added').last().innerText()).toContain('U+202E } U+2066*/');
  expect(await page.locator('main img, main script').count()).toBe(0);
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await violationsIn(page)).toEqual([]);
    await window.picture(`changes in ${colorScheme}`);
  }
  await page.setViewportSize({ width: 360, height: 740 });
  expect(await barWidth()).toBe(0);
  expect(await violationsIn(page)).toEqual([]);
  await window.picture('changes on a phone');
});

it('colours the lines, and shows both versions beside each other', async () => {
  const { page } = window;
  service.answers.set(changes, ok(someChanges));
  service.answers.set(diff, ok({ original: source('root'), modified: source('admin\u202e') }));
  await open();
  await file('src/login.ts').locator('summary').click();
  await page.locator('.diff-added .code-string').waitFor();
  expect(await page.locator('.diff-added .code-string').innerText()).toBe("'adminU+202E'");
  expect(await page.locator('.diff-removed .diff-text').innerText()).toBe("\tconst name = 'root';");
  await page.getByRole('button', { name: 'Side by side' }).click();
  const changed = page.locator('tr.diff-removes.diff-adds');
  expect(await changed.locator('td').allInnerTexts()).toEqual([
    ...['2', '−', "\tconst name = 'root';"],
    ...['2', '+', "\tconst name = 'adminU+202E';"],
  ]);
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await violationsIn(page)).toEqual([]);
    await window.picture(`changes side by side in ${colorScheme}`);
  }
  await page.reload();
  await file('src/login.ts').locator('summary').click();
  await changed.waitFor();
  await page.setViewportSize({ width: 360, height: 740 });
  await page.reload();
  await file('src/login.ts').locator('summary').click();
  await page.locator('.diff-removed').waitFor();
  expect(await barWidth()).toBe(0);
  await page.evaluate('localStorage.clear()');
});

it('makes a comment on a line a part of the next message, by mouse and by keyboard', async () => {
  const { page } = window;
  service.answers.set(changes, ok(someChanges));
  service.answers.set(diff, ok({ original: source('root'), modified: source('admin') }));
  await open();
  await file('src/login.ts').locator('summary').click();
  await page.locator('.diff-removed .diff-number').first().click();
  const comment = page.getByLabel('Comment on src/login.ts');
  await comment.fill('Why?');
  expect(await violationsIn(page)).toEqual([]);
  await window.picture('a comment on a line');
  await page.getByRole('button', { name: 'Add to the message' }).click();
  expect(await page.getByLabel('Message').inputValue()).toBe(
    "`src/login.ts`, line 2 before the change:\n> \tconst name = 'root';\nWhy?\n",
  );
  await page.getByRole('button', { name: 'Comment on a line' }).focus();
  await page.keyboard.press('Enter');
  await comment.waitFor();
  await page.keyboard.type('Rename it');
  const number = page.getByRole('spinbutton', { name: 'Line' });
  expect(await number.inputValue()).toBe('2');
  await number.fill('99');
  await page.keyboard.press('Tab');
  await page.getByText('This line is not shown.').waitFor();
  await number.fill('1');
  await page.keyboard.press('Tab');
  await expectText(() => comment.inputValue(), 'Rename it');
  await comment.press('Control+Enter');
  expect(await page.getByLabel('Message').inputValue()).toContain(
    'Why?\n\n`src/login.ts`, line 1:\n> export function login(user: string): Session {\nRename it\n',
  );
  // The comment stays at its line while the view changes, and while the file is read again.
  await page.getByRole('button', { name: 'Comment on a line' }).click();
  await comment.fill('Later');
  await page.getByRole('button', { name: 'Side by side' }).click();
  await page.locator('.diff-split').waitFor();
  expect([await number.inputValue(), await comment.inputValue()]).toEqual(['2', 'Later']);
  const modified = `// one line more\n${source('admin')}`;
  service.answers.set(diff, ok({ original: source('root'), modified }));
  await page.getByRole('button', { name: 'Read again' }).click();
  await page.getByText('// one line more').waitFor();
  await page.getByText('The line of this comment has changed since').waitFor();
  expect(await comment.inputValue()).toBe('Later');
  await page.evaluate('localStorage.clear()');
  await page.reload();
  await file('src/login.ts').locator('summary').click();
  await page.setViewportSize({ width: 360, height: 740 });
  await page.getByRole('button', { name: 'Comment on a line' }).click();
  expect(await barWidth()).toBe(0);
  await window.picture('a comment on a line on a phone');
});

it('shows images, of which it runs nothing', async () => {
  const { page } = window;
  const svg = (colour: string) =>
    `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="alert(1)"><script>alert(2)</script><rect width="40" height="40" fill="${colour}"/></svg>`;
  service.answers.set(changes, ok([{ status: 'UPDATED', path: 'logo.svg' }]));
  service.answers.set(diff, ok({ original: svg('red'), modified: svg('green') }));
  await open();
  await file('logo.svg').locator('summary').click();
  await page.getByRole('button', { name: 'Show the drawing' }).click();
  await page.locator('.file-image img').nth(1).waitFor();
  const widths = await page.evaluate<number[]>(
    "[...document.querySelectorAll('.file-image img')].map((image) => image.naturalWidth)",
  );
  expect(widths).toEqual([40, 40]);
  expect(await violationsIn(page)).toEqual([]);
  await window.picture('a changed image');
});

it('stays fast with texts that were made to stop it', async () => {
  const { page } = window;
  const bomb = `<svg xmlns="http://www.w3.org/2000/svg"><g id="a"/><use href="#a"/></svg>`;
  service.answers.set(changes, ok([{ status: 'ADDED', path: 'a.html' }]));
  service.answers.set(diff, ok({ original: '', modified: '<script>\n'.repeat(3_000) }));
  await open();
  await file('a.html').locator('summary').click();
  await page.locator('.diff-added').first().waitFor({ timeout: 10_000 });
  expect(await page.locator('.code-keyword').count()).toBe(0);
  const unseen = `${'\u0001'.repeat(1_999)}\n`.repeat(500);
  service.answers.set(diff, ok({ original: '', modified: unseen }));
  await page.getByRole('button', { name: 'Read again' }).click();
  await page.getByText('U+0001 ×1,999').first().waitFor({ timeout: 10_000 });
  service.answers.set(changes, ok([{ status: 'ADDED', path: 'a.svg' }]));
  service.answers.set(diff, ok({ original: '', modified: `${bomb}\ud800` }));
  await page.getByRole('button', { name: 'Read again' }).click();
  await file('a.svg').locator('summary').click();
  await page.getByRole('button', { name: 'Show the drawing' }).click();
  await page.getByText('the drawing is too large, or repeats parts').waitFor();
  expect(await page.locator('.file-image img').count()).toBe(0);
});

it('opens a pull request, and says why it can not', async () => {
  const { page } = window;
  const request = `POST /api/v1/app-conversations/${id}/pull-request`;
  service.answers.set(changes, ok(someChanges));
  await open();
  await page.getByRole('button', { name: 'Pull request…' }).click();
  service.answers.set(request, {
    status: 409,
    json: { code: 'conflict', detail: 'Nothing has been pushed.' },
  });
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Title').fill('Log in again');
  await dialog.getByLabel('Draft').check();
  await dialog.getByRole('button', { name: 'Open' }).click();
  await dialog.getByText('Nothing has been pushed.').waitFor();
  expect(await violationsIn(page)).toEqual([]);
  await window.picture('a pull request that was refused');
  expect(service.calls.at(-1)).toMatchObject({ body: { title: 'Log in again', draft: true } });
  service.answers.set(request, ok({ number: 7, url: 'https://git.example/pulls/7' }));
  await dialog.getByRole('button', { name: 'Open' }).click();
  await dialog.getByText('is open.').waitFor();
  expect(await dialog.getByRole('link').getAttribute('href')).toBe('https://git.example/pulls/7');
  await dialog.getByRole('button', { name: 'Close' }).click();
  window.faults();
});

it('shows 5,000 lines of a longer file, and says how many it leaves out', async () => {
  const { page } = window;
  const modified = Array.from({ length: 6_000 }, (_, index) => `line ${index}`).join('\n');
  service.answers.set(changes, ok([{ status: 'ADDED', path: 'long.txt' }]));
  service.answers.set(diff, ok({ original: '', modified }));
  await open();
  await file('long.txt').locator('summary').click();
  await page.getByText('1,000 more lines are not shown.').waitFor();
  await page.getByText('line 4999', { exact: true }).waitFor({ state: 'attached' });
  expect(await page.locator('.diff-added').count()).toBe(5_000);
  expect(await page.locator('.file-lines').innerText()).toBe('+6000 −0');
});

it('says that its own script can not be loaded, and tries again', async () => {
  const { page } = window;
  const script = '**/_web/changes-*.js';
  await page.route(script, (route) => route.abort());
  service.answers.set(changes, ok(someChanges));
  await open();
  await page.getByText('A part of this page can not be loaded.').waitFor();
  expect(await violationsIn(page)).toEqual([]);
  await page.unroute(script);
  window.faults();
  await page.getByRole('button', { name: 'Try again' }).click();
  await file('docs/old.md').waitFor();
});

it('loads no script but its parts, whatever asks for it', async () => {
  const { page } = window;
  service.answers.set(changes, ok(someChanges));
  await open();
  await file('docs/old.md').waitFor();
  const refusal = await page.evaluate<string>(`(() => {
    try {
      document.createElement('script').src = '/api/conversations/x/script.js';
    } catch (error) {
      return error.name;
    }
  })()`);
  expect(refusal).toBe('TypeError');
  window.faults();
});

it('says what is binary', async () => {
  const { page } = window;
  service.answers.set(changes, ok([{ status: 'UPDATED', path: 'logo.png' }]));
  service.answers.set(diff, ok({ original: 'PNG\0\0', modified: '' }));
  await open();
  await file('logo.png').locator('summary').click();
  await page.getByText('A binary file has no lines.').waitFor();
  expect(await page.locator('.diff').count()).toBe(0);
});

it('says what has failed, of the list and of a file, and tries again', async () => {
  const { page } = window;
  const failure = (detail: string) => ({ status: 502, json: { code: 'agent-error', detail } });
  service.answers.set(changes, failure('The agent has answered HTML.'));
  await open();
  await page.getByText('The agent has answered HTML.').waitFor();
  expect(await violationsIn(page)).toEqual([]);
  await window.picture('changes that can not be read');
  service.answers.set(changes, ok(someChanges));
  await page.getByRole('button', { name: 'Try again' }).click();
  service.answers.set(diff, failure('The file is too large.'));
  await file('src/login.ts').locator('summary').click();
  await page.getByText('The file is too large.').waitFor();
  service.answers.set(diff, ok({ original: 'a', modified: 'b' }));
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.locator('.diff-added', { hasText: 'b' }).waitFor();
  expect(await page.getByRole('alert').count()).toBe(0);
  window.faults();
});

it('says of a paused conversation that the files are as they were at the pause', async () => {
  const { page } = window;
  have({ sandbox_status: 'PAUSED', execution_status: null });
  service.answers.set(changes, ok(someChanges));
  service.answers.set(diff, ok({ original: null, modified: null }));
  await open();
  await page.getByText('The files are as they were at the last pause.').waitFor();
  await file('src/login.ts').locator('summary').click();
  await page.getByText('No versions of this file are stored').waitFor();
  expect(await violationsIn(page)).toEqual([]);
  await window.picture('changes of a paused conversation');
});

it.each<[string, Partial<ConversationRecord>, object, string]>([
  ['no change', {}, ok([]), 'No changes: no file differs from the base of the repository.'],
  [
    'no repository',
    { selected_repository: null },
    ok([]),
    'No changes: the conversation has no repository',
  ],
  [
    'nothing of a pause',
    { sandbox_status: 'PAUSED' },
    { status: 409, json: { code: 'archive-empty', detail: 'no' } },
    'its next pause stores them',
  ],
  ['no folder', { workspace: null }, ok([]), 'There is no folder with changes'],
])('has words for %s', async (_name, fields, answer, words) => {
  have(fields);
  service.answers.set(changes, answer as { status: number; json: unknown });
  await open();
  await window.page.getByText(words).waitFor();
  expect(await violationsIn(window.page)).toEqual([]);
  expect(await window.page.getByText('Loading…').count()).toBe(0);
  window.faults();
});

it('is used with the keyboard alone, and keeps the message that is being written', async () => {
  const { page } = window;
  service.answers.set(changes, ok(someChanges));
  service.answers.set(diff, ok({ original: source('root'), modified: source('admin') }));
  await open(`/c/${id}`);
  await page.getByLabel('Message').fill('Now the tests');
  await page.getByRole('tab', { name: 'Events' }).focus();
  await page.keyboard.press('ArrowRight');
  await file('docs/old.md').waitFor();
  expect(new URL(page.url()).search).toBe('?view=changes');
  expect(await page.locator(':focus').innerText()).toBe('Changes');
  expect(await page.getByRole('tabpanel').count()).toBe(1);
  // The tabs are one stop.
  for (const _stop of ['pull request', 'side by side', 'read', 'old.md', 'login.ts'])
    await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.locator('.diff-added').waitFor();
  await page.keyboard.press('Tab');
  expect(await page.locator(':focus').getAttribute('aria-label')).toBe('Lines of src/login.ts');
  await page.getByRole('tab', { name: 'Changes' }).focus();
  await page.keyboard.press('Home');
  expect(await page.getByLabel('Message').inputValue()).toBe('Now the tests');
  expect(new URL(page.url()).search).toBe('');
});

it('has no question in a view where it is not seen, so that its text does not count as read', async () => {
  const { page } = window;
  const pending: ConversationRecord['pending_approval'] = {
    id: 'a1',
    conversation_id: id,
    title: 'rm -rf build',
    kind: 'execute',
    tool: 'terminal',
    summary: 'rm -rf build',
    complete: true,
    sandbox_status: 'RUNNING',
    decided_by: 'Owner',
    requested_at: new Date().toISOString(),
    notice: null,
    options: [{ id: 'approve', name: 'Approve', kind: 'allow_once' }],
  };
  have({ execution_status: 'waiting_for_confirmation', pending_approval: pending });
  service.answers.set(changes, ok(someChanges));
  await open();
  await file('src/login.ts').waitFor();
  expect(await page.locator('.agent-question').count()).toBe(0);
  await page.getByRole('tab', { name: 'Events' }).click();
  await page.locator('.agent-question').waitFor();
});

it('shows 500 files, and more on demand', async () => {
  const { page } = window;
  const list = Array.from({ length: 700 }, (_, index) => ({
    status: 'UPDATED',
    path: `src/file-${index}.ts`,
  }));
  service.answers.set(changes, ok(list));
  await open();
  await file('src/file-499.ts').waitFor();
  expect(await page.locator('.changed-file').count()).toBe(500);
  await page.getByRole('button', { name: 'Show more of 700 files' }).click();
  await file('src/file-699.ts').waitFor();
  expect(await page.getByRole('button', { name: 'Show more' }).count()).toBe(0);
});

it('leaves script and style of the first view below 70 KB compressed', () => {
  const bytesOf = (name: string): number =>
    gzipSync(readFileSync(new URL(`../../dist/web/${name}`, import.meta.url)), { level: 9 }).length;
  expect(bytesOf('app.js') + bytesOf('styles.css')).toBeLessThan(70_000);
});
